"""Models: clients of the APIs, and models that need no network. Importing them loads the standard library only."""

from .anthropic import Anthropic
from .catalogue import resolve
from .credentials import Secret
from .doubles import FunctionModel, ScriptedModel
from .gemini import Gemini
from .openai import OpenAI
from .recording import Recorder
from .rehearsal import Rehearsal
from .replaying import Replay
from .retries import Timing
from .vertex import Vertex

__all__ = [
    "Anthropic",
    "FunctionModel",
    "Gemini",
    "OpenAI",
    "Recorder",
    "Rehearsal",
    "Replay",
    "ScriptedModel",
    "Secret",
    "Timing",
    "Vertex",
    "resolve",
]
