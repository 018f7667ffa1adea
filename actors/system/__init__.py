"""The room `system`."""
