"""Transactions of tools in the database of a store: their statements, and the thread that has the database meanwhile."""
