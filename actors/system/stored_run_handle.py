"""`StoredRunHandle`: a run of any process that has the store of a system."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from understudy.actors.pauses.stored_pauses import Token
from understudy.actors.run_view.event_position import EventPosition, rest_of
from understudy.actors.run_view.event_reader import events_of
from understudy.actors.runs.run_handle import Handle, wait_for_stored, waiting_for
from understudy.actors.stores.inspection.stored_runs import StoredRuns
from understudy.errors import StoreError
from understudy.vocabulary.checks import checked_wait
from understudy.vocabulary.runs.events import Event
from understudy.vocabulary.runs.stored_runs import WaitingRun

from .stored_events import StoredEvents, key_before

if TYPE_CHECKING:
    from understudy.actors.stores.inspection.run_list import PauseHead, RunEntry
    from understudy.vocabulary.runs.handles import RunHandle
    from understudy.vocabulary.runs.outcomes import Pause
    from understudy.vocabulary.runs.stored_runs import StoredRunStatus

    from .run_manager import RunManager

LOOK_BACK = 16  # Events before the reader's place that may be told anew, because they were shown and not stored.


class StoredRunHandle:
    """A run of any process that has the store of a system. Each call blocks for the store. Safe to use from any thread.

    It has the events of a run that is streamed, and no result: the store keeps how a run ended, and its answer with its last event
    alone. `here()` has the result of a run that this process drives.

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

    def events(self, *, after: int | str | None = None, timeout: float | None = None) -> Iterator[Event]:
        """Iterate over the events of the run; waits for those to come, and ends after the last one of a run that is over or paused.

        The store has the events of runs that were begun, or went on, with `stream`, `submit` or `submit_resume`, until an hour after
        their end. They are those of a live handle, with the turns in one piece of each kind and without `PartialOutput`. A
        run that was resumed tells the events of its earlier stays first. If this system drives the run, they come as the live
        handle tells them.

        Args:
            after: the `seq` or the `id` of the last event that the reader has, of a handle in any process; None to begin with the first.
            timeout: the longest wait for one event, in seconds; None for no limit.

        Raises:
            ValueError: `after` is no event's id, or that of an event behind the last one of this run. Raised at once if the run is
                over or paused, else when it ends.
            TimeoutError: no event came in that time. The run goes on.
            CircularAgentCall: this code is part of the run, which cannot go on before this iteration ends.
            StoreError: the store has no events of this run.
        """
        position = EventPosition.of(after)
        checked_wait("events", timeout)
        self._entry()
        if position is None:
            return self._all_events(0, timeout)
        # What a reader has of a turn may be of a process that died: then the turn is told anew under the same numbers.
        first = max(0, position.seq - LOOK_BACK) if position.turn else position.seq
        if not position.turn and self.here() is None:
            self._check_place(position)
        return rest_of(self._all_events(first, timeout), position)

    def _check_place(self, position: EventPosition) -> None:
        """Refuse a place behind the last event of a run that is over or paused."""
        page = self._runs.events(self._run_id, key_before(position.seq))
        if page is not None and page.are_kept and not page.is_going and not page.rows:
            position.check(-1)

    def _all_events(self, first: int, timeout: float | None) -> Iterator[Event]:
        wait = partial(wait_for_stored, self._run_id)
        stored = StoredEvents(self._run_id, lambda after: self._runs.events(self._run_id, after), wait=wait)
        record = self._manager.find(self._run_id)
        if record is None:
            yield from stored.until_over(first, timeout)
            return
        if record.keeps_events and record.journal is not None and first < record.log.first_seq:
            yield from stored.before(first, record.log.first_seq)
        yield from events_of(record.log, timeout=timeout, waiting=partial(waiting_for, record, timeout))

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
