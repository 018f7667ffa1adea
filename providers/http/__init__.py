"""The room `http`."""
