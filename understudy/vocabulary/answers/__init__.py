"""The room `answers`."""
