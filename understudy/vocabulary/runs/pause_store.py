"""The protocols of stores of paused runs, for users who write their own."""

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
    """The secret part of the token. A program that can read the store can go on with its runs."""
    payload: str
    """The run as JSON text, which holds the whole conversation; empty when the run is over."""
    state: PauseState = "waiting"
    leased_until: float | None = None
    """When the lease on a waiting run ends, in seconds since 1970; None if nobody has one, or it is over."""


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


@runtime_checkable
class LeasedPauseStore(PauseStore, Protocol):
    """A store of paused runs that gives leases: `run_turn` needs one.

    A lease is on a waiting entry, which stays as it is until the holder commits its turn. Of the other methods, `take`
    returns False for an entry under a lease that is not over, and ends one that is; `put` replaces no waiting entry, leased
    or not. Each method is one atomic step, and durable before it returns.
    """

    def lease(self, run_id: str, revision: int, holder: str, seconds: float) -> bool:
        """Put a waiting entry under a lease from now on, or renew the one that the holder has.

        Returns:
            False, with nothing changed, if the entry does not wait, has another revision, or is under the lease of
            another holder that is not over.
        """
        ...

    def commit(self, paused: PausedRun, holder: str, *, keep: float | None) -> bool:
        """Replace an entry by the next pause of its run, which waits and is under no lease.

        Args:
            paused: the run; its revision is that of the entry plus 1.
            holder: who must have the last lease on the entry, over or not.
            keep: as for `put`.

        Returns:
            False, with nothing changed, if the entry does not wait, has another revision, or its last lease is another's.
        """
        ...

    def finish(self, run_id: str, revision: int, holder: str) -> bool:
        """Mark an entry as over and drop its payload, if it waits and the holder has its last lease; else return False."""
        ...

    def release(self, run_id: str, revision: int, holder: str) -> None:
        """End the lease of a holder; does nothing if it has none on this entry."""
        ...
