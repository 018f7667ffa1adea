"""Grants of conversations in a database: one run in all processes has a conversation, and the others wait in line."""

from __future__ import annotations

import atexit
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from logging import WARNING

from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.actors.threads.forked import Stage, at_fork
from understudy.diagnostics import emit
from understudy.errors import RunError, StoreError
from understudy.vocabulary.runs.memory import ConversationKey

from . import owners, tickets
from .conversations import Fence
from .database import Database, Sql, prepare

LEASE = 10.0  # Seconds; a busy process, or one whose store is locked by others, must still get to beat in this time.


class Grants:
    """The tickets of this process in one database. Safe to use from any thread; each call may block for the database.

    Args:
        database: where the tickets are.
        lease: seconds after the death of a process in which others have what it had.
    """

    def __init__(self, database: Database, lease: float) -> None:
        self._database = database
        self._lease = lease
        self._is_prepared = False
        self.begin_anew()
        _all.add(self)
        atexit.unregister(_leave_all)
        atexit.register(_leave_all)  # again: the last one registered is called first, while the database is still open

    def begin_anew(self) -> None:
        """Begin without tickets, in a forked child: they belong to its parent."""
        self._lock = threading.Lock()
        """Guards the claims and the alarm. No statement runs under it."""
        self._owner = secrets.token_hex(8)
        self._next_claim = 0
        self._waiting: set[int] = set()
        self._granted: set[int] = set()
        self._alarm: Alarm | None = None
        self._failed_beats = 0
        """In a row."""
        self._has_remains = False
        """Whether the store may have tickets that this process does not know of, because it failed."""
        self._watch = owners.Watch(self._lease)

    # --- tickets

    def take(self, key: ConversationKey, run_id: str, *, again: bool = False) -> tuple[int, int, bool]:
        """Take a ticket for a conversation; with `again` in place of one that was maybe taken when the store failed.

        Returns:
            Its claim, with which it is given back; the ticket; and whether the conversation is granted already.

        Raises:
            StoreError: the store failed; there is no ticket.
            RuntimeError: no thread can be had for the beats.
        """
        self._prepare()
        with self._lock:
            claim, self._next_claim = self._next_claim, self._next_claim + 1
            self._waiting.add(claim)
            owner = self._owner
        try:
            self._keep_beating()

            def write(sql: Sql) -> tuple[int, bool]:
                sql.execute(self._database.words["alone"], {"number": tickets.number_of(key)})
                owners.join(sql, owner, time.time())
                if again:
                    tickets.drop_of_run(sql, key, run_id)
                ticket = tickets.add(sql, key, owner, claim, run_id)
                return ticket, tickets.first(sql, key) == ticket

            ticket, is_first = self._database.write(write)
        except BaseException:
            self._forget(claim)
            self._has_remains = True  # if it was written all the same, the next beat removes it
            raise
        if is_first:
            self._note_granted(claim)
        return claim, ticket, is_first

    def has_come(self, key: ConversationKey, claim: int, ticket: int) -> bool | None:
        """Return whether a ticket is the first in line; None if it is lost, because this process was taken for dead."""
        first, is_there = self._database.read(lambda sql: (tickets.first(sql, key), tickets.exists(sql, ticket)))
        if not is_there:
            return None
        if first == ticket:
            self._note_granted(claim)
            return True
        return False

    def give_back(self, claim: int) -> None:
        """Give a ticket back. If the store fails, that is done with the next beat."""
        owner = self._owner
        self._forget(claim)
        try:
            self._database.write(lambda sql: tickets.give_back(sql, owner, claim))
        except StoreError as error:
            self._has_remains = True
            emit(WARNING, "ticket_not_returned", {}, "a conversation could not be given back at once: %s", error)

    def fence(self, key: ConversationKey, ticket: int, run_id: str) -> Fence:
        """Return a check for the transaction of an append, which raises if a ticket is lost."""

        def check(sql: Sql) -> None:
            if not tickets.exists(sql, ticket):
                raise RunError(
                    f"run {run_id} has lost conversation {key.conversation!r} in {self._database!r}: its process did not beat for "
                    f"{self._lease:g} s and was taken for dead, or the user was erased; its turn is not stored",
                    run_id=run_id,
                )

        return check

    def drop_of_run(self, key: ConversationKey, run_id: str) -> None:
        """Take a conversation from a process that died, or lost a run: the one that goes on with the run need not wait.

        Raises:
            StoreError: the store failed.
        """
        self._prepare()
        self._database.write(lambda sql: tickets.drop_of_run(sql, key, run_id))

    def drop_of_user(self, user: str, app: str | None) -> None:
        """Take the conversations of a user from all runs."""
        self._prepare()
        self._database.write(lambda sql: tickets.drop_of_user(sql, user, app))

    def _prepare(self) -> None:
        if not self._is_prepared:
            prepare(self._database, owners.OWNERS)
            prepare(self._database, tickets.TICKETS)
            self._is_prepared = True

    def _note_granted(self, claim: int) -> None:
        with self._lock:
            self._waiting.discard(claim)
            self._granted.add(claim)

    def _forget(self, claim: int) -> None:
        with self._lock:
            self._waiting.discard(claim)
            self._granted.discard(claim)

    # --- beats

    def _keep_beating(self) -> None:
        with self._lock:
            if self._alarm is None:
                self._set_alarm()

    def _set_alarm(self) -> None:
        self._alarm = ring_at(time.monotonic() + self._lease / owners.BEATS, self._beat)

    def _beat(self) -> None:
        """Beat once; look at others if something is waited for; stop if there is nothing left.

        If rows that are left cannot be removed for as long as others wait for a beat, they do that.
        """
        is_done = False
        try:
            is_done = self._beat_once()
            self._failed_beats = 0
        except StoreError as error:
            self._failed_beats += 1
            is_done = self._failed_beats >= owners.MISSED
            if self._waiting or self._granted:  # who has nothing has nothing to tell
                emit(WARNING, "beat_failed", {}, "this process could not tell others that it lives: %s", error)
        finally:
            with self._lock:
                if is_done and not self._waiting and not self._granted:
                    self._alarm = None
                else:
                    self._set_alarm()

    def _beat_once(self) -> bool:
        """Beat once; returns True if this process has no tickets any more, after it has removed rows that are left."""
        with self._lock:
            owner, below = self._owner, self._next_claim
            waits, known = bool(self._waiting), self._waiting | self._granted
        if not known:
            self._database.write(lambda sql: tickets.give_back_unknown(sql, owner, known, below))
            return True

        removes, self._has_remains = self._has_remains, False

        def beat(sql: Sql) -> dict[str, int]:
            sql.execute(owners.BEAT, {"owner": owner})
            if removes:
                tickets.give_back_unknown(sql, owner, known, below)
            return owners.others(sql, owner) if waits else {}

        try:
            found = self._database.write(beat)
        except BaseException:
            self._has_remains = self._has_remains or removes
            raise
        dead = self._watch.look(found, time.monotonic()) if waits else []
        if dead:
            self._database.write(lambda sql: _bury(sql, dead))
        return False

    def leave(self) -> None:
        """Give back all that this process has, because it ends."""
        with self._lock:
            if self._alarm is None:
                return
            owner, below = self._owner, self._next_claim
        with suppress(Exception):  # the process ends in any case, and others find that it does not beat
            self._database.write(lambda sql: tickets.give_back_unknown(sql, owner, (), below))


def _bury(sql: Sql, dead: list[tuple[str, int]]) -> None:
    for owner, beats in dead:
        owners.bury(sql, owner, beats)
    tickets.drop_of_nobody(sql)


_of_databases: weakref.WeakValueDictionary[str, Grants] = weakref.WeakValueDictionary()
_all: weakref.WeakSet[Grants] = weakref.WeakSet()
_lock = threading.Lock()
"""Guards the table, so that a process beats once for each database."""


def grants_of(database: Database) -> Grants:
    """Return the grants of this process in a database; one object for all connections to it."""
    with _lock:
        found = _of_databases.get(repr(database))
        if found is None:
            found = _of_databases[repr(database)] = Grants(database, LEASE)
        return found


def _each(do: Callable[[Grants], object]) -> None:
    for each in list(_all):
        do(each)


def _begin_anew_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _each(Grants.begin_anew)


def _leave_all() -> None:
    _each(Grants.leave)


at_fork(Stage.STORES, _begin_anew_in_child)
