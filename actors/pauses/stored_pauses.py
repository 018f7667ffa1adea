"""Paused runs in a store, by tokens that every process with the store can use."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from logging import WARNING
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from understudy.actors.runs.child_runs import save
from understudy.actors.stores.database import Sql
from understudy.actors.stores.pauses import Check, PauseTable
from understudy.diagnostics import emit
from understudy.errors import LeaseLost, StoreError, TokenLeased, TokenUsed, UnknownToken, in_words
from understudy.vocabulary.checks import found_instead, named_safely
from understudy.vocabulary.runs.pause_store import LeasedPauseStore, PausedRun, PauseStore
from understudy.vocabulary.runs.stored_runs import WaitingRun

from .refusals import leased, used

if TYPE_CHECKING:
    from understudy.actors.runs.record import RunRecord
    from understudy.actors.stores.turn_hold import TurnHold
    from understudy.orchestration.saving.saved_run import SavedRun

T = TypeVar("T")
Accept: TypeAlias = Callable[[Callable[[Sql], bool]], bool]

KEPT_LIMITS = 30 * 86_400.0  # Seconds for a run that ended with an error; most callers never resume it.


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a stored run: which run, which pause of it, and a secret."""

    run_id: str
    revision: int
    nonce: str

    @classmethod
    def parse(cls, text: str) -> Token | None:
        """Read a token; None if it cannot be one of a stored run."""
        parts = text.rsplit(".", 2)
        if len(parts) != 3 or not text.isprintable():
            return None
        run_id, revision, nonce = parts
        if not (revision.isascii() and revision.isdigit() and len(revision) < 10):
            return None
        return cls(run_id, int(revision), nonce)

    def __str__(self) -> str:
        return f"{self.run_id}.{self.revision}.{self.nonce}"

    def fits(self, kept: PausedRun) -> bool:
        """Whether this is the token of an entry."""
        same = secrets.compare_digest(self.nonce.encode(), kept.nonce.encode())
        return same and self.revision == kept.revision

    def is_before(self, kept: PausedRun) -> bool:
        """Whether this looks like the token of an earlier pause; its secret is forgotten, so it is not checked."""
        return self.revision < kept.revision

    def next(self, kept: PausedRun) -> str | None:
        """Return the present token of a waiting run, for the owner of an earlier one with the same secret; else None."""
        same = secrets.compare_digest(self.nonce.encode(), kept.nonce.encode())
        return str(Token(kept.run_id, kept.revision, kept.nonce)) if same and kept.state == "waiting" else None


@dataclass(frozen=True, slots=True)
class LastPause:
    """The last pause of a run."""

    token: str
    revision: int
    waiting: SavedRun | None
    """The run as it waits; None if the token was used or withdrawn."""


EndsRun: TypeAlias = Callable[[str], Check]
"""Returns, for the token of a run that waits, what ends its journal in the transaction that keeps the run."""


class StoredPauses:
    """Paused runs by token, like `Tokens`; each call may block for the store.

    Args:
        store: where they are kept.
    """

    def __init__(self, store: PauseStore) -> None:
        self._store = store

    def check_leases(self) -> None:
        """Raise `TypeError` unless the store gives leases."""
        if not isinstance(self._store, LeasedPauseStore):
            raise TypeError(
                f"store {named_safely(self._store)} gives no leases, and a turn of a worker that dies would be lost: "
                "run_turn needs a us.LeasedPauseStore, or a store of the runtime's own"
            )

    @property
    def busy_for(self) -> float:
        """Seconds for which the store has been at what it does now; 0 for a user's own store, which does not tell."""
        return self._store.busy_for if isinstance(self._store, PauseTable) else 0.0

    @property
    def _leases(self) -> LeasedPauseStore:
        self.check_leases()
        return cast(LeasedPauseStore, self._store)

    def issue(self, record: RunRecord, epoch: int | None = None, ends: EndsRun | None = None) -> str:
        """Store a paused run and return its token. The work that parks the run gives its `epoch`: a run with a journal then waits.

        With `ends`, the journal of the run ends in the same transaction.

        Raises:
            StoreError: it could not be stored.
            Stale: the run ended while the store failed.
            LeaseLost: another process has the run now; or it was claimed for a turn, and another worker has its token.
        """
        return self._put(record, None, epoch, ends)

    def issue_for_limit(self, record: RunRecord, epoch: int | None = None, ends: EndsRun | None = None) -> str:
        """Store a run that an error ended and return its token, which may be forgotten after `KEPT_LIMITS` seconds.

        Raises:
            StoreError, Stale, LeaseLost: as for `issue`.
        """
        return self._put(record, KEPT_LIMITS, epoch, ends)

    def _put(self, record: RunRecord, keep: float | None, epoch: int | None, ends: EndsRun | None) -> str:
        hold = record.turn_hold
        # Turns of one run share a secret, so that a worker with an earlier token can be told the present one.
        secret = secrets.token_urlsafe(12) if hold is None else _parsed(hold).nonce
        token = Token(record.run_id, record.revision + 1, secret)
        what = f"run {record.run_id} pauses, and cannot be kept in"
        try:
            payload = save(record)
        except (TypeError, ValueError) as error:
            raise self._failed(what, str(error)) from error
        paused = PausedRun(run_id=token.run_id, revision=token.revision, nonce=token.nonce, payload=payload)
        end = None if ends is None else ends(str(token))
        if hold is not None:
            self._commit(hold, paused, keep)
        elif not self._ask(what, lambda: self._stored(record, paused, keep, epoch, end)):
            raise self._failed(what, f"it has this run already, at pause {token.revision} or later, or still waiting")
        return str(token)

    def _stored(
        self, record: RunRecord, paused: PausedRun, keep: float | None, epoch: int | None, end: Check | None
    ) -> bool:
        # With a journal, the transaction also checks that this process has the run. A process that takes the run over looks
        # for its pause afterwards. So it finds every pause of the run, and nobody can store another one later: neither a
        # frozen process, nor the server for a process that was killed.
        if record.journal is not None and isinstance(self._store, PauseTable):
            check = record.journal.journal.check_held if end is None else end
            put = partial(self._store.put, paused, keep=keep, check=check, is_held=True)
            is_put = put() if epoch is None else record.through_outage(epoch, put)
            if is_put and end is not None:
                record.journal.journal.note_over()
            return is_put
        return _yes_or_no("put", self._store.put(paused, keep=keep))

    @contextmanager
    def claimed(
        self,
        token: str,
        load: Callable[[SavedRun], RunRecord],
        hold: TurnHold | None = None,
        accept: Accept | None = None,
    ) -> Generator[RunRecord]:
        """Yield the paused run, and use the token up at the end of the block; if the block raises, the token stands.

        Args:
            token: what the caller brought.
            load: makes the record of a saved run.
            hold: of a worker that claims the run for one turn: the token then stays valid, under the worker's lease.
            accept: uses the token up in a transaction that does more; given what does so.

        Raises:
            TokenUsed: another caller was first.
            TokenLeased: a worker does the turn of this token.
            UnknownToken: the store has no run for this token.
            StoreError: the store failed, or what it has is no saved run.
        """
        found, kept = self._find(token)
        if kept.leased_until is not None:
            raise leased(kept.leased_until)
        record = load(self._read(found, kept))
        record.revision = found.revision
        yield record
        what = f"run {found.run_id} cannot be taken from"
        if not self._ask(what, lambda: self._take(found, hold, accept)):
            raise self._refusal(token)

    def _take(self, token: Token, hold: TurnHold | None, accept: Accept | None) -> bool:
        if accept is not None and isinstance(self._store, PauseTable):
            return accept(self._store.taking(token.run_id, token.revision))
        if hold is None:
            return _yes_or_no("take", self._store.take(token.run_id, token.revision))
        return self._lease(token, hold)

    def _refusal(self, token: str) -> TokenUsed | TokenLeased:
        """Return the error for a token that another caller got first."""
        try:
            _, kept = self._find(token)
        except TokenUsed as error:
            return error
        return leased(time.time() if kept.leased_until is None else kept.leased_until)

    # --- leases

    def _lease(self, token: Token, hold: TurnHold) -> bool:
        answer = self._leases.lease(token.run_id, token.revision, hold.holder, hold.seconds)
        return _yes_or_no("lease", answer)

    def _commit(self, hold: TurnHold, paused: PausedRun, keep: float | None) -> None:
        what = f"the turn of run {paused.run_id} cannot be committed to"
        self._end(hold, what, lambda: _yes_or_no("commit", self._leases.commit(paused, hold.holder, keep=keep)))

    def _end(self, hold: TurnHold, what: str, commit: Callable[[], bool]) -> None:
        """Commit a turn; raises `LeaseLost` if another worker has the token, and `StoreError`."""
        hold.end()
        hold.failed = True
        held = self._ask(what, commit)
        hold.failed = False
        if not held:
            raise hold.lost_error()

    def renew(self, hold: TurnHold) -> bool:
        """Have a lease last its whole time from now on; False if another worker has the token.

        Raises:
            StoreError: the store failed.
        """
        token = _parsed(hold)
        return self._ask(f"the lease on run {token.run_id} cannot be renewed in", lambda: self._lease(token, hold))

    def finish(self, record: RunRecord) -> None:
        """Close the entry of a complete run that was claimed for a turn, before the caller has the outcome.

        Raises:
            LeaseLost: another worker has its token now.
            StoreError: the store failed.
        """
        if record.turn_hold is not None:
            token, holder = _parsed(record.turn_hold), record.turn_hold.holder
            what = f"the end of run {token.run_id} cannot be noted in"
            finish = lambda: _yes_or_no("finish", self._leases.finish(token.run_id, token.revision, holder))
            self._end(record.turn_hold, what, finish)

    def _let_go(self, hold: TurnHold, again: bool) -> None:
        """End a lease without a commit; with `again` the token stands, otherwise it is used up."""
        hold.end()
        token = _parsed(hold)
        end = self._leases.release if again or hold.failed else self._leases.finish
        try:
            self._ask("", lambda: end(token.run_id, token.revision, hold.holder))
        except StoreError:
            text = "the lease on run %s could not be ended in %s, and ends by itself"
            store = named_safely(self._store)
            emit(WARNING, "lease_not_ended", {"run_id": token.run_id}, text, token.run_id, store, exc_info=True)

    # --- the others

    def last_pause(self, run_id: str) -> LastPause | None:
        """Return the last pause of a run that was under way when its process died; None without one. Raises `StoreError`."""
        kept = self._ask(f"run {run_id} cannot be looked up in", lambda: _entry(self._store.get(run_id)))
        if kept is None:
            return None
        token = Token(run_id, kept.revision, kept.nonce)
        return LastPause(str(token), kept.revision, self._read(token, kept) if kept.state == "waiting" else None)

    def waiting(self, app: str) -> list[WaitingRun]:
        """Return the runs of an app that wait here; a user's own store tells of none. Raises `StoreError`."""
        found = self._ask("waiting runs cannot be listed in", lambda: self._of_app(app))
        return [_waiting(paused, self._read(token, paused)) for token, paused in found]

    def _of_app(self, app: str) -> list[tuple[Token, PausedRun]]:
        if not isinstance(self._store, PauseTable):
            return []
        found = [each for each in self._store.waiting() if each.run_id.rsplit("-", 2)[0] == app]
        return [(Token(each.run_id, each.revision, each.nonce), each) for each in found]

    def runner_of(self, token: str) -> str:
        """Return the id of the runner whose run waits under a token; the token stays valid."""
        return self._read(*self._find(token)).runner_id

    def _find(self, text: str) -> tuple[Token, PausedRun]:
        token = Token.parse(text)
        kept = None
        if token is not None:
            what = f"run {token.run_id} cannot be looked up in"
            kept = self._ask(what, lambda: _entry(self._store.get(token.run_id)))
        if token is not None and kept is not None:
            if token.is_before(kept) or (token.fits(kept) and kept.state != "waiting"):
                raise used(token.next(kept))
            if token.fits(kept):
                return token, kept
        store = named_safely(self._store)
        raise UnknownToken(f"no paused run with this token in {store}; check the token and the store")

    def _read(self, token: Token, kept: PausedRun) -> SavedRun:
        from understudy.orchestration.saving.saved_run import SavedRun

        try:
            return SavedRun.from_json(kept.payload)
        except ValueError as error:
            store = named_safely(self._store)
            raise StoreError(f"what {store} has of run {token.run_id} cannot be read: {error}", store=store) from error

    def revoke(self, token: str, record: RunRecord | None = None) -> None:
        """Close the entry of a token that no caller has; if the store fails, an entry stays that nobody can use.

        Args:
            token: to be closed.
            record: of the run that got it here. If another process has the run now, that one may have told the token.
        """
        given = Token.parse(token)
        if given is not None:
            self._close(given.run_id, given.revision, record)

    def erase(self, user: str) -> int:
        """Do nothing: the store erases its entries itself."""
        return 0

    def over(self, record: RunRecord, *, again: bool = False) -> None:
        """Close the entry of a run that went on from a token and is over; a failure of the store is only logged.

        With `again`, the turn for which it was claimed will be done again: the token stays valid.
        """
        if record.turn_hold is not None:
            self._let_go(record.turn_hold, again)
        elif record.revision:
            self._close(record.run_id, record.revision, record)

    def _close(self, run_id: str, revision: int, record: RunRecord | None) -> None:
        try:
            self._ask("", lambda: self._closed(run_id, revision, record))
        except LeaseLost:
            pass  # the entry is that of the process that has the run now
        except StoreError:
            store = named_safely(self._store)
            text = "the entry of run %s, which is over, could not be closed in %s"
            emit(WARNING, "pause_not_closed", {"run_id": run_id}, text, run_id, store, exc_info=True)

    def _closed(self, run_id: str, revision: int, record: RunRecord | None) -> None:
        if record is not None and record.journal is not None and isinstance(self._store, PauseTable):
            self._store.close(run_id, revision, check=record.journal.journal.check_held)
        else:
            self._store.close(run_id, revision)

    def _ask(self, what: str, do: Callable[[], T]) -> T:
        try:
            return do()
        except LeaseLost:
            raise
        except StoreError as error:
            if error.run_id:  # it says that the run is left
                raise
            raise StoreError(f"{what} {named_safely(self._store)}: {error}", store=error.store) from error
        except Exception as error:
            raise self._failed(what, in_words(error)) from error

    def _failed(self, what: str, why: str) -> StoreError:
        store = named_safely(self._store)  # only after a failure: this is the user's code, and may be slow
        return StoreError(f"{what} {store}: {why}", store=store)


def _waiting(paused: PausedRun, saved: SavedRun) -> WaitingRun:
    return WaitingRun(
        token=str(Token(paused.run_id, paused.revision, paused.nonce)),
        run_id=paused.run_id,
        runner_id=saved.runner_id,
        user_id=saved.user_id,
        conversation_id=saved.conversation_id,
        by_error=saved.by_error,
    )


def _parsed(hold: TurnHold) -> Token:
    """Return the token of a hold; the store has found it, so it can be read."""
    token = Token.parse(hold.token)
    assert token is not None
    return token


def _yes_or_no(method: str, answer: object) -> bool:
    """Return the answer of a store, which must be True or False. Raises `TypeError`."""
    if answer is not True and answer is not False:
        raise TypeError(f"{method}() must return True or False, got {found_instead(answer)}")
    return answer


def _entry(found: object) -> PausedRun | None:
    """Return what a store has of a run. Raises `TypeError` if that is no entry."""
    if found is None:
        return None
    if not issubclass(type(found), PausedRun):
        raise TypeError(f"get() must return a PausedRun or None, got {found_instead(found)}")
    kept = cast(PausedRun, found)
    for name, kind in (("revision", int), ("nonce", str), ("payload", str), ("state", str)):
        value: object = getattr(kept, name)
        if not issubclass(type(value), kind):
            raise TypeError(f"get() returned a PausedRun whose {name} is {found_instead(value)}")
    until: object = kept.leased_until
    if until is not None and not isinstance(until, (int, float)):
        raise TypeError(f"get() returned a PausedRun whose leased_until is {found_instead(until)}")
    return kept
