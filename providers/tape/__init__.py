"""The room `tape`."""
