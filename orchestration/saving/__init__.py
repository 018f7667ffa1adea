"""The room `saving`."""
