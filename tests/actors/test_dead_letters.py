"""Messages that nobody handled: kept, counted, and told in few words."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time

import pytest

import understudy as us
from tests.support.paths import ROOT
from tests.support.players import Player
from tests.support.scripts import WAIT, eventually, scripted
from tests.support.threads import idle, no_threads
from understudy.actors.cells.dead_letters import KEPT, LOGGED, QUIET, DeadLetters, type_name
from understudy.testing import calls, says


class Held:
    """An actor that is busy until it is let go."""

    def __init__(self, system: us.ActorSystem, capacity: int = 1000) -> None:
        self._gate, entered = threading.Event(), threading.Event()

        def hold() -> None:
            entered.set()
            assert self._gate.wait(WAIT)

        self.ref = system.spawn(Player, name="held", mailbox=us.Mailbox(capacity))
        self.ref.tell(hold)
        assert entered.wait(WAIT)

    def let_go(self) -> None:
        self._gate.set()


def reasons(system: us.ActorSystem) -> dict[str, int]:
    return {str(reason): number for reason, number in system.health().dead_letters_by_reason.items()}


# --- what becomes one, and why


def test_asks_behind_a_message_that_hangs_are_answered_when_their_time_is_over(system: us.ActorSystem) -> None:
    held = Held(system, capacity=3)
    futures = [held.ref.ask_future(n, timeout=0.05 * n) for n in (3, 2, 1)]

    errors = [future.exception(WAIT) for future in futures]

    assert [isinstance(error, TimeoutError) for error in errors] == [True] * 3
    eventually(lambda: reasons(system) == {"expired": 3}, "each is a dead letter")
    later = held.ref.ask_future("later")  # there is room again
    held.let_go()
    assert later.result(WAIT) == "later"


def test_an_ask_that_waits_itself_leaves_the_mailbox_when_its_time_is_over(system: us.ActorSystem) -> None:
    held = Held(system, capacity=1)

    with pytest.raises(TimeoutError):
        held.ref.ask("late", timeout=0.01)

    eventually(lambda: reasons(system) == {"expired": 1}, "it is a dead letter")
    held.let_go()


def test_an_ask_is_answered_in_time_although_it_is_the_one_that_hangs(system: us.ActorSystem) -> None:
    gate, handled = threading.Event(), threading.Event()
    ref = system.spawn(Player)

    def hang() -> str:
        assert gate.wait(WAIT)
        handled.set()
        return "late"

    future = ref.ask_future(hang, timeout=0.05)

    assert isinstance(future.exception(WAIT), TimeoutError)
    gate.set()
    assert handled.wait(WAIT)
    assert ref.ask("next") == "next"
    assert reasons(system) == {}


def test_what_waits_for_an_actor_that_hangs_is_answered_when_its_system_stops() -> None:
    system = us.ActorSystem("shop")
    held = Held(system)
    hanging = threading.Event()
    in_hand = system.spawn(Player, name="other").ask_future(lambda: hanging.wait(WAIT))
    futures = [held.ref.ask_future(n) for n in range(3)]
    held.ref.tell("told")

    assert sorted(system.stop(0.1)) == ["shop/held", "shop/other"]

    assert [isinstance(future.exception(0), us.AgentDown) for future in [*futures, in_hand]] == [True] * 4
    assert reasons(system) == {"stopped": 4}
    held.let_go()
    hanging.set()
    held.ref.stop(timeout=WAIT)  # it has come back, and ends as others do
    assert reasons(system) == {"stopped": 4}


def test_a_stop_answers_what_waits_for_actors_behind_one_that_hangs() -> None:
    system, gate, entered = us.ActorSystem("shop"), threading.Event(), threading.Event()
    system.spawn(us.Supervisor("desk", [us.Child(Player, "first"), us.Child(Player, "last")]))
    first, last = system.find("first"), system.find("last")

    def hang() -> None:
        entered.set()
        assert gate.wait(WAIT)

    last.tell(hang)
    assert entered.wait(WAIT)

    assert set(system.stop(0.1)) >= {"shop/desk/last"}

    with pytest.raises(us.AgentDown):  # it had no word to stop before that one had stopped
        first.ask("too late", timeout=WAIT)
    gate.set()
    last.stop(timeout=WAIT)
    first.stop(timeout=WAIT)


def test_a_message_to_an_actor_that_has_stopped(system: us.ActorSystem) -> None:
    ref = system.spawn(Player, name="ann")
    ref.stop(timeout=WAIT)

    before = time.time()
    ref.tell({"card": "my number"})
    with pytest.raises(us.AgentDown):
        ref.ask(7)
    after = time.time()

    told, asked = system.dead_letters()
    assert (told.address, told.reason, told.message_type) == ("shop/ann", "stopped", "dict")
    assert (asked.address, asked.reason, asked.message_type) == ("shop/ann", "stopped", "int")
    assert before <= told.at <= asked.at <= after
    assert "number" not in repr(told)
    assert (system.health().dead_letters, reasons(system)) == (2, {"stopped": 2})


def test_a_message_to_an_actor_that_is_given_up(system: us.ActorSystem) -> None:
    ref = system.spawn(Player, strategy=us.OneForOne(max_restarts=0))
    with pytest.raises(us.AgentCrashed):
        ref.ask(ValueError("no"))

    with pytest.raises(us.AgentDown):
        ref.ask("x")

    assert reasons(system) == {"given_up": 1}


def test_what_waits_when_an_actor_ends_for_a_failure(system: us.ActorSystem) -> None:
    ref = system.spawn(Player, strategy=us.OneForOne(decider=lambda error: "stop"))
    entered, gate = threading.Event(), threading.Event()

    def fails() -> None:
        entered.set()
        assert gate.wait(WAIT)
        raise ValueError("no")

    ref.tell(fails)
    assert entered.wait(WAIT)
    for number in range(3):
        ref.tell(number)
    gate.set()
    ref.stop(timeout=WAIT)

    assert reasons(system) == {"stopped": 3}


def test_a_message_that_finds_no_room_is_too_late_or_not_wanted(system: us.ActorSystem) -> None:
    held = Held(system, capacity=2)
    late, unwanted = held.ref.ask_future("late", timeout=0.2), held.ref.ask_future("unwanted")
    with pytest.raises(us.MailboxFull):
        held.ref.tell("x")
    unwanted.cancel()
    assert isinstance(late.exception(WAIT), TimeoutError)
    held.let_go()
    held.ref.stop(timeout=WAIT)

    assert [letter.reason for letter in system.dead_letters()] == ["mailbox_full", "expired", "cancelled"]


def test_a_message_for_which_no_thread_can_be_had(system: us.ActorSystem) -> None:
    ref = system.spawn(Player)
    assert ref.ask("x") == "x"

    idle(ref)
    with no_threads():
        ref.tell("x")

    assert reasons(system) == {"no_thread": 1}


class Clock(us.Actor[object]):
    """Sets a timer, and is busy until it is let go; then it fails."""

    def __init__(self, gate: threading.Event, is_full: threading.Event) -> None:
        self.gate = gate
        self.is_full = is_full

    def on_receive(self, message: object) -> None:
        assert self.is_full.wait(WAIT)
        self.after(0.0, 7)
        assert self.gate.wait(WAIT)
        raise ValueError("no")


@pytest.mark.parametrize(("capacity", "lost"), [(1, ["int", "str"]), (2, ["str"])])
def test_a_timers_message_is_one_if_it_finds_no_room_but_not_if_it_goes_with_its_actor(
    system: us.ActorSystem, capacity: int, lost: list[str]
) -> None:
    gate, is_full = threading.Event(), threading.Event()
    stops = us.OneForOne(decider=lambda error: "stop")
    ref = system.spawn(lambda: Clock(gate, is_full), name="clock", mailbox=us.Mailbox(capacity), strategy=stops)
    ref.tell("begin")
    eventually(lambda: figures(system).busy_for is not None and figures(system).depth == 0, "it is busy")
    ref.tell("waits")
    is_full.set()
    eventually(lambda: figures(system).depth == 2 or figures(system).dead == 1, "the timer has rung")
    gate.set()
    ref.stop(timeout=WAIT)

    assert [letter.message_type for letter in system.dead_letters()] == lost


def figures(system: us.ActorSystem) -> us.ActorFigures:
    (actor,) = system.health().actors
    return actor


def test_a_notice_to_a_watcher_that_is_gone_is_none(system: us.ActorSystem) -> None:
    watched = system.spawn(Player)

    class Watcher(us.Actor[object]):
        def on_receive(self, message: object) -> None:
            self.watch(watched)

    watcher = system.spawn(Watcher)
    watcher.ask("watch")
    watcher.stop(timeout=WAIT)
    watched.stop(timeout=WAIT)

    assert system.health().dead_letters == 0


def test_runs_that_end_leave_none(system: us.ActorSystem) -> None:
    gate = threading.Event()

    @us.tool(timeout=0.05)
    def hang() -> str:
        assert gate.wait(WAIT)
        return "at last"

    @us.tool
    def quick() -> str:
        return "done"

    both = calls("hang") + calls("quick")
    scripted(both, says("So be it."), tools=[hang, quick]).run("Go", system=system)
    handle = scripted(calls("hang"), says("So be it."), tools=[hang]).submit("Go", system=system)
    handle.cancel()
    gate.set()
    eventually(lambda: system.hung == 0, "all are back")
    system.stop()

    assert system.health().dead_letters == 0


# --- how they are kept


def test_the_last_are_kept_and_all_are_counted(system: us.ActorSystem) -> None:
    ref = system.spawn(Player)
    ref.stop(timeout=WAIT)

    for _ in range(5):
        ref.tell("early")
    for _ in range(KEPT):
        ref.tell(7)

    assert [letter.message_type for letter in system.dead_letters()] == ["int"] * KEPT
    assert system.health().dead_letters == KEPT + 5


def test_no_two_threads_count_one_letter_as_the_same(system: us.ActorSystem) -> None:
    ref = system.spawn(Player)
    ref.stop(timeout=WAIT)

    def tell() -> None:
        for _ in range(300):
            ref.tell("x")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=tell) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
    finally:
        sys.setswitchinterval(before)

    assert reasons(system) == {"stopped": 1200}


class Nameless(type):
    """A class of classes that tell nothing of themselves."""

    def __getattribute__(cls, name: str) -> object:
        raise ValueError("none of your business")


def test_any_object_has_a_type_name_and_it_is_short() -> None:
    class Rude(metaclass=Nameless):
        def __repr__(self) -> str:
            raise ValueError("none of your business")

    assert type_name(Rude()) == "?"
    assert type_name(type("N" * 10_000, (), {})()) == "N" * 100
    assert type_name(None) == "NoneType"


def test_the_letter_is_there_when_the_asker_hears_of_the_loss(system: us.ActorSystem) -> None:
    counted: list[int] = []
    held = Held(system)
    future = held.ref.ask_future("late", timeout=0.0)
    future.add_done_callback(lambda _: counted.append(system.health().dead_letters))

    held.let_go()
    held.ref.stop(timeout=WAIT)

    assert counted == [1]


# --- what is said in the log


class SetByHand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def note(letters: DeadLetters, number: int, *, answered: bool = False) -> None:
    for _ in range(number):
        letters.note("shop/ann", "stopped", "Order", 0.0, answered=answered)


def test_the_first_are_logged_and_then_there_is_quiet_until_they_are_summed_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = SetByHand()
    letters = DeadLetters("shop", clock)

    note(letters, LOGGED + 7)
    clock.now += QUIET - 1
    note(letters, 1)
    lines = caplog.messages.copy()
    clock.now += 1
    note(letters, 1)

    one = "shop/ann: a message of type Order was lost (stopped)"
    assert lines == [one] * (LOGGED - 1) + [f"{one}; more are summed up after 300 s"]
    assert caplog.messages[LOGGED:] == ["shop: 8 more messages were lost; dead_letters() has the last ones", one]
    assert {(record.name, record.levelno) for record in caplog.records} == {("understudy", logging.WARNING)}


def test_the_next_period_has_its_own_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = SetByHand()
    letters = DeadLetters("shop", clock)

    note(letters, 3)
    clock.now += QUIET
    note(letters, LOGGED + 5)
    letters.sum_up()
    letters.sum_up()

    assert len(caplog.messages) == 3 + LOGGED + 1
    assert caplog.messages[-1] == "shop: 5 more messages were lost; dead_letters() has the last ones"


def test_what_an_asker_is_told_is_not_logged_too(system: us.ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    ref = system.spawn(Player)
    ref.stop(timeout=WAIT)

    with pytest.raises(us.AgentDown):
        ref.ask("x")

    assert caplog.messages == []


def test_the_end_of_a_system_sums_up(system: us.ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    ref = system.spawn(Player)
    ref.stop(timeout=WAIT)

    for _ in range(LOGGED + 3):
        ref.tell("x")
    system.stop()

    assert caplog.messages[-1] == "shop: 3 more messages were lost; dead_letters() has the last ones"


def test_nothing_is_printed_unless_the_host_configures_logging() -> None:
    program = """
import understudy as us
with us.ActorSystem() as system:
    system.subscribe(lambda event: 1 / 0)
    ref = system.spawn(us.Actor)
    ref.stop(timeout=10)
    for _ in range(20):
        ref.tell("x")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, cwd=ROOT, capture_output=True, text=True, timeout=WAIT
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
