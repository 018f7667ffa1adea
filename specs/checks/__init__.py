"""The room `checks`."""
