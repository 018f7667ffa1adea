"""Runs as text: one format, versioned, checked when it comes back. Loads pydantic, so it is imported when used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pydantic import TypeAdapter, ValidationError

from understudy.errors import SpecChanged

from .state import RunState

FORMAT = 1


@dataclass(slots=True)
class Snapshot:
    """A saved run."""

    format: int
    fingerprint: str
    state: RunState


@cache
def _adapter() -> TypeAdapter[Snapshot]:
    return TypeAdapter(Snapshot)


def dump(state: RunState, fingerprint: str) -> str:
    """Return the state as JSON."""
    return _adapter().dump_json(Snapshot(FORMAT, fingerprint, state), warnings=False).decode()


def load(text: str, fingerprint: str, agent_id: str, adopt: bool) -> RunState:
    """Read what `dump` wrote.

    Raises:
        ValueError: the text is not a saved run, or of a format this version does not know.
        SpecChanged: it was saved under another fingerprint, and `adopt` is false.
    """
    try:
        saved = _adapter().validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the text"
        raise ValueError(f"not a saved run: {where}: {first['msg']} ({error.error_count()} problems)") from None
    if saved.format != FORMAT:
        raise ValueError(f"a saved run of format {saved.format}; this version reads format {FORMAT}")
    if saved.fingerprint != fingerprint and not adopt:
        raise SpecChanged(
            f"the run was saved with another definition of agent {agent_id!r} "
            f"({saved.fingerprint}, now {fingerprint}); pass adopt=True to go on with the one at hand"
        )
    return saved.state
