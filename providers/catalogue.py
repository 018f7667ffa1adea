"""Resolves model strings: one client for each provider, model and process, so that connections are shared."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from understudy.providers.anthropic.client import Anthropic
from understudy.providers.google.gemini import Gemini
from understudy.providers.google.vertex import Vertex
from understudy.providers.http.environment import first_set
from understudy.providers.http.forks import renew_after_fork
from understudy.providers.http.model_client import HttpModel
from understudy.providers.offline.rehearsal import Rehearsal
from understudy.providers.openai.azure import AzureOpenAI
from understudy.providers.openai.client import OpenAI
from understudy.providers.openai.families import OPENAI, family_of, is_official
from understudy.providers.openai.responses.client import OpenAIResponses
from understudy.providers.vertex_claude import VertexClaude
from understudy.vocabulary.models import Model, ModelName
from understudy.vocabulary.presets import PRESETS

CLIENTS: dict[str, Callable[..., HttpModel]] = {
    "openai": OpenAI,
    "anthropic": Anthropic,
    "gemini": Gemini,
    "vertex": Vertex,
    "azure": AzureOpenAI,
    **{name: partial(OpenAI, preset=preset) for name, preset in PRESETS.items()},
}
"""Provider -> its client; `with_api` tells which of two it is for OpenAI."""


def with_api(name: ModelName, base_url: str | None = None) -> ModelName:
    """Return the name with its API: for a model of OpenAI without one, the API that the model needs.

    Only OpenAI itself is sure to have the Responses API, so models at other addresses are asked by chat completions.

    Args:
        base_url: the address of the client; None if the environment tells it.
    """
    if name.provider != "openai" or name.api:
        return name
    address = base_url or first_set("OPENAI_BASE_URL") or OPENAI
    has_responses = is_official(address) and family_of(name.model).has_responses
    return replace(name, api="responses" if has_responses else "chat")


def client_of(name: ModelName) -> Callable[..., HttpModel] | None:
    """Return the client for a name that has its API; None for a provider without a client."""
    if name.provider == "vertex" and name.model.startswith("claude"):
        return VertexClaude
    return OpenAIResponses if name.api == "responses" else CLIENTS.get(name.provider)


class Catalogue:
    """The models resolved so far; safe to share between threads."""

    def __init__(self) -> None:
        self._models: dict[ModelName, Model] = {}
        self.start_afresh()
        renew_after_fork(self)

    def start_afresh(self) -> None:
        self._lock = threading.Lock()
        """Guards the models, so that each name gets one."""

    def resolve(self, name: ModelName) -> Model:
        """Return the model of a name, the same object each time, as long as the environment tells the same address."""
        name = with_api(name)
        with self._lock:
            if name not in self._models:
                self._models[name] = self._make(name)
            return self._models[name]

    def _make(self, name: ModelName) -> Model:
        client = client_of(name)
        if client is None:
            return _make_other(name)
        return client(name.model)


def _make_other(name: ModelName) -> Model:
    if name.provider == "rehearsal":
        return Rehearsal()
    raise ValueError(f"no client for provider {name.provider!r}; expected one of {', '.join(sorted(CLIENTS))}")


_catalogue = Catalogue()


def resolve(name: ModelName) -> Model:
    """Return the client for a model string, the same object each time in a process.

    This loads no HTTP library and needs no key; the first call does.
    """
    return _catalogue.resolve(name)
