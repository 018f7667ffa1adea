"""The room `commandline`."""
