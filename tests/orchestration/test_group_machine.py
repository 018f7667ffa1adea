"""The machine of a group, by hand: its table, its rounds, and late answers. Random trees of machines are in `tests.soak`."""

from __future__ import annotations

import pickle
from itertools import product
from typing import TypeAlias, get_args, get_origin

import pytest

from understudy.orchestration import Directive, OneForAll, OneForOne, RestForOne
from understudy.orchestration.supervision.group_events import (
    Begin,
    Begun,
    ChildFailed,
    Command,
    Done,
    Escalate,
    Event,
    FailureEscalated,
    Forgiven,
    GivenUp,
    GiveUp,
    Halt,
    Halted,
    ParentBegins,
    ParentGivesUp,
    ParentHalts,
    RestartDue,
    Rule,
    StartDue,
    StaysDown,
    StopAsked,
    StopMember,
    Stopped,
    TellDelay,
    TellEscalation,
    TryAgain,
    Worked,
)
from understudy.orchestration.supervision.group_machine import TABLE, handle
from understudy.orchestration.supervision.group_state import GroupState, Phase
from understudy.orchestration.supervision.restarts import RestartBudget, RunsInARow, Strategy

Group: TypeAlias = "GroupState[str, str]"
PHASES: tuple[Phase, ...] = get_args(Phase)
FAULT = ValueError("it failed")


def group(strategy: Strategy | None = None, names: str = "abc") -> Group:
    strategy = OneForAll() if strategy is None else strategy
    made: Group = GroupState("desk", strategy, RestartBudget(strategy))
    made.members += list(names)
    return made


def feed(to: Group, *events: Event[str, str]) -> list[Command[str, str]]:
    """Feed events one after another, and return the commands after the last one."""
    commands: list[Command[str, str]] = []
    for event in events:
        commands = handle(to, event)
    return commands


def begun(strategy: Strategy | None = None, names: str = "abc", reply: str = "begun") -> Group:
    """Return a group that the parent has begun in its round 1."""
    made = group(strategy, names)
    feed(made, ParentBegins(1, 0.0, reply), *[Begun(name, 1) for name in names])
    assert made.phase == "working" and not made.rounds
    return made


def failed(member: str, *, starting: bool = False, wanted: Directive = "restart") -> ChildFailed[str]:
    return ChildFailed(member, wanted, "transient", 0.0, "", starting)


def restart(member: str) -> RestartDue[str]:
    return RestartDue(member, FAULT, 0.0)


def in_phase(phase: Phase) -> Group:
    """Return a group in this phase, whose last round waits for `c` or, if it begins or works, for `a`."""
    made = group(OneForAll(max_restarts=1))
    steps: dict[Phase, tuple[Event[str, str], ...]] = {
        "working": (),
        "beginning": (ParentBegins(1, 0.0, "begun"),),
        "restarting": (restart("a"),),
        "beginning, restarting": (ParentBegins(1, 0.0, "begun"), restart("a")),
        "halted": (ParentHalts(1, None, "halted"),),
        "given up": (FailureEscalated(FAULT),),
    }
    feed(made, *steps[phase])
    assert made.phase == phase
    return made


# --- the table


def test_every_phase_and_event_is_in_the_table() -> None:
    events = {get_origin(each) or each for each in get_args(Event)}

    assert set(TABLE) == set(product(PHASES, events))


@pytest.mark.parametrize("phase", PHASES)
def test_an_answer_to_no_round_under_way_changes_nothing(phase: Phase) -> None:
    made = in_phase(phase)
    before = pickle.dumps(made)

    for member, number in product("abc", (0, 9)):
        for answer in (Halted(member, number), Begun(member, number), GivenUp(member, number), Stopped(member, number)):
            assert handle(made, answer) == []
    assert pickle.dumps(made) == before


@pytest.mark.parametrize("phase", PHASES)
def test_an_answer_of_a_member_that_is_not_waited_for_changes_nothing(phase: Phase) -> None:
    made = in_phase(phase)
    before = pickle.dumps(made)

    for number in list(made.rounds):
        for answer in (Halted("b", number), Begun("b", number), GivenUp("b", number), Stopped("b", number)):
            assert handle(made, answer) == []
    assert pickle.dumps(made) == before


@pytest.mark.parametrize(
    ("phase", "directive", "spent"),
    [
        ("working", "restart", True),
        ("beginning", "restart", True),
        ("restarting", "restart", False),
        ("beginning, restarting", "restart", False),
        ("halted", "restart", False),
        ("given up", "escalate", False),
    ],
)
def test_the_phase_decides_whether_a_failure_takes_a_restart(phase: Phase, directive: Directive, spent: bool) -> None:
    made = in_phase(phase)

    assert handle(made, failed("b")) == [Rule(directive)]
    assert made.budget.spend(0.0) != spent  # it has one restart in all


def test_a_member_that_has_begun_again_or_fails_at_its_start_takes_a_restart_during_one() -> None:
    for event in (failed("a"), failed("b", starting=True)):
        made = in_phase("restarting")
        feed(made, *[Halted(name, 1) for name in "cba"], Begun("a", 1))

        assert handle(made, event) == [Rule("restart")]
        assert not made.budget.spend(0.0)


def test_a_decider_that_wants_no_restart_is_followed_without_the_budget() -> None:
    made = begun(OneForAll(max_restarts=0))

    for wanted in ("resume", "stop", "escalate"):
        assert handle(made, failed("a", wanted=wanted)) == [Rule(wanted)]


# --- restarts


@pytest.mark.parametrize(
    ("strategy", "affected"),
    [(OneForOne(), "b"), (OneForAll(), "abc"), (RestForOne(), "bc")],
    ids=["one for one", "one for all", "rest for one"],
)
def test_a_restart_halts_the_last_one_first_and_begins_the_first_one_first(strategy: Strategy, affected: str) -> None:
    made = begun(strategy)
    due, done = [handle(made, restart("b"))], list[str]()

    while due[-1]:
        (command,) = due[-1]
        assert isinstance(command, (Halt, Begin)) and command.round == 2
        done.append(f"{type(command).__name__} {command.member}")
        answer = Halted(command.member, 2) if isinstance(command, Halt) else Begun(command.member, 2)
        due.append(handle(made, answer))

    assert done == [f"Halt {name}" for name in reversed(affected)] + [f"Begin {name}" for name in affected]
    assert made.phase == "working" and not made.rounds


def test_a_delay_is_told_first_and_comes_before_the_first_member_only() -> None:
    made = begun(OneForAll(backoff=(2.0, 8.0)), "ab")

    assert feed(made, failed("a"), restart("a")) == [TellDelay(2.0), Halt("b", 2, FAULT, with_siblings=True)]
    assert feed(made, Halted("b", 2), Halted("a", 2)) == [Begin("a", 2, 2.0, with_group=False)]
    assert feed(made, Begun("a", 2)) == [Begin("b", 2, 0.0, with_group=False)]


def test_members_that_fail_again_during_a_restart_are_restarted_after_it_in_turn() -> None:
    made = begun(OneForOne(), "ab")
    feed(made, restart("a"), restart("b"), restart("b"), restart("a"))  # the second of a is part of the first

    (halt,) = feed(made, Halted("a", 2), Begun("a", 2))
    assert isinstance(halt, Halt) and (halt.member, halt.round) == ("b", 3)
    assert str(halt.cause) == "desk: it failed while others were restarted"
    (halt,) = feed(made, Halted("b", 3), Begun("b", 3))
    assert isinstance(halt, Halt) and (halt.member, halt.round) == ("b", 4)
    assert feed(made, Halted("b", 4), Begun("b", 4)) == [] and not made.rounds


def test_a_member_restarts_while_others_begin() -> None:
    made = group(OneForOne())
    feed(made, ParentBegins(1, 0.0, "begun"), Begun("a", 1))

    assert feed(made, restart("a")) == [Halt("a", 2, FAULT, with_siblings=True)]
    assert feed(made, Begun("b", 1)) == [Begin("c", 1, 0.0, with_group=True)]
    assert (feed(made, Begun("c", 1)), made.phase) == ([Done("begun")], "restarting")
    assert (feed(made, Halted("a", 2), Begun("a", 2)), made.phase) == ([], "working")


# --- superseded


@pytest.mark.parametrize(
    "order",
    [FailureEscalated(FAULT), ParentHalts(1, None, "halted"), ParentGivesUp(1, FAULT, "given up"), TryAgain()],
    ids=lambda order: type(order).__name__,
)
def test_an_order_to_the_whole_group_supersedes_a_begin_and_a_restart(order: Event[str, str]) -> None:
    made = group()
    feed(made, ParentBegins(1, 0.0, "begun"), Begun("a", 1), restart("a"), StartDue("a", 1, 0.0))
    assert [made.is_current(number) for number in (1, 2, 3)] == [True] * 3

    feed(made, order)

    assert [made.is_current(number) for number in (1, 2, 3)] == [False] * 3
    assert made.epoch == made.count == 4
    assert feed(made, Begun("b", 1)) == feed(made, Halted("c", 2)) == feed(made, Begun("a", 3)) == []


def test_a_failure_that_waits_for_the_end_of_a_superseded_restart_is_forgotten() -> None:
    made = begun(OneForOne(), "ab")

    feed(made, restart("a"), restart("b"), TryAgain(), Begun("a", 3), Begun("b", 3))

    assert made.phase == "working" and feed(made, restart("a")) == [Halt("a", 4, FAULT, with_siblings=True)]
    assert feed(made, Halted("a", 4), Begun("a", 4)) == []


def test_a_halt_runs_to_its_end_when_a_member_escalates_meanwhile() -> None:
    made = begun(names="ab")
    feed(made, ParentHalts(1, FAULT, "halted"))

    assert feed(made, FailureEscalated(FAULT)) == [TellEscalation(FAULT), GiveUp("b", 3, FAULT)]
    assert feed(made, Halted("b", 2), Halted("a", 2)) == [Done("halted")]
    assert feed(made, GivenUp("b", 3), GivenUp("a", 3)) == [Escalate(FAULT, 3, starting=False)]


def test_a_member_that_fails_between_the_halt_and_the_begin_of_its_group_waits_for_the_begin() -> None:
    made = begun(names="a")

    assert feed(made, ParentHalts(1, None, "halted"), restart("a")) == []
    feed(made, ParentBegins(2, 0.0, "begun"), Begun("a", 3))
    assert feed(made, restart("a")) == [Halt("a", 4, FAULT, with_siblings=True)]


def test_a_group_that_begins_again_bears_as_many_failures_as_at_first() -> None:
    made = begun(OneForOne(max_restarts=1))
    assert handle(made, failed("a")) == [Rule("restart")]
    assert handle(made, failed("a")) == [Rule("escalate")]

    feed(made, FailureEscalated(FAULT), TryAgain())

    assert made.cause is None and handle(made, failed("a")) == [Rule("restart")]


# --- the parent


def test_orders_of_an_earlier_round_of_the_parent_are_only_answered() -> None:
    made = group(names="a")
    feed(made, ParentBegins(5, 0.0, "begun"), Begun("a", 1))
    before = pickle.dumps(made)

    assert feed(made, ParentHalts(4, None, "halted")) == [Done("halted")]
    assert feed(made, ParentGivesUp(4, FAULT, "given up")) == [Done("given up")]
    assert pickle.dumps(made) == before
    assert feed(made, ParentHalts(5, None, "halted")) == [Halt("a", 2, None, with_siblings=False)]


def test_only_the_last_order_to_begin_is_answered_and_another_try_does_not_lose_it() -> None:
    made = group(names="a")

    feed(made, ParentBegins(1, 0.0, "first"), ParentHalts(1, None, "halted"), ParentBegins(2, 0.0, "last"), TryAgain())

    assert feed(made, Begun("a", made.count)) == [Done("last")]
    assert feed(made, TryAgain(), Begun("a", made.count + 1)) == []  # answered once


def test_a_group_that_gave_up_while_it_began_answers_when_it_has_begun_after_all() -> None:
    made = group(names="a")
    feed(made, ParentBegins(1, 0.0, "begun"))

    assert feed(made, FailureEscalated(FAULT), GivenUp("a", 2)) == [Escalate(FAULT, 2, starting=True)]
    assert feed(made, TryAgain(), Begun("a", 3)) == [Done("begun")]


def test_a_group_that_the_parent_gave_up_does_not_answer_an_order_to_begin_any_more() -> None:
    made = group(names="a")

    feed(made, ParentBegins(1, 0.0, "begun"), ParentGivesUp(1, FAULT, "given up"), TryAgain())

    assert feed(made, Begun("a", 3)) == []


def test_a_group_that_failed_too_often_is_halted_and_given_up_with_others_and_keeps_its_cause() -> None:
    made, other = begun(names="a"), ValueError("the others too")

    feed(made, FailureEscalated(FAULT), GivenUp("a", 2))
    assert feed(made, ParentHalts(1, None, "halted")) == [Halt("a", 3, None, with_siblings=False)]
    assert feed(made, Halted("a", 3)) == [Done("halted")]
    assert feed(made, ParentGivesUp(1, other, "given up")) == [GiveUp("a", 4, other)]
    assert (made.phase, made.cause) == ("given up", FAULT)
    assert feed(made, FailureEscalated(other)) == []


def test_members_stop_last_first_whatever_else_happens() -> None:
    made = in_phase("restarting")

    assert feed(made, StopAsked("stopped")) == [StopMember("c", 2)]
    feed(made, FailureEscalated(FAULT))
    assert feed(made, Stopped("c", 2)) == [StopMember("b", 2)]
    assert feed(made, StopAsked("stopped too")) == [StopMember("c", 4)]
    assert feed(made, Stopped("b", 2), Stopped("a", 2)) == [Done("stopped")]
    assert feed(made, *[Stopped(name, 4) for name in "cba"]) == [Done("stopped too")]


# --- a group in a group


def test_a_begin_and_a_restart_both_go_on_when_the_member_has_begun_that_both_wait_for() -> None:
    made = group(names="ab")
    feed(made, ParentBegins(1, 0.0, "begun"), Begun("a", 1), restart("a"))
    feed(made, Halted("b", 2), Halted("a", 2), Begun("a", 2))  # b, a group, answers the later order only

    assert feed(made, Begun("b", 2)) == [Done("begun")]
    assert made.phase == "working" and not made.rounds


def test_a_late_answer_to_the_begin_does_not_end_the_restart() -> None:
    made = group(names="ab")
    feed(made, ParentBegins(1, 0.0, "begun"), Begun("a", 1), restart("a"))
    feed(made, Halted("b", 2), Halted("a", 2), Begun("a", 2))

    assert (feed(made, Begun("b", 1)), made.phase) == ([Done("begun")], "restarting")
    assert (feed(made, Begun("b", 2)), made.phase) == ([], "working")


def test_a_group_that_could_not_begin_begins_again_alone_and_those_after_it_follow() -> None:
    made = group(OneForAll(backoff=(2.0, 8.0)), "ab")
    feed(made, ParentBegins(1, 0.0, "begun"))

    for number in (2, 3):  # the second one takes the place of the first
        due = feed(made, failed("a", starting=True), StartDue("a", 1, 0.0))
        delay = 2.0 ** (number - 1)
        assert due == [TellDelay(delay), Begin("a", number, delay, with_group=False)]
    assert feed(made, Begun("a", 2)) == []
    assert feed(made, Begun("a", 3)) == [Begin("b", 1, 0.0, with_group=True)]
    assert feed(made, Begun("b", 1)) == [Done("begun")] and not made.rounds


def test_a_group_that_could_not_begin_before_the_group_above_was_begun_anew_does_not_begin_again_for_that() -> None:
    made = group(names="a")
    feed(made, ParentBegins(1, 0.0, "begun"), TryAgain())

    assert feed(made, StartDue("a", 1, 0.0)) == []
    assert list(made.rounds) == [2]


def test_members_begin_after_a_group_that_stays_down() -> None:
    made = group(names="ab")
    feed(made, ParentBegins(1, 0.0, "begun"))

    assert feed(made, StaysDown("a")) == [Begin("b", 1, 0.0, with_group=True)]
    assert feed(made, StaysDown("b")) == [Done("begun")]


# --- a lone actor


def test_a_lone_actor_that_begins_again_by_itself_has_all_restarts_again() -> None:
    made = group(OneForOne(max_restarts=0), "a")
    feed(made, FailureEscalated(FAULT), GivenUp("a", 1))

    assert feed(made, Forgiven()) == [] and (made.phase, made.cause) == ("working", None)
    made = group(OneForOne(max_restarts=1), "a")
    assert feed(made, failed("a"), Forgiven(), failed("a")) == [Rule("restart")]


def test_a_run_that_succeeds_ends_the_row_of_failed_runs() -> None:
    made: Group = GroupState("desk", OneForOne(), RunsInARow(limit=2))

    for run in ("r1", "r2", "r3"):
        assert feed(made, ChildFailed("a", "restart", "transient", 0.0, run)) == [Rule("restart")]
        feed(made, Worked())


# --- saved


def test_a_group_that_is_saved_and_loaded_at_any_moment_goes_on_as_before() -> None:
    events: list[Event[str, str]] = [
        ParentBegins(1, 0.0, "begun"),
        *[Begun(name, 1) for name in "abc"],
        failed("a"),
        restart("a"),
        *[Halted(name, 2) for name in "cba"],
        Begun("a", 2),
        restart("a"),
        StopAsked("stopped"),
        FailureEscalated(FAULT),
        GivenUp("c", 4),
        Stopped("c", 3),
    ]
    kept, loaded = group(), group()

    for event in events:
        loaded = pickle.loads(pickle.dumps(loaded))
        assert repr(handle(loaded, event)) == repr(handle(kept, event))
    assert (loaded.phase, str(loaded.cause)) == ("given up", "it failed")
