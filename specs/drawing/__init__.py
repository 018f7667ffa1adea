"""The room `drawing`."""
