"""Resolves model strings: one client for each provider, model and process, so that connections are shared."""

from __future__ import annotations

import threading
from collections.abc import Callable

from understudy.providers.anthropic.client import Anthropic
from understudy.providers.google.gemini import Gemini
from understudy.providers.google.vertex import Vertex
from understudy.providers.http.forks import renew_after_fork
from understudy.providers.http.in_flight import InFlight
from understudy.providers.http.model_client import HttpModel
from understudy.providers.offline.rehearsal import Rehearsal
from understudy.providers.openai.client import OpenAI
from understudy.vocabulary.models import Model, ModelName

CLIENTS: dict[str, Callable[[str], HttpModel]] = {
    "openai": OpenAI,
    "anthropic": Anthropic,
    "gemini": Gemini,
    "vertex": Vertex,
}


class Catalogue:
    """The models resolved so far; safe to share between threads."""

    def __init__(self) -> None:
        self._models: dict[ModelName, Model] = {}
        self._limits: dict[str, InFlight] = {}
        """Provider -> the limit of its clients, which all find the same key in the environment."""
        self.start_afresh()
        renew_after_fork(self)

    def start_afresh(self) -> None:
        self._lock = threading.Lock()
        """Guards the models and limits, so that each name gets one."""

    def resolve(self, name: ModelName) -> Model:
        """Return the model of a name, the same object each time."""
        with self._lock:
            if name not in self._models:
                self._models[name] = self._make(name)
            return self._models[name]

    def _make(self, name: ModelName) -> Model:
        client = CLIENTS.get(name.provider)
        if client is None:
            return _make_other(name)
        made = client(name.model)
        made.in_flight = self._limits.setdefault(name.provider, made.in_flight)
        return made


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
