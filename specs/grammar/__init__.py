"""The room `grammar`."""
