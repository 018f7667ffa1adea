"""The claim of one root run to its conversation in the stores that have it, as granted among all processes.

A claim asks on a lent thread and then waits without one: an alarm looks whether its turn has come. Stores are asked one
after another, in one order everywhere, so that two claims never wait for each other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from understudy.actors.stores.conversations import Fence
from understudy.actors.stores.grants import Grants
from understudy.actors.stores.store import Store
from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.vocabulary.runs.memory import ConversationKey

FIRST_LOOK = 0.02  # Seconds; most runs are short, and the next one should not wait much longer than they take.
LONGEST_PAUSE = 0.25  # Between two looks: four statements a second for each conversation that is waited for.


class Ticket(NamedTuple):
    """A ticket of this process in one store."""

    grants: Grants
    claim: int
    number: int


class Claim:
    """Asks for a conversation in stores, and gives it back.

    Args:
        key: the conversation.
        run_id: the root run.
        stores: returns the stores to ask. It is called on a lent thread, because it may open them.
        granted: called once, when all stores have granted it, unless it was withdrawn before.
        failed: called once instead, if a store fails.
    """

    def __init__(
        self,
        key: ConversationKey,
        run_id: str,
        stores: Callable[[], Sequence[Store]],
        granted: Callable[[], object],
        failed: Callable[[BaseException], object],
    ) -> None:
        self._key = key
        self._run_id = run_id
        self._stores = stores
        self._granted = granted
        self._failed = failed
        self._lock = threading.Lock()
        """Guards the rest. No store is asked under it."""
        self._tickets: list[Ticket] = []
        """The last one may still be waited for."""
        self._left: list[Grants] = []
        """Those of the stores that were not asked yet."""
        self._is_over = False
        self._alarm: Alarm | None = None

    def begin(self) -> None:
        """Ask, on a lent thread."""
        run_elsewhere(self._begin)

    def fence(self, store: Store) -> Fence | None:
        """Return a check for appends in a store, which raises if the conversation was lost there; None if it was not asked."""
        for ticket in self._tickets:
            if ticket.grants is store.grants:
                return ticket.grants.fence(self._key, ticket.number, self._run_id)
        return None

    def give_back(self) -> None:
        """Give the conversation back, or wait no more. Blocks for the stores; does nothing the second time."""
        with self._lock:
            self._is_over = True
            tickets, self._tickets = self._tickets, []
            if self._alarm is not None:
                self._alarm.call_off()
        for ticket in tickets:
            ticket.grants.give_back(ticket.claim)

    # --- asking

    def _begin(self) -> None:
        try:
            found = {repr(each): each.grants for each in self._stores()}
            self._left = [grants for _, grants in sorted(found.items()) if grants is not None]
            self._ask_next()
        except BaseException as error:  # also if no thread can be started: nothing else would end the wait
            self._fail(error)

    def _ask_next(self) -> None:
        while self._left:
            grants = self._left.pop(0)
            if not self._take(grants):
                return
        with self._lock:
            if self._is_over:
                return
        self._granted()

    def _take(self, grants: Grants) -> bool:
        """Take a ticket; returns whether the conversation is granted with it."""
        if self._is_over:
            return False
        claim, number, is_first = grants.take(self._key, self._run_id)
        with self._lock:
            was_withdrawn = self._is_over
            if not was_withdrawn:
                self._tickets.append(Ticket(grants, claim, number))
        if was_withdrawn:
            grants.give_back(claim)
            return False
        if not is_first:
            self._look_in(FIRST_LOOK)
        return is_first

    def _look_in(self, pause: float) -> None:
        with self._lock:
            if not self._is_over:
                self._alarm = ring_at(time.monotonic() + pause, lambda: self._look(pause))

    def _look(self, pause: float) -> None:
        """See whether the turn of the last ticket has come."""
        with self._lock:
            if self._is_over:
                return
            ticket = self._tickets[-1]
        try:
            has_come = ticket.grants.has_come(self._key, ticket.claim, ticket.number)
            if has_come is None:
                self._take_again(ticket)
            elif has_come:
                self._ask_next()
            else:
                self._look_in(min(2 * pause, LONGEST_PAUSE))
        except BaseException as error:
            self._fail(error)

    def _take_again(self, lost: Ticket) -> None:
        """Take another ticket, for this process was taken for dead while it waited."""
        with self._lock:
            if lost in self._tickets:
                self._tickets.remove(lost)
        lost.grants.give_back(lost.claim)
        if self._take(lost.grants):
            self._ask_next()

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._is_over:
                return
        self.give_back()
        self._failed(error)
