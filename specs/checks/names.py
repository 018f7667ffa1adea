"""Checks the names of registered objects in a spec: each must be registered, and fit its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from understudy.specs.reading.located import LocatedValue
from understudy.specs.reading.problems import Problem

from .definitions import Definition
from .registered_objects import (
    APPROVAL,
    CALL_RULE,
    CALLBACK,
    CHECK,
    CRITERION,
    DECIDER,
    ERROR,
    MEMORY,
    MODEL,
    OUTPUT_TYPE,
    PROMPT,
    UNTIL,
    WHEN,
    Kind,
)
from .registry import Registered

EACH = "<each>"
EACH_UNTYPED = "<each without a type>"
"""Wildcards in a path: all entries of a list, or its entries without the key `type`."""
Ways = tuple[tuple[tuple[str, ...], Kind], ...]

NAMED: Mapping[str, Ways] = {
    "agent": (
        (("model", "name"), MODEL),
        (("system_prompt", "name"), PROMPT),
        (("tools", EACH, "approval", "name"), APPROVAL),
        (("restart_on", EACH), ERROR),
        (("on_invalid_call", "name"), CALL_RULE),
        (("criteria", EACH, "name"), CRITERION),
        (("callbacks", EACH_UNTYPED, "name"), CALLBACK),
        (("callbacks", EACH, "check"), CHECK),
        (("memory", "name"), MEMORY),
        (("compaction", "model", "name"), MODEL),
        (("output_type",), OUTPUT_TYPE),
    ),
    "workflow": (
        (("callbacks", EACH_UNTYPED, "name"), CALLBACK),
        (("tasks", EACH, "when", "name"), WHEN),
        (("tasks", EACH, "until", "name"), UNTIL),
        (("tasks", EACH, "retry_on", EACH), ERROR),
    ),
    "sequential": ((("callbacks", EACH_UNTYPED, "name"), CALLBACK),),
    "parallel": ((("callbacks", EACH_UNTYPED, "name"), CALLBACK),),
    "supervisor": ((("decider",), DECIDER),),
}
"""Kind of definition -> the paths of names in it, with the kind of object that each name stands for."""


def check_named(definition: Definition, registered: Registered) -> Iterator[Problem]:
    """Yield a problem for each name in a definition that is not registered, or names an object of another kind."""
    for way, kind in NAMED.get(definition.kind, ()):
        for located in _along(definition.located, way):
            yield from _check(located, kind, registered)


def check_shared_memories(memories: Mapping[str, LocatedValue], registered: Registered) -> Iterator[Problem]:
    """Yield a problem for each shared memory whose name is not that of a registered memory."""
    for memory in memories.values():
        yield from _check(memory.at("name"), MEMORY, registered)


def _check(located: LocatedValue, kind: Kind, registered: Registered) -> Iterator[Problem]:
    found = "" if located.text is None else registered.problem(kind, located.text)
    if found:
        yield located.problem(found)


def _along(located: LocatedValue, way: tuple[str, ...]) -> Iterator[LocatedValue]:
    if not way:
        yield located
        return
    step, *rest = way
    items = step in (EACH, EACH_UNTYPED)
    for inner in located.items() if items else [located.at(step)]:
        if step != EACH_UNTYPED or inner.at("type").value is None:
            yield from _along(inner, tuple(rest))
