"""A transaction whose statements come from other threads: with a database that is a list of what was done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

import pytest

from tests.support.scripts import WAIT, eventually
from understudy.actors.stores.database import InTheWay, OpenSql, Rows, SqlValue, Violated
from understudy.actors.stores.sqlite_database import WORDS
from understudy.actors.stores.transactions.served_transaction import Over, ServedTransaction, Undone
from understudy.errors import StoreError
from understudy.vocabulary.context.transactions import SqlParameters, SqlRows

T = TypeVar("T")
Left = Callable[[], float]


class Diary:
    """A database that notes what is done, and can fail.

    Attributes:
        committed: what is done for good.
        before, at_end, at_commit: raised before the work, after the statements of the tool, and after the work.
        is_repeated: whether the work is called a second time.
    """

    def __init__(self) -> None:
        self.committed: list[str] = []
        self.before: Exception | None = None
        self.at_end: Exception | None = None
        self.at_commit: Exception | None = None
        self.is_repeated = False

    @property
    def words(self) -> Mapping[str, str]:
        return WORDS

    def write_alone(self, work: Callable[[OpenSql], T]) -> T:
        if self.before is not None:
            raise self.before
        page = Page(self.at_end)
        done = work(page)
        if self.is_repeated:
            done = work(Page())
        if self.at_commit is not None:
            raise self.at_commit
        self.committed += page.lines
        return done

    def write(self, work: Callable[[OpenSql], T], *, durable: bool = False) -> T:
        raise AssertionError

    def read(self, work: Callable[[OpenSql], T]) -> T:
        raise AssertionError

    def drop_remains(self) -> None:
        raise AssertionError


class Refused(Exception):
    """The database's own error for a transaction that others were in the way of."""


class Page:
    """What is done in one transaction.

    Args:
        at_end: raised after the statements of the tool.
    """

    def __init__(self, at_end: Exception | None = None) -> None:
        self.lines: list[str] = []
        self.at_end = at_end

    def execute(self, statement: str, values: Mapping[str, SqlValue] = {}, /) -> Rows:
        raise AssertionError

    def execute_given(self, statement: str, parameters: SqlParameters, left: Left, /) -> SqlRows:
        self.lines.append(statement)
        return SqlRows((), (), len(self.lines))

    def end_given(self) -> None:
        if self.at_end is not None:
            raise self.at_end

    def is_in_the_way(self, error: Exception) -> bool:
        return isinstance(error, Refused)


@pytest.fixture
def diary() -> Diary:
    return Diary()


def transaction(diary: Diary, guard: threading.Lock | None = None, limit: float = WAIT) -> ServedTransaction:
    return ServedTransaction(diary, threading.Lock() if guard is None else guard, limit)


def write(line: str) -> Callable[[OpenSql, Left], int]:
    return lambda sql, left: sql.execute_given(line, (), left).rowcount


def nothing() -> None:
    """Do nothing."""


def test_what_was_done_is_committed_with_what_comes_last(diary: Diary) -> None:
    served, told = transaction(diary), list[list[str]]()
    served.begin()

    assert [served.do(write(line)) for line in "ab"] == [1, 2]
    served.commit(lambda sql: sql.execute_given("c", (), lambda: 1.0), lambda: told.append(list(diary.committed)))

    assert told == [["a", "b", "c"]]
    with pytest.raises(Over, match="whose transaction is committed"):
        served.do(write("d"))


def test_the_guard_is_held_from_the_beginning_to_the_end(diary: Diary) -> None:
    guard = threading.Lock()
    served = transaction(diary, guard)
    served.begin()
    assert guard.locked()

    held = list[bool]()
    served.commit(lambda sql: None, lambda: held.append(guard.locked()))
    served.wait()

    assert held == [True]
    assert not guard.locked()


def test_a_transaction_that_is_undone_commits_nothing(diary: Diary) -> None:
    served = transaction(diary)
    served.begin()
    served.do(write("a"))

    served.undo("it rains")
    served.wait()

    for late in (lambda: served.do(write("b")), lambda: served.commit(lambda sql: None, nothing)):
        with pytest.raises(Undone, match="it rains"):
            late()
    assert (diary.committed, served.why, served.is_refused) == ([], "it rains", False)


def test_a_transaction_ends_at_its_time_without_its_thread(diary: Diary) -> None:
    guard = threading.Lock()
    served = transaction(diary, guard, limit=0.02)
    served.begin()

    eventually(lambda: not guard.locked(), "it is over")

    with pytest.raises(Undone, match=r"open for more than 0\.02 s"):
        served.do(write("a"))


def test_an_error_of_a_statement_is_raised_and_undoes_all(diary: Diary) -> None:
    def fails(sql: OpenSql, left: Left) -> None:
        raise LookupError("no such table")

    served = transaction(diary)
    served.begin()
    served.do(write("a"))
    with pytest.raises(LookupError, match="no such table"):
        served.do(fails)

    with pytest.raises(Undone, match="a statement failed: LookupError"):
        served.commit(lambda sql: None, nothing)
    assert diary.committed == []


def test_a_statement_that_others_were_in_the_way_of_may_be_tried_again(diary: Diary) -> None:
    def fails(sql: OpenSql, left: Left) -> None:
        raise Refused

    served = transaction(diary)
    served.begin()
    with pytest.raises(Refused):
        served.do(fails)
    served.wait()

    assert served.is_refused


def test_others_may_be_in_the_way_of_the_check_before_the_commit(diary: Diary) -> None:
    diary.at_end = Refused()
    served = transaction(diary)
    served.begin()

    with pytest.raises(Undone, match="the check before its commit failed"):
        served.commit(lambda sql: None, nothing)
    assert served.is_refused


def test_a_database_that_cannot_be_had_is_told_at_the_beginning(diary: Diary) -> None:
    diary.before = StoreError("the disk is full")
    served = transaction(diary)

    with pytest.raises(StoreError, match="the disk is full"):
        served.begin()
    with pytest.raises(Undone, match="the disk is full"):
        served.do(write("a"))


def test_an_error_of_the_commit_is_raised_where_it_was_asked_for(diary: Diary) -> None:
    diary.at_commit = StoreError("nobody knows")
    served = transaction(diary)
    served.begin()

    with pytest.raises(StoreError, match="nobody knows"):
        served.commit(lambda sql: None, nothing)
    assert not served.is_refused


def test_a_transaction_that_others_were_in_the_way_of_may_be_tried_again(diary: Diary) -> None:
    diary.at_commit = InTheWay("others")
    served = transaction(diary)
    served.begin()

    with pytest.raises(Undone, match="could not order it among other transactions"):
        served.commit(lambda sql: None, nothing)
    assert served.is_refused


@pytest.mark.parametrize(
    ("at_end", "at_commit"), [(LookupError("no such bell"), None), (None, Violated("no such bell"))]
)
def test_a_constraint_that_waits_for_the_commit_undoes_all_and_is_told(
    at_end: Exception | None, at_commit: Exception | None, diary: Diary
) -> None:
    diary.at_end, diary.at_commit = at_end, at_commit
    served = transaction(diary)
    served.begin()
    served.do(write("a"))

    with pytest.raises(Undone, match="no such bell"):
        served.commit(lambda sql: None, nothing)
    assert (diary.committed, served.is_refused) == ([], False)


def test_statements_are_never_repeated(diary: Diary) -> None:
    diary.is_repeated = True
    served = transaction(diary)
    served.begin()
    served.do(write("a"))

    with pytest.raises(Undone):
        served.commit(lambda sql: None, nothing)
    assert diary.committed == []


def test_what_comes_last_may_refuse_the_commit(diary: Diary) -> None:
    def refuses(sql: OpenSql) -> None:
        raise Undone("the run is over")

    served = transaction(diary)
    served.begin()
    with pytest.raises(Undone, match="the run is over"):
        served.commit(refuses, nothing)
    assert diary.committed == []


def test_statements_of_several_threads_come_one_after_another(diary: Diary) -> None:
    served = transaction(diary)
    served.begin()
    threads = [threading.Thread(target=served.do, args=(write(str(number)),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)

    served.commit(lambda sql: None, nothing)

    assert sorted(diary.committed) == [str(number) for number in range(8)]
