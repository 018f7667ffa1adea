"""Tests against servers that others wrote, which keep us from testing our reading of an API against itself."""
