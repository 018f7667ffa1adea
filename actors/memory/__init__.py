"""The room `memory`."""
