"""An agent's run as text: one versioned format, checked when it is loaded. Loads pydantic: import it when needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from pydantic import TypeAdapter

from .contradictions import contradiction, not_finite
from .saved_text import read_version, written
from .spec import RunSpec
from .spec_changes import spec_changed
from .state import RunState

FORMAT = 1


@dataclass(slots=True)
class Snapshot:
    """A saved run."""

    format: int
    fingerprint: str
    state: RunState
    parts: dict[str, str] = field(default_factory=dict[str, str])
    """Digests of the definition's parts; texts of older versions have none."""


@cache
def _adapter() -> TypeAdapter[Snapshot]:
    return TypeAdapter(Snapshot)


def dump(state: RunState, spec: RunSpec) -> str:
    """Return the state as JSON.

    Raises:
        ValueError: JSON cannot carry one of its texts exactly.
    """
    return written(_adapter(), Snapshot(FORMAT, spec.fingerprint(), state, spec.parts()))


def load(text: str, spec: RunSpec, adopt: bool) -> RunState:
    """Read what `dump` wrote.

    Raises:
        ValueError: the text is not a saved run, or has a format that this version does not know.
        SpecChanged: the run was saved with another fingerprint, and `adopt` is false.
    """
    saved = read_version(_adapter(), text, "saved run", FORMAT)
    wrong = not_finite(text) or contradiction(saved.state)
    if wrong:
        raise ValueError(f"not a saved run: {wrong}")
    fingerprint = spec.fingerprint()
    if saved.fingerprint != fingerprint and not adopt:
        whose, prints = f"agent {spec.agent_id!r}", (saved.fingerprint, fingerprint)
        raise spec_changed(whose, prints, saved.parts, spec.parts())
    if saved.state.all_turns < saved.state.turns:  # saved by a version that did not count turns and cost for budgets
        saved.state.all_turns = saved.state.turns
        saved.state.cost = None
    return saved.state


def look(text: str) -> RunState:
    """Read what `dump` wrote without the definition of its agent, to show it; nothing goes on with it.

    Raises:
        ValueError: the text is not a saved run, or has a format that this version does not know.
    """
    return read_version(_adapter(), text, "saved run", FORMAT).state
