"""Names that other libraries give to what is called differently here: the errors of arguments and attributes name ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import getattr_static
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

F = TypeVar("F", bound=Callable[..., object])
C = TypeVar("C", bound=type)
Elsewhere: TypeAlias = "Mapping[str, str] | Callable[[Any], Mapping[str, str]]"
"""Argument of other libraries -> what to do instead; or a function of the object that has the method."""

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

OF_OUTCOMES = {
    "all_messages": "use messages",
    "data": "use output",
    "final_output": "use output",
    "final_response": "use text",
    "response": "use text",
    "resume_context": "use token",
}
"""Attribute of a result elsewhere -> ours."""

OF_LOADERS = {
    "from_spec": "use us.load_spec_text(text)",
    "from_spec_path": "use us.load_spec(path)",
    "register_async_tool": "use register_tool, for async functions too",
}
"""Attribute of a loader of specs elsewhere -> ours."""

OF_MODULE = {
    "AgentBuilder": "use us.Agent('id', model='PROVIDER:MODEL')",
    "AgentHooks": "use us.AgentCallback",
    "AgentLoop": "use us.Agent('id', model='PROVIDER:MODEL')",
    "AgentRunOutcome": "use us.Outcome",
    "AgentRunResult": "use us.Complete",
    "AgentRunner": "use us.Runner",
    "MergeStrategy": "use us.ParallelAgent(merge='collect_all') or merge='first'",
    "ParallelAgentBuilder": "use us.ParallelAgent('id', [one, another])",
    "SequentialAgentBuilder": "use us.SequentialAgent('id', [one, another])",
    "SessionStore": "use us.ActorSystem(store=…)",
}
"""Name in the module of another library -> ours."""


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
    "completion_criteria": "criteria",
    "handoffs": "sub_agents",
    "hooks": "callbacks",
    "instructions": "system_prompt",
    "output": "output_type",
    "prompt": "system_prompt",
    "response_format": "output_type",
    "result_type": "output_type",
    "system": "system_prompt",
    "system_message": "system_prompt",
}
"""Argument of agents elsewhere -> ours, which is also a key of specs."""

_DEPS = "use deps="
_INPUT = "use input=, or leave the name out"
_TALK = "use conversation_id="
_SESSION = "write session=… for a session"

OF_RUNS = {
    "": "write session=… for a session, history=… for the messages before",
    "context": _DEPS,
    "hooks": "use Agent(callbacks=…)",
    "max_turns": "use Agent(max_turns=…), or budget=us.Budget(turns=…)",
    "message": _INPUT,
    "message_history": "use history=",
    "messages": "use history= for the messages before, and the input for the new one",
    "parameters": "only a workflow takes parameters=",
    "prompt": _INPUT,
    "session_id": _TALK,
    "state": "use session=",
    "stream": "use the method stream",
    "thread_id": _TALK,
    "tool_context": _DEPS,
    "usage_limits": "use budget=",
    "user_prompt": _INPUT,
}
"""Argument of a run elsewhere -> what to do instead; `""` stands for one more without a name."""

OF_RESUMES = {
    "": _SESSION,
    "confirmed": "use answer=us.Approve() or answer=us.Reject('why')",
    "context": _DEPS,
    "continuation": "use token=",
    "conversation_id": "the token stands for the run, with its conversation",
    "resume_context": "use token=",
    "thread_id": "the token stands for the run, with its conversation",
    "user_answer": "use answer=",
}
"""Argument of a resumed run elsewhere -> what to do instead."""

OF_MAPS = {"": _SESSION, "context": _DEPS, "max_concurrency": "use max_parallel="}
"""Argument of a batch of runs elsewhere -> what to do instead."""

OF_SEQUENCES = {"agents": "use steps=", "children": "use steps=", "sub_agents": "use steps="}
OF_PARALLELS = {"agents": "use children=", "merge_strategy": "use merge=", "sub_agents": "use children="}
OF_TASKS = {
    "condition": "use when=",
    "depends_on": "use dependencies=",
    "foreach": "use for_each=",
    "id": "its first argument is the name",
    "max_retries": "use retries=",
}
OF_WORKFLOWS = {"edges": "use Task(dependencies=…)", "nodes": "use tasks=", "steps": "use tasks="}
"""Argument of a group, a task or a workflow elsewhere -> ours."""

OF_WINDOWS = {"max_messages": "turns", "max_tokens": "tokens", "window_size": "turns"}
"""Argument of a memory with a window elsewhere -> ours."""

OF_CRITERIA = {
    "json_schema": "use schema=",
    "keywords": "use keyword=, and one criterion for each",
    "max": "use limit=",
    "max_iterations": "use limit=",
}
"""Argument of a criterion elsewhere -> ours."""

OF_SYSTEMS: Mapping[str, str] = dict.fromkeys(
    ("checkpointer", "message_store", "session_store", "state_store"), "use store="
)
"""Argument of what keeps sessions elsewhere -> ours, of a system."""

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
        made = cast(Any, owner)
        list_all: Callable[[object], Iterable[str]] = made.__dir__

        def __dir__(self: object) -> list[str]:
            return [name for name in list_all(self) if not isinstance(getattr_static(self, name, None), _OtherName)]

        made.__dir__ = __dir__
        return owner

    return explaining


def explains_arguments(what: str, elsewhere: Mapping[str, str]) -> Callable[[C], C]:
    """Make the constructor of a class name the right argument where it gets a wrong one, as `explained` does."""

    def explaining(owner: C) -> C:
        made = cast(Any, owner)
        made.__init__ = explained(made.__init__, what, elsewhere)
        return owner

    return explaining


def of_client(known: Collection[str]) -> dict[str, str]:
    """Return what to do instead, by argument of clients elsewhere, for a client that takes the arguments `known`."""
    ours = {name: next((one for one in names if one in known), "") for name, names in OF_CLIENTS.items()}
    return {**OF_MODEL_CALLS, **{name: f"use {one}=" for name, one in ours.items() if one}}


def explains_parameters(what: str, elsewhere: Elsewhere, *, also: Collection[str] = ()) -> Callable[[F], F]:
    """Make a function name the right argument where it gets a wrong one, as `explained` does."""
    return lambda function: explained(function, what, elsewhere, also=also)


def explained(function: F, what: str, elsewhere: Elsewhere, *, also: Collection[str] = ()) -> F:
    """Return a function, or a constructor, that names the right argument where it gets a wrong one.

    A right call looks nothing up.

    Args:
        function: it raises a `TypeError` for an unknown argument, before it does anything.
        what: the subject of the error; `{}` stands for the class of the object.
        elsewhere: argument of other libraries -> what to do instead. Without `""`, Python's own error tells of too many
            arguments without a name.
        also: further arguments that it takes, beside its signature.

    Raises:
        TypeError: from the function, as Python raises it for any.
    """

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> object:
        try:
            return function(*arguments, **named)
        except TypeError:
            subject = what.format(type(arguments[0]).__name__) if arguments else what
            code = function.__code__
            known = frozenset((*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *also)) - {"self"}
            hints = elsewhere(arguments[0]) if callable(elsewhere) else elsewhere
            most = code.co_argcount - 1
            if unknown := sorted(named.keys() - known):
                problem = "; ".join(
                    [f"{subject} has no argument {name}=: {_instead(name, known, hints)}" for name in unknown]
                )
            elif "" in hints and len(arguments) - 1 > most:
                expected = f"{most} argument{'s' * (most > 1)} without a name"
                problem = f"{subject} takes {expected}, got {len(arguments) - 1}: {hints['']}"
            else:
                raise
        raise TypeError(problem)

    return cast(F, checked)


def _instead(name: str, known: Collection[str], elsewhere: Mapping[str, str]) -> str:
    if name in elsewhere:
        return elsewhere[name]
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}=?" if near else f"it takes {', '.join(sorted(known))}"
