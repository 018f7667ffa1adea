"""Futures of the runtime as futures of Pykka, and the futures that are derived from them."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from typing import Any, TypeVar, assert_type, cast

import pykka
import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.promises import FakeFuture, broken, kept
from tests.support.scripts import WAIT, eventually
from understudy.actors.threads.pool import on_a_pool_thread
from understudy.actors.waiting.base_future import BaseFuture
from understudy.testing import FunctionModel, ScriptedModel, says

V = TypeVar("V")
R = TypeVar("R")


class Echo(us.Actor[object]):
    """Replies with the message; calls it if it is a function."""

    def on_receive(self, message: object) -> object:
        return message() if callable(message) else message


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as system:
        yield system


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


def pending() -> tuple[FakeFuture[int], us.Future[int]]:
    """Return a future of the runtime that is not done, and the future that completes it."""
    source: FakeFuture[int] = FakeFuture()
    return source, us.first([source])


def done(value: int) -> us.Future[int]:
    return us.first([kept(value)])


def failed() -> us.Future[list[int]]:
    return us.collect([broken(KeyError("no such sku"))])


def noted(calls: list[V], answer: Callable[[V], R]) -> Callable[[V], R]:
    """Return a function that notes its argument and returns what `answer` makes of it."""

    def do(value: V) -> R:
        calls.append(value)
        return answer(value)

    return do


def refused(wait: Callable[[], object]) -> Callable[[], bool]:
    """Return a message that has an actor wait: its reply tells whether the wait was refused."""

    def do() -> bool:
        try:
            wait()
        except us.CircularAgentCall:
            return True
        return False

    return do


# --- as Pykka's own


def test_every_future_of_the_runtime_is_one_of_pykka(system: us.ActorSystem) -> None:
    handle = us.Agent("clerk", model=ScriptedModel([says("five")])).submit("Do we have any?", system=system)
    reply = system.spawn(Echo).ask_future(3, timeout=WAIT)
    merged = us.collect([reply])
    derived = handle.map(lambda outcome: outcome.text)

    assert all(isinstance(future, pykka.Future) for future in (handle, reply, merged, derived))
    assert pykka.get_all([derived, reply, merged], timeout=WAIT) == ["five", 3, [3]]
    assert handle.get(timeout=WAIT).text == "five"


def test_a_wait_that_is_too_long_raises_the_error_of_the_standard_library_and_of_pykka(
    system: us.ActorSystem, gate: Gate
) -> None:
    handle = us.Agent("clerk", model=FunctionModel(gate.then(says("late")))).submit("hi", system=system)
    reply = system.spawn(Echo).ask_future(gate.then(1), timeout=WAIT)

    waiting: tuple[us.Future[object], ...] = (handle, reply, us.collect([reply]), reply.map(str))
    for future in waiting:
        with pytest.raises(TimeoutError) as caught:
            future.result(0.01)
        assert isinstance(caught.value, pykka.Timeout)
        with pytest.raises(pykka.Timeout):
            future.get(timeout=0.01)


def test_what_pykkas_makers_of_futures_do_is_refused() -> None:
    future: pykka.Future[Any] = done(1)

    with pytest.raises(TypeError, match="cannot be set"):
        future.set(2)
    with pytest.raises(TypeError, match="cannot be set"):
        future.set_exception()
    with pytest.raises(TypeError, match="takes no get hook"):
        future.set_get_hook(lambda _: 2)
    with pytest.raises(TypeError, match="not iterable"):
        list(future)
    assert future.get() == 1


def test_a_future_has_all_that_pykkas_constructor_sets() -> None:
    class BareFuture(pykka.Future[int]):
        """A future as Pykka makes it."""

    assert vars(BareFuture()).keys() == {
        "_get_hook",
        "_get_hook_result",
    }  # the second is read only where there is a hook
    assert vars(BaseFuture)["_get_hook"] is None


def test_a_kind_of_ones_own_may_leave_out_what_only_pykka_has() -> None:
    own = kept(7)

    assert own.get() == 7
    with pytest.raises(NotImplementedError):
        own.map(str)


# --- what map and its kin make


def test_map_calls_its_function_once_on_a_lent_thread_when_the_value_comes() -> None:
    source, future = pending()
    calls: list[int] = []
    on_lent: list[bool] = []
    derived = future.map(noted(calls, lambda value: (value * 2, on_a_pool_thread())))
    derived.add_done_callback(lambda _: on_lent.append(on_a_pool_thread()))
    assert (calls, derived.done(), derived.running()) == ([], False, True)

    source.set(21)

    assert [derived.get(timeout=WAIT), derived.result()] == [(42, True)] * 2
    eventually(lambda: bool(on_lent), "the callback was called")
    assert (calls, on_lent) == ([21], [True])


def test_filter_and_reduce_work_on_the_items_of_the_value() -> None:
    items = us.collect([kept(3), kept(1), kept(2)])

    assert_type(items.filter(lambda item: item > 1), us.Future[Iterable[int]])
    assert items.filter(lambda item: item > 1).result(WAIT) == [3, 2]
    assert items.reduce(lambda total, item: total + item).result(WAIT) == 6
    assert items.reduce(lambda words, item: words + str(item), "").result(WAIT) == "312"


def test_a_value_without_items_is_an_error_of_the_new_future() -> None:
    future = cast("us.Future[list[int]]", done(1))

    assert type(future.filter(bool).exception(WAIT)) is TypeError
    assert type(future.reduce(max).exception(WAIT)) is TypeError


def test_join_has_the_values_of_all_in_order() -> None:
    first, one = pending()
    second, two = pending()
    foreign: pykka.Future[int] = pykka.ThreadingFuture()
    joined = one.join(two, foreign)
    assert_type(joined, us.Future[list[Any]])

    foreign.set(3)
    second.set(2)
    assert not joined.done()
    first.set(1)

    assert joined.get(timeout=WAIT) == [1, 2, 3]


def test_join_without_futures_waits_and_returns_nothing(system: us.ActorSystem, gate: Gate) -> None:
    reply = system.spawn(Echo).ask_future(gate.then(1))
    _, never = pending()

    waits: list[object] = [reply.join(0.01), reply.join(timeout=0.01), never.join(0)]
    assert waits == [None, None, None]
    assert not reply.done()
    threading.Timer(0.05, gate.open).start()
    joined: object = reply.join()
    assert joined is None and reply.done()
    assert [failed().join(), done(1).join(None), done(1).join(WAIT)] == [None] * 3


def test_join_waits_for_a_run(system: us.ActorSystem, gate: Gate) -> None:
    handle = us.Agent("clerk", model=FunctionModel(gate.then(says("late")))).submit("hi", system=system)
    threading.Timer(0.05, gate.open).start()

    handle.join()

    assert handle.done()


def test_a_join_that_would_wait_for_itself_is_refused(system: us.ActorSystem) -> None:
    ref = system.spawn(Echo, name="echo")
    own: list[us.Future[object]] = []
    is_known = threading.Event()

    own.append(ref.ask_future(refused(lambda: is_known.wait(WAIT) and own[0].join())))
    is_known.set()

    assert own[0].result(WAIT) is True


def test_join_refuses_futures_with_a_time() -> None:
    with pytest.raises(TypeError, match="with a timeout, or joins futures without one"):
        done(1).join(done(2), timeout=1.0)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def test_the_first_error_ends_a_join_and_cancels_nothing() -> None:
    _, one = pending()

    joined = one.join(failed())

    assert type(joined.exception(WAIT)) is KeyError
    assert not one.done()


def test_join_refuses_what_is_no_future() -> None:
    with pytest.raises(TypeError, match="join takes futures, got 'three' at place 1"):
        done(1).join(cast("pykka.Future[int]", "three"))


def test_an_error_of_the_source_passes_without_a_call() -> None:
    calls: list[list[int]] = []

    derived = failed().map(noted(calls, len))

    assert type(derived.exception(WAIT)) is KeyError
    with pytest.raises(KeyError, match="no such sku"):
        derived.get()
    assert (calls, derived.cancelled()) == ([], False)


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3), KeyboardInterrupt(), pykka.Timeout("late")])
def test_whatever_the_function_raises_is_the_error(error: BaseException) -> None:
    def fail(_: int) -> int:
        raise error

    assert done(1).map(fail).exception(WAIT) is error


def test_a_function_that_returns_nothing_gives_nothing() -> None:
    assert done(1).map(lambda _: None).map(lambda value: value is None).result(WAIT) is True


def test_what_is_no_plain_function_is_refused_at_once() -> None:
    async def later(_: object) -> bool:
        return True

    future = us.collect([kept(1)])
    for wrong in (None, later):
        for derive in (future.map, future.filter, future.reduce):
            with pytest.raises(TypeError, match="the function of"):
                cast("Callable[[object], object]", derive)(wrong)


def test_the_function_sees_the_context_of_the_thread_that_derives() -> None:
    variable = contextvars.ContextVar("variable", default="none")
    source, future = pending()

    variable.set("here")
    derived = future.map(lambda _: variable.get())
    variable.set("later")
    source.set(1)

    assert derived.result(WAIT) == "here"


def test_to_cancel_a_derived_future_cancels_its_source_too() -> None:
    source, future = pending()
    calls: list[int] = []
    derived = future.map(noted(calls, str))

    assert derived.cancel()

    assert derived.cancelled() and future.cancelled() and source.cancelled()
    assert not derived.cancel()
    with pytest.raises(CancelledError):
        derived.result()
    assert calls == []


def test_to_cancel_while_the_function_runs_drops_its_value(gate: Gate) -> None:
    derived = done(1).map(gate.then("late"))
    assert gate.entered.wait(WAIT)

    assert derived.cancel()
    gate.open()

    assert isinstance(derived.exception(), CancelledError)


def test_the_losers_of_a_race_of_derived_futures_are_cancelled(system: us.ActorSystem, gate: Gate) -> None:
    slow = us.Agent("slow", model=FunctionModel(gate.then(says("late")))).submit("hi", system=system)

    race = us.first([slow.map(lambda outcome: outcome.text), done(1).map(str)])

    assert race.result(WAIT) == "1"
    assert slow.cancelled()


def test_two_futures_of_one_source_each_have_their_own_value() -> None:
    source, future = pending()
    derived = [future.map(factor.__mul__) for factor in range(20)]

    source.set(2)

    assert us.collect(derived).result(WAIT) == [2 * factor for factor in range(20)]


def test_many_threads_that_end_the_sources_end_a_join_once() -> None:
    calls: list[list[int]] = []
    for _ in range(20):
        pairs = [pending() for _ in range(8)]
        futures = [future for _, future in pairs]
        joined = futures[0].join(*futures[1:])
        derived = joined.map(noted(calls, len))
        threads = [threading.Thread(target=source.set, args=(1,)) for source, _ in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert derived.result(WAIT) == 8
    assert len(calls) == 20


# --- await


def awaited(future: us.Future[Any]) -> object:
    async def wait() -> object:
        return await future

    return asyncio.run(wait())


def test_await_returns_the_value_and_leaves_the_loop_to_others() -> None:
    source, future = pending()
    order: list[str] = []

    async def wait() -> int:
        value = await future
        order.append("value")
        return value

    async def complete() -> None:
        order.append("others run")
        source.set(5)

    async def both() -> int:
        value, _ = await asyncio.gather(wait(), complete())
        return value

    assert asyncio.run(both()) == 5
    assert order == ["others run", "value"]


def test_await_of_a_future_that_is_done_or_failed_ends_at_once() -> None:
    assert awaited(done(5)) == 5
    with pytest.raises(KeyError, match="no such sku"):
        awaited(failed())


def test_a_run_can_be_awaited(system: us.ActorSystem) -> None:
    async def ask() -> str:
        return (await us.Agent("clerk", model=ScriptedModel([says("five")])).submit("hi", system=system)).text

    assert asyncio.run(ask()) == "five"


def test_an_await_that_is_cancelled_cancels_nothing() -> None:
    source, future = pending()

    async def wait() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await future

    asyncio.run(wait())
    assert not future.done()
    source.set(1)  # its loop is closed
    assert future.result(WAIT) == 1


def test_await_without_an_event_loop_says_what_it_needs() -> None:
    _, future = pending()

    with pytest.raises(RuntimeError, match="event loop of asyncio"):
        future.__await__().send(None)


def test_an_await_that_would_close_a_cycle_is_refused(system: us.ActorSystem) -> None:
    actor = system.spawn(Echo, name="a")

    def wait_for_itself() -> object:
        return awaited(actor.ask_future("hi", timeout=WAIT))

    assert actor.ask_future(refused(wait_for_itself), timeout=WAIT).result(WAIT) is True


# --- cycles through derived futures


def test_a_wait_for_what_is_derived_from_a_wait_for_oneself_is_refused(system: us.ActorSystem) -> None:
    actor = system.spawn(Echo, name="a")

    def wait_for_itself() -> object:
        return actor.ask_future("hi", timeout=WAIT).map(str).result()

    assert actor.ask_future(refused(wait_for_itself), timeout=WAIT).result(WAIT) is True


def test_a_function_that_waits_for_the_code_that_derived_it_is_refused(system: us.ActorSystem) -> None:
    actor = system.spawn(Echo, name="a")

    def derive() -> object:
        return done(1).map(lambda _: actor.ask("hi")).result(WAIT)

    assert actor.ask_future(refused(derive), timeout=WAIT).result(WAIT) is True
