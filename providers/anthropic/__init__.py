"""The room `anthropic`."""
