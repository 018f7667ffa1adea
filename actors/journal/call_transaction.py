"""The transaction of a tool call in the store's database, which is committed together with the result of the call.

The thread of the tool commits when the tool returns. At the same moment another thread may give the call up, because its time
or its run is over. One lock decides which is first. After a commit has begun, the other thread waits for it and takes the result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from understudy.actors.stores.transactions.served_transaction import ServedTransaction, Undone
from understudy.actors.threads.forked import Stage, at_fork
from understudy.errors import RunCancelled, StoreError
from understudy.vocabulary.context.scope import Scope, current_scope

from .transaction_block import TransactionBlock
from .transactional_run import GIVEN_UP, RowsOfResult, TransactionalRun, why_no_journal

if TYPE_CHECKING:
    from understudy.actors.tools.tool_call import Executed, ToolCallTask

    from .run_journal import JournalPart


class StoredCallTransaction:
    """The transaction of a call, over all of its attempts. Safe to use from any thread.

    Args:
        record: of the run.
        order: the call.
    """

    def __init__(self, record: TransactionalRun, order: ToolCallTask) -> None:
        self._record = record
        self._order = order
        self._lock = threading.Lock()
        """Guards the seven below."""
        self._attempts = 0
        """How many have begun."""
        self._is_given_up = False
        self._takes_statements = False
        """Whether an attempt is under way that has not been committed."""
        self._commit: threading.Event | None = None
        """Set at the end of the commit that is under way."""
        self._committed: Executed | None = None
        self._served: ServedTransaction | None = None
        """That of the attempt, from its first statement on."""
        self._block: TransactionBlock | None = None
        """That of the attempt, once the tool has asked for it."""
        self._beginning = threading.Lock()
        """Held while an attempt begins its transaction."""

    # --- for the thread that makes the call

    @property
    def has_failed(self) -> bool:
        """Whether the run cannot write its journal any more: an attempt could not be committed, and one may be already."""
        part = self._record.journal
        return part is not None and part.journal.failed

    def renew(self) -> None:
        """Begin an attempt, which has a transaction of its own."""
        with self._lock:
            self._check_kept()
            self._attempts += 1
            self._takes_statements = True
            self._served = self._block = None

    def of_attempt(self) -> Callable[[], TransactionBlock]:
        """Return `ToolContext.transaction` for the context of the attempt under way: an earlier one has no say in it."""
        with self._lock:
            return partial(self._new_block, self._attempts)

    def _new_block(self, attempt: int) -> TransactionBlock:
        """Return what `ToolContext.transaction()` gives.

        Raises:
            RuntimeError: this is the second one of the attempt, the run has no journal, or the call is over.
        """
        name = self._order.tool.name
        with self._lock:
            if attempt != self._attempts:
                raise self._too_late()
            if self._block is not None:
                raise RuntimeError(f"tool {name!r}: a call has one transaction, and this one has had it")
            if self._record.journal is None:
                raise RuntimeError(
                    f"tool {name!r}: ctx.transaction() needs a run with a journal, and {why_no_journal(self._record)}"
                )
            self._check_in_time()
            self._block = TransactionBlock(self)
            return self._block

    def commit(self, executed: Executed) -> None:
        """Commit the statements of the attempt together with its result; do nothing if there were none.

        Raises:
            StoreError: the transaction is undone, or the database failed.
            LeaseLost: another process has the run.
            TypeError: JSON cannot carry a value of the session.
        """
        part = self._record.journal
        with self._lock:
            self._takes_statements = False
            block, served = self._block, self._served
            if block is None or block.is_undone or part is None:
                return
            self._check_kept()
            if served is None:
                return
            over = self._commit = threading.Event()
        is_committed = False
        try:
            self._commit_rows(served, part, executed)
            is_committed = True
        finally:
            with self._lock:
                self._commit = None
                self._committed = executed if is_committed else None
            over.set()

    def _commit_rows(self, served: ServedTransaction, part: JournalPart, executed: Executed) -> None:
        rows = RowsOfResult(self._record, part, executed)
        try:
            served.commit(rows.write, rows.note_written)
        except Undone as undone:
            raise self.error(str(undone)) from None
        except StoreError as error:  # maybe it is committed: the run is left, and the process that goes on reads it
            raise part.journal.fail(error) from error

    def close(self) -> bool:
        """End the attempt: undo its transaction unless it is committed, and wait for that.

        Returns:
            Whether the database refused the transaction because of others: the attempt may be made again.
        """
        with self._lock:
            self._takes_statements = False
            _open.pop(self._order.scope, None)
        self.undo("the tool has not returned a result")
        return self._served is not None and self._served.is_refused

    # --- for the block

    def enter(self, block: TransactionBlock) -> None:
        """Have the code of the tool stand inside of the transaction, from now on until the call is over.

        Raises:
            RuntimeError: the attempt is over.
        """
        with self._lock:
            self._check_in_time(block)
            _open[self._order.scope] = self

    def undo(self, why: str) -> None:
        """Undo the transaction, and wait for that."""
        served = self._served
        if served is not None and self._committed is None:
            served.undo(why)
            served.wait()

    def leave(self) -> None:
        """Have the code of the tool stand outside again: the transaction is undone."""
        _open.pop(self._order.scope, None)

    def begun(self, block: TransactionBlock) -> ServedTransaction:
        """Return the transaction of the attempt, which begins now if it has not.

        Raises:
            RuntimeError: the attempt is over.
            StoreError: the database cannot be had, or the transaction is undone.
        """
        part = self._record.journal
        assert part is not None, "a block is for runs with a journal"
        with self._beginning:
            with self._lock:
                self._check_in_time(block)
                if self._served is not None:
                    return self._served
                self._check_kept()
                served = self._served = part.transaction(self._order.tool.transaction_timeout)
            try:
                served.begin()
            except Undone as undone:
                raise self.error(str(undone)) from None
            return served

    def why_undone(self) -> str:
        """Return why the transaction of the attempt is undone; empty if it is not."""
        return "" if self._served is None else self._served.why

    def error(self, why: str) -> StoreError:
        """Make the error of a transaction that is undone."""
        return StoreError(f"tool {self._order.tool.name!r}: its transaction was undone: {why}")

    def _check_in_time(self, block: TransactionBlock | None = None) -> None:
        """Refuse a thread that goes on after the tool has returned; call it under the lock."""
        if not self._takes_statements or (block is not None and block is not self._block):
            raise self._too_late()

    def _too_late(self) -> RuntimeError:
        return RuntimeError(
            f"tool {self._order.tool.name!r}: ctx.transaction() was used after the end of the call, or of this attempt at "
            "it; expected that threads of the tool end before it returns"
        )

    def _check_kept(self) -> None:
        if self._is_given_up:
            raise RunCancelled(GIVEN_UP)

    # --- for anyone

    def give_up(self) -> bool:
        """Undo the transaction and refuse later commits, unless one has begun; does not wait.

        Returns:
            False if a commit has begun: the call has a result, or has one soon.
        """
        with self._lock:
            if self._commit is not None or self._committed is not None:
                return False
            self._is_given_up = True
            served = self._served
        if served is not None:
            served.undo(GIVEN_UP)
        return True

    def settled(self) -> Executed | None:
        """Give the call up, or wait for its commit; return the result that was committed, or None."""
        while not self.give_up():
            with self._lock:
                commit, committed = self._commit, self._committed
            if committed is not None:
                return committed
            if commit is not None:
                commit.wait()
        return None

    def forked(self) -> None:
        """Undo the transaction: the process is about to be forked by the code inside of it."""
        if self._block is not None:
            self._block.spoil("the process was forked inside of it")

    def refuse_run(self) -> None:
        """Raise `RuntimeError`: a run is about to begin inside of the transaction."""
        raise RuntimeError(
            f"tool {self._order.tool.name!r}: a run cannot begin inside of ctx.transaction(), nor before the tool has returned: it "
            "would wait for the database that the transaction has; run it before the block"
        )


_open: dict[Scope, StoredCallTransaction] = {}
"""Scope of a call -> its transaction, from the beginning of the block until the call is over."""


def refuse_runs() -> None:
    """Raise `RuntimeError` if the present code stands inside of the transaction of a tool."""
    found = _around()
    if found is not None:
        found.refuse_run()


def _around() -> StoredCallTransaction | None:
    """Return the transaction inside of which the present code stands."""
    scope = current_scope() if _open else None
    return None if scope is None else _open.get(scope)


def _before_fork() -> None:
    found = _around()
    if found is not None:
        found.forked()


at_fork(Stage.SYSTEMS, _open.clear, before=_before_fork)
