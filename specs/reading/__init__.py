"""The room `reading`."""
