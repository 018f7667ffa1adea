"""Check the names of registered objects in a spec: that each is there, and fits where it stands."""

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
"""Steps of a way that lead to the entries of a list: to all, or to those without the key `type`."""
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
        (("output_type",), OUTPUT_TYPE),
    ),
    "workflow": (
        (("tasks", EACH, "when", "name"), WHEN),
        (("tasks", EACH, "until", "name"), UNTIL),
        (("tasks", EACH, "retry_on", EACH), ERROR),
    ),
    "supervisor": ((("decider",), DECIDER),),
}
"""Kind of definition -> where names stand in it, and what they stand for."""


def check_named(definition: Definition, registered: Registered) -> Iterator[Problem]:
    """Yield a problem for each name in a definition that stands for nothing, or for something else."""
    for way, kind in NAMED.get(definition.kind, ()):
        for spot in _along(definition.spot, way):
            yield from _check(spot, kind, registered)


def check_shared_memories(memories: Mapping[str, LocatedValue], registered: Registered) -> Iterator[Problem]:
    """Yield a problem for each of a spec's memories whose name stands for none."""
    for memory in memories.values():
        yield from _check(memory.at("name"), MEMORY, registered)


def _check(spot: LocatedValue, kind: Kind, registered: Registered) -> Iterator[Problem]:
    found = "" if spot.text is None else registered.problem(kind, spot.text)
    if found:
        yield spot.problem(found)


def _along(spot: LocatedValue, way: tuple[str, ...]) -> Iterator[LocatedValue]:
    if not way:
        yield spot
        return
    step, *rest = way
    items = step in (EACH, EACH_UNTYPED)
    for inner in spot.items() if items else [spot.at(step)]:
        if step != EACH_UNTYPED or inner.at("type").value is None:
            yield from _along(inner, tuple(rest))
