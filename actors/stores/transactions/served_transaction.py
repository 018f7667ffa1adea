"""A transaction whose statements come one by one from other threads, such as that of a tool.

A lent thread has the database for as long as the transaction is open, and waits there for the next statement. So a tool that
hangs has no lock in its hands: when the time is over, or the transaction is undone from outside, that thread undoes it.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from understudy.actors.stores.database import Database, InTheWay, OpenSql, Violated
from understudy.actors.threads.promise import Promise
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.errors import StoreError

T = TypeVar("T")

PATIENCE = 5.0  # Seconds for which the guard is waited for.


class Undone(Exception):
    """The transaction was undone; the text says why.

    Args:
        why: in words.
        by_others: whether the database refused it because of other transactions: it may be tried again.
    """

    def __init__(self, why: str, *, by_others: bool = False) -> None:
        super().__init__(why)
        self.by_others = by_others


class Over(RuntimeError):
    """A statement came when the transaction was committed."""

    def __init__(self) -> None:
        super().__init__("a statement came after the end of the call, whose transaction is committed")


class _Request:
    """Something to do in the transaction.

    Args:
        do: what to do.
        is_last: whether the transaction is committed then.
    """

    __slots__ = ("do", "is_last", "reply")

    def __init__(self, do: Callable[[OpenSql], object], *, is_last: bool = False) -> None:
        self.do = do
        self.is_last = is_last
        self.reply: Promise[object] = Promise()


class ServedTransaction:
    """One transaction. Its methods may be called from any thread.

    Args:
        database: where it is.
        guard: held by the transaction from before its beginning until after its end.
        limit: seconds for which it may be open.
    """

    def __init__(self, database: Database, guard: threading.Lock, limit: float) -> None:
        self._database = database
        self._guard = guard
        self._limit = limit
        self._pid = os.getpid()
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        """None wakes the serving thread."""
        self._lock = threading.Lock()
        """Guards the four below."""
        self._why = ""
        """Why it is to be undone."""
        self._waiting: list[_Request] = []
        self._is_over = False
        self._failure: BaseException | None = None
        self._began = False
        self._until = 0.0
        self._ready: Promise[None] = Promise()
        self._done: Promise[None] = Promise()
        self._then: Callable[[], object] | None = None

    # --- for the thread that has the statements

    def begin(self) -> None:
        """Begin the transaction; blocks until the database can be had.

        Raises:
            StoreError: it cannot be had.
            Undone: the transaction was undone before it began.
        """
        starts = threading.get_ident()
        run_elsewhere(lambda: self._serve(starts))
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def do(self, work: Callable[[OpenSql, Callable[[], float]], T]) -> T:
        """Return what `work` returns.

        Args:
            work: gets the transaction, and a function that returns the seconds left.

        Raises:
            Undone: the transaction is undone.
            Over: it is committed.
            BaseException: the error of `work`; the transaction is undone.
        """
        return self._put(_Request(lambda sql: work(sql, self._left)))  # type: ignore[return-value]

    def commit(self, last: Callable[[OpenSql], object], then: Callable[[], object]) -> None:
        """Commit the transaction.

        Args:
            last: called before the commit, in the transaction.
            then: called after the commit, before the guard is free.

        Raises:
            Undone: the transaction is undone, and was never committed.
            StoreError: the database failed.
            BaseException: the error of `last`; the transaction is undone.
        """
        self._then = then
        self._put(_Request(last, is_last=True))

    def undo(self, why: str) -> None:
        """Have the transaction undone, unless it is being committed; does not wait."""
        with self._lock:
            self._why = self._why or why
        self._requests.put(None)

    def wait(self) -> None:
        """Wait until it is over."""
        if self._pid == os.getpid():
            self._done.wait()

    @property
    def why(self) -> str:
        """Why it was undone; empty if it was not."""
        return self._why if self._failure is None else str(self._failure)

    @property
    def is_refused(self) -> bool:
        """Whether the database refused it because of other transactions: it may be tried again."""
        return isinstance(self._failure, Undone) and self._failure.by_others

    def _put(self, request: _Request) -> object:
        if self._pid != os.getpid():
            raise Undone("the process was forked inside of it")
        with self._lock:
            if self._is_over:
                raise Undone(self.why) if self.why else Over()
            self._waiting.append(request)
        self._requests.put(request)
        return request.reply.get()

    # --- on the lent thread

    def _left(self) -> float:
        return 0.0 if self._why else self._until - time.monotonic()

    def _serve(self, starts: int) -> None:
        failure: BaseException | None = None
        try:
            if threading.get_ident() == starts:
                raise StoreError("no thread can be had for a transaction", store=repr(self._database))
            self._serve_guarded()
        except BaseException as error:
            failure = error
        with self._lock:
            self._is_over, self._failure = True, failure
            waiting, self._waiting = self._waiting, []
        self._ready.set(None)
        for request in waiting:
            if failure is None and request.is_last:
                request.reply.set(None)
            else:
                request.reply.fail(Over() if failure is None else failure)
        self._done.set(None)

    def _serve_guarded(self) -> None:
        if not self._guard.acquire(timeout=PATIENCE):
            raise StoreError(
                f"store {self._database!r}: other calls of this run have had their transactions for {PATIENCE:g} s",
                store=repr(self._database),
            )
        try:
            self._write()
            if self._then is not None:
                self._then()
        finally:
            self._guard.release()

    def _write(self) -> None:
        try:
            self._database.write_alone(self._answer_all)
        except InTheWay:
            raise Undone("the database could not order it among other transactions", by_others=True) from None
        except Violated as error:
            raise Undone(str(error)) from None

    def _answer_all(self, sql: OpenSql) -> None:
        """Answer requests until the last one, after which the transaction is committed."""
        if self._began:
            raise Undone("the database gave it up when others had the file", by_others=True)
        self._began = True
        self._until = time.monotonic() + self._limit
        self._ready.set(None)
        while True:
            request = self._next()
            if request is None:
                continue
            if request.is_last:
                _end_given(sql)
                request.do(sql)
                return
            self._answer(sql, request)

    def _next(self) -> _Request | None:
        try:
            request = self._requests.get(timeout=max(0.0, self._until - time.monotonic()))
        except queue.Empty:
            request = None
        with self._lock:
            why = self._why
        if why:
            raise Undone(why)
        if time.monotonic() >= self._until:
            raise Undone(f"it was open for more than {self._limit:g} s")
        return request

    def _answer(self, sql: OpenSql, request: _Request) -> None:
        try:
            value = request.do(sql)
        except BaseException as error:
            self._leave(request)
            late = self._left() <= 0.0
            with self._lock:
                why = self._why or (f"it was open for more than {self._limit:g} s" if late else "")
            by_others = not why and isinstance(error, Exception) and sql.is_in_the_way(error)
            failed = str(error) if isinstance(error, StoreError) else type(error).__name__
            undone = Undone(why or f"a statement failed: {failed}", by_others=by_others)
            request.reply.fail(undone if why else error)
            raise undone from None
        self._leave(request)
        request.reply.set(value)

    def _leave(self, request: _Request) -> None:
        with self._lock:
            self._waiting.remove(request)


def _end_given(sql: OpenSql) -> None:
    """Check deferred constraints before the commit; a failure undoes the transaction, as that of a statement does."""
    try:
        sql.end_given()
    except Exception as error:
        text = " ".join(str(error).split())
        raise Undone(
            f"the check before its commit failed: {type(error).__name__}: {text}", by_others=sql.is_in_the_way(error)
        ) from None
