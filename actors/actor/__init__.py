"""The room `actor`."""
