"""The room `openai`."""
