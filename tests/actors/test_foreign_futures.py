"""Futures of Pykka's own, which have no callback, in `collect` and `first`."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future as StandardFuture
from typing import Any

import pykka
import pytest

import understudy as us
from tests.support.promises import FakeFuture, kept, promises
from tests.support.scripts import WAIT, eventually, results_of
from tests.support.threads import REFUSAL, no_threads
from understudy.actors.waiting.foreign_future import SLICE
from understudy.testing import FunctionModel, calls, says


class Ledger(pykka.ThreadingActor):
    """An actor of a Pykka application."""

    def on_receive(self, message: object) -> object:
        if isinstance(message, BaseException):
            raise message
        return message


@pytest.fixture
def ledger() -> Iterator[pykka.ActorRef[Ledger]]:
    ledger = Ledger.start()
    yield ledger
    ledger.stop()


class Deaf(pykka.Future[Any]):
    """A future that is never done, and counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float | None] = []

    def get(self, *, timeout: float | None = None) -> Any:
        self.asked.append(timeout)
        threading.Event().wait(timeout)
        raise pykka.Timeout(f"{timeout} seconds")


def test_futures_of_pykka_are_collected_with_all_others(ledger: pykka.ActorRef[Ledger]) -> None:
    standard: StandardFuture[int] = StandardFuture()
    late = FakeFuture[int]()
    whole = us.collect([late, ledger.ask(2, block=False)])
    mixed: list[Any] = [standard, ledger.ask(4, block=False), whole]

    both = us.collect(mixed)
    standard.set_result(3)
    late.set(1)

    assert both.result(WAIT) == [3, 4, [1, 2]]


def test_an_error_of_a_foreign_future_is_the_error_of_the_whole(ledger: pykka.ActorRef[Ledger]) -> None:
    late = FakeFuture[int]()

    whole = us.collect([late, ledger.ask(KeyError("gone"), block=False)])

    assert type(whole.exception(WAIT)) is KeyError
    assert late.cancelled()


def test_an_error_is_kept_in_the_place_of_its_future(ledger: pykka.ActorRef[Ledger]) -> None:
    error = SystemExit(3)
    foreign: pykka.Future[int] = pykka.ThreadingFuture()
    foreign.set_exception((SystemExit, error, None))

    assert us.collect([foreign, kept(1)], keep_errors=True).result(WAIT) == [error, 1]


def test_a_foreign_future_that_holds_a_timeout_has_failed(ledger: pykka.ActorRef[Ledger]) -> None:
    foreign = ledger.ask(pykka.Timeout("the ledger waited for too long"), block=False)

    with pytest.raises(pykka.Timeout, match="the ledger waited for too long"):
        us.collect([foreign]).result(WAIT)


def test_the_function_of_a_foreign_derived_future_runs_once() -> None:
    source: pykka.Future[int] = pykka.ThreadingFuture()
    calls: list[int] = []

    def add_one(value: int) -> int:
        calls.append(value)
        return value + 1

    derived = source.map(add_one)

    whole = us.collect([derived])
    source.set(1)

    assert whole.result(WAIT) == [2]
    assert calls == [1]


def test_first_takes_the_value_that_comes_first(ledger: pykka.ActorRef[Ledger]) -> None:
    (late,) = promises(1)

    assert us.first([late, ledger.ask("sum", block=False)]).result(WAIT) == "sum"
    assert late.cancelled()


def test_what_is_done_already_comes_before_a_foreign_future() -> None:
    foreign: pykka.Future[int] = pykka.ThreadingFuture()
    foreign.set(1)

    assert us.first([foreign, kept(2)]).result(WAIT) == 2


def test_the_future_is_let_go_one_slice_after_the_end_at_most() -> None:
    deaf, winner = Deaf(), FakeFuture[int]()
    race = us.first([deaf, winner])
    asked, gone = deaf.asked, weakref.ref(deaf)
    del deaf
    eventually(lambda: bool(asked), "a thread waits for it")

    winner.set(1)
    before = len(asked)

    assert race.result(WAIT) == 1
    eventually(lambda: gc.collect() >= 0 and gone() is None, "nothing refers to it")
    assert len(asked) - before <= 1
    assert set(asked) == {SLICE}


def test_a_whole_that_is_cancelled_lets_it_go() -> None:
    deaf = Deaf()
    whole = us.collect([deaf])
    gone = weakref.ref(deaf)
    del deaf

    assert whole.cancel()

    eventually(lambda: gc.collect() >= 0 and gone() is None, "nothing refers to it")


def test_the_deadline_of_the_whole_says_what_cannot_be_seen() -> None:
    with pytest.raises(TimeoutError, match=r"1 of 2 futures done after 0.05 s; a future of Pykka is not done"):
        us.collect([Deaf(), kept(1)], timeout=0.05).result(WAIT)


def test_nothing_waits_for_a_foreign_future_if_another_argument_is_wrong() -> None:
    deaf = Deaf()
    wrong: list[Any] = [deaf, 3]

    with pytest.raises(TypeError, match="collect takes futures, got 3 at place 1"):
        us.collect(wrong)

    assert deaf.asked == []


def test_without_a_thread_the_whole_fails() -> None:
    deaf = Deaf()

    with no_threads():
        whole = us.collect([deaf])
        with pytest.raises(RuntimeError, match=REFUSAL):
            whole.result(WAIT)

    assert deaf.asked == []


def test_a_wait_in_a_run_ends_at_its_deadline() -> None:
    waited: list[BaseException] = []
    ended = threading.Event()

    @us.tool
    def wait() -> str:
        """Wait for a future whose cycles nobody sees."""
        try:
            us.collect([Deaf()]).result()
        except TimeoutError as error:
            waited.append(error)
            raise
        finally:
            ended.set()
        return "done"

    agent = us.Agent("clerk", model=FunctionModel(lambda _: calls("wait")), tools=[wait])

    with pytest.raises(us.RunTimedOut):
        agent.run("hi", timeout=0.2)

    assert ended.wait(WAIT)
    assert "whether it waits for this one cannot be seen" in str(waited[0])
    assert isinstance(waited[0], pykka.Timeout)


def test_a_wait_that_begins_after_the_end_of_its_run_ends_at_once() -> None:
    over, ended = threading.Event(), threading.Event()

    @us.tool
    def wait() -> str:
        """Wait for a future whose cycles nobody sees, too late."""
        assert over.wait(WAIT)
        try:
            us.collect([Deaf()]).result()
        except TimeoutError:
            ended.set()
        return "done"

    agent = us.Agent("clerk", model=FunctionModel(lambda _: calls("wait")), tools=[wait])
    with pytest.raises(us.RunTimedOut):
        agent.run("hi", timeout=0.1)

    over.set()

    assert ended.wait(WAIT)


def test_a_wait_for_a_foreign_future_in_a_run_may_succeed(ledger: pykka.ActorRef[Ledger]) -> None:
    @us.tool
    def total() -> str:
        """Ask the ledger."""
        return str(us.collect([ledger.ask(5, block=False)]).result())

    turns = iter([calls("total"), says("ok")])
    outcome = us.Agent("clerk", model=FunctionModel(lambda _: next(turns)), tools=[total]).run("hi", timeout=WAIT)

    assert [result.content for result in results_of(outcome)] == ["[5]"]
