"""Clients of model APIs. Importing them loads the standard library only; a first call loads the rest."""

from .anthropic import Anthropic
from .catalogue import resolve
from .credentials import Secret
from .gemini import Gemini
from .openai import OpenAI
from .retries import Timing
from .vertex import Vertex

__all__ = ["Anthropic", "Gemini", "OpenAI", "Secret", "Timing", "Vertex", "resolve"]
