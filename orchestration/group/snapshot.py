"""A group's run as text: one versioned format, checked when it is loaded. Loads pydantic: import it when needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from understudy.orchestration.agent.contradictions import not_finite
from understudy.orchestration.agent.saved_text import first_problem, read_version, written
from understudy.orchestration.agent.spec_changes import spec_changed

from .spec import GroupSpec
from .state import GroupState

FORMAT = 1

S = TypeVar("S", bound=GroupState)


@dataclass(slots=True)
class GroupSnapshot:
    """A saved run of a group; `load` reads its state as the type for its kind of group."""

    format: int
    fingerprint: str
    state: JsonValue
    parts: dict[str, str] = field(default_factory=dict[str, str])
    """Digests of the definition's parts; texts of older versions have none."""


@lru_cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def dump(state: GroupState, spec: GroupSpec) -> str:
    """Return the state as JSON."""
    data = _adapter(cast(Any, type(state))).dump_python(state, warnings=False)
    return written(_adapter(GroupSnapshot), GroupSnapshot(FORMAT, spec.fingerprint(), data, spec.parts()))


def load(text: str, spec: GroupSpec, adopt: bool, kind: type[S], contradiction: Callable[[S], str]) -> S:
    """Read a state of type `kind` that `dump` wrote; `contradiction` returns the first contradiction in it.

    Raises:
        ValueError: the text is no saved run, has an unknown format, or does not fit the group's children.
        SpecChanged: the run was saved with another fingerprint, and `adopt` is false.
    """
    saved = cast(GroupSnapshot, read_version(_adapter(GroupSnapshot), text, "saved run of a group", FORMAT))
    state: S | None = None
    problem = ""
    try:
        state = _adapter(cast(Any, kind)).validate_python(saved.state)
    except ValidationError as error:
        problem = first_problem(error)
    if state is None:
        raise ValueError(f"not a saved run of a group: {problem}")
    if saved.fingerprint != spec.fingerprint() and not adopt:
        prints = (saved.fingerprint, spec.fingerprint())
        raise spec_changed(repr(spec.runner_id), prints, saved.parts, spec.parts())
    _check_size(state, spec)
    wrong = not_finite(text) or _left_out(saved.state) or contradiction(state)
    if wrong:
        raise ValueError(f"not a saved run of a group: {wrong}")
    return state


def look(text: str) -> GroupState:
    """Read what `dump` wrote without the definition of its group or workflow, to show it; nothing goes on with it.

    Raises:
        ValueError: the text is no saved run, or has an unknown format.
    """
    saved = cast(GroupSnapshot, read_version(_adapter(GroupSnapshot), text, "saved run of a group", FORMAT))
    problem = ""
    try:
        return cast(GroupState, _adapter(GroupState).validate_python(saved.state))
    except ValidationError as error:
        problem = first_problem(error)
    raise ValueError(f"not a saved run of a group: {problem}")


def _left_out(data: JsonValue) -> str:
    """Name a child or task whose state is not in the text; without the check it would load as one not begun."""
    whole = data if isinstance(data, dict) else {}
    for name, key in (("children", "phase"), ("tasks", "status")):
        entries = whole.get(name)
        for position, each in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(each, dict) and key not in each:
                return f"{name}.{position} has no {key!r}"
    return ""


def _check_size(state: GroupState, spec: GroupSpec) -> None:
    was, (now, what) = state.size, spec.size
    if was != now:
        raise ValueError(f"the run of {spec.runner_id!r} was saved with {was} {what}; it has {now} now")
