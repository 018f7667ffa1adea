"""The room `run_view`."""
