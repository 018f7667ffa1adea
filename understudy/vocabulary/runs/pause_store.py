"""The protocol of stores of paused runs, for users who write their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

PauseState: TypeAlias = Literal["waiting", "taken", "over"]
"""A run is waiting until its token is used; then it is taken, until the run ends or pauses again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedRun:
    """The entry of a run in a store: its last pause."""

    run_id: str
    revision: int
    """Number of the pause in the run, from 1."""
    nonce: str
    """The secret part of the token. Whoever can read the store can go on with its runs."""
    payload: str
    """The run as JSON text, which holds the whole conversation; empty when the run is over."""
    state: PauseState = "waiting"


@runtime_checkable
class PauseStore(Protocol):
    """Keeps paused runs for other threads and processes: one entry for each run.

    Methods are plain functions, not `async def`. They may block, and are called by many threads at once, never under a lock of a run. What they raise ends the run that
    pauses, or is raised from `resume`, as `StoreError`; a store that fails for a moment should try again itself.
    A method that returns something else than it says here is a `StoreError` too: the run does not go on, or is not kept.
    The `repr` names the store in errors.
    """

    def put(self, paused: PausedRun, *, keep: float | None) -> bool:
        """Keep a paused run, in place of the entry that the store has of it; durably, before this returns.

        Args:
            paused: the run, waiting.
            keep: seconds after which the store may forget the run if nobody went on with it; None for never.

        Returns:
            True if it is kept; False, with nothing changed, if the entry at hand waits, or has this revision or a later one.
        """
        ...

    def get(self, run_id: str) -> PausedRun | None:
        """Return the entry of a run, or None if there is none."""
        ...

    def take(self, run_id: str, revision: int) -> bool:
        """Mark a waiting entry as taken, durably, and keep its payload until `close` or the next `put`.

        Returns:
            False, with nothing changed, if the entry does not wait or has another revision. Of all callers, in all processes,
            exactly one gets True.
        """
        ...

    def close(self, run_id: str, revision: int) -> None:
        """Mark an entry as over and drop its payload; does nothing if it has another revision.

        The mark tells a used token from one that never was; the store may forget it after a time.
        """
        ...
