"""Resume tokens of this process: each stands for one paused run and works once."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from understudy.errors import TokenUsed, UnknownToken
from understudy.vocabulary.runs.conversations import NO_USER

if TYPE_CHECKING:
    from understudy.actors.runs.record import RunRecord
    from understudy.orchestration.saving.saved_run import SavedRun

REMEMBERED = 10_000  # Used tokens that are told apart from unknown ones; the oldest are forgotten first.
KEPT_LIMITS = 1_000  # Runs that an error ended. Most callers only see the error, and never come back for them.


class Tokens:
    """Paused runs by token; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards both tables: of two who bring one token, one gets the run."""
        self._paused: dict[str, RunRecord] = {}
        self._used: OrderedDict[str, None] = OrderedDict()
        self._limits: OrderedDict[str, None] = OrderedDict()

    def issue(self, record: RunRecord) -> str:
        """Return a new token for `record`; whoever has it can go on with the run."""
        token = f"{record.run_id}.{secrets.token_urlsafe(12)}"
        with self._lock:
            self._paused[token] = record
        return token

    def issue_for_limit(self, record: RunRecord) -> str:
        """Return a token for a run that an error ended; of these, the oldest are forgotten when there are too many."""
        token = self.issue(record)
        with self._lock:
            self._note_limit(token)
        return token

    def _note_limit(self, token: str) -> None:
        self._limits[token] = None
        if len(self._limits) > KEPT_LIMITS:
            oldest, _ = self._limits.popitem(last=False)
            self._paused.pop(oldest, None)

    @contextmanager
    def claimed(self, token: str, load: Callable[[SavedRun], RunRecord]) -> Generator[RunRecord]:
        """Yield the paused run and use the token up; if the block raises, the token stands.

        Args:
            token: what the caller brought.
            load: not needed: the run is as it was, and no text.

        Raises:
            TokenUsed: someone was first.
            UnknownToken: no run waits in this process under this token.
        """
        record, is_limit = self._take(token)
        try:
            yield record
        except BaseException:
            self._give_back(token, record, is_limit=is_limit)
            raise

    def _take(self, token: str) -> tuple[RunRecord, bool]:
        with self._lock:
            is_limit = token in self._limits
            record = self._paused.pop(token, None)
            self._limits.pop(token, None)
            if record is not None:
                self._used[token] = None
                if len(self._used) > REMEMBERED:
                    self._used.popitem(last=False)
                return record, is_limit
        raise self._refusal(token)

    def runner_of(self, token: str) -> str:
        """Return the id of the runner whose run waits under a token, which stands."""
        record = self._paused.get(token)
        if record is None:
            raise self._refusal(token)
        return record.runner.id

    def _refusal(self, token: str) -> TokenUsed | UnknownToken:
        if token in self._used:
            return TokenUsed("this token has been used; if the run paused again, its new outcome has the next token")
        return UnknownToken(
            "no run waits here under this token: it was made by another process or another system, or was mistyped; "
            "without a store, a token is valid only in the process that made it. To resume elsewhere, give the system one: "
            "us.configure(store='sqlite:///shop.db'), or pass the same system="
        )

    def _give_back(self, token: str, record: RunRecord, *, is_limit: bool) -> None:
        with self._lock:
            self._used.pop(token, None)
            self._paused[token] = record
            if is_limit:
                self._note_limit(token)

    def revoke(self, token: str) -> None:
        """Forget a token that nobody was given."""
        with self._lock:
            self._paused.pop(token, None)
            self._limits.pop(token, None)

    def erase(self, user: str) -> int:
        """Forget the paused runs of a user; returns how many."""
        with self._lock:
            found = [token for token, record in self._paused.items() if (record.options.user_id or NO_USER) == user]
            for token in found:
                del self._paused[token]
                self._limits.pop(token, None)
        return len(found)

    def over(self, record: RunRecord) -> None:
        """Do nothing about a run that is over: nothing of it is kept."""

    def __len__(self) -> int:
        return len(self._paused)
