"""The room `supervision`."""
