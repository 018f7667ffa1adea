"""Groups of actors: who is restarted when one fails, in which order, and when it is too much.

The rules are those of the Erlang/OTP documentation, Supervisor Behaviour.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pykka
import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually
from understudy.actors.actor import actor_cell, lifecycle, members, supervisor
from understudy.actors.threads.alarms import Alarm
from understudy.orchestration.supervision import group_machine
from understudy.orchestration.supervision.restarts import Restart, Strategy


@dataclass
class Stage:
    """What the actors of one test share: a list of what happened, and who is to fail at its next start."""

    happened: list[str] = field(default_factory=list[str])
    failing_starts: dict[str, int] = field(default_factory=dict[str, int])
    starting: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)

    def child(self, name: str, restart: Restart = "transient") -> us.Child:
        return us.Child(lambda: Player(name, self), name, restart=restart)

    def since(self, start: int) -> list[str]:
        return self.happened[start:]


class Player(us.Actor[object]):
    """Notes what happens to it; fails when told to, and counts its messages since it was made."""

    def __init__(self, name: str, stage: Stage) -> None:
        self.name = name
        self.stage = stage
        self.count = 0

    def on_start(self) -> None:
        if self.stage.failing_starts.get(self.name, 0) > 0:
            self.stage.failing_starts[self.name] -= 1
            raise LookupError(f"{self.name} cannot start")
        self.stage.happened.append(f"start {self.name}")

    def on_receive(self, message: object) -> object:
        if isinstance(message, BaseException):
            raise message
        if callable(message):
            return message()
        if message == "end yourself":
            self.ref.stop()
            return None
        self.count += 1
        return self.count

    def before_restart(self, error: BaseException, message: object) -> None:
        self.stage.happened.append(f"halt {self.name}")

    def on_stop(self) -> None:
        self.stage.happened.append(f"stop {self.name}")


def group(system: us.ActorSystem, stage: Stage, strategy: Strategy, names: str = "abc") -> us.SupervisorRef:
    """Spawn a group of players and wait until all have started."""
    ref = system.spawn(us.Supervisor("desk", [stage.child(name) for name in names], strategy=strategy))
    eventually(lambda: len(stage.happened) == len(names), "all have started")
    return ref


def settled(stage: Stage, number: int) -> None:
    eventually(lambda: len(stage.happened) >= number, f"{number} things have happened")


def given_up(system: us.ActorSystem, name: str) -> bool:
    return not system.find(name).is_alive()


def are_down(system: us.ActorSystem, *names: str) -> bool:
    """Whether these actors were told that they are given up; one that waits for its restart is not alive either."""
    states = {each.address.rpartition("/")[2]: each.state for each in system.health().actors}
    return all(states[name] == "down" for name in names)


def blocked(
    system: us.ActorSystem, name: str, then: BaseException | None = None
) -> tuple[us.Future[object], threading.Event]:
    """Have an actor at a message until the event is set, and then fail if `then` is given."""
    entered, gate = threading.Event(), threading.Event()

    def hold() -> str:
        entered.set()
        assert gate.wait(WAIT)
        if then is not None:
            raise then
        return "done"

    future = system.find(name).ask_future(hold)
    assert entered.wait(WAIT)
    return future, gate


@pytest.fixture
def alarms(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Return what would ring after the actors' backoffs, and does so when the test says it."""
    alarms = list[Callable[[], object]]()

    def note(at: float, ring: Callable[[], object]) -> None:
        alarms.append(ring)

    monkeypatch.setattr(actor_cell, "ring_at", note)
    return alarms


@pytest.mark.parametrize(
    ("strategy", "happens", "answers"),
    [
        (us.OneForOne(), ["halt b", "start b"], [2, 1, 2]),
        (us.OneForAll(), ["halt b", "halt c", "halt a", "start a", "start b", "start c"], [1, 1, 1]),
        (us.RestForOne(), ["halt b", "halt c", "start b", "start c"], [2, 1, 1]),
    ],
    ids=["one for one", "one for all", "rest for one"],
)
def test_who_is_restarted_and_in_which_order(
    system: us.ActorSystem, strategy: Strategy, happens: list[str], answers: list[int]
) -> None:
    stage = Stage()
    group(system, stage, strategy)
    assert stage.happened == ["start a", "start b", "start c"]
    assert [system.find(name).ask("x") for name in "abc"] == [1, 1, 1]

    with pytest.raises(us.AgentCrashed):
        system.find("b").ask(ValueError("no"))
    settled(stage, 3 + len(happens))

    # The one that failed lets go at once; the others are halted last first, and all begin in order.
    assert stage.since(3) == happens
    assert [system.find(name).ask("x") for name in "abc"] == answers  # the others have kept their state


def test_what_waits_for_a_sibling_is_kept_in_order_over_its_restart(system: us.ActorSystem) -> None:
    group(system, Stage(), us.OneForAll())
    _, gate = blocked(system, "c")
    waiting = [system.find("c").ask_future("x") for _ in range(5)]
    with pytest.raises(us.AgentCrashed):
        system.find("a").ask(ValueError("no"))
    gate.set()

    assert [future.result(WAIT) for future in waiting] == [1, 2, 3, 4, 5]  # by the new object


def test_the_budget_belongs_to_the_group_and_beyond_it_all_are_given_up(system: us.ActorSystem) -> None:
    stage = Stage()
    ref = group(system, stage, us.OneForOne(max_restarts=2, within=60))

    for name in "abc":
        with pytest.raises(us.AgentCrashed):
            system.find(name).ask(ValueError(f"{name} failed"))

    eventually(lambda: not ref.is_alive(), "the group was given up")
    for name in "abc":
        eventually(partial(given_up, system, name), f"{name} was given up")
        because = "failed too often" if name == "c" else "is given up for now with its group, because of shop/desk/c"
        with pytest.raises(us.AgentDown, match=f"{because}.*c failed"):
            system.find(name).ask("x")


def test_a_group_that_fails_too_often_is_restarted_by_the_group_above(system: us.ActorSystem) -> None:
    stage = Stage()
    inner = us.Supervisor("inner", [stage.child("b"), stage.child("c")], strategy=us.OneForOne(max_restarts=0))
    system.spawn(us.Supervisor("outer", [stage.child("a"), inner, stage.child("d")], strategy=us.RestForOne()))
    settled(stage, 4)
    assert stage.happened == ["start a", "start b", "start c", "start d"]

    with pytest.raises(us.AgentCrashed):
        system.find("b").ask(ValueError("no"))
    settled(stage, 4 + 6)

    # b and c are stopped with their group; then d, which came after it, is halted, and all three begin in order.
    assert sorted(stage.since(4)[:3]) == ["halt d", "stop b", "stop c"]
    assert stage.since(7) == ["start b", "start c", "start d"]
    assert system.find("a").ask("x") == 1
    assert system.find("b").ask("x") == 1


def test_failures_climb_until_someone_bears_them_or_nobody_does(system: us.ActorSystem) -> None:
    stage = Stage()
    inner = us.Supervisor("inner", [stage.child("b")], strategy=us.OneForOne(max_restarts=0))
    ref = system.spawn(
        us.Supervisor("outer", [stage.child("a"), inner], strategy=us.OneForOne(max_restarts=1, within=60))
    )
    settled(stage, 2)

    for _ in range(2):
        with pytest.raises(us.AgentCrashed):
            system.find("b").ask(ValueError("no"), timeout=WAIT)
        eventually(lambda: system.find("b").is_alive() or not ref.is_alive(), "b is back, or all are given up")

    eventually(lambda: not system.find("a").is_alive(), "a was given up with its group")
    assert not ref.is_alive()
    assert not system.health().ok


@pytest.mark.parametrize(("failures", "comes_back"), [(2, True), (3, False)])
def test_failing_to_start_in_a_group_burns_the_groups_budget(
    system: us.ActorSystem, failures: int, comes_back: bool
) -> None:
    stage = Stage()
    ref = group(system, stage, us.OneForAll(max_restarts=3, within=60))
    stage.failing_starts["b"] = failures

    with pytest.raises(us.AgentCrashed):
        system.find("c").ask(ValueError("no"))

    if comes_back:
        assert [system.find(name).ask("x") for name in "abc"] == [1, 1, 1]
    else:
        eventually(lambda: not ref.is_alive(), "the group was given up")
        with pytest.raises(us.AgentDown, match="b cannot start"):
            system.find("b").ask("x")


def test_a_group_that_cannot_start_at_all_is_given_up_and_those_above_it_too(system: us.ActorSystem) -> None:
    stage = Stage()
    stage.failing_starts["b"] = 1000
    inner = us.Supervisor("inner", [stage.child("b")], strategy=us.OneForOne(max_restarts=2, within=60))
    ref = system.spawn(
        us.Supervisor("outer", [inner, stage.child("c")], strategy=us.OneForAll(max_restarts=2, within=60))
    )

    eventually(lambda: not ref.is_alive(), "all are given up")

    assert stage.failing_starts["b"] == 1000 - 9  # three starts of each of three lives of the inner group
    assert "start c" not in stage.happened


@pytest.mark.parametrize(
    ("restart", "on_failure", "on_its_own_end"),
    [("permanent", True, True), ("transient", True, False), ("temporary", False, False)],
)
def test_the_restart_type_says_what_follows_a_failure_and_an_end(
    system: us.ActorSystem, restart: Restart, on_failure: bool, on_its_own_end: bool
) -> None:
    stage = Stage()
    children = [stage.child("fails", restart), stage.child("ends", restart)]
    system.spawn(us.Supervisor("desk", children, strategy=us.OneForOne()))
    settled(stage, 2)
    fails, ends = system.find("fails"), system.find("ends")

    with pytest.raises(us.AgentCrashed):
        fails.ask(ValueError("no"))
    ends.ask("end yourself")

    for ref, back in ((fails, on_failure), (ends, on_its_own_end)):
        if back:
            assert ref.ask("x") == 1
        else:
            ref.stop(timeout=WAIT)
            with pytest.raises(us.AgentDown):
                ref.ask("x")


def test_a_permanent_actor_that_is_stopped_from_outside_stays_stopped(system: us.ActorSystem) -> None:
    stage = Stage()
    system.spawn(us.Supervisor("desk", [stage.child("a", "permanent")]))
    ref = system.find("a")

    assert ref.stop(timeout=WAIT)
    with pytest.raises(us.AgentDown):
        ref.ask("x")


def verdict(directive: us.Directive) -> Callable[[BaseException], us.Directive]:
    return lambda error: directive


@pytest.mark.parametrize(
    ("directive", "happens", "answer"),
    [
        ("resume", [], 2),
        ("restart", ["halt a", "start a"], 1),
        ("stop", ["stop a"], None),
        ("escalate", ["stop a"], None),
    ],
)
def test_a_decider_says_what_an_error_deserves(
    system: us.ActorSystem, directive: us.Directive, happens: list[str], answer: int | None
) -> None:
    stage = Stage()
    group(system, stage, us.OneForOne(decider=verdict(directive)), "a")
    ref = system.find("a")
    assert ref.ask("x") == 1

    with pytest.raises(us.AgentCrashed):
        ref.ask(ValueError("no"))

    if answer is None:
        with pytest.raises(us.AgentDown):
            ref.ask("x")
    else:
        assert ref.ask("x") == answer
    assert stage.since(1) == happens


class Unspeakable(str):
    """Text that can be neither compared nor shown."""

    __hash__ = None  # type: ignore[assignment]  # as of a class that says how its objects compare

    def __eq__(self, other: object) -> bool:
        raise SystemExit("not to be compared")

    def __repr__(self) -> str:
        raise SystemExit("not to be shown")


def raises(error: BaseException) -> Callable[[BaseException], us.Directive]:
    def decide(_: BaseException) -> us.Directive:
        raise error

    return decide


def returns(value: object) -> Callable[[BaseException], us.Directive]:
    return lambda _: cast("us.Directive", value)


@pytest.mark.parametrize(
    "decide",
    [
        *[raises(error) for error in (RuntimeError("cannot decide"), SystemExit(3), KeyboardInterrupt())],
        *[returns(value) for value in (None, "explode", "", 7, list[str](), True, Unspeakable("restart"))],
    ],
)
@pytest.mark.parametrize("strategy", [us.OneForOne, us.OneForAll])
def test_a_decider_that_returns_no_directive_escalates_and_says_so(
    system: us.ActorSystem,
    strategy: type[Strategy],
    decide: Callable[[BaseException], us.Directive],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An actor fails at a message and again at its start, with others waiting; all are answered, and it can be stopped."""
    ref = group(system, Stage(), strategy(decider=decide), "ab")
    a, b = system.find("a"), system.find("b")
    failing, gate = blocked(system, "a", ValueError("no"))
    waiting = [a.ask_future("x") for _ in range(2)]
    gate.set()

    assert isinstance(failing.exception(WAIT), us.AgentCrashed)
    assert [isinstance(each.exception(WAIT), us.AgentDown) for each in waiting] == [True] * 2
    eventually(lambda: not ref.is_alive() and given_up(system, "b"), "the group is given up")
    assert "the failure escalates: its decider" in caplog.text
    a.stop(timeout=WAIT)
    b.stop(timeout=WAIT)


def test_an_actor_whose_start_cannot_be_decided_about_is_given_up(
    system: us.ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(failing_starts={"b": 9})

    def decide(error: BaseException) -> us.Directive:
        raise SystemExit("cannot decide")

    inner = us.Supervisor("inner", [stage.child("b")], strategy=us.OneForOne(decider=decide))
    ref = system.spawn(
        us.Supervisor("desk", [stage.child("a"), inner, stage.child("c")], strategy=us.OneForOne(decider=decide))
    )

    eventually(lambda: all(given_up(system, name) for name in "abc"), "all are given up")
    for name in "abc":
        with pytest.raises(us.AgentDown):
            system.find(name).ask("x", timeout=WAIT)
        system.find(name).stop(timeout=WAIT)
    assert not ref.is_alive()
    assert caplog.text.count("the failure escalates: its decider failed") == 2


def test_an_actor_whose_error_deserves_its_end_answers_what_waits(system: us.ActorSystem) -> None:
    group(system, Stage(), us.OneForOne(decider=verdict("stop")), "a")
    failing, gate = blocked(system, "a", ValueError("no"))
    waiting = [system.find("a").ask_future("x") for _ in range(2)]
    gate.set()

    assert isinstance(failing.exception(WAIT), us.AgentCrashed)
    assert [isinstance(future.exception(WAIT), us.AgentDown) for future in waiting] == [True] * 2


def test_a_backoff_is_waited_while_messages_wait_and_is_doubled(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarms: list[tuple[float, Callable[[], object]]] = []

    def note(moment: float, ring: Callable[[], object]) -> None:
        alarms.append((moment - time.monotonic(), ring))

    monkeypatch.setattr(actor_cell, "ring_at", note)
    stage = Stage()
    group(system, stage, us.OneForOne(backoff=(1000.0, 3000.0), max_restarts=5, within=60), "a")
    ref, delays = system.find("a"), list[float]()

    for _ in range(3):
        with pytest.raises(us.AgentCrashed):
            ref.ask(ValueError("no"))
        future = ref.ask_future("x", timeout=1e9)
        eventually(lambda: len(alarms) == 1, "an alarm was set")
        assert not future.done()
        delay, ring = alarms.pop()
        delays.append(delay)
        ring()
        assert future.result(WAIT) == 1

    # Doubled up to the most, less a fifth at most by chance; the test itself takes seconds, not hundreds of them.
    assert 700 <= delays[0] <= 1000 and 1500 <= delays[1] <= 2000 and 2300 <= delays[2] <= 3000


def test_a_stop_wins_over_a_backoff(system: us.ActorSystem) -> None:
    stage = Stage()
    group(system, stage, us.OneForOne(backoff=(1000.0, 1000.0)), "a")
    ref = system.find("a")
    with pytest.raises(us.AgentCrashed):
        ref.ask(ValueError("no"))
    waiting = ref.ask_future("x")

    assert ref.stop(timeout=WAIT)
    assert isinstance(waiting.exception(WAIT), us.AgentDown)


def test_a_sibling_that_fails_while_the_group_is_restarted_is_restarted_with_it(system: us.ActorSystem) -> None:
    ref = group(system, Stage(), us.OneForAll(max_restarts=1, within=60))
    _, gate = blocked(system, "c", LookupError("too"))
    with pytest.raises(us.AgentCrashed):
        system.find("a").ask(ValueError("no"))
    gate.set()

    assert [system.find(name).ask("x", timeout=WAIT) for name in "abc"] == [1, 1, 1]
    assert ref.is_alive()  # two failures, one restart


class Slow(Player):
    """Starts in the second life of its group when the test says so."""

    def on_start(self) -> None:
        if self.stage.happened.count("start a") == 2:
            self.stage.starting.set()
            assert self.stage.gate.wait(WAIT)
        super().on_start()


def fail_twice(system: us.ActorSystem, stage: Stage, names: str, most: int) -> us.SupervisorRef:
    """Fail `a`, and again while the group is restarted for that, which `b` holds up."""
    children = [us.Child(lambda: Slow("b", stage), "b") if name == "b" else stage.child(name) for name in names]
    ref = system.spawn(us.Supervisor("desk", children, strategy=us.OneForAll(max_restarts=most, within=60)))
    settled(stage, len(names))
    for when in ("first", "again, while b is starting"):
        with pytest.raises(us.AgentCrashed):
            system.find("a").ask(ValueError(when))
        assert stage.starting.wait(WAIT)
    return ref


def test_a_member_that_fails_again_before_the_last_one_has_begun_is_restarted_again(system: us.ActorSystem) -> None:
    stage = Stage()
    fail_twice(system, stage, "ab", 9)
    stage.gate.set()

    assert [system.find(name).ask("x", timeout=WAIT) for name in "ab"] == [1, 1]
    assert stage.happened.count("start a") == 3


def test_failures_during_many_restarts_never_leave_the_group_half_started(system: us.ActorSystem) -> None:
    stage = Stage()
    group(system, stage, us.OneForAll(max_restarts=10_000, within=60))
    refs = [system.find(name) for name in "abc"]
    go = threading.Barrier(3)

    def crash_often(ref: us.ActorRef[object]) -> None:
        go.wait(WAIT)
        for _ in range(30):
            ref.tell(ValueError("no"))
            ref.tell("x")

    threads = [threading.Thread(target=crash_often, args=(ref,)) for ref in refs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)

    for ref in refs:
        ref.ask("x", timeout=WAIT)
    assert all(ref.is_alive() for ref in refs)


def test_a_group_is_stopped_last_first_each_after_the_one_before(system: us.ActorSystem) -> None:
    stage = Stage()
    ref = group(system, stage, us.OneForOne())

    assert ref.stop(timeout=WAIT)
    assert stage.since(3) == ["stop c", "stop b", "stop a"]


def test_a_group_that_was_given_up_is_tried_again_after_a_while(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "LONGEST_BACKOFF", 0.0)
    stage = Stage()
    ref = group(system, stage, us.OneForAll(max_restarts=0))
    with pytest.raises(us.AgentCrashed):
        system.find("b").ask(ValueError("no"))
    eventually(lambda: all(not system.find(n).is_alive() for n in "abc"), "all are given up")

    with pytest.raises(us.AgentDown):
        system.find("b").ask("x")

    eventually(lambda: all(system.find(n).is_alive() for n in "abc"), "all have started again")
    assert ref.is_alive()
    assert [system.find(name).ask("x") for name in "abc"] == [1, 1, 1]


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Return what would ring when a group that was given up is due, and does so when the test says it."""
    attempts = list[Callable[[], object]]()

    def note(at: float, ring: Callable[[], object]) -> None:
        attempts.append(ring)

    monkeypatch.setattr(supervisor, "ring_at", note)
    return attempts


def test_a_group_that_was_given_up_comes_back_without_a_message(
    system: us.ActorSystem, attempts: list[Callable[[], object]]
) -> None:
    stage = Stage()
    ref = group(system, stage, us.OneForAll(max_restarts=0))
    stage.failing_starts["a"] = 1
    system.find("b").tell(ValueError("no"))
    eventually(lambda: len(attempts) == 1, "one attempt is due, not one for each member")

    attempts.pop()()
    eventually(lambda: len(attempts) == 1, "it has failed again, and the next attempt is due")
    assert not ref.is_alive()
    attempts.pop()()

    eventually(ref.is_alive, "the group works")
    assert [system.find(name).ask("x", timeout=WAIT) for name in "abc"] == [1, 1, 1]


def test_the_attempt_of_a_group_that_works_again_or_has_stopped_changes_nothing(
    system: us.ActorSystem, attempts: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "LONGEST_BACKOFF", 0.0)
    stage = Stage()
    ref = group(system, stage, us.OneForAll(max_restarts=0))
    system.find("b").tell(ValueError("no"))
    eventually(lambda: len(attempts) == 1, "an attempt is due")
    system.find("b").tell("x")
    eventually(ref.is_alive, "a message was the attempt")

    attempts.pop()()
    assert system.find("b").ask("x", timeout=WAIT) == 1
    assert stage.happened.count("start b") == 2

    system.find("b").tell(ValueError("no"))
    eventually(lambda: len(attempts) == 1, "an attempt is due again")
    ref.stop(timeout=WAIT)
    attempts.pop()()
    assert not ref.is_alive()
    assert stage.happened.count("start b") == 2


def test_a_group_inside_of_another_comes_back_with_it_only(
    system: us.ActorSystem, attempts: list[Callable[[], object]]
) -> None:
    stage = Stage()
    inner = us.Supervisor("inner", [stage.child("a")], strategy=us.OneForOne(max_restarts=0))
    ref = system.spawn(us.Supervisor("outer", [stage.child("x"), inner], strategy=us.OneForOne(max_restarts=0)))
    settled(stage, 2)
    system.find("a").tell(ValueError("no"))
    eventually(lambda: not ref.is_alive() and len(attempts) == 1, "the outer group is given up, and one attempt is due")

    attempts.pop()()

    eventually(lambda: all(system.find(name).is_alive() for name in "xa"), "both have started again")


def test_a_lone_actor_comes_back_without_a_message(
    system: us.ActorSystem, attempts: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "LONGEST_BACKOFF", 0.0)
    stage = Stage()
    ref = system.spawn(lambda: Player("a", stage), name="a", strategy=us.OneForOne(max_restarts=0))
    ref.tell(ValueError("no"))
    eventually(lambda: len(attempts) == 1, "an attempt is due")
    stage.failing_starts["a"] = 1
    with pytest.raises(us.AgentDown):
        ref.ask("x", timeout=WAIT)
    eventually(lambda: len(attempts) == 2, "the attempt of the message failed, and another one is due")
    for ring in attempts:
        ring()

    eventually(ref.is_alive, "it has started again")


def test_a_lone_agent_that_was_given_up_waits_for_a_run(
    system: us.ActorSystem, attempts: list[Callable[[], object]]
) -> None:
    def sick(context: us.RunContext) -> str:
        raise LookupError("no")

    clerk = us.Agent("clerk", model="rehearsal", system_prompt=sick)
    ref = system.spawn(clerk, strategy=us.OneForOne(max_restarts=0))
    with pytest.raises(us.AgentDown):
        ref.run("hi")

    eventually(lambda: are_down(system, "clerk"), "the agent is given up")
    assert attempts == []


def test_names_of_children_are_unique_in_the_system(system: us.ActorSystem) -> None:
    stage = Stage()
    system.spawn(us.Supervisor("one", [stage.child("a")]))

    with pytest.raises(ValueError, match="supervisor 'two': system 'shop' would have two actors 'a'"):
        system.spawn(us.Supervisor("two", [stage.child("b"), stage.child("a")]))

    with pytest.raises(KeyError):
        system.find("b")


def test_a_supervisor_is_refused_while_another_one_has_its_name(system: us.ActorSystem) -> None:
    stage = Stage()
    first = system.spawn(us.Supervisor("desk", [stage.child("a")]))

    with pytest.raises(ValueError, match="system 'shop' has a supervisor 'desk' already"):
        system.spawn(us.Supervisor("desk", [stage.child("b")]))
    assert "b" not in system.tree()

    first.stop()
    system.spawn(us.Supervisor("desk", [stage.child("b")]))
    assert system.find("b").ask("x") == 1


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: us.Supervisor("", [us.Actor]), ValueError, "id"),
        (lambda: us.Supervisor("a/b", [us.Actor]), ValueError, "id"),
        (lambda: us.Supervisor("desk", []), ValueError, "no children"),
        (lambda: us.Supervisor("desk", [cast("us.Child", 7)]), TypeError, "children must hold actors' classes"),
        (lambda: us.Child(us.Actor, restart=cast("Restart", "always")), ValueError, "restart must be"),
        (lambda: us.OneForOne(backoff=(0.0, 1.0)), ValueError, "backoff"),
        (lambda: us.OneForOne(backoff=(2.0, 1.0)), ValueError, "backoff"),
    ],
)
def test_bad_definitions_are_refused_at_once(make: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


# --- the end of a group


def test_a_group_that_is_stopped_is_waited_for_and_not_alive(system: us.ActorSystem) -> None:
    stage = Stage()
    inner = us.Supervisor("inner", [stage.child("b")])
    ref = system.spawn(us.Supervisor("desk", [stage.child("a"), inner, stage.child("c")]))
    answer, gate = blocked(system, "b")
    threading.Timer(0.05, gate.set).start()

    assert ref.is_alive()
    assert ref.stop() is True

    assert answer.done()
    assert not ref.is_alive()
    assert stage.happened[-3:] == ["stop c", "stop b", "stop a"]
    assert ref.stop() is False


def test_a_group_that_does_not_stop_in_time_raises_and_goes_on_to_stop(system: us.ActorSystem) -> None:
    ref = group(system, Stage(), us.OneForOne())
    _, gate = blocked(system, "b")

    with pytest.raises(pykka.Timeout, match="shop/desk has not stopped"):
        ref.stop(timeout=0.01)
    end = ref.stop(block=False)
    assert (end.done(), end.cancel(), ref.is_alive()) == (False, False, True)
    gate.set()

    assert end.result(WAIT) is True
    assert not ref.is_alive()


def test_a_group_that_one_of_its_actors_stops_is_not_waited_for(system: us.ActorSystem) -> None:
    ref = group(system, Stage(), us.OneForOne())

    assert system.find("b").ask(ref.stop, timeout=WAIT) is True
    assert ref.stop(block=False).result(WAIT) in (True, False)


def test_the_wait_for_a_group_of_which_one_waits_for_who_waits_is_refused(system: us.ActorSystem) -> None:
    ref = group(system, Stage(), us.OneForOne())
    outside = system.spawn(lambda: Player("outside", Stage()), name="outside")

    asked = system.find("c").ask(lambda: outside.ask(ref.stop), block=False)

    error = asked.exception(WAIT)
    while error is not None and not isinstance(error, us.CircularAgentCall):
        error = error.__cause__
    assert isinstance(error, us.CircularAgentCall)
    eventually(lambda: not ref.is_alive(), "it stops all the same")


@pytest.mark.parametrize("wrong", ["x", us.OneForOne, 3])
def test_a_lone_actors_strategy_is_a_strategy(system: us.ActorSystem, wrong: Any) -> None:
    with pytest.raises(TypeError, match="strategy must be OneForOne"):
        system.spawn(us.Actor, strategy=wrong)


def test_an_actors_name_is_not_empty(system: us.ActorSystem) -> None:
    with pytest.raises(ValueError, match="name must not be empty"):
        system.spawn(us.Actor, name="")


MANY = 2_000  # More than the interpreter's stack is deep.


def test_a_large_group_that_has_stopped_can_be_stopped_again(system: us.ActorSystem) -> None:
    stage = Stage()
    ref = system.spawn(us.Supervisor("desk", [stage.child(f"p{number}") for number in range(MANY)]))

    assert ref.stop(timeout=WAIT) is True
    assert ref.stop(timeout=WAIT) is False


def test_a_large_group_of_which_most_have_stopped_is_restarted_as_one(system: us.ActorSystem) -> None:
    stage = Stage()
    names = [f"p{number}" for number in range(MANY)]
    system.spawn(us.Supervisor("desk", [stage.child(name) for name in names], strategy=us.OneForAll()))
    first, last = system.find(names[0]), system.find(names[-1])
    assert last.ask("x", timeout=WAIT) == 1
    assert all(system.find(name).stop(timeout=WAIT) for name in names[1:-1])

    with pytest.raises(us.AgentCrashed):
        last.ask(ValueError("no"))

    assert (first.ask("x"), last.ask("x")) == (1, 1)


def test_a_group_that_is_given_up_while_it_is_restarted_is_given_up_as_a_whole(system: us.ActorSystem) -> None:
    stage = Stage()
    ref = fail_twice(system, stage, "abcd", 1)
    eventually(lambda: not ref.is_alive(), "the group is given up")
    waiting = [system.find(name).ask_future("x", timeout=WAIT) for name in "cd"]
    stage.gate.set()

    for each in waiting:
        with pytest.raises(us.AgentDown, match="given up"):
            each.result(WAIT)
    assert [stage.happened.count(f"start {name}") for name in "cd"] == [1, 1]
    eventually(lambda: all(given_up(system, name) for name in "abcd"), "nobody works")


def test_a_child_that_waits_for_its_restart_when_its_group_is_given_up_does_not_begin(
    system: us.ActorSystem, alarms: list[Callable[[], object]]
) -> None:
    stage = Stage()
    group(system, stage, us.OneForOne(max_restarts=1, within=60, backoff=(1.0, 1.0)), "ab")
    for name in "ab":  # the first one is to begin after a second, the second one fails too often
        with pytest.raises(us.AgentCrashed):
            system.find(name).ask(ValueError("no"))
    eventually(lambda: are_down(system, "a", "b"), "the group is given up")
    (ring,) = alarms
    ring()

    with pytest.raises(us.AgentDown, match="given up"):
        system.find("a").ask("x", timeout=WAIT)
    assert stage.happened.count("start a") == 1


def test_a_group_that_waits_for_its_restart_when_it_is_given_up_does_not_begin(
    system: us.ActorSystem, alarms: list[Callable[[], object]]
) -> None:
    stage = Stage()
    rules = us.OneForAll(backoff=(1.0, 1.0))
    inner = us.Supervisor("inner", [stage.child("a"), stage.child("b")], strategy=rules)
    children: list[us.Child | us.Supervisor] = [stage.child("x"), inner]
    system.spawn(us.Supervisor("outer", children, strategy=us.OneForOne(max_restarts=0)))
    settled(stage, 3)
    with pytest.raises(us.AgentCrashed):
        system.find("a").ask(ValueError("no"))
    eventually(lambda: len(alarms) == 1, "a is to begin after a second")
    downs: queue.SimpleQueue[us.Down] = queue.SimpleQueue()
    for name in "ab":
        system.find(name).on_down("test", downs.put)
    with pytest.raises(us.AgentCrashed):
        system.find("x").ask(ValueError("no"))
    assert {downs.get(timeout=WAIT).actor for _ in "ab"} == {"shop/outer/inner/a", "shop/outer/inner/b"}
    alarms[0]()

    for name in "ab":
        with pytest.raises(us.AgentDown, match="given up"):
            system.find(name).ask("x", timeout=WAIT)
    assert [stage.happened.count(f"start {name}") for name in "ab"] == [1, 1]


def test_a_group_inside_that_cannot_start_and_is_stopped_does_not_keep_those_after_it(system: us.ActorSystem) -> None:
    stage = Stage(failing_starts={"b": 9})
    inner = us.Supervisor("inner", [stage.child("b")], strategy=us.OneForOne(max_restarts=0))
    rules = us.OneForOne(decider=lambda error: "stop")
    system.spawn(us.Supervisor("desk", [stage.child("a"), inner, stage.child("c")], strategy=rules))

    assert system.find("c").ask("x", timeout=WAIT) == 1
    with pytest.raises(us.AgentDown):
        system.find("b").ask("x", timeout=WAIT)


def test_an_ask_is_answered_after_a_group_was_restarted_around_a_member_that_failed_in_the_middle(
    system: us.ActorSystem,
) -> None:
    stage = Stage()
    inner = us.Supervisor("inner", [stage.child("a"), stage.child("b")], strategy=us.OneForAll())
    children: list[us.Child | us.Supervisor] = [stage.child("x0"), inner, stage.child("x")]
    system.spawn(us.Supervisor("outer", children, strategy=us.RestForOne()))
    settled(stage, 4)
    failing, gate = blocked(system, "a", LookupError("slow boom"))
    with pytest.raises(us.AgentCrashed):
        system.find("x0").ask(ValueError("no"))
    eventually(lambda: "halt b" in stage.happened, "the group inside is being halted")
    gate.set()
    assert isinstance(failing.exception(WAIT), us.AgentCrashed)

    with pytest.raises(us.AgentCrashed):
        system.find("a").ask(ValueError("no"), timeout=WAIT)
    assert [system.find(name).ask("x", timeout=WAIT) for name in ("x0", "a", "b", "x")] == [1, 1, 1, 1]


# --- what ends stays ended


@pytest.mark.parametrize(
    ("strategy", "ended"),
    [(us.OneForOne(), ""), (us.OneForAll(), "ac"), (us.RestForOne(), "c")],
    ids=["one for one", "one for all", "rest for one"],
)
def test_a_temporary_sibling_ends_where_others_are_restarted_with_the_one_that_failed(
    system: us.ActorSystem, strategy: Strategy, ended: str
) -> None:
    stage = Stage()
    children = [stage.child("a", "temporary"), stage.child("b"), stage.child("c", "temporary"), stage.child("d")]
    system.spawn(us.Supervisor("desk", children, strategy=strategy))
    settled(stage, 4)
    refs = {name: system.find(name) for name in "abcd"}

    with pytest.raises(us.AgentCrashed):
        refs["b"].ask(ValueError("no"))

    for name in ended:
        downs: queue.SimpleQueue[us.Down] = queue.SimpleQueue()
        refs[name].on_down("test", downs.put)
        assert str(downs.get(timeout=WAIT).reason) == "no"
        refs[name].stop(timeout=WAIT)
    for name in set("abcd") - set(ended):
        assert refs[name].ask("x", timeout=WAIT) == 1
    assert [stage.happened.count(f"stop {name}") for name in "abcd"] == [name in ended for name in "abcd"]
    assert [stage.happened.count(f"start {name}") for name in "ac"] == [1, 1]


def test_a_temporary_actor_begins_again_with_its_whole_group(system: us.ActorSystem) -> None:
    stage = Stage()
    inner = us.Supervisor(
        "inner", [stage.child("a", "temporary"), stage.child("b")], strategy=us.OneForOne(max_restarts=0)
    )
    children: list[us.Child | us.Supervisor] = [stage.child("x"), inner]
    system.spawn(us.Supervisor("outer", children, strategy=us.OneForAll()))
    settled(stage, 3)

    for name in "xb":  # the group is halted with x, and then given up for b
        with pytest.raises(us.AgentCrashed):
            system.find(name).ask(ValueError("no"), timeout=WAIT)
        settled(stage, {"x": 9, "b": 15}[name])
        assert [system.find(each).ask("x", timeout=WAIT) for each in "xab"] == [1, 1, 1]
    assert stage.happened.count("start a") == 3


def test_an_actor_that_fails_in_a_group_given_up_with_those_above_does_not_come_back(
    system: us.ActorSystem, alarms: list[Callable[[], object]]
) -> None:
    stage = Stage()
    inner = us.Supervisor("inner", [stage.child("a")], strategy=us.OneForOne(max_restarts=5, backoff=(0.1, 0.1)))
    children: list[us.Child | us.Supervisor] = [stage.child("x"), inner]
    ref = system.spawn(us.Supervisor("outer", children, strategy=us.OneForOne(max_restarts=0)))
    settled(stage, 2)
    failing, gate = blocked(system, "a", LookupError("too"))
    with pytest.raises(us.AgentCrashed):
        system.find("x").ask(ValueError("no"))
    eventually(lambda: not ref.is_alive(), "the group is given up, while a is at a message")
    gate.set()
    assert isinstance(failing.exception(WAIT), us.AgentCrashed)

    eventually(lambda: are_down(system, "a"), "a is given up, and waits for no restart")
    for ring in alarms:  # of its own backoff; there should be none
        ring()
    with pytest.raises(us.AgentDown, match="given up"):
        system.find("a").ask("x", timeout=WAIT)
    assert stage.happened.count("start a") == 1


def test_a_group_that_was_given_up_with_those_above_is_tried_again_with_them(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "LONGEST_BACKOFF", 0.0)
    stage = Stage()
    inner = us.Supervisor("inner", [stage.child("a")])
    children: list[us.Child | us.Supervisor] = [stage.child("x"), inner]
    ref = system.spawn(us.Supervisor("outer", children, strategy=us.OneForOne(max_restarts=0)))
    settled(stage, 2)
    with pytest.raises(us.AgentCrashed):
        system.find("x").ask(ValueError("no"))
    eventually(lambda: given_up(system, "a") and given_up(system, "x"), "all are given up")

    with pytest.raises(us.AgentDown):
        system.find("a").ask("x", timeout=WAIT)

    eventually(lambda: all(system.find(n).is_alive() for n in "xa"), "all have started again")
    assert ref.is_alive()


# --- the order of an escalation


def test_an_escalation_stops_siblings_in_reverse_order_of_their_start(system: us.ActorSystem) -> None:
    stage = Stage()
    inner = us.Supervisor("inner", [stage.child("c"), stage.child("d")], strategy=us.OneForAll())
    children: list[us.Child | us.Supervisor] = [stage.child("a"), stage.child("b"), inner, stage.child("e")]
    system.spawn(us.Supervisor("outer", children, strategy=us.OneForOne(max_restarts=0)))
    settled(stage, 5)
    held, gates = zip(*[blocked(system, name) for name in "acde"], strict=True)

    with pytest.raises(us.AgentCrashed):
        system.find("b").ask(ValueError("no"))
    for gate in gates:  # the first one that was started could end first
        gate.set()

    assert [each.result(WAIT) for each in held] == ["done"] * 4
    settled(stage, 10)
    assert stage.since(5) == ["stop b", "stop e", "stop d", "stop c", "stop a"]


def test_an_escalation_does_not_wait_for_ever_for_an_actor_that_hangs(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarms = list[Callable[[], object]]()

    def note(at: float, ring: Callable[[], object]) -> Alarm:
        alarms.append(ring)
        return Alarm(ring)

    monkeypatch.setattr(members, "ring_at", note)
    stage = Stage()
    group(system, stage, us.OneForOne(max_restarts=0))
    held, gate = blocked(system, "c")
    with pytest.raises(us.AgentCrashed):
        system.find("b").ask(ValueError("no"))
    assert system.find("a").ask("x") == 1  # its turn has not come
    eventually(lambda: bool(alarms), "the one that hangs is waited for")
    alarms[0]()

    eventually(lambda: given_up(system, "a"), "a is given up, while c hangs")
    gate.set()
    assert held.result(WAIT) == "done"
    eventually(lambda: given_up(system, "c"), "c is given up when it comes back")


def test_an_escalation_without_a_thread_for_its_alarm_waits_for_each_actor_and_logs_it(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_thread(at: float, ring: Callable[[], object]) -> Alarm:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(members, "ring_at", no_thread)
    stage = Stage()
    group(system, stage, us.OneForOne(max_restarts=0))
    held, gate = blocked(system, "c")
    with pytest.raises(us.AgentCrashed):
        system.find("b").ask(ValueError("no"))
    assert system.find("a").ask("x") == 1  # its turn has not come
    gate.set()

    assert held.result(WAIT) == "done"
    eventually(lambda: given_up(system, "a") and given_up(system, "c"), "all are given up")
    assert any("no thread can be had" in text and "can't start new thread" in text for text in caplog.messages)


# --- stopped in the middle of a restart


def test_a_group_goes_on_when_one_of_its_actors_is_stopped_while_all_are_restarted(system: us.ActorSystem) -> None:
    stage = Stage()
    ref = group(system, stage, us.OneForAll())
    held, gate = blocked(system, "b")
    b = system.find("b")
    b.stop(block=False)
    with pytest.raises(us.AgentCrashed):
        system.find("a").ask(ValueError("no"))
    eventually(lambda: "halt c" in stage.happened, "the others are being halted")
    gate.set()

    assert held.result(WAIT) == "done"
    b.stop(timeout=WAIT)
    assert [system.find(name).ask("x", timeout=WAIT) for name in "ac"] == [1, 1]
    assert ref.is_alive()


@pytest.mark.parametrize("strategy", [us.OneForOne(), us.OneForAll(), us.RestForOne()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("stopped", ["before it fails", "after it failed"])
def test_a_stop_keeps_what_waits_behind_a_message_that_fails(
    system: us.ActorSystem, strategy: Strategy, stopped: str
) -> None:
    stage = Stage()
    group(system, stage, strategy)
    a = system.find("a")
    other, others_gate = blocked(system, "c")
    failing, gate = blocked(system, "a", ValueError("no"))
    waiting = [a.ask_future("x", timeout=WAIT) for _ in range(3)]

    if stopped == "before it fails":
        a.stop(block=False)
        gate.set()
    else:
        gate.set()
        assert isinstance(failing.exception(WAIT), us.AgentCrashed)
        a.stop(block=False)
    a.stop(timeout=WAIT)

    assert [each.result(WAIT) for each in waiting] == [1, 2, 3]
    others_gate.set()
    assert other.result(WAIT) == "done"
    assert [system.find(name).ask("x", timeout=WAIT) for name in "bc"] == [1, 1]


def test_a_group_that_is_stopped_while_it_is_restarted_handles_what_waits(system: us.ActorSystem) -> None:
    stage = Stage()
    ref = group(system, stage, us.OneForAll())
    held, gate = blocked(system, "b")
    waiting = [system.find(name).ask_future("x", timeout=WAIT) for name in "bc"]
    with pytest.raises(us.AgentCrashed):
        system.find("a").ask(ValueError("no"))
    ref.stop(block=False)
    gate.set()

    assert held.result(WAIT) == "done"
    ref.stop(timeout=WAIT)
    assert not ref.is_alive()
    assert [each.result(WAIT) for each in waiting] == [1, 1]


def test_an_error_in_the_decision_itself_ends_the_actor_and_leaves_nobody_waiting(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    ref = group(system, stage, us.OneForOne(), "ab")

    def broken(*arguments: object, **options: object) -> None:
        raise KeyError("a bug of the runtime")

    monkeypatch.setattr(group_machine, "decide", broken)
    failing, gate = blocked(system, "a", ValueError("no"))
    waiting = system.find("a").ask_future("x", timeout=WAIT)
    a = system.find("a")
    gate.set()

    for each in (failing, waiting):
        assert isinstance(each.exception(WAIT), us.AgentDown)
    a.stop(timeout=WAIT)
    assert system.find("b").ask("x") == 1
    assert ref.stop(timeout=WAIT)


def test_an_error_in_one_command_of_a_restart_does_not_keep_the_group_from_its_restart(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise KeyError("a bug of the runtime")

    monkeypatch.setattr(supervisor, "tell_delay", broken)
    stage = Stage()
    group(system, stage, us.OneForAll(backoff=(0.001, 0.001)))
    failing = system.find("b")

    with pytest.raises(us.AgentCrashed):
        failing.ask(ValueError("no"))

    failing.stop(timeout=WAIT)  # it cannot go on
    started = [f"start {name}" for name in "ac"]
    eventually(lambda: [stage.happened.count(each) for each in started] == [2, 2], "the others are started anew")
    assert [system.find(name).ask("x", timeout=WAIT) for name in "ac"] == [1, 1]
