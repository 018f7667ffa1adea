"""Models: clients of the APIs, and models that need no network. Importing them loads the standard library only."""

from understudy.providers.anthropic.client import Anthropic
from understudy.providers.google.gemini import Gemini
from understudy.providers.google.vertex import Vertex
from understudy.providers.http.client_options import ClientOptions
from understudy.providers.http.credentials import Secret
from understudy.providers.http.limits.limiter import LimitFigures
from understudy.providers.http.limits.registry import limit_figures, set_limits
from understudy.providers.http.retries import Timing
from understudy.providers.offline.doubles import FunctionModel, ScriptedModel
from understudy.providers.offline.rehearsal import Rehearsal
from understudy.providers.openai.azure import AzureOpenAI
from understudy.providers.openai.client import OpenAI
from understudy.providers.openai.responses.client import OpenAIResponses
from understudy.providers.tape.recorder import Recorder
from understudy.providers.tape.replay import Replay
from understudy.providers.vertex_claude import VertexClaude

from .catalogue import resolve
from .fallback import FallbackModel

__all__ = [
    "Anthropic",
    "AzureOpenAI",
    "ClientOptions",
    "FallbackModel",
    "FunctionModel",
    "Gemini",
    "LimitFigures",
    "OpenAI",
    "OpenAIResponses",
    "Recorder",
    "Rehearsal",
    "Replay",
    "ScriptedModel",
    "Secret",
    "Timing",
    "Vertex",
    "VertexClaude",
    "limit_figures",
    "resolve",
    "set_limits",
]
