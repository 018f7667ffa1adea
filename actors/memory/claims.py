"""The claim of one root run to its conversation in the stores that have it, as granted among all processes.

A claim asks on a lent thread and then waits without one: an alarm looks whether its turn has come. Stores are asked one
after another, in one order everywhere, so that two claims never wait for each other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from understudy.actors.stores.conversations import Fence
from understudy.actors.stores.database import Outage, may_pass, pause_before
from understudy.actors.stores.grants import Grants
from understudy.actors.stores.store import Store
from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.errors import StoreError
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
        failed: called once instead, if it cannot be asked for. While a store fails, it is asked again as long as `outage` says.
        outage: the runs of the system that wait for a store.
    """

    def __init__(
        self,
        key: ConversationKey,
        run_id: str,
        stores: Callable[[], Sequence[Store]],
        granted: Callable[[], object],
        failed: Callable[[BaseException], object],
        outage: Outage,
    ) -> None:
        self._key = key
        self._run_id = run_id
        self._stores = stores
        self._granted = granted
        self._failed = failed
        self._outage = outage
        self._lock = threading.Lock()
        """Guards the rest. No store is asked under it."""
        self._tickets: list[Ticket] = []
        """The last one may still be waited for."""
        self._left: list[Grants] | None = None
        """Those of the stores that were not asked yet; None before the stores are open."""
        self._failures = 0
        """How often the stores failed in a row."""
        self._gives_up_at = 0.0
        self._is_over = False
        self._alarm: Alarm | None = None

    def begin(self) -> None:
        """Ask, on a lent thread."""
        run_elsewhere(partial(self._take_step, self._ask_next))

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
        self._outage.ends(self)
        for ticket in tickets:
            ticket.grants.give_back(ticket.claim)

    # --- asking

    def _take_step(self, step: Callable[[], object]) -> None:
        """Take a step; take it again after a pause if a store fails in it."""
        try:
            step()
        except BaseException as error:  # also if no thread can be started: nothing else would end the wait
            if not (may_pass(error) and self._will_ask_again(step, error)):
                self._fail(error)

    def _will_ask_again(self, step: Callable[[], object], error: StoreError) -> bool:
        """Set an alarm for another attempt; False if the patience is over."""
        if not self._failures:
            self._gives_up_at = self._outage.begins(self, error)
        now, pause = time.monotonic(), pause_before(self._failures)
        self._failures += 1
        with self._lock:
            if not self._is_over:
                if self._outage.is_stopping or now >= self._gives_up_at:
                    return False
                self._alarm = ring_at(min(now + pause, self._gives_up_at), partial(self._take_step, step))
                return True
        self._outage.ends(self)  # the claim was withdrawn meanwhile
        return True

    def _answered(self) -> None:
        """Note that a store has answered."""
        if self._failures:
            self._failures = 0
            self._outage.ends(self)
            self._outage.worked()

    def _ask_next(self) -> None:
        if self._left is None:
            found = {repr(each): each.grants for each in self._stores()}
            self._left = [grants for _, grants in sorted(found.items()) if grants is not None]
        while self._left:
            is_granted = self._take(self._left[0])
            self._left.pop(0)
            if not is_granted:
                return
        with self._lock:
            if self._is_over:
                return
        self._answered()
        self._granted()

    def _take(self, grants: Grants) -> bool:
        """Take a ticket; returns whether the conversation is granted with it."""
        if self._is_over:
            return False
        claim, number, is_first = grants.take(self._key, self._run_id, again=self._failures > 0)
        self._answered()
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
                look = partial(self._take_step, partial(self._look, pause))
                self._alarm = ring_at(time.monotonic() + pause, look)

    def _look(self, pause: float) -> None:
        """See whether the turn of the last ticket has come."""
        with self._lock:
            if self._is_over:
                return
            ticket = self._tickets[-1]
        has_come = ticket.grants.has_come(self._key, ticket.claim, ticket.number)
        self._answered()
        if has_come is None:
            self._take_again(ticket)
        elif has_come:
            self._ask_next()
        else:
            self._look_in(min(2 * pause, LONGEST_PAUSE))

    def _take_again(self, lost: Ticket) -> None:
        """Take another ticket, for this process was taken for dead while it waited."""
        with self._lock:
            if lost in self._tickets:
                self._tickets.remove(lost)
        lost.grants.give_back(lost.claim)
        self._left = [lost.grants, *(self._left or ())]
        self._take_step(self._ask_next)  # a step of its own: the ticket is no longer there to be looked at

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._is_over:
                return
        self.give_back()
        self._failed(error)
