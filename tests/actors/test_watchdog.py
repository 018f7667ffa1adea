"""The watchdog: no run in flight is ever without it."""

from __future__ import annotations

import sys
import threading
import weakref
from math import inf

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.scripts import WAIT, eventually, scripted
from understudy.actors.runs import watchdog
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.watchdog import Watchdog
from understudy.actors.system.actor_system import runs_of
from understudy.orchestration.definitions.agent import AgentOptions
from understudy.orchestration.definitions.port import RunOptions
from understudy.testing import FunctionModel, says


def ignore(record: RunRecord) -> None:
    """Do nothing about a deadline."""


class JoinedWhileLookedAt(dict[str, RunRecord]):
    """Records that a new one joins while somebody asks whether there are any."""

    def __init__(self, dog: Watchdog, newcomer: RunRecord) -> None:
        super().__init__()
        self._dog = dog
        self._newcomer: RunRecord | None = newcomer

    def __len__(self) -> int:
        found = super().__len__()
        newcomer, self._newcomer = self._newcomer, None
        if newcomer is not None:
            joining = threading.Thread(target=self._dog.watch, args=(newcomer,), daemon=True)
            joining.start()
            joining.join(0.2)  # it may have to wait until the watchdog has decided
        return found


def test_a_run_that_begins_while_the_watchdog_retires_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    noticed = threading.Event()
    dog = Watchdog(lambda record: noticed.set(), ignore)
    record = runs_of(us.ActorSystem("shop")).prepare(scripted(says("ok")), "go", RunOptions(timeout=0.001))
    monkeypatch.setattr(dog, "_records", JoinedWhileLookedAt(dog, record))
    monkeypatch.setattr(dog, "_ticking", True)  # a last tick found nothing to do for a while

    dog._retire()  # pyright: ignore[reportPrivateUsage]  # what its thread does then, without waiting for it

    assert noticed.wait(WAIT)


def test_a_run_that_was_cancelled_before_it_was_launched_is_not_watched() -> None:
    with us.ActorSystem("shop") as system:
        record = runs_of(system).prepare(scripted(says("ok")), "go", RunOptions())
        record.host.endings.cancel(record)

        runs_of(system).launch(record)

        assert system.health().runs == ()


def test_a_callback_that_exits_leaves_other_runs_their_deadlines() -> None:
    gate = Gate()
    with us.ActorSystem("shop") as system:
        agent = us.Agent("clerk", model=FunctionModel(gate.then(says("late"))))
        first = agent.submit("go", timeout=0.05, system=system)
        first.add_done_callback(lambda _: sys.exit(3))

        assert isinstance(first.exception(WAIT), us.RunTimedOut)
        assert isinstance(agent.submit("go", timeout=0.05, system=system).exception(WAIT), us.RunTimedOut)
        gate.open()


def test_a_run_does_not_begin_unwatched_and_the_next_is_watched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    noticed = threading.Event()
    dog = Watchdog(lambda record: noticed.set(), ignore)
    record = runs_of(us.ActorSystem("shop")).prepare(scripted(says("ok")), "go", RunOptions(timeout=0.001))

    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(us.AgentDown, match="can't start new thread"):
            dog.watch(record)

    assert len(dog) == 0
    dog.watch(record)
    assert noticed.wait(WAIT)


def test_a_callback_of_a_run_that_timed_out_keeps_no_other_run_from_its_deadline() -> None:
    gate, in_callback = threading.Event(), threading.Event()

    def hang(request: us.ModelRequest) -> us.ModelTurn:
        gate.wait(3 * WAIT)  # longer than the test looks: a work that comes back sees by itself that it is late
        return us.says("late")

    def slow_callback(_: us.RunHandle) -> None:
        in_callback.set()
        gate.wait(3 * WAIT)

    agent = us.Agent("clerk", model=us.FunctionModel(hang))
    agent.submit("first", timeout=0.05).add_done_callback(slow_callback)
    assert in_callback.wait(WAIT)

    second = agent.submit("second", timeout=0.05)

    assert isinstance(second.exception(WAIT), us.RunTimedOut)
    gate.set()


class Something:
    """What a run works with."""


def test_the_last_run_is_not_kept_while_the_watchdog_waits_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "LINGER", inf)
    looked_at, deps = threading.Event(), Something()
    dog, gone = Watchdog(lambda record: looked_at.set(), ignore), weakref.ref(deps)
    options = RunOptions(timeout=0.001, deps=deps)
    record = runs_of(us.ActorSystem("shop")).prepare(scripted(says("ok")), "go", options)
    dog.watch(record)
    assert looked_at.wait(WAIT)
    dog.unwatch(record)
    del record, options, deps

    eventually(lambda: gone() is None, "nobody holds what the run worked with")


def test_the_watchdog_of_a_stopped_system_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "LINGER", inf)
    before = set(threading.enumerate())
    with us.ActorSystem("shop") as system:
        scripted(says("ok")).run("go", system=system)
        (dog,) = [thread for thread in threading.enumerate() if thread not in before and "watchdog" in thread.name]

    dog.join(WAIT)
    assert not dog.is_alive()


# --- how long a model call may take


class Patient:
    """A model that answers how long it may take, and says itself how long that is."""

    def __init__(self, model_timeout: float | None) -> None:
        self.model_timeout = model_timeout

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        scope = us.current_scope()
        assert scope is not None
        left = scope.remaining()
        return says("no limit" if left is None else f"{round(left / 100) * 100} s")


@pytest.mark.parametrize(
    ("own", "agents", "limit"),
    [
        (600.0, {}, "600 s"),
        (None, {}, "no limit"),
        (600.0, {"model_timeout": 1200}, "1200 s"),
        (600.0, {"model_timeout": None}, "no limit"),
    ],
)
def test_a_model_call_may_take_what_the_agent_says_or_else_the_model(
    own: float | None, agents: AgentOptions, limit: str
) -> None:
    assert us.Agent("clerk", model=Patient(own), **agents).run("go").text == limit


def test_a_model_call_may_take_two_minutes_if_nobody_says_more() -> None:
    left = threading.Event()

    def answer(_: us.ModelRequest) -> us.ModelTurn:
        scope = us.current_scope()
        assert scope is not None
        remaining = scope.remaining()
        assert remaining is not None
        if 100 < remaining <= 120:
            left.set()
        return says("ok")

    us.Agent("clerk", model=FunctionModel(answer)).run("go")

    assert left.is_set()


def test_a_model_that_does_not_come_back_in_its_time_is_given_up() -> None:
    gate = Gate()
    with us.ActorSystem("shop") as system:
        with pytest.raises(us.ProviderTimeout, match="0.05 s"):
            us.Agent("clerk", model=FunctionModel(gate.then(says("late"))), model_timeout=0.05).run("go", system=system)
        gate.open()


@pytest.mark.parametrize(("timeout", "kind"), [(0, ValueError), (float("nan"), ValueError), ("9", TypeError)])
def test_a_model_timeout_that_is_no_time_is_refused(timeout: float, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="model_timeout"):
        us.Agent("clerk", model="rehearsal", model_timeout=timeout)
