"""The room `tools`."""
