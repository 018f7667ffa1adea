"""References as a user of Pykka has them: ask, stop, proxies, equality, agents; and actors of bare Pykka beside ours."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pykka
import pytest
from pykka.messages import ProxyCall, ProxyGetAttr

import understudy as us
from tests.support.scripts import WAIT, eventually
from tests.support.threads import no_threads
from understudy.testing import FunctionModel, says


@dataclass(frozen=True)
class Total(us.Query[int]):
    """Asks for the sum."""


class Shelf:
    """A part of an actor that its proxies go into."""

    pykka_traversable = True

    def __init__(self) -> None:
        self.books = 3

    def lend(self) -> int:
        self.books -= 1
        return self.books


class Sum(us.Actor[object]):
    """Adds numbers up; fails at a text; waits for an event."""

    def on_start(self) -> None:
        self.total = 0
        self.shelf = Shelf()
        self.own = self.ref.proxy

    def on_receive(self, message: object) -> object:
        match message:
            case Total():
                return self.total
            case int():
                self.total += message
                return self.total
            case threading.Event():
                return message.wait(WAIT)
            case _:
                raise ValueError("no number")

    def add(self, number: int, times: int = 1) -> int:
        self.total += number * times
        return self.total

    def fail(self) -> None:
        raise LookupError("not found")


class Strict(Sum):
    """Methods and properties that fail by themselves."""

    @property
    def double(self) -> int:
        return self.total * 2

    @property
    def broken(self) -> int:
        return self.nowhere  # type: ignore[attr-defined,no-any-return]  # pyright: ignore

    def calls_wrongly(self) -> int:
        return self.add()  # type: ignore[call-arg]  # pyright: ignore

    def reads_wrongly(self) -> int:
        return self.broken

    def wrapped(self, *numbers: int) -> int:
        return self.add(*numbers)


class Ledger(pykka.ThreadingActor):
    """An actor of bare Pykka: adds numbers up, and asks another actor."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def on_receive(self, message: object) -> object:
        if isinstance(message, int):
            self.total += message
        return self.total

    def ask_other(self, other: pykka.ActorRef[pykka.Actor], message: object) -> object:
        return other.ask(message, timeout=WAIT)


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as system:
        yield system


@pytest.fixture
def ledger() -> Iterator[pykka.ActorRef[Ledger]]:
    ref = Ledger.start()
    yield ref
    ref.stop(timeout=WAIT)


# --- what a reference is


def test_a_reference_has_all_that_pykkas_constructor_sets(
    system: us.ActorSystem, ledger: pykka.ActorRef[Ledger]
) -> None:
    ref = system.spawn(Sum, name="sum")

    assert vars(ledger).keys() == {"_actor_weakref", "actor_class", "actor_urn", "actor_inbox", "actor_stopped"}
    assert isinstance(ref, pykka.ActorRef)
    assert (ref.actor_urn, ref.actor_class, ref.is_alive()) == ("shop/sum", Sum, True)
    assert not ref.actor_stopped.is_set()
    ref.stop(timeout=WAIT)
    assert (ref.actor_stopped.is_set(), ref.is_alive()) == (True, False)


def test_the_class_of_an_actor_that_a_function_makes_is_known_when_it_is_made(system: us.ActorSystem) -> None:
    ref = system.spawn(lambda: Sum(), name="sum")

    assert ref.ask(Total()) == 0
    assert ref.actor_class is Sum


def test_pykkas_envelopes_and_its_stop_come_by_the_inbox(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)
    bare = pykka.ActorRef(ref._cell)  # type: ignore[type-var]  # pyright: ignore  # as code of Pykka's would make it

    bare.tell(1)
    assert bare.ask(Total(), timeout=WAIT) == 1
    assert bare.stop(timeout=WAIT) is True
    assert ref.actor_stopped.is_set()
    assert bare.stop(timeout=WAIT) is False


def test_references_are_equal_by_system_and_address(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, name="sum")
    with us.ActorSystem("shop") as other:
        elsewhere = other.spawn(Sum, name="sum")

        assert ref == system.find("sum") and hash(ref) == hash(system.find("sum"))
        assert ref != elsewhere
        assert ref != "shop/sum"


# --- ask


def test_an_ask_that_does_not_block_returns_the_future_of_the_reply(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)

    ref.tell(7)
    future: us.Future[int] = ref.ask(Total(), block=False)

    assert future.result(WAIT) == 7
    assert ref.ask(1, block=False).result(WAIT) == 8


def test_an_ask_without_a_timeout_waits_for_as_long_as_it_takes(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, mailbox=us.Mailbox(1, when_full="block"))
    gate = threading.Event()
    ref.tell(gate)
    eventually(lambda: system.health().actors[0].depth == 0, "it is at the message")
    ref.tell(1)
    threading.Timer(0.05, gate.set).start()

    assert ref.ask(Total(), timeout=None) == 1


@pytest.mark.parametrize("expected", [us.AgentDown, pykka.ActorDeadError])
def test_an_ask_of_a_stopped_actor_raises_the_error_of_both(system: us.ActorSystem, expected: type[Exception]) -> None:
    ref = system.spawn(Sum, name="sum")
    ref.stop(timeout=WAIT)

    with pytest.raises(expected, match="shop/sum has stopped"):
        ref.ask(Total())
    ref.tell(1)  # a dead letter
    assert [letter.address for letter in system.dead_letters()] == ["shop/sum"] * 2


@pytest.mark.parametrize("expected", [TimeoutError, pykka.Timeout])
def test_an_ask_that_takes_too_long_raises_the_error_of_both(system: us.ActorSystem, expected: type[Exception]) -> None:
    ref = system.spawn(Sum)
    gate = threading.Event()
    ref.tell(gate)

    with pytest.raises(expected):
        ref.ask(Total(), timeout=0.01)
    gate.set()


def test_an_ask_without_a_timeout_ends_at_the_deadline_around_it(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, name="sum")
    gate = threading.Event()
    ref.tell(gate)
    seen: list[Exception] = []

    class Asks(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            try:
                return ref.ask(Total(), timeout=None)
            except (TimeoutError, TypeError) as error:
                seen.append(error)
                return None

    system.spawn(Asks).ask("go", block=False, timeout=0.05)

    eventually(lambda: len(seen) == 1, "the inner ask has ended too")
    gate.set()
    assert isinstance(seen[0], TimeoutError)
    assert "shop/sum did not reply before the deadline" in str(seen[0])


# --- stop


def test_a_stop_waits_until_the_messages_are_handled(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)
    gate = threading.Event()
    answers = [ref.ask(gate, block=False), ref.ask(1, block=False)]
    threading.Timer(0.05, gate.set).start()

    assert ref.stop() is True

    assert [answer.done() for answer in answers] == [True, True]
    assert ref.stop() is False


@pytest.mark.parametrize("expected", [TimeoutError, pykka.Timeout])
def test_a_stop_that_takes_too_long_raises_the_error_of_both(system: us.ActorSystem, expected: type[Exception]) -> None:
    ref = system.spawn(Sum)
    gate = threading.Event()
    ref.tell(gate)

    with pytest.raises(expected, match="has not stopped"):
        ref.stop(timeout=0.01)
    gate.set()

    assert ref.stop(timeout=WAIT) is True


def test_a_stop_that_does_not_block_returns_a_future(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)

    first: us.Future[bool] = ref.stop(block=False)

    assert first.result(WAIT) is True
    assert ref.stop(block=False).result(WAIT) is False


def test_a_stop_by_an_actor_that_it_waits_for_is_refused_and_stops_it_all_the_same(system: us.ActorSystem) -> None:
    class Asks(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            return system.find("stops").ask(message)

    class Stops(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            return system.find("asks").stop()

    asks = system.spawn(Asks, name="asks")
    system.spawn(Stops, name="stops")

    with pytest.raises(us.AgentCrashed) as caught:
        asks.ask("go", timeout=WAIT)
    assert isinstance(caught.value.__cause__, us.AgentCrashed)
    assert isinstance(caught.value.__cause__.__cause__, us.CircularAgentCall)
    assert asks.actor_stopped.wait(WAIT)


def test_a_callback_of_a_message_that_was_given_up_may_stop_the_actor(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, turn_timeout=0.05)
    gate = threading.Event()
    stopped: list[bool] = []

    hung = ref.ask(gate, block=False)
    hung.add_done_callback(lambda _: stopped.append(ref.stop(timeout=WAIT)))

    eventually(lambda: stopped == [True], "the callback has stopped it")
    assert not ref.is_alive()
    gate.set()


def test_a_hook_that_ends_an_actor_for_want_of_a_thread_may_stop_it_again(system: us.ActorSystem) -> None:
    ended: list[bool] = []

    class Ends(us.Actor[str]):
        def on_stop(self) -> None:
            ended.append(self.ref.stop())

    ref = system.spawn(Ends)
    eventually(lambda: ref._cell.state == "running", "it has begun")  # pyright: ignore[reportPrivateUsage]
    with no_threads():
        assert ref.stop(timeout=WAIT) is True

    assert ended == [True]


def test_a_stop_that_nobody_waited_long_enough_for_can_be_waited_for_again(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum, name="sum")
    gate = threading.Event()
    ref.tell(gate)
    ending = ref.stop(block=False)

    assert not ending.cancel()  # it would not keep the actor alive
    with pytest.raises(TimeoutError, match="shop/sum has not stopped"):
        ending.result(0)
    gate.set()
    assert ending.result(WAIT) is True

    assert ref.stop(timeout=WAIT) in (True, False)
    assert not ref.is_alive()


# --- proxies


def test_a_proxy_calls_reads_and_sets_on_the_actors_thread(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)
    proxy: Any = ref.proxy()

    assert isinstance(ref.proxy(), pykka.ActorProxy)
    assert proxy.add(2, times=3).result(WAIT) == 6
    assert proxy.total.result(WAIT) == 6
    proxy.total = 10
    proxy.add.defer(1)
    assert ref.ask(Total()) == 11
    with pytest.raises(AttributeError, match="no attribute 'price'"):
        proxy.price  # noqa: B018


def test_what_a_proxy_does_has_no_time_limit(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)
    proxy: Any = ref.proxy()
    gate = threading.Event()
    ref.tell(gate)

    def set_total() -> None:
        proxy.total = 100

    asked, called, read = ref.ask(Total(), block=False), proxy.add(1), proxy.total
    setting = threading.Thread(target=set_total)
    setting.start()
    eventually(lambda: system.health().actors[0].depth == 4, "all of it waits")
    ref._cell.expire(time.monotonic() + 3600)  # pyright: ignore[reportPrivateUsage]  # as an hour later

    assert isinstance(asked.exception(WAIT), TimeoutError)
    assert (called.done(), read.done()) == (False, False)
    gate.set()
    setting.join(WAIT)
    assert (called.result(WAIT), read.result(WAIT), ref.ask(Total())) == (1, 1, 100)


def test_a_callers_mistake_in_a_proxys_call_is_the_callers_alone(
    system: us.ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    ref = system.spawn(Strict)
    proxy: Any = ref.proxy()
    kept = ref.present_object()

    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        proxy.add().get(timeout=WAIT)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        proxy.add(1, colour="red").get(timeout=WAIT)
    with pytest.raises(TypeError, match="not callable"):
        ref.ask(ProxyCall(("total",), (), {}))
    with pytest.raises(AttributeError, match="no attribute 'price'"):
        ref.ask(ProxyGetAttr(("price",)))
    with pytest.raises(AttributeError, match="no setter"):
        proxy.double = 2
    proxy.add.defer()

    assert ref.ask(Total()) == 0
    assert ref.present_object() is kept
    assert "a deferred call cannot be made: TypeError" in caplog.text


@pytest.mark.parametrize("method", ["calls_wrongly", "reads_wrongly", "wrapped"])
def test_the_same_errors_inside_of_a_method_are_failures_of_the_actor(system: us.ActorSystem, method: str) -> None:
    ref = system.spawn(Strict)
    kept = ref.present_object()

    with pytest.raises(us.AgentCrashed) as caught:
        getattr(ref.proxy(), method)().get(timeout=WAIT)

    assert isinstance(caught.value.__cause__, TypeError | AttributeError)
    assert ref.present_object() is not kept


def test_a_property_that_fails_is_a_failure_of_the_actor(system: us.ActorSystem) -> None:
    ref = system.spawn(Strict)

    with pytest.raises(us.AgentCrashed):
        ref.ask(ProxyGetAttr(("broken",)))


def test_a_proxy_goes_into_what_is_traversable(system: us.ActorSystem) -> None:
    proxy = system.spawn(Sum).proxy()

    assert proxy.shelf.lend().result(WAIT) == 2
    assert proxy.shelf.books.result(WAIT) == 2


def test_a_proxy_survives_a_restart_and_keeps_no_object_alive(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)
    proxy = ref.proxy()
    shelf = proxy.shelf
    assert proxy.add(5).result(WAIT) == 5
    gone = weakref.ref(ref.present_object())

    failed = proxy.fail()
    assert isinstance(failed.exception(WAIT), us.AgentCrashed)  # of a call that fails: a failure like any other
    del failed

    assert proxy.add(1).result(WAIT) == 1
    assert shelf.lend().result(WAIT) == 2
    gc.collect()
    assert gone() is None


def test_a_proxy_may_be_made_before_there_is_an_object(system: us.ActorSystem) -> None:
    gate = threading.Event()

    class Slow(Sum):
        def on_start(self) -> None:
            assert gate.wait(WAIT)
            super().on_start()

    ref = system.spawn(Slow)
    threading.Timer(0.05, gate.set).start()

    assert ref.proxy().total.result(WAIT) == 0


def test_an_actor_may_have_a_proxy_of_itself_from_its_start_on(system: us.ActorSystem) -> None:
    class Self(us.Actor[str]):
        def on_start(self) -> None:
            self._me = self.ref.proxy()
            self.seen: list[str] = []
            self._me.note("start")

        def on_receive(self, message: str) -> object:
            self._me.note(message)
            return None

        def note(self, what: str) -> None:
            self.seen.append(what)

    ref = system.spawn(Self)
    ref.ask("go")

    assert ref.proxy().seen.result(WAIT) == ["start", "go"]


def test_proxies_of_one_actor_are_equal(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)
    proxy = ref.proxy()

    assert proxy == ref.proxy() and hash(proxy) == hash(ref.proxy())
    assert proxy != proxy.shelf
    assert proxy != "proxy"


def test_there_is_no_proxy_of_a_stopped_actor(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)
    ref.stop(timeout=WAIT)

    with pytest.raises(pykka.ActorDeadError):
        ref.proxy()


def test_pykkas_own_proxy_sees_the_present_object(system: us.ActorSystem) -> None:
    ref = system.spawn(Sum)
    assert ref.ask(Total()) == 0

    proxy: pykka.ActorProxy[pykka.Actor] = pykka.ActorProxy(actor_ref=ref)

    assert proxy.add(1).result(WAIT) == 1


# --- agents


def clerk() -> us.Agent[str]:
    """Return an agent that answers with what it was told, in capitals."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        said = request.messages[-1].text
        if said == "fail":
            raise LookupError("no answer")
        return says(said.upper())

    return us.Agent("clerk", model=FunctionModel(answer))


def test_an_agent_is_asked_a_text(system: us.ActorSystem) -> None:
    ref = system.spawn(clerk())

    outcome: us.Outcome[str] = ref.ask("hello")
    handle: us.RunHandle[str] = ref.ask("again", block=False)

    assert (outcome.text, handle.result(WAIT).text, ref.ask_future("more").result(WAIT).text) == (
        "HELLO",
        "AGAIN",
        "MORE",
    )
    assert ref.ask([us.TextPart("parts")], timeout=WAIT).text == "PARTS"
    assert (ref.actor_class, ref.actor_urn) == (us.Agent, "shop/clerk")


def test_an_agent_that_is_told_a_text_runs_and_its_failures_are_logged(
    system: us.ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        told.append(request.messages[-1].text)
        if told[-1] == "fail":
            raise LookupError("no answer")
        return says("fine")

    ref = system.spawn(us.Agent("clerk", model=FunctionModel(answer)))

    ref.tell("work")
    ref.tell("fail")

    eventually(lambda: "a run that nobody waits for failed" in caplog.text, "the failure is logged")
    eventually(lambda: sorted(told) == ["fail", "work"], "both have run")


def test_a_text_told_to_a_stopped_agent_is_a_dead_letter(system: us.ActorSystem) -> None:
    ref = system.spawn(clerk())
    assert ref.stop(timeout=WAIT) is True

    ref.tell("late")

    eventually(lambda: len(system.dead_letters()) == 1, "it is noted")
    (letter,) = system.dead_letters()
    assert (letter.address, letter.message_type, letter.reason) == ("shop/clerk", "str", "stopped")
    with pytest.raises(pykka.ActorDeadError):
        ref.ask("late")


def test_a_text_told_to_an_agent_of_a_stopped_system_is_a_dead_letter() -> None:
    with us.ActorSystem("shop") as system:
        ref = system.spawn(clerk())

    ref.tell("late")

    assert [letter.address for letter in system.dead_letters()] == ["shop/clerk"]


def test_an_agent_has_neither_proxy_nor_inbox(system: us.ActorSystem) -> None:
    ref = system.spawn(clerk())

    with pytest.raises(TypeError, match="'clerk' takes runs and has no proxy"):
        ref.proxy()
    with pytest.raises(TypeError, match="has no proxy"):
        pykka.ActorProxy(actor_ref=ref)
    with pytest.raises(TypeError, match="no inbox"):
        ref.actor_inbox  # noqa: B018


# --- beside actors of bare Pykka


def test_an_actor_of_bare_pykka_and_one_of_ours_tell_and_ask_each_other(
    system: us.ActorSystem, ledger: pykka.ActorRef[Ledger]
) -> None:
    class Books(us.Actor[int]):
        def on_receive(self, message: int) -> object:
            ledger.tell(message)
            return ledger.ask(message, timeout=WAIT)

    books = system.spawn(Books)
    total = system.spawn(Sum, name="sum")
    agent = system.spawn(clerk())

    assert books.ask(2) == 4
    assert ledger.proxy().ask_other(total, 3).get(timeout=WAIT) == 3
    assert ledger.proxy().ask_other(agent, "hello").get(timeout=WAIT).text == "HELLO"
    ledger.proxy().ask_other.defer(total, 4)
    assert ledger.ask("sum", timeout=WAIT) == 4
    assert total.ask(Total()) == 7
