"""Actors that would wait for themselves are refused at once, with the path, and the others get their answers."""

from __future__ import annotations

import threading

import pytest

import understudy as us
from tests.support.players import Player
from tests.support.scripts import WAIT, finished, scripted
from understudy.testing import calls, says


def test_an_actor_that_asks_itself_is_refused_at_once(system: us.ActorSystem) -> None:
    ref = system.spawn(Player, name="a")

    with pytest.raises(us.AgentCrashed) as caught:
        ref.ask(lambda: ref.ask(lambda: "never"), timeout=WAIT)

    circle = caught.value.__cause__
    assert isinstance(circle, us.CircularAgentCall)
    assert circle.path == ("shop/a", "shop/a")


def test_two_actors_that_ask_each_other_at_once_do_not_wait_for_ever(system: us.ActorSystem) -> None:
    a, b, both = system.spawn(Player, name="a"), system.spawn(Player, name="b"), threading.Barrier(2)
    refused: list[us.CircularAgentCall] = []

    def ask(other: us.ActorRef[object]) -> object:
        both.wait(WAIT)
        try:
            return other.ask(lambda: "answered", timeout=WAIT)
        except us.CircularAgentCall as error:
            refused.append(error)
            return "refused"

    futures = [a.ask_future(lambda: ask(b)), b.ask_future(lambda: ask(a))]

    assert sorted(str(future.result(WAIT)) for future in futures) == ["answered", "refused"]
    assert len(refused) == 1
    assert set(refused[0].path) == {"shop/a", "shop/b"}


def test_a_ring_of_actors_and_runs_is_refused_with_everyone_on_the_path(system: us.ActorSystem) -> None:
    a = system.spawn(Player, name="a")

    def through_the_actor() -> str:
        return str(a.ask(lambda: "never", timeout=WAIT))

    agent = scripted(calls("through_the_actor"), says("went on"), tools=[through_the_actor])

    outcomes: list[us.Outcome] = []
    a.ask(lambda: outcomes.append(agent.run("go", system=system)), timeout=WAIT)

    assert finished(outcomes[0]).text == "went on"
    result = outcomes[0].messages[2].tool_results[0]
    assert result.is_error and "clerk -> shop/a -> clerk" in result.content


def test_asking_one_after_another_is_no_circle(system: us.ActorSystem) -> None:
    a, b = system.spawn(Player, name="a"), system.spawn(Player, name="b")

    def ask_b_twice() -> object:
        return [b.ask(lambda: "first"), b.ask(lambda: "second")]

    assert a.ask(ask_b_twice) == ["first", "second"]
    assert b.ask(lambda: a.ask(lambda: "ok")) == "ok"


def test_calling_back_without_waiting_is_no_circle(system: us.ActorSystem) -> None:
    a, b, heard = system.spawn(Player, name="a"), system.spawn(Player, name="b"), threading.Event()

    def call_back() -> str:
        a.tell(heard.set)
        return "called back"

    assert a.ask(lambda: b.ask(call_back)) == "called back"
    assert heard.wait(WAIT)


def test_waiting_for_a_future_inside_an_actor_counts_as_asking(system: us.ActorSystem) -> None:
    ref = system.spawn(Player, name="a")

    with pytest.raises(us.AgentCrashed) as caught:
        ref.ask(lambda: ref.ask_future(lambda: "later").result(WAIT), timeout=WAIT)

    assert isinstance(caught.value.__cause__, us.CircularAgentCall)


def test_what_is_told_from_a_run_outlives_the_run(system: us.ActorSystem) -> None:
    a, seen, gate = system.spawn(Player, name="a"), list[object](), threading.Event()

    def look() -> None:
        assert gate.wait(WAIT)
        seen.append(us.current_scope())

    def leave_word() -> str:
        a.tell(look)
        return "left"

    scripted(calls("leave_word"), says("ok"), tools=[leave_word]).run("go", timeout=WAIT)
    gate.set()
    a.ask(lambda: None)

    assert seen == [None]


def test_an_ask_hands_its_deadline_on(system: us.ActorSystem) -> None:
    a = system.spawn(Player, name="a")

    def remaining() -> object:
        scope = us.current_scope()
        return None if scope is None else scope.remaining()

    left = a.ask(remaining, timeout=5.0)

    assert isinstance(left, float) and 0 < left <= 5.0
