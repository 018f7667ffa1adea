"""The room `threads`."""
