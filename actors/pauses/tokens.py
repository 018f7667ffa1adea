"""Tokens of this process: each belongs to one paused run and works once."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from understudy.errors import TokenUsed, UnknownToken
from understudy.vocabulary.runs.conversations import NO_USER
from understudy.vocabulary.runs.stored_runs import WaitingRun

from .refusals import leased, used

if TYPE_CHECKING:
    from understudy.actors.runs.record import RunRecord
    from understudy.actors.stores.turn_hold import TurnHold
    from understudy.orchestration.saving.saved_run import SavedRun

REMEMBERED = 10_000  # Tokens, used or dropped, that can be told from unknown ones; the oldest are forgotten first.
KEPT = 1_000  # Runs that wait for an answer or the next turn, and as many that ended with an error. The oldest are dropped first.


class _Waiting:
    """A run that waits under a token."""

    __slots__ = ("hold", "is_limit", "record", "until")

    def __init__(self, record: RunRecord, is_limit: bool) -> None:
        self.record = record
        self.is_limit = is_limit
        self.hold: TurnHold | None = None
        """The hold of the last worker that claimed it for a turn; None if that worker gave it back."""
        self.until = 0.0
        """When that worker's lease ends, on the monotonic clock."""

    @property
    def seconds_left(self) -> float:
        """How long the lease still lasts; 0 or less if there is none."""
        return 0.0 if self.hold is None else self.until - time.monotonic()


class Tokens:
    """Paused runs by token; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards the tables, so that one caller gets the run of a token."""
        self._paused: dict[str, _Waiting] = {}
        self._used: OrderedDict[str, str | None] = OrderedDict()
        """Used token -> the token with which its turn was committed, if there is one."""
        self._limits: OrderedDict[str, None] = OrderedDict()
        self._pauses: OrderedDict[str, None] = OrderedDict()
        self._dropped: OrderedDict[str, str | None] = OrderedDict()
        """Tokens of runs that were dropped because others came after them."""

    def issue(self, record: RunRecord, epoch: int | None = None, ends: object = None) -> str:
        """Return a new token for `record`, with which a caller resumes the run; `epoch` and `ends` are for stores.

        Raises:
            LeaseLost: the run was claimed for a turn, and another worker has its token now.
        """
        return self._issue(record, is_limit=False)

    def issue_for_limit(self, record: RunRecord, epoch: int | None = None, ends: object = None) -> str:
        """Return a token for a run that ended with an error."""
        return self._issue(record, is_limit=True)

    def _issue(self, record: RunRecord, *, is_limit: bool) -> str:
        token = f"{record.run_id}.{secrets.token_urlsafe(12)}"
        with self._lock:
            if record.turn_hold is not None:
                self._commit(record.turn_hold, token)
            self._put(token, _Waiting(record, is_limit))
        return token

    def _put(self, token: str, waiting: _Waiting) -> None:
        """Keep a run under a token; call it under the lock."""
        self._paused[token] = waiting
        kept = self._limits if waiting.is_limit else self._pauses
        kept[token] = None
        if len(kept) > KEPT:
            oldest = next((each for each in kept if self._paused[each].seconds_left <= 0), None)
            if oldest is not None:  # else workers have all of them
                self._forget(oldest)
                _remember(self._dropped, oldest, None)

    def _take(self, token: str, next: str | None) -> None:
        """Use a token up; call it under the lock."""
        self._forget(token)
        _remember(self._used, token, next)

    def _forget(self, token: str) -> None:
        """Keep the run of a token no longer; call it under the lock."""
        self._paused.pop(token, None)
        self._limits.pop(token, None)
        self._pauses.pop(token, None)

    @contextmanager
    def claimed(
        self,
        token: str,
        load: Callable[[SavedRun], RunRecord],
        hold: TurnHold | None = None,
        accept: object = None,
    ) -> Generator[RunRecord]:
        """Yield the paused run and use the token up; if the block raises, the token stands.

        Args:
            token: what the caller brought.
            load: not used: the record itself is here, and not its text.
            hold: of a worker that claims the run for one turn. The worker gets a copy and a lease on the token.
            accept: not needed: no run has a journal without a store.

        Raises:
            TokenUsed: another caller was first.
            TokenLeased: a worker does the turn of this token.
            UnknownToken: no run waits in this process under this token.
        """
        waiting = self._claim(token, hold)
        try:
            yield waiting.record if hold is None else waiting.record.copied()
        except BaseException:
            self._give_back(token, waiting, hold)
            raise

    def _claim(self, token: str, hold: TurnHold | None) -> _Waiting:
        with self._lock:
            waiting = self._paused.get(token)
            if waiting is None:
                raise self._refusal(token)
            left = waiting.seconds_left
            if left > 0:
                raise leased(time.time() + left)
            if hold is None:
                self._take(token, None)
            else:
                waiting.hold, waiting.until = hold, time.monotonic() + hold.seconds
            return waiting

    def _give_back(self, token: str, waiting: _Waiting, hold: TurnHold | None) -> None:
        if hold is not None:
            return self._release(hold)
        with self._lock:
            self._used.pop(token, None)
            waiting.hold = None
            self._put(token, waiting)

    # --- leases

    def check_leases(self) -> None:
        """Do nothing: the memory of this process gives leases."""

    def _held(self, hold: TurnHold) -> _Waiting | None:
        """Return what a worker holds, if it still does; call it under the lock."""
        waiting = self._paused.get(hold.token)
        return None if waiting is None or waiting.hold is not hold else waiting

    def _commit(self, hold: TurnHold, next: str | None) -> None:
        """Use the token of a turn up; call it under the lock."""
        hold.end()
        if self._held(hold) is None:
            raise hold.lost_error()
        self._take(hold.token, next)

    def _release(self, hold: TurnHold) -> None:
        hold.end()
        with self._lock:
            waiting = self._held(hold)
            if waiting is not None:
                waiting.hold = None

    def renew(self, hold: TurnHold) -> bool:
        """Have a lease last its whole time from now on; False if another worker has the token."""
        with self._lock:
            waiting = self._held(hold)
            if waiting is not None:
                waiting.until = time.monotonic() + hold.seconds
            return waiting is not None

    def finish(self, record: RunRecord) -> None:
        """Use up the token of a complete run, before the caller has the outcome.

        Raises:
            LeaseLost: the run was claimed for a turn, and another worker has its token now.
        """
        if record.turn_hold is not None:
            with self._lock:
                self._commit(record.turn_hold, None)

    def over(self, record: RunRecord, *, again: bool = False) -> None:
        """Note that a run is over; with `again`, its turn will be done again, and the token stays valid."""
        hold = record.turn_hold
        if hold is None:
            return
        hold.end()
        with self._lock:
            waiting = self._held(hold)
            if waiting is not None and again:
                waiting.hold = None
            elif waiting is not None:
                self._take(hold.token, None)

    # --- the others

    def last_pause(self, run_id: str) -> None:
        """Return None: what waits here is known to nobody else."""

    def waiting(self, app: str) -> list[WaitingRun]:
        """Return the runs that wait in this process, all of which are of this app."""
        with self._lock:
            found = list(self._paused.items())
        return [
            WaitingRun(
                token=token,
                run_id=each.record.run_id,
                runner_id=each.record.runner.id,
                user_id=each.record.options.user_id,
                conversation_id=each.record.options.conversation_id,
                by_error=each.record.by_error,
            )
            for token, each in found
        ]

    def runner_of(self, token: str) -> str:
        """Return the id of the runner whose run waits under a token; the token stays valid."""
        waiting = self._paused.get(token)
        if waiting is None:
            raise self._refusal(token)
        return waiting.record.runner.id

    def _refusal(self, token: str) -> TokenUsed | UnknownToken:
        if token in self._used:
            next: str | None = token
            while next is not None and next in self._used:
                next = self._used[next]
            return used(next if next is None or next in self._paused else None)
        if token in self._dropped:
            return UnknownToken(
                f"the run of this token was dropped: without a store, a system keeps the last {KEPT:,} runs that wait, and the "
                f"last {KEPT:,} that ended with an error. To keep them all, give the system a store: "
                "us.configure(store='sqlite:///shop.db')"
            )
        return UnknownToken(
            "no run waits here under this token: it was made by another process or another system, or was mistyped; "
            "without a store, a token is valid only in the process that made it. To resume elsewhere, give the system one: "
            "us.configure(store='sqlite:///shop.db'), or pass the same system="
        )

    def revoke(self, token: str, record: RunRecord | None = None) -> None:
        """Forget a token that no caller has; no other process can have its run."""
        with self._lock:
            self._forget(token)

    def erase(self, user: str) -> int:
        """Forget the paused runs of a user; returns how many."""
        with self._lock:
            found = [token for token, each in self._paused.items() if (each.record.options.user_id or NO_USER) == user]
            for token in found:
                self._forget(token)
        return len(found)

    def __len__(self) -> int:
        return len(self._paused)


def _remember(table: OrderedDict[str, str | None], token: str, next: str | None) -> None:
    table[token] = next
    if len(table) > REMEMBERED:
        table.popitem(last=False)
