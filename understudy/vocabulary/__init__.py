"""The room `vocabulary`."""
