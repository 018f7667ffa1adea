"""The block of `with ctx.transaction()`: the statements that a tool runs inside of the transaction of its call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from understudy.actors.stores.transactions.given_statements import check_parameters, check_statement
from understudy.actors.stores.transactions.served_transaction import ServedTransaction, Undone
from understudy.errors import StoreError
from understudy.vocabulary.context.transactions import SqlParameters, SqlRows

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from understudy.actors.stores.database import OpenSql

T = TypeVar("T")


class BlockOwner(Protocol):
    """The transaction of a call, as far as its block needs it."""

    def enter(self, block: TransactionBlock) -> None:
        """Have the code of the tool stand inside; raises `RuntimeError` if the attempt is over."""
        ...

    def leave(self) -> None:
        """Have the code of the tool stand outside again."""
        ...

    def begun(self, block: TransactionBlock) -> ServedTransaction:
        """Return the transaction, which begins now if it has not; raises `RuntimeError` if the attempt is over."""
        ...

    def undo(self, why: str) -> None:
        """Undo the transaction, and wait for that."""
        ...

    def why_undone(self) -> str:
        """Return why it is undone; empty if it is not."""
        ...

    def error(self, why: str) -> StoreError:
        """Make the error of a transaction that is undone."""
        ...


class TransactionBlock:
    """What `with ctx.transaction() as sql` gives: statements inside of the transaction of the call."""

    def __init__(self, owner: BlockOwner) -> None:
        self._owner = owner
        self._state = "new"
        self._why = ""
        self.is_undone = False
        """Whether an exception left the block: the tool knows that nothing is kept."""

    def __enter__(self) -> Self:
        if self._state != "new":
            raise RuntimeError("a call has one transaction, and this block was entered before")
        self._owner.enter(self)
        self._state = "open"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state = "over"
        if error is None:
            self.check()
        else:
            self.is_undone = True
            self._owner.undo("an exception left its block")
            self._owner.leave()

    def execute(self, statement: str, parameters: SqlParameters = (), /) -> SqlRows:
        """Run one statement; see `SqlTransaction`."""
        given, values = check_statement(statement), check_parameters(parameters)
        return self._do(lambda sql, left: sql.execute_given(given, values, left))

    def executemany(self, statement: str, many: Sequence[SqlParameters], /) -> int:
        """Run one statement with each of several parameters; see `SqlTransaction`."""
        given, each = check_statement(statement), [check_parameters(one) for one in many]
        return self._do(
            lambda sql, left: sum([max(0, sql.execute_given(given, values, left).rowcount) for values in each])
        )

    def _do(self, work: Callable[[OpenSql, Callable[[], float]], T]) -> T:
        if self._state != "open":
            raise RuntimeError("a statement stands outside of the block of ctx.transaction(); expected it inside")
        self.check()
        served = self._owner.begun(self)
        try:
            return served.do(work)
        except Undone as undone:
            raise self._owner.error(str(undone)) from None

    def spoil(self, why: str) -> None:
        """Undo the transaction, and let nothing be done in it any more."""
        self._why = self._why or why
        self._owner.undo(why)

    def check(self) -> None:
        """Raise `StoreError` if the transaction is undone."""
        why = self._why or self._owner.why_undone()
        if why:
            raise self._owner.error(why)

    def __getattr__(self, name: str) -> Any:
        if name in ("commit", "rollback", "close", "cursor", "begin"):
            raise AttributeError(
                f"the transaction of a tool has no {name}(): the runtime commits it when the tool has returned, and undoes it if an "
                "exception leaves the block; statements go by execute and executemany"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
