"""The room `runs`."""
