"""What has happened in a run and is not in its journal yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from understudy.orchestration.runs.events import (
    NOTHING,
    Accepted,
    Charged,
    Migrated,
    Opened,
    ResultCame,
    RunEvent,
    Spent,
    SummaryBegan,
    TurnBegan,
)

if TYPE_CHECKING:
    from understudy.orchestration.journal.line_rows import Told
    from understudy.orchestration.journal.rows import JournalRow
    from understudy.orchestration.runs.definitions import Definition
    from understudy.vocabulary.context.account import Account

QUIET = (Accepted, Migrated, Opened, TurnBegan, SummaryBegan)
"""Events that are written with the next others: after a kill, what they tell is just done again."""


class UnwrittenLine:
    """The end of the line of one run in its present stay. `rows` and `written` are called under the lock of the run's `JournalPart`.

    The turn of the run's actor tells events while another thread writes: what came after its rows were made stays.

    Args:
        account: of the run; its events tell what that counts from now on.
    """

    __slots__ = ("_account", "_early", "_first", "_has_begun", "_told")

    def __init__(self, account: Account) -> None:
        self._account = account
        account.count_apart()
        self._first = 0
        """The place of the first event that is not written."""
        self._told: list[Told] = []
        self._early: dict[str, ResultCame] = {}
        """Call -> its result that the line has, and the run has not taken."""
        self._has_begun = False

    @property
    def has_news(self) -> bool:
        """Whether there is something to write before the run goes on."""
        return any(not isinstance(event, QUIET) for _, event in self._told)

    def begin(self, first: Callable[[], RunEvent]) -> None:
        """Have the line begin with what `first` returns, unless it has begun."""
        if not self._has_begun:
            self._has_begun = True
            event = first()
            if isinstance(event, Migrated):
                event = replace(event, in_stay=self._spent())
            self._told.append((time.time(), event))

    def take(self, event: RunEvent, apply: Callable[[RunEvent], object], first: Callable[[], RunEvent]) -> None:
        """Add an event that `apply` has the state of the run take. What `apply` raises leaves no trace of the event."""
        if not self._has_begun:
            self.begin(first)
        early = self._early.get(event.result.call_id) if self._early and isinstance(event, ResultCame) else None
        if early is None:
            apply(event)
            self._tell(event)
        else:  # the line has it, with what the call changed in the session
            apply(early)
            del self._early[early.result.call_id]

    def _tell(self, event: RunEvent) -> None:
        if self._early and isinstance(event, TurnBegan):  # ids of calls come again
            self._early.clear()
        told: Spent | None = getattr(event, "spent", None)
        if told is not None and (spent := self._spent()) is not told and spent != told:
            event = replace(cast(Charged, event), spent=spent)
        self._told.append((time.time(), event))

    def _spent(self) -> Spent:
        """Return what the next event tells."""
        spent = self._account.take_untold()
        return NOTHING if spent is None else Spent(spent.usage, spent.cost, spent.all_turns, spent.tool_calls)

    def has_early(self, call_id: str) -> bool:
        """Whether the line has the result of a call of the present round that the run has not taken."""
        return call_id in self._early

    def rows(
        self, definition: Definition, next_event: int | None = None, early: ResultCame | None = None
    ) -> tuple[list[JournalRow], int]:
        """Return the rows of what is not written, and how many events they have.

        Args:
            definition: what the run goes by.
            next_event: the number of the next public event; None if only an early result is written.
            early: the result of a call that others of its round outlast, which comes last.

        Raises:
            ValueError: JSON cannot carry a value of an event.
        """
        from understudy.orchestration.journal.line_rows import append_row, definition_row  # loads pydantic

        if (spent := self._spent()) is not NOTHING:
            self._told.append((time.time(), Charged(spent)))
        told: Sequence[Told] = list(self._told)
        if early is not None:
            told = [*told, (time.time(), early)]
        if not told and next_event is None:
            return [], 0
        rows = [append_row(self._first, told, next_event)]
        return (rows if self._first else [definition_row(definition), *rows]), len(told)

    def written(self, count: int, early: ResultCame | None = None) -> None:
        """Note that the rows of so many events are in the journal, the last of them `early`, which was not told, if it is given."""
        if early is not None:
            self._early[early.result.call_id] = early
            self._told.insert(count - 1, (0.0, early))
        del self._told[:count]
        self._first += count
