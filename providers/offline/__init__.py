"""The room `offline`."""
