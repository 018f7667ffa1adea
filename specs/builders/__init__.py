"""The room `builders`."""
