"""Names that other libraries give to what is called differently here: the errors of arguments and attributes name ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Any, NoReturn, TypeVar, cast

F = TypeVar("F", bound=Callable[..., None])
C = TypeVar("C", bound=type)

OF_ACTORS = {
    "actor_ref": "it is called ref",
    "actor_urn": "use ref.actor_urn",
    "start": "use system.spawn(MyActor, name='…')",
    "stop": "use ref.stop(); an actor that stops itself does not wait for that",
}
"""Attribute of an actor in Pykka -> ours."""

OF_RUNNERS = {
    "ainvoke": "use submit, whose handle can be awaited",
    "arun": "use submit, whose handle can be awaited",
    "astream": "use submit(…).events()",
    "batch": "use map",
    "invoke": "use run",
    "iter": "use run_turn, or stream",
    "kickoff": "use run",
    "run_stream": "use stream",
    "run_sync": "use run",
    "tool": "use @us.tool and Agent(…, tools=[…])",
    "tool_plain": "use @us.tool and Agent(…, tools=[…])",
}
"""Attribute of an agent or a graph in pydantic-ai, LangGraph, agno or CrewAI -> ours."""

OF_FUTURES = {"wait": "use result(timeout=…)"}
"""Attribute of futures elsewhere -> ours."""

OF_HANDLES = {"output": "use result().output", "text": "use result().text"}
"""Attribute of an outcome that people look for on the handle -> where it is."""


_SETTINGS = "use Agent(settings=us.Settings(…))"

OF_CLIENTS: Mapping[str, tuple[str, ...]] = {
    "api_base": ("base_url", "endpoint"),
    "api_token": ("api_key", "access_token"),
    "azure_ad_token_provider": ("token",),
    "azure_endpoint": ("endpoint",),
    "azure_deployment": ("deployment",),
    "base": ("base_url", "endpoint"),
    "credentials": ("access_token",),
    "default_headers": ("extra_headers",),
    "endpoint": ("base_url",),
    "headers": ("extra_headers",),
    "host": ("base_url", "endpoint"),
    "http_client": ("transport",),
    "max_retries": ("attempts",),
    "model_name": ("model", "deployment"),
    "num_retries": ("attempts",),
    "proxies": ("transport",),
    "proxy": ("transport",),
    "region": ("location",),
    "request_timeout": ("timeout",),
    "server_url": ("base_url", "endpoint"),
    "url": ("base_url", "endpoint"),
    "verify": ("transport",),
}
"""Argument of clients elsewhere -> ours; the first that the client has."""

OF_MODEL_CALLS = {
    "temperature": _SETTINGS,
    "top_p": _SETTINGS,
    "max_tokens": _SETTINGS,
    "reasoning_effort": _SETTINGS,
}
"""Argument of clients elsewhere that belongs to the agent here -> where it is."""


OF_AGENTS = {
    "agents": "sub_agents",
    "handoffs": "sub_agents",
    "instructions": "system_prompt",
    "output": "output_type",
    "prompt": "system_prompt",
    "response_format": "output_type",
    "result_type": "output_type",
    "system": "system_prompt",
    "system_message": "system_prompt",
}
"""Argument of agents elsewhere -> ours, which is also a key of specs."""

OF_LIMITS = {
    "max_in_flight": "use in_flight=",
    "rpm": "use requests_per_minute=",
    "tpm": "use tokens_per_minute=",
}
"""Argument of rate limits elsewhere -> ours."""

OF_PROVIDERS = {
    "azure_openai": "azure",
    "azure-openai": "azure",
    "claude": "anthropic",
    "google_genai": "gemini",
    "google_vertexai": "vertex",
    "google-gla": "gemini",
    "google-vertex": "vertex",
    "hosted_vllm": "vllm",
    "mistralai": "mistral",
    "vertex_ai": "vertex",
}
"""Prefix of a model string in pydantic-ai, LangChain or LiteLLM -> ours."""


class _OtherName:
    """An attribute that does not exist: reading it raises an `AttributeError` that names ours, so `hasattr` is false.

    A subclass or an object may have an attribute of this name all the same.
    """

    __slots__ = ("_name", "_ours")

    def __init__(self, name: str, ours: str) -> None:
        self._name = name
        self._ours = ours

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no attribute {self._name!r}: {self._ours}")


def explains_attributes(names: Mapping[str, str]) -> Callable[[C], C]:
    """Make a class name the right attribute where another library's is read; no other access becomes slower."""

    def explaining(owner: C) -> C:
        for name, ours in names.items():
            setattr(owner, name, _OtherName(name, ours))
        return owner

    return explaining


def explains_arguments(what: str, elsewhere: Mapping[str, str]) -> Callable[[C], C]:
    """Make the constructor of a class name the right argument where it gets an unknown one.

    Args:
        what: the subject of the error, such as "a budget".
        elsewhere: argument of other libraries -> what to do instead.
    """

    def explaining(owner: C) -> C:
        made = cast(Any, owner)
        made.__init__ = explained(made.__init__, what, elsewhere)
        return owner

    return explaining


def of_client(known: Collection[str]) -> dict[str, str]:
    """Return what to do instead, by argument of clients elsewhere, for a client that takes the arguments `known`."""
    ours = {name: next((one for one in names if one in known), "") for name, names in OF_CLIENTS.items()}
    return {**OF_MODEL_CALLS, **{name: f"use {one}=" for name, one in ours.items() if one}}


def explains_parameters(what: str, elsewhere: Mapping[str, str]) -> Callable[[F], F]:
    """Make a function name the right argument where it gets an unknown one, as `explains_arguments` does a constructor."""
    return lambda function: explained(function, what, elsewhere)


def explained(function: F, what: str, elsewhere: Mapping[str, str], *, also: Collection[str] = ()) -> F:
    """Return a function, or a constructor, that names the right argument where it gets an unknown one.

    `also` names the arguments that it takes besides those of its signature. An empty `what` is the name of the object's class.

    Raises:
        TypeError: from the function, as Python raises it for any.
    """
    code = function.__code__
    known = frozenset((*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *also)) - {"self"}

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> None:
        if not named.keys() <= known:
            subject = what or type(arguments[0]).__name__
            raise TypeError(_explanation(subject, sorted(named.keys() - known), known, elsewhere))
        function(*arguments, **named)

    return cast(F, checked)


def _explanation(what: str, unknown: Iterable[str], known: Collection[str], elsewhere: Mapping[str, str]) -> str:
    return "; ".join([f"{what} has no argument {name}=: {_instead(name, known, elsewhere)}" for name in unknown])


def _instead(name: str, known: Collection[str], elsewhere: Mapping[str, str]) -> str:
    if name in elsewhere:
        return elsewhere[name]
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}=?" if near else f"it takes {', '.join(sorted(known))}"
