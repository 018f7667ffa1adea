"""The room `agent`."""
