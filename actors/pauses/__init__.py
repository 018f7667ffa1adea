"""The room `pauses`."""
