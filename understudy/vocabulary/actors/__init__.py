"""The room `actors`."""
