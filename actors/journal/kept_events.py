"""The events of a run as rows of its journal, so that readers in other processes have them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial
from logging import WARNING
from typing import TYPE_CHECKING

from understudy.actors.run_view.deltas import shown_data
from understudy.actors.run_view.log_reader import LogReader
from understudy.actors.stores.events.rows import EVENT
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.diagnostics import emit
from understudy.errors import RunError, in_words
from understudy.orchestration.journal.rows import JournalRow
from understudy.vocabulary.runs.events import RunFailed, RunFinished, TurnFinished

if TYPE_CHECKING:
    from understudy.actors.run_view.log import RunLog
    from understudy.vocabulary.runs.events import Event
    from understudy.vocabulary.runs.outcomes import Outcome


class KeptEvents:
    """Tells the events of one run for its journal. Safe to use from any thread.

    Args:
        log: of the run; its `first_seq` is set.
    """

    __slots__ = ("_lock", "_log", "_reader", "_taken", "_unwritten")

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        """Guards those below: a work writes, and a call that is done while others are under way."""
        self._reader = LogReader(log, (log.runner_id,), None)
        self._taken = 0
        """How many facts of the log had their rows returned."""
        self._unwritten: dict[str, JournalRow] = {}
        """Key -> the row of each event that was told and is not known to be in the store."""

    def rows(self) -> list[JournalRow]:
        """Return the rows of the events that are not in the store; those of the log until now."""
        with self._lock:
            self._read()
            self._taken = self._reader.position
            return list(self._unwritten.values())

    def last_rows(self, ending: Outcome[object] | BaseException) -> list[JournalRow]:
        """Return the rows that are left and that of the end of the run, of which its log hears later."""
        with self._lock:
            self._read()
            event = self._reader.end_with(ending)
            last = [] if event is None or self._reader.over else [self._row(event)]
            return [*self._unwritten.values(), *last]

    def written(self, rows: Iterable[JournalRow]) -> None:
        """Note that the rows that were returned last are in the store: readers are shown the events."""
        with self._lock:
            for row in rows:
                if self._unwritten.get(row.key) is row:
                    del self._unwritten[row.key]
        self._log.release(self._taken)

    def _read(self) -> None:
        for event in self._reader.read():
            row = self._row(event)
            self._unwritten[row.key] = row

    def _row(self, event: Event) -> JournalRow:
        from understudy.orchestration.journal.event_text import event_text, key_of_event  # loads pydantic

        shown = shown_data(self._reader.shown, event.response) if isinstance(event, TurnFinished) else ()
        try:
            text = event_text(event, shown)
        except Exception as error:
            text = self._lost(event, error)
        return JournalRow(EVENT, key_of_event(event.seq), text)

    def _lost(self, event: Event, error: BaseException) -> str:
        """Return a text in place of an event; a reader does not get it, but if it was the last one hears of the end."""
        from understudy.orchestration.journal.event_text import event_text

        kind, why = type(event).__name__, in_words(error)
        values = {"run_id": self._log.run_id}
        tell = partial(emit, WARNING, "event_not_kept", values)
        # Elsewhere: a handler is code of a user, and locks are held here.
        run_elsewhere(lambda: tell("run %s: event %s cannot be kept: %s", self._log.run_id, kind, why))
        if not isinstance(event, RunFinished | RunFailed):
            return "{}"
        told = RunError(f"how run {self._log.run_id} ended cannot be told: {why}", run_id=self._log.run_id)
        about = {name: getattr(event, name) for name in ("run_id", "path", "parent_run_id", "seq", "time", "duration")}
        return event_text(RunFailed(error=told, **about))
