"""The room `graph`."""
