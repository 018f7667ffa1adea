"""The events of a run as its store has them, for a reader in any process. The store is asked again and again until the run is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import inf
from typing import TYPE_CHECKING

from understudy.actors.run_view.deltas import deltas_of, deltas_of_data
from understudy.actors.run_view.fact_events import About
from understudy.actors.stores.events.pages import PAGE, EventPage
from understudy.actors.stores.events.rows import EVENTS_KEPT
from understudy.actors.threads.promise import Late
from understudy.errors import StoreError
from understudy.vocabulary.runs.events import Event, RunFailed, RunFinished, TurnFinished

if TYPE_CHECKING:
    from understudy.orchestration.journal.event_text import WrittenEvent

SHORTEST, LONGEST = 0.2, 1.0  # Seconds between two looks: while events come, and at most.
GROWTH = 1.5


class StoredEvents:
    """The events of one run in its store; for one thread at a time.

    Args:
        run_id: of the run.
        read: returns the events after a key by one query; None if there is no such run.
        clock: monotonic, in seconds.
        wait: waits for so many seconds.
    """

    def __init__(
        self,
        run_id: str,
        read: Callable[[str], EventPage | None],
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._run_id = run_id
        self._read = read
        self._clock = clock
        self._wait = wait
        self._after = ""
        """The key of the last event that was read."""
        self._last: Event | None = None
        self._is_known = False
        """Whether the store had events of the run: one without a journal has a pause at most."""

    def before(self, first: int, end: int) -> Iterator[Event]:
        """Iterate over the events from one number to another, the latter not included, without waiting for any."""
        self._begin(first)
        while (page := self._page()).rows:
            for event in self._told(page):
                if event.seq >= end - (0 if _is_numbered(event) else 1):
                    return
                yield event

    def until_over(self, first: int, timeout: float | None) -> Iterator[Event]:
        """Iterate over the events from a number on; waits for those to come, until the run is over or paused.

        Args:
            first: the number.
            timeout: seconds to wait for one event; None for no limit.

        Raises:
            TimeoutError: no event came in that time.
            KeyError: the store has no such run any more.
            StoreError: the events of the run are not kept, or the store failed.
        """
        self._begin(first)
        pause, since = SHORTEST, self._clock()
        while True:
            page = self._page()
            yield from self._told(page)
            if len(page.rows) < PAGE and not page.is_going:
                return self._check_end(page)
            if page.rows:
                pause, since = SHORTEST, self._clock()
            if len(page.rows) < PAGE:
                self._pause(pause, since, timeout)
                pause = min(pause * GROWTH, LONGEST)

    def _begin(self, first: int) -> None:
        self._after = key_before(first)

    def _pause(self, pause: float, since: float, timeout: float | None) -> None:
        left = inf if timeout is None else since + timeout - self._clock()
        if left <= 0:
            raise Late(f"run {self._run_id} told no event in {timeout:g} s, and is not over")
        self._wait(min(pause, left))

    def _page(self) -> EventPage:
        page = self._read(self._after)
        if page is None and self._is_known:
            raise KeyError(f"the store has no run {self._run_id!r} any more")
        if page is None or not (page.are_kept or page.rows):
            raise StoreError(
                f"the store has no events of run {self._run_id}: it keeps those of runs that were begun, or went on, with stream, "
                f"submit or submit_resume, until {EVENTS_KEPT:g} s after their end"
            )
        self._is_known = True
        return page

    def _told(self, page: EventPage) -> Iterator[Event]:
        from understudy.orchestration.journal.event_text import event_of_text  # loads pydantic

        for key, text in page.rows:
            self._after = key
            written = event_of_text(text)
            if written is not None:
                yield from _with_deltas(written)
                self._last = written.event

    def _check_end(self, page: EventPage) -> None:
        if self._last is not None and not isinstance(self._last, RunFinished | RunFailed):
            raise StoreError(
                f"run {self._run_id} is over ({page.ending}), and the store does not have its last event: its process could not "
                "write it"
            )


def key_before(seq: int) -> str:
    """Return the key after which the event with this number comes."""
    from understudy.orchestration.journal.event_text import key_of_event  # loads pydantic

    return key_of_event(seq - 1) if seq > 0 else ""


def _is_numbered(event: Event) -> bool:
    return "." not in event.id


def _with_deltas(written: WrittenEvent) -> Iterator[Event]:
    event = written.event
    if isinstance(event, TurnFinished):
        about = About(
            run_id=event.run_id,
            path=event.path,
            parent_run_id=event.parent_run_id,
            seq=event.seq - 1,
            time=event.time,
        )
        if written.shown:
            yield from deltas_of_data(written.shown, event.turn, event.attempts, about)
        else:
            yield from deltas_of(event.response, event.turn, event.attempts, about)
    yield event
