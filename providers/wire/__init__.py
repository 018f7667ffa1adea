"""The room `wire`."""
