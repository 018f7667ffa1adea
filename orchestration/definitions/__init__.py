"""The room `definitions`."""
