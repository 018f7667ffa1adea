"""The room `google`."""
