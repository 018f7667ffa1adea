"""Runs of groups as text: one format, versioned, checked when it comes back. Loads pydantic, so it is imported when used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pydantic import TypeAdapter, ValidationError

from understudy.errors import SpecChanged

from .group_run import GroupState
from .group_spec import GroupSpec

FORMAT = 1


@dataclass(slots=True)
class GroupSnapshot:
    """A saved run of a group."""

    format: int
    fingerprint: str
    state: GroupState


@cache
def _adapter() -> TypeAdapter[GroupSnapshot]:
    return TypeAdapter(GroupSnapshot)


def dump(state: GroupState, fingerprint: str) -> str:
    """Return the state as JSON."""
    return _adapter().dump_json(GroupSnapshot(FORMAT, fingerprint, state), warnings=False).decode()


def load(text: str, spec: GroupSpec, adopt: bool) -> GroupState:
    """Read what `dump` wrote.

    Raises:
        ValueError: the text is no saved run, of an unknown format, or does not fit the group's children.
        SpecChanged: it was saved under another fingerprint, and `adopt` is false.
    """
    try:
        saved = _adapter().validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the text"
        raise ValueError(f"not a saved run of a group: {where}: {first['msg']}") from None
    if saved.format != FORMAT:
        raise ValueError(f"a saved run of format {saved.format}; this version reads format {FORMAT}")
    if saved.fingerprint != spec.fingerprint() and not adopt:
        raise SpecChanged(
            f"the run was saved with another definition of {spec.runner_id!r} "
            f"({saved.fingerprint}, now {spec.fingerprint()}); pass adopt=True to go on with the one at hand"
        )
    if len(saved.state.children) != len(spec.children):
        raise ValueError(
            f"the run of {spec.runner_id!r} was saved with {len(saved.state.children)} children; "
            f"it has {len(spec.children)} now"
        )
    return saved.state
