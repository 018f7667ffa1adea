"""The room `group`."""
