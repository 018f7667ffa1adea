"""Models as agents use them: `ModelName`, a checked name, and `Model`, an object that completes requests."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol, TypeAlias, cast, runtime_checkable

from .checks import WrongReturn, checked_plain
from .messages import ModelRequest, ModelTurn, Settings
from .other_names import OF_PROVIDERS
from .pieces import Piece
from .presets import PRESETS

DEFAULT_MODEL_TIMEOUT = 120.0  # Seconds for one model call with its retries; a long answer takes a minute or two.

DEFAULT_IDLE_TIMEOUT = 60.0  # Seconds between two pieces of a stream; providers send something more often than that.

PROVIDERS = {
    "openai": "openai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "google": "gemini",
    "vertex": "vertex",
    "azure": "azure",
    "rehearsal": "rehearsal",
    **{name: name for name in PRESETS},
}
"""Prefix of a model string -> provider."""

APIS = {"openai-chat": "chat", "openai-responses": "responses"}
"""Prefix of a model string -> the API of its provider. Other prefixes leave the choice to the client."""

COMPATIBLE = "For other OpenAI-compatible servers: us.OpenAI({model!r}, base_url=…), or 'openai:{model}' with the variable OPENAI_BASE_URL"
MAKERS = {
    "openai": re.compile(r"(gpt|chatgpt|o\d)(-|$)"),
    "anthropic": re.compile(r"claude(-|$)"),
    "gemini": re.compile(r"gemini(-|$)"),
    "deepseek": re.compile(r"deepseek-(chat|reasoner)$"),
    "ollama": re.compile(r"(llama|qwen|gemma|phi)[0-9]"),
    "mistral": re.compile(r"(mistral|ministral|magistral|codestral|devstral)-"),
}
"""Provider -> how the names of its models begin."""


def likely(model: str) -> str:
    """Return the most likely model string for a text without a known provider; empty if the provider is unclear."""
    prefix, slash, name = model.partition("/")
    ours = OF_PROVIDERS.get(prefix.lower(), prefix.lower())
    if slash and name and ours in PROVIDERS:
        return f"{ours}:{name}"
    return next((f"{provider}:{model}" for provider, begins in MAKERS.items() if begins.match(model)), "")


@runtime_checkable
class Model(Protocol):
    """An object that answers as a model. Implementations are shared between threads."""

    def complete(self, request: ModelRequest) -> ModelTurn:
        """Return the model's turn; blocks the calling thread.

        Should respect `current_scope()`. Raises a `ProviderError` if there is no turn.
        """
        ...


@runtime_checkable
class StreamingModel(Protocol):
    """A model that can show its turn while it writes it. `complete` of the same object answers in one."""

    def complete(self, request: ModelRequest) -> ModelTurn:
        """As of `Model`."""
        ...

    def stream(self, request: ModelRequest) -> Iterator[Piece]:
        """Return the model's turn in pieces, the last of them a `TurnEnd`; the iterator blocks the thread that reads it.

        Should respect `current_scope()`. The iterator is closed, if it has `close`, when nobody reads on. Raises a
        `ProviderError` if there is no turn.
        """
        ...


@runtime_checkable
class Renewable(Protocol):
    """A model with resources that can go bad, such as connections."""

    def renew(self) -> object:
        """Release the resources, on any thread, at any time. Calls in flight go on; later calls make new resources.

        Called when an agent that uses the model is restarted after a failure.
        """
        ...


@runtime_checkable
class SettingsChecker(Protocol):
    """A model that knows which settings it lacks."""

    def check_settings(self, settings: Settings) -> object:
        """Raise `ValueError` for a setting that the model lacks. The return value is ignored.

        Called when an agent is made with the model and these settings, on that thread. Send nothing, and need no key.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelName:
    """A parsed model string, such as `anthropic:claude-haiku-4-5`."""

    provider: str
    model: str
    api: str = ""
    """The API of the provider: `chat` or `responses`, of OpenAI; empty for the one that the model needs."""

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
            ours = OF_PROVIDERS.get(prefix.lower())
            near = [ours] if ours else get_close_matches(prefix.lower(), PROVIDERS, 1, cutoff=0.65)
            guess = likely(text)
            meant = guess or (near[0] + colon + model if near else "")
            if not colon and text and (guess or not near):
                hint = f". Did you mean {meant!r}?" if meant else f": {expected}. {COMPATIBLE.format(model=text)}"
                raise ValueError(f"{text!r} has no provider{hint}")
            hint = f"; did you mean {meant!r}?" if meant else f". {COMPATIBLE.format(model=model)}" if model else ""
            raise ValueError(f"unknown provider in model {text!r}: {expected}{hint}")
        model = model.strip()  # the API, the price and the window go by the name, and clients strip it too
        if not model and provider != "rehearsal":
            raise ValueError(f"no model named in {text!r}: {expected}")
        return cls(provider, model, APIS.get(prefix, ""))

    def __str__(self) -> str:
        """Return the model string, from which `parse` makes an equal name."""
        prefix = f"{self.provider}-{self.api}" if self.api else self.provider
        return f"{prefix}:{self.model}" if self.model else prefix


def name_of(model: ModelName | Model) -> str:
    """Return a model's name for people and price lists: its model string, or the type's name for an unknown object.

    A model has one name and one price, whatever the API that it is asked by. A model that asks others is named with them.
    """
    provider, name = getattr(model, "provider", None), getattr(model, "model", None)
    if isinstance(provider, str) and isinstance(name, str):
        return str(ModelName(provider, name))
    asked = asked_in_turn(model)
    others = "" if asked[0] is model else f"([{', '.join(map(name_of, asked))}])"
    return f"{type(model).__name__}{others}"


def asked_in_turn(model: ModelName | Model) -> tuple[ModelName | Model, ...]:
    """Return the models of which any may answer in place of this one, the usual one first; for most models the model itself.

    A model object that asks other models, as `FallbackModel` does, has them in `models`.
    """
    own: object = getattr(model, "models", None)
    if (
        not isinstance(own, tuple)
        or not own
        or not all(isinstance(each, Model) for each in cast("tuple[object, ...]", own))
    ):
        return (model,)
    return tuple([last for each in cast("tuple[Model, ...]", own) for last in asked_in_turn(each)])


def names_of(model: ModelName | Model) -> tuple[str, ...]:
    """Return the names in price lists of all models that may answer in place of this one, the usual one first."""
    return tuple([name_of(each) for each in asked_in_turn(model)])


def timeout_of(model: ModelName | Model) -> float | None:
    """Return the default limit, in seconds, of one call of the model with its retries; None for no limit.

    A model object can set it as `model_timeout`.
    """
    own = getattr(model, "model_timeout", DEFAULT_MODEL_TIMEOUT)
    return own if own is None or (isinstance(own, (int, float)) and own > 0) else DEFAULT_MODEL_TIMEOUT


def streamed_timeout_of(model: ModelName | Model) -> float | None:
    """Return the default limit, in seconds, of one streamed call with its retries; None for no limit, which is usual.

    A model object can set it as `streamed_timeout`. A stream that stands still is ended by `idle_timeout`.
    """
    own = getattr(model, "streamed_timeout", None)
    return own if isinstance(own, (int, float)) and own > 0 else None


def can_stream(model: object) -> bool:
    """Whether a model has a `stream`, of its own or of its class, that says the same as its `complete`.

    A class that overrides `complete` alone is asked by that, and an object that answers to every name has no `stream`.
    """
    own: dict[str, object] = getattr(model, "__dict__", {})
    if "stream" in own:
        return callable(own["stream"])
    for cls in type(model).__mro__:
        if "stream" in vars(cls):
            return callable(vars(cls)["stream"])
        if "complete" in vars(cls):
            return False
    return False


def pieces_returned(stream: object) -> Iterator[Piece]:
    """Return an iterator over what a model's `stream` returned.

    Raises:
        WrongReturn: it is no iterator of pieces; a coroutine is closed.
    """
    kind = type(stream).__name__
    if isinstance(stream, Coroutine):
        cast("Coroutine[object, object, object]", stream).close()  # else Python warns that nobody awaited it
    if isinstance(stream, (Coroutine, AsyncIterator)):
        raise WrongReturn(f"got {kind}; write stream as a plain generator")
    if isinstance(stream, (str, bytes)) or not isinstance(stream, Iterable):
        raise WrongReturn(f"got {kind}, expected an iterator of pieces")
    return iter(cast("Iterable[Piece]", stream))


def check_settings(model: object, settings: Settings) -> None:
    """Let a model refuse settings; one without `check_settings` in its class takes all.

    Raises:
        ValueError: the model lacks one of the settings.
        TypeError: its `check_settings` is no function, or an `async def`, whose call would check nothing.
    """
    # In the class: an object that answers to every name has no `check_settings`.
    if hasattr(type(model), "check_settings"):
        checker = cast(SettingsChecker, model)
        checked_plain(f"check_settings of {type(model).__name__}", checker.check_settings)
        checker.check_settings(settings)


def guards_itself(model: object) -> bool:
    """Whether a model ends its streams that stand still: it has an `idle_timeout`, in seconds, or None for no limit."""
    return hasattr(model, "idle_timeout")


ModelLike: TypeAlias = "str | Model"
