"""How long one may wait for a future, by one rule for all of them, and how they show themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import understudy as us
from tests.support.players import Player
from tests.support.scripts import WAIT
from understudy.testing import FunctionModel, says

Waits = Callable[[Any], object]


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as system:
        yield system


@pytest.fixture
def busy(system: us.ActorSystem) -> Iterator[us.ActorRef[object]]:
    """An actor that is at a message until the test is over."""
    gate = threading.Event()
    ref = system.spawn(Player, name="till")
    ref.tell(lambda: gate.wait(WAIT))
    yield ref
    gate.set()


@pytest.fixture
def run(system: us.ActorSystem) -> Iterator[us.RunHandle[str]]:
    """A run that is under way until the test is over."""
    gate = threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        gate.wait(WAIT)
        return says("fine")

    yield us.Agent("clerk", model=FunctionModel(answer)).submit("hi", system=system)
    gate.set()


@pytest.fixture(params=["ask", "stop", "map", "collect", "first", "run"])
def future(request: pytest.FixtureRequest, busy: us.ActorRef[object], run: us.RunHandle[str]) -> us.Future[Any]:
    made: dict[str, Callable[[], us.Future[Any]]] = {
        "ask": lambda: busy.ask("x", block=False),
        "stop": lambda: busy.stop(block=False),
        "map": lambda: busy.ask("x", block=False).map(str),
        "collect": lambda: us.collect([busy.ask("x", block=False)]),
        "first": lambda: us.first([busy.ask("x", block=False)]),
        "run": lambda: run,
    }
    return made[request.param]()


def ways(future: us.Future[Any]) -> list[Waits]:
    return [future.result, future.exception, lambda timeout: future.get(timeout=timeout)]


@pytest.mark.parametrize("wrong", ["1", True, [1]])
def test_the_time_of_a_wait_is_a_number(future: us.Future[Any], wrong: object) -> None:
    for wait in ways(future):
        with pytest.raises(TypeError, match="timeout must be a number of seconds or None"):
            wait(wrong)


@pytest.mark.parametrize("wrong", [-1, -0.1, float("nan")])
def test_the_time_of_a_wait_is_not_negative(future: us.Future[Any], wrong: float) -> None:
    for wait in ways(future):
        with pytest.raises(ValueError, match="timeout must be 0 seconds or more"):
            wait(wrong)


def test_to_wait_for_no_time_is_to_look(future: us.Future[Any]) -> None:
    for wait in ways(future):
        with pytest.raises(TimeoutError):
            wait(0)


@pytest.mark.parametrize(("wrong", "error"), [("1", TypeError), (True, TypeError), (-1, ValueError)])
def test_asks_stops_and_merges_take_the_same_times(
    busy: us.ActorRef[object], wrong: Any, error: type[Exception]
) -> None:
    calls: list[Callable[[], object]] = [
        lambda: busy.ask("x", timeout=wrong),
        lambda: busy.ask("x", block=False, timeout=wrong),
        lambda: busy.stop(timeout=wrong),
        lambda: us.collect([busy.ask("x", block=False)], timeout=wrong),
        lambda: us.first([busy.ask("x", block=False)], timeout=wrong),
    ]
    for call in calls:
        with pytest.raises(error, match="timeout must be"):
            call()
    assert busy.is_alive()


@pytest.mark.parametrize(("wrong", "error"), [("x", TypeError), (None, TypeError), (-1, ValueError)])
def test_a_system_that_is_stopped_wrongly_goes_on(system: us.ActorSystem, wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="stop: timeout must be"):
        system.stop(wrong)

    assert system.spawn(Player).ask("hi", timeout=WAIT) == "hi"


def test_futures_show_whose_they_are_and_how_they_stand(system: us.ActorSystem) -> None:
    ref = system.spawn(Player, name="till")
    gate = threading.Event()
    held = ref.ask(lambda: gate.wait(WAIT), block=False)
    failing = ref.ask(ValueError("no"), block=False)
    dropped = ref.ask("x", block=False)
    derived = held.map(str)

    assert dropped.cancel()
    assert (repr(held), repr(dropped)) == ("<ask of shop/till: pending>", "<ask of shop/till: cancelled>")
    assert repr(derived.map(len)) == "<derived from shop/till: pending>"
    assert repr(held.join(dropped)).startswith("<derived from 2 futures: ")
    gate.set()
    assert isinstance(failing.exception(WAIT), us.AgentCrashed)
    assert derived.result(WAIT) == "True"
    assert (repr(failing), repr(derived)) == ("<ask of shop/till: failed>", "<derived from shop/till: done>")
    end = ref.stop(block=False)
    end.result(WAIT)
    assert repr(end) == "<end of shop/till: done>"
