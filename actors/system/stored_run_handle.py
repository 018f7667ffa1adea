"""`StoredRunHandle`: a run of any process that has the store of a system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.actors.pauses.stored_pauses import Token
from understudy.actors.runs.run_handle import Handle
from understudy.actors.stores.inspection.stored_runs import StoredRuns
from understudy.errors import StoreError
from understudy.vocabulary.runs.left_runs import WaitingRun

if TYPE_CHECKING:
    from understudy.actors.stores.inspection.run_list import PauseHead, RunEntry
    from understudy.vocabulary.runs.handles import RunHandle
    from understudy.vocabulary.runs.outcomes import Pause
    from understudy.vocabulary.runs.stored_runs import StoredRunStatus

    from .run_manager import RunManager


class StoredRunHandle:
    """A run of any process that has the store of a system. Each call blocks for the store. Safe to use from any thread.

    It has neither events nor a result: the store keeps how a run ended, and not its answer. `here()` has both for a run that
    this process drives.

    Raises:
        KeyError: the store has no such run any more.
        StoreError: the store failed.
    """

    def __init__(self, run_id: str, runs: StoredRuns, manager: RunManager) -> None:
        self._run_id = run_id
        self._runs = runs
        self._manager = manager

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._run_id

    def status(self) -> StoredRunStatus:
        """Return where the run stands."""
        return self._runs.status(self._entry())

    def _entry(self) -> RunEntry:
        entry = self._runs.list.entry(self._run_id)
        if entry is None or entry.app != self._manager.app:
            raise KeyError(f"system {self._manager.app!r} has no run {self._run_id!r} in its store")
        return entry

    def here(self) -> RunHandle[object] | None:
        """Return the handle of the run, with its events and its result, while this system drives it; else None."""
        record = self._manager.find(self._run_id)
        return None if record is None else Handle(record)

    def waiting(self) -> WaitingRun | None:
        """Return the run with its token if it waits; else None."""
        found = self._wait()
        if found is None:
            return None
        status, waits = found
        return WaitingRun(
            token=str(Token(waits.run_id, waits.revision, waits.nonce)),
            run_id=waits.run_id,
            runner_id=status.runner_id,
            user_id=status.user_id,
            conversation_id=status.conversation_id,
            by_error=status.by_error,
        )

    def pauses(self) -> tuple[Pause, ...]:
        """Return the questions and calls for which the run waits, as its outcome had them; empty if it waits for no person.

        Raises:
            StoreError: what the store has cannot be read.
        """
        from understudy.orchestration.journal.told_runs import pauses_in
        from understudy.orchestration.saving.saved_run import SavedRun

        found = self._wait()
        try:
            return () if found is None else pauses_in(SavedRun.from_json(found[1].payload))
        except ValueError as error:
            raise StoreError(f"what the store has of run {self._run_id} cannot be read: {error}") from error

    def _wait(self) -> tuple[StoredRunStatus, PauseHead] | None:
        """Return the run if it waits; None also while a worker does a turn of it."""
        entry = self._entry()
        status, waits = self._runs.status(entry), entry.waits
        return None if waits is None or status.phase != "waiting" else (status, waits)

    def cancel(self) -> bool:
        """End the run for good: no token goes on with it.

        A run that this system drives, that waits, or that was left ends at once; one of a dead process tells no callback.
        One that another living process drives is asked to end: `status().cancel_requested` says so until it has.

        Returns:
            False if it was over.
        """
        here = self.here()
        if isinstance(here, Handle):
            here.drop()
            return here.cancelled()
        return self._runs.cancel_latest(self._entry) != "over"
