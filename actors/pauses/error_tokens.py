"""Tokens of runs that end with an error. The caller gets the error in any case, also when the store fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from logging import WARNING
from typing import TYPE_CHECKING

from understudy.actors.run_view.errors import safely
from understudy.actors.runs.ownership import Stale
from understudy.actors.threads.promise import Promise
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.diagnostics import emit
from understudy.errors import RunCancelled, RunTimedOut, StoreError, UnderstudyError, in_words
from understudy.orchestration.agent.pauses import paused_by

from .stored_pauses import StoredPauses
from .tokens import Tokens

if TYPE_CHECKING:
    from understudy.actors.runs.record import RunRecord

PATIENCE = 5.0  # Seconds for the store; it answers in milliseconds, and the error must be told in any case.
HANGS = 0.5  # Seconds for which a store is at one thing when it is taken for one that hangs.
AT_HAND = 0.025  # Seconds for a store that hangs: a cancel and a deadline do not wait for it.
AT_LEAST = 1.0  # Seconds of these since the last answer, also where the time of a system that stops is over: the store may be busy.


class ErrorTokens:
    """Gives errors their tokens; safe to use from any thread.

    Args:
        tokens: where the runs are kept.
    """

    def __init__(self, tokens: Tokens | StoredPauses) -> None:
        self._tokens = tokens
        self._lock = threading.Lock()
        """Guards the set of late writes."""
        self._late: set[Promise[str]] = set()
        """Writes that were waited for in vain and have not returned; until they return, no other write begins."""
        self._until: float | None = None
        """Until when the store is waited for, on the monotonic clock, because the system stops; None before that."""
        self._latest = 0.0
        """Until when at most, however often the store answers."""

    def hurry(self, deadline: float) -> float:
        """Wait no longer for the store than is right for a system that is to have stopped at `deadline`; returns until when.

        All runs together have this time, or each would wait anew for a store that hangs. An answer of the store prolongs it.
        """
        now = time.monotonic()
        self._latest = max(deadline, now + PATIENCE)
        self._until = max(deadline, now + AT_LEAST)
        return self._until

    def give(self, record: RunRecord, error: BaseException, epoch: int | None = None) -> str:
        """Set the token of an error that ends a run, and return it; empty if the run cannot go on, or is left.

        The work that ends the run gives its `epoch`. If the run has a journal, it waits while the store fails.

        A second call for the same end gives the same token. A run that a tool began, and that ends because the tool's own
        run ends, has no token: no caller would see it.
        """
        if not isinstance(error, UnderstudyError):
            return ""
        token = ""
        if not record.is_inner and not _ended_around(record, error) and record.goes_on_after(error):
            try:
                token = self._issued(record, epoch)
            except BaseException as failure:  # the caller must hear of the error, and not of the store
                if record.left_error is not None:  # the caller hears of that
                    return ""
                safely(record, _tell_lost, record, error, failure)
        if token != error.token:
            error.token = token
            if not record.by_error and record.pauses:  # it paused at this moment, and nobody was told what it waits for
                why = paused_by(record.pauses).completion_reason
                error.add_note(
                    f"The run waits for a person: {why}. Its token goes on with the answer, as that of the pause would."
                )
        return token

    def keep(self, record: RunRecord, issue: Callable[[RunRecord], str]) -> str:
        """Keep a run that pauses or is incomplete, by `issue`, and return its token. Called by a work of the run.

        If another thread ends the run meanwhile, it waits for this token and gives it to its error: the run is kept once.
        """
        writing: Promise[str] = Promise()
        with record.lock:
            record.writing = writing
            stands = record.issued  # of a pause that an earlier process stored, and told nobody
        try:
            token = stands or issue(record)
            writing.set(token)
        except BaseException as failure:
            with record.lock:
                record.writing = None  # the error with which the run ends now may still have a token
            _fail(writing, failure)
            raise
        finally:
            self._forget_late(writing)
        return token

    def drop(self, record: RunRecord, token: str) -> None:
        """Revoke a token of `keep`, because the run ended with an error; not if that error has the token."""
        if record.writing is None or not record.keeps or record.writing.error() is not None:
            self._tokens.revoke(token, record)

    def _issued(self, record: RunRecord, epoch: int | None) -> str:
        """Return the token of a run: wait if another thread is keeping the run, else keep it."""
        with record.lock:
            given, writing = record.issued, record.writing
            begins = writing is None
            if writing is None:
                record.by_error = True
                writing = record.writing = Promise()
        if given:
            return given
        waits = begins and epoch is not None and record.waits_for_store
        if isinstance(self._tokens, StoredPauses) and not waits:
            return self._stored(record, writing, begins=begins)
        if begins:
            self._write(record, writing, epoch)
        record.issued = writing.get()
        return record.issued

    def _stored(self, record: RunRecord, writing: Promise[str], *, begins: bool) -> str:
        """Have another thread write the run into the store, and wait for it a limited time."""
        if begins and not self._late:
            run_elsewhere(partial(self._write, record, writing))
        if begins and self._late:
            writing.fail(StoreError("the store has not answered for some time"))
        patience = PATIENCE if self._until is None else min(PATIENCE, max(0.0, self._until - time.monotonic()))
        began = time.monotonic()
        if not self._comes(writing, patience):
            waited = time.monotonic() - began
            with self._lock:  # around both: a write that came too late then removes itself from the set
                if writing.fail(StoreError(f"the store did not answer within {waited:.2g} s")):
                    self._late.add(writing)
        record.issued = writing.get()
        if self._until is not None:
            self._until = min(self._latest, max(self._until, time.monotonic() + AT_LEAST))
        return record.issued

    @property
    def store_hangs(self) -> bool:
        """Whether the store has been at one thing for so long that nobody is to wait for it."""
        return isinstance(self._tokens, StoredPauses) and self._tokens.busy_for >= HANGS

    def _comes(self, writing: Promise[str], patience: float) -> bool:
        """Wait for a token; not for all of the time if the store hangs."""
        if not self.store_hangs:
            first = min(patience, HANGS)
            if writing.wait(first):
                return True
            patience -= first
        return writing.wait(min(patience, AT_HAND) if self.store_hangs else patience)

    def _write(self, record: RunRecord, writing: Promise[str], epoch: int | None = None) -> None:
        try:
            token = self._tokens.issue_for_limit(record, epoch)
        except BaseException as failure:
            _fail(writing, failure)
        else:
            if not writing.set(token):  # too late: the error was told without it
                safely(record, self._tokens.revoke, token, record)
        self._forget_late(writing)

    def _forget_late(self, writing: Promise[str]) -> None:
        with self._lock:
            self._late.discard(writing)

    def withdraw(self, record: RunRecord, error: UnderstudyError) -> None:
        """Take the token of an error back: the run goes on, or ends in another way."""
        token, record.issued, record.writing = record.issued, "", None
        record.by_error = False
        error.token = ""
        if token:
            safely(record, self._tokens.revoke, token, record)
            if isinstance(self._tokens, StoredPauses):
                record.revision += 1  # the store keeps the number of the pause that was withdrawn


def _fail(writing: Promise[str], failure: BaseException) -> None:
    is_over = isinstance(failure, Stale)  # the thread that ended the run waits for the token
    writing.fail(StoreError("the store failed until the run ended") if is_over else failure)


def _ended_around(record: RunRecord, error: UnderstudyError) -> bool:
    around = record.scope.parent
    return around is not None and isinstance(error, (RunTimedOut, RunCancelled)) and around.is_over


def _tell_lost(record: RunRecord, error: BaseException, failure: BaseException) -> None:
    words = str(failure) if isinstance(failure, StoreError) else in_words(failure)
    if record.journal is not None and record.journal.journal.is_left:
        words += "; the run is left for system.recover()"
    error.add_note(f"It has no token: {words}")
    text = "run %s ended with %s, and has no token: %s"
    emit(WARNING, "run_not_kept", {"run_id": record.run_id}, text, record.run_id, type(error).__name__, words)
