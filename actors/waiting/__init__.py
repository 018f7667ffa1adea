"""The room `waiting`."""
