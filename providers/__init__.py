"""Models: clients of the APIs, and models that need no network. Importing them loads the standard library only."""

from .anthropic import Anthropic
from .catalogue import resolve
from .credentials import Secret
from .doubles import FunctionModel, ScriptedModel
from .gemini import Gemini
from .openai import OpenAI
from .rehearsal import Rehearsal
from .retries import Timing
from .vertex import Vertex

__all__ = [
    "Anthropic",
    "FunctionModel",
    "Gemini",
    "OpenAI",
    "Rehearsal",
    "ScriptedModel",
    "Secret",
    "Timing",
    "Vertex",
    "resolve",
]
