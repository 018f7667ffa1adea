"""What a model is to the rest of the house: a name that is checked early, or an object that completes a request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol, TypeAlias, runtime_checkable

from .messages import ModelRequest, ModelTurn

DEFAULT_MODEL_TIMEOUT = 120.0  # Seconds for one model call with its retries; a long answer takes a minute or two.

PROVIDERS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "google": "gemini",
    "vertex": "vertex",
    "rehearsal": "rehearsal",
}
"""Prefix of a model string -> provider."""


COMPATIBLE = "For OpenAI-compatible servers: us.OpenAI({model!r}, base_url=…)"
MAKERS = {
    "openai": re.compile(r"(gpt|chatgpt|o\d)(-|$)"),
    "anthropic": re.compile(r"claude(-|$)"),
    "gemini": re.compile(r"gemini(-|$)"),
}
"""Provider -> how the names of its models begin."""


def likely(model: str) -> str:
    """Return the model string that a text without a known provider most likely means; empty if it may be anyone's."""
    prefix, slash, name = model.partition("/")
    if slash and name and prefix.lower() in PROVIDERS:
        return f"{prefix.lower()}:{name}"
    return next((f"{provider}:{model}" for provider, begins in MAKERS.items() if begins.match(model)), "")


@runtime_checkable
class Model(Protocol):
    """Anything that can take a model's part. Implementations are shared between threads."""

    def complete(self, request: ModelRequest) -> ModelTurn:
        """Return the model's turn; blocks the calling thread.

        Should heed `current_scope()`. Raises a `ProviderError` when no turn can be had.
        """
        ...


@runtime_checkable
class Renewable(Protocol):
    """A model that holds something which may have gone bad, such as connections."""

    def renew(self) -> object:
        """Let go of it, on any thread, at any time; calls under way go on, and later ones begin afresh.

        Called when an agent that uses the model is restarted after a failure.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model string, taken apart: `anthropic:claude-haiku-4-5`."""

    provider: str
    model: str

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """Read `PROVIDER:MODEL`, or plain `rehearsal`.

        Raises:
            ValueError: the provider is unknown or the model is missing.
        """
        prefix, colon, model = text.partition(":")
        provider = PROVIDERS.get(prefix)
        expected = "expected 'PROVIDER:MODEL' with a provider of " + ", ".join(sorted(PROVIDERS))
        if provider is None:
            near = get_close_matches(prefix.lower(), PROVIDERS, 1)
            guess = likely(text)
            meant = guess or (near[0] + colon + model if near else "")
            if not colon and text and (guess or not near):
                hint = f". Did you mean {meant!r}?" if meant else f": {expected}. {COMPATIBLE.format(model=text)}"
                raise ValueError(f"{text!r} has no provider{hint}")
            hint = f"; did you mean {meant!r}?" if meant else f". {COMPATIBLE.format(model=model)}" if model else ""
            raise ValueError(f"unknown provider in model {text!r}: {expected}{hint}")
        if not model.strip() and provider != "rehearsal":
            raise ValueError(f"no model named in {text!r}: {expected}")
        return cls(provider, model)

    def __str__(self) -> str:
        """Return the model string, from which `parse` makes an equal name."""
        return f"{self.provider}:{self.model}" if self.model else self.provider


def name_of(model: ModelName | Model) -> str:
    """Return the name by which people and price lists know a model: its model string, or the type's name for an unknown object."""
    provider, name = getattr(model, "provider", None), getattr(model, "model", None)
    if isinstance(provider, str) and isinstance(name, str):
        return str(ModelName(provider, name))
    return type(model).__name__


def timeout_of(model: ModelName | Model) -> float | None:
    """Return how many seconds one call of the model may take with its retries, where nobody else says it; None for no limit.

    A model object may say it as `model_timeout`.
    """
    own = getattr(model, "model_timeout", DEFAULT_MODEL_TIMEOUT)
    return own if own is None or (isinstance(own, (int, float)) and own > 0) else DEFAULT_MODEL_TIMEOUT


ModelLike: TypeAlias = "str | Model"
