"""The machines of sequences and parallel groups, driven by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.counting import calls_counted
from tests.support.group_machines import ASKS, broke, done, orders, running
from understudy.errors import MaxIterationsExceeded, ProtocolViolation, RunError, SeveralErrors, SpecChanged
from understudy.orchestration.agent.state import PausedChild
from understudy.orchestration.group.children import AwaitChildren, ChildFailure, ChildOrder, ChildResult, RunChildren
from understudy.orchestration.group.group_run import GroupDone, GroupRun
from understudy.orchestration.group.parallel_run import ParallelRun
from understudy.orchestration.group.sequence_run import SequenceRun
from understudy.orchestration.group.spec import GroupSpec, Merge, OnError, PassOutput
from understudy.orchestration.group.state import GroupState
from understudy.vocabulary.messages import JsonValue, ToolCall, Usage
from understudy.vocabulary.runs.outcomes import Approve, Pause, PauseAnswer

AnyRun = GroupRun[GroupSpec, GroupState]

AT_LIMIT = ChildFailure("MaxIterationsExceeded", "it looked once")
WAITS = Pause(id="approval", path=("child",), calls=(ToolCall("x", "pay"),))


def sequence(children: int = 3, pass_output: PassOutput = False) -> SequenceRun:
    names = tuple([f"print-{number}" for number in range(children)])
    return SequenceRun(GroupSpec(runner_id="report", children=names, pass_output=pass_output), "Go")


def group(
    children: int = 3, merge: Merge = "collect_all", max_parallel: int | None = None, on_error: OnError = "fail"
) -> ParallelRun:
    names = tuple([f"print-{number}" for number in range(children)])
    spec = GroupSpec(runner_id="panel", children=names, merge=merge, max_parallel=max_parallel, on_error=on_error)
    return ParallelRun(spec, "Go")


def says(text: str, combined_text: str | None = None, **changes: JsonValue) -> ChildResult:
    return ChildResult(
        text=text, combined_text=combined_text, usage=Usage(1, 2), iterations=1, turns=2, changes=changes
    )


# --- sequences


def test_the_steps_of_a_sequence_run_one_after_another_and_the_last_ones_text_is_the_runs() -> None:
    run = sequence(2)

    assert orders(run) == [ChildOrder(0, "Go")]
    run.child_done(0, says("one"))
    assert orders(run) == [ChildOrder(1, "Go")]
    run.child_done(1, says("two"))

    outcome = done(run)
    assert (outcome.text, outcome.iterations, outcome.turns, outcome.usage) == ("two", 2, 4, Usage(2, 4))
    assert (outcome.agent_id, outcome.completion_reason) == ("report", "all 2 steps completed")


@pytest.mark.parametrize(
    ("pass_output", "before", "expected"),
    [
        (False, says("one"), "Go"),
        (True, says("one"), "one"),
        (True, says("last", '["first", "last"]'), "last"),
        ("combined", says("last", '["first", "last"]'), '["first", "last"]'),
        ("combined", says("one"), "one"),
        (True, says(""), ""),
    ],
)
def test_a_step_is_told_what_pass_output_says(pass_output: PassOutput, before: ChildResult, expected: str) -> None:
    run = sequence(2, pass_output)
    run.child_done(0, before)

    assert orders(run) == [ChildOrder(1, expected)]


def test_a_step_that_fails_ends_the_sequence_with_its_error() -> None:
    run = sequence()
    run.child_done(0, says("one"))
    run.child_failed(1, ChildFailure.of(MaxIterationsExceeded("too many", limit=3)))

    for _ in range(2):
        with pytest.raises(MaxIterationsExceeded, match="too many"):
            run.next_step()


def test_a_pause_holds_a_sequence_and_the_remaining_steps_run_after_it() -> None:
    run = sequence(3, True)
    run.child_done(0, says("one"))
    run.child_paused(1, "SAVED", [ASKS])

    step = run.next_step()
    pause = Pause(id="child/1/question", path=("report", "child"), question="Which?")
    assert step == AwaitChildren((pause,))
    run.respond({pause.id: "This"})

    (order,) = orders(run)
    assert order.position == 1
    assert order.paused is not None
    assert (order.paused.saved, order.paused.answers) == ("SAVED", {"question": "This"})
    run.child_done(1, says("two"))
    assert orders(run) == [ChildOrder(2, "two")]


def test_what_one_step_changed_in_the_session_holds_until_the_next_one_changes_it() -> None:
    run = sequence()
    run.child_done(0, says("", a=1, b=1))
    run.child_done(1, ChildResult(changes={"b": 2}, removed=("a",)))

    assert run.changes[:2] == ({"b": 2}, frozenset({"a"}))


# --- parallel groups


def test_all_children_run_at_once_and_the_texts_stand_in_their_order_whoever_ends_first() -> None:
    run = group()

    assert orders(run) == [ChildOrder(0, "Go"), ChildOrder(1, "Go"), ChildOrder(2, "Go")]
    for position in (2, 0, 1):
        run.child_done(position, says(f"text {position} é"))

    outcome = done(run)
    assert outcome.combined_text is not None
    assert json.loads(outcome.combined_text) == ["text 0 é", "text 1 é", "text 2 é"]
    assert (outcome.text, outcome.usage) == ("text 2 é", Usage(3, 6))


@pytest.mark.parametrize(
    ("merge", "on_error", "counts"),
    [("first", "fail", False), ("collect_all", "fail", True), ("collect_all", "collect", True)],
)
def test_children_in_flight_stop_counting_only_once_one_success_is_enough(
    merge: Merge, on_error: OnError, counts: bool
) -> None:
    run = group(4, merge, on_error=on_error)
    run.next_step()
    run.child_paused(0, "SAVED", [ASKS])
    if on_error == "collect" or merge == "first":
        run.child_failed(1, AT_LIMIT)
    assert run.expects(3)

    run.child_done(2, says("won"))

    assert run.expects(3) is counts


def test_no_more_children_run_at_once_than_max_parallel() -> None:
    run = group(4, max_parallel=2)

    assert running(run) == [0, 1]
    run.child_done(1, says("b"))
    assert running(run) == [0, 2]
    run.child_done(0, says("a"))
    assert running(run) == [2, 3]


def test_a_child_that_goes_on_after_a_pause_waits_for_room_behind_those_that_run() -> None:
    run = group(3, max_parallel=1)
    assert running(run) == [0]
    run.child_paused(0, "SAVED", [ASKS])
    assert running(run) == [1]

    run.respond({"child/0/question": "This"})

    assert running(run) == [1]
    run.child_done(1, says("b"))
    assert running(run) == [0]


def test_a_failure_fails_the_group_at_once() -> None:
    run = group()
    run.child_failed(1, broke("gone"))

    with pytest.raises(RunError, match="gone"):
        run.next_step()


def test_with_collect_the_others_go_on_and_the_failed_ones_place_is_null() -> None:
    run = group(on_error="collect")
    run.child_failed(2, broke())
    run.child_done(0, says("a"))
    run.child_done(1, says("b"))

    outcome = done(run)

    assert (outcome.combined_text, outcome.text) == ('["a", "b", null]', "b")
    assert outcome.completion_reason == "2 of 3 children completed; the others failed"


@pytest.mark.parametrize("run", [group(2, on_error="collect"), group(2, merge="first")])
def test_when_every_child_fails_all_the_causes_are_raised(run: ParallelRun) -> None:
    run.child_failed(1, ChildFailure.of(ValueError("second")))
    run.child_failed(0, broke("first"))

    with pytest.raises(ExceptionGroup) as raised:
        run.next_step()

    assert [str(error) for error in raised.value.exceptions] == ["ValueError: second", "first"]


def test_the_first_that_succeeds_is_the_result_and_the_rest_is_not_waited_for() -> None:
    run = group(merge="first")
    run.child_failed(0, broke())
    run.child_done(2, says("c", winner="c"))

    assert done(run).text == "c"
    assert done(run).combined_text is None
    assert run.changes[0] == {"winner": "c"}
    assert not run.expects(1)
    with pytest.raises(ProtocolViolation, match="waits for none"):
        run.child_done(1, says("b"))


def test_a_pause_is_no_success_and_the_group_pauses_only_when_nothing_runs() -> None:
    run = group(merge="first")
    run.child_paused(0, "A", [ASKS])
    assert running(run) == [1, 2]
    run.child_failed(1, broke())
    run.child_paused(2, "C", [WAITS])

    step = run.next_step()

    assert isinstance(step, AwaitChildren)
    assert [pause.id for pause in step.pauses] == ["child/0/question", "child/2/approval"]
    run.respond({"child/2/approval": Approve()})
    assert running(run) == [2]
    run.child_done(2, says("c"))
    assert done(run).text == "c"


def test_in_a_paused_group_the_others_finish_and_only_the_paused_ones_go_on() -> None:
    run = group()
    run.child_paused(1, "B", [ASKS])
    assert running(run) == [0, 2]
    run.child_done(0, says("a"))
    run.child_done(2, says("c"))

    assert isinstance(run.next_step(), AwaitChildren)
    run.respond({"child/1/question": "This"})

    assert running(run) == [1]


def test_of_two_children_that_change_one_key_the_later_one_holds_and_the_conflict_is_told() -> None:
    run = group()
    run.child_done(2, says("", shared=2, mine=2))
    run.child_done(0, says("", shared=0, same=1, kept=1))
    run.child_done(1, ChildResult(changes={"same": 1}, removed=("gone", "kept")))

    changes, removed, conflicts = run.changes
    assert changes == {"shared": 2, "mine": 2, "same": 1}
    assert removed == {"gone", "kept"}
    assert conflicts == {"shared", "kept"}


# --- children that are refused


def test_a_child_that_was_refused_begins_when_the_run_goes_on() -> None:
    run = sequence(2)
    run.child_done(0, says("one"))
    run.child_failed(1, broke())
    run.child_refused(1, None)
    run = SequenceRun.from_json(run.to_json(), run.spec)
    assert (run.has_failed, run.may_go_on) == (True, True)

    run.retry_failed()

    assert orders(run) == [ChildOrder(1, "Go")]
    run.child_failed(1, broke())
    assert not run.may_go_on


def test_a_paused_child_that_was_refused_goes_on_with_the_answer_that_it_had() -> None:
    run = sequence(1)
    run.child_paused(0, "SAVED", [WAITS])
    run.respond({run.pauses[0].id: Approve()})
    before = orders(run)
    run.child_failed(0, broke())
    run.child_refused(0, before[0].paused)
    run = SequenceRun.from_json(run.to_json(), run.spec)

    run.retry_failed()

    assert orders(run) == before


def test_only_a_child_that_failed_can_have_been_refused() -> None:
    with pytest.raises(ProtocolViolation, match="is pending, and was refused"):
        sequence(1).child_refused(0, None)


# --- limits


def test_a_limit_holds_a_sequence_and_once_it_is_raised_the_child_goes_on_and_then_the_others() -> None:
    run = sequence(2)
    run.child_at_limit(0, "SAVED", AT_LIMIT, reached := MaxIterationsExceeded("it looked once", limit=1))

    for _ in range(2):
        with pytest.raises(MaxIterationsExceeded) as raised:
            run.next_step()
        assert raised.value is reached
    assert (run.at_limit(), run.limited) == (True, {0: "SAVED"})
    run.go_on({0: "RAISED"})

    (order,) = orders(run)
    assert order.paused is not None
    assert (order.position, order.paused.saved, order.paused.answers) == (0, "RAISED", {})
    assert not run.at_limit()


def test_children_at_a_limit_and_kept_ones_go_on_together_where_errors_are_collected_and_all_failed() -> None:
    run = group(on_error="collect")
    run.next_step()
    run.child_at_limit(2, "LIMIT", AT_LIMIT)
    run.child_failed(0, broke("for good"))
    assert not run.at_limit()
    run.child_failed(1, broke("may pass"))
    run.child_kept(1, "KEPT")
    run = ParallelRun.from_json(run.to_json(), run.spec)
    assert (run.at_limit(), run.limited) == (True, {2: "LIMIT"})
    with pytest.raises(SeveralErrors) as caught:
        run.next_step()
    assert [str(each) for each in caught.value.exceptions] == ["it looked once", "for good", "may pass"]

    run.go_on({2: "RAISED"})

    assert [(order.position, order.paused) for order in orders(run)] == [
        (1, PausedChild("KEPT", ())),
        (2, PausedChild("RAISED", ())),
    ]
    run.child_done(2, says("two"))
    run.child_done(1, says("one"))
    assert done(run).combined_text == '[null, "one", "two"]'


def test_a_child_at_a_limit_leaves_its_place_empty_where_another_one_is_done() -> None:
    run = group(2, on_error="collect")
    run.next_step()
    run.child_at_limit(0, "LIMIT", AT_LIMIT)
    run.child_done(1, says("one"))

    assert (done(run).combined_text, run.at_limit()) == ('[null, "one"]', False)


def test_a_group_is_at_a_limit_when_nothing_else_runs_or_waits() -> None:
    run = group(3)
    run.child_at_limit(1, "SAVED", AT_LIMIT)
    assert (running(run), run.at_limit()) == ([0, 2], False)
    run.child_paused(2, "PAUSED", [ASKS])
    run.child_done(0, says("a"))
    assert (type(run.next_step()), run.at_limit()) == (AwaitChildren, False)
    run.respond({"child/2/question": "This"})
    run.child_done(2, says("c"))

    with pytest.raises(MaxIterationsExceeded, match="it looked once"):
        run.next_step()
    assert run.at_limit()
    with pytest.raises(ProtocolViolation, match=r"at a limit stand \[1\]"):
        run.go_on({0: "RAISED"})
    run.go_on({1: "RAISED"})
    assert running(run) == [1]


# --- all of them

Make = Callable[[], AnyRun]


@pytest.mark.parametrize("make", [sequence, group])
def test_what_was_not_asked_for_changes_nothing(make: Make) -> None:
    run = make()
    run.child_done(0, says("a"))
    before = run.to_json()

    refused: list[Callable[[], None]] = [
        lambda: run.child_done(0, says("again")),
        lambda: run.child_failed(0, broke()),
        lambda: run.child_paused(0, "S", [ASKS]),
        lambda: run.child_paused(1, "S", []),
        lambda: run.child_done(7, says("nobody")),
        lambda: run.respond({}),
        lambda: run.respond({"child/1/question": "nobody asked"}),
    ]
    for feed in refused:
        with pytest.raises(ProtocolViolation):
            feed()

    assert run.to_json() == before


def test_a_run_of_another_definition_is_refused_unless_adopted() -> None:
    text = sequence(2, True).to_json()
    other = sequence(2, False).spec

    with pytest.raises(SpecChanged, match="another definition of 'report'"):
        SequenceRun.from_json(text, other)
    assert SequenceRun.from_json(text, other, adopt=True).next_step() == RunChildren((ChildOrder(0, "Go"),))
    with pytest.raises(ValueError, match="saved with 2 children; it has 3 now"):
        SequenceRun.from_json(text, sequence(3).spec, adopt=True)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 9, "fingerprint": "", "state": {"input": "", "children": []}}']
)
def test_text_that_is_no_saved_run_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="saved run of"):
        SequenceRun.from_json(text, sequence().spec)


@dataclass
class Script:
    """What each child does, turn by turn: it pauses so often, reaches so many limits, and then it is done or fails."""

    pauses: list[int]
    fails: list[bool]
    picks: list[int] = field(default_factory=list[int])
    limits: list[int] = field(default_factory=lambda: [0, 0, 0, 0])


scripts = st.builds(
    Script,
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
    st.lists(st.sampled_from([False, False, False, True]), min_size=4, max_size=4),
    st.lists(st.integers(0, 7), max_size=30),
    st.lists(st.sampled_from([0, 0, 1, 2]), min_size=4, max_size=4),
)
runs: st.SearchStrategy[AnyRun] = st.builds(
    sequence, st.integers(1, 4), st.sampled_from(cast("list[PassOutput]", [False, True, "combined"]))
) | st.builds(
    group,
    st.integers(1, 4),
    st.sampled_from(cast("list[Merge]", ["collect_all", "first"])),
    st.none() | st.integers(1, 3),
    st.sampled_from(cast("list[OnError]", ["fail", "collect"])),
)


def play(run: AnyRun, script: Script, swap: Callable[[AnyRun], AnyRun]) -> tuple[object, list[object]]:
    """Drive a run to its end, and return how it ended and what each step was."""
    left, picks, steps = list(script.pauses), list(script.picks), list[object]()
    known, limits = set[int](), list(script.limits)
    for _ in range(100):
        run = swap(run)
        try:
            known |= all_new(run, known)
            step = run.next_step()
        except Exception as error:  # noqa: BLE001 (it is what the run came to)
            run = swap(run)
            if not run.at_limit():
                return repr(error), steps
            steps.append(repr(error))
            run.go_on({position: f"{saved}, raised" for position, saved in run.limited.items()})
            continue
        steps.append(step)
        run = swap(run)
        assert run.next_step() == step, "asked again, a machine gives the same step"
        pick = picks.pop() if picks else 0
        match step:
            case GroupDone(outcome=outcome):
                return outcome, steps
            case AwaitChildren(pauses=pauses):
                assert pauses, "a run that waits for nobody and nothing"
                pause = pauses[pick % len(pauses)]
                answer: Mapping[str, PauseAnswer] = {pause.id: "This" if pause.question else Approve()}
                run.respond(answer)
            case RunChildren(children=children):
                limit = run.spec.max_parallel
                assert limit is None or len(children) <= limit
                assert {order.position for order in children} == known
                order = children[pick % len(children)]
                known.remove(order.position)
                if left[order.position]:
                    left[order.position] -= 1
                    run.child_paused(order.position, f"saved {left}", [ASKS, WAITS][: 1 + pick % 2])
                elif limits[order.position]:
                    limits[order.position] -= 1
                    reached = ChildFailure("MaxIterationsExceeded", f"limit of {order.position}")
                    run.child_at_limit(order.position, f"at {order.position}", reached)
                elif script.fails[order.position]:
                    run.child_failed(order.position, broke(f"child {order.position}"))
                else:
                    run.child_done(order.position, says(f"text {order.position}"))
    raise AssertionError("the run goes round in circles")


def all_new(run: AnyRun, known: set[int]) -> set[int]:
    """Return the children that no step had before, of which `known` are none; asked again, there are none."""
    step = run.next_step(only_new=True)
    new = {order.position for order in step.children} if isinstance(step, RunChildren) else set[int]()
    assert not new & known
    if new:
        assert run.next_step(only_new=True) == RunChildren(())
    return new


@pytest.mark.parametrize("max_parallel", [None, 20])
@pytest.mark.parametrize(
    ("merge", "on_error"), [("collect_all", "fail"), ("collect_all", "collect"), ("first", "fail")]
)
def test_what_is_new_costs_the_same_however_many_run_besides(
    merge: Merge, on_error: OnError, max_parallel: int | None
) -> None:
    def calls_of_three_steps(children: int) -> int:
        run = group(children, merge, max_parallel, on_error)
        run.next_step()
        with calls_counted() as count:
            for position in range(3):
                if on_error == "collect" or merge == "first":
                    run.child_failed(position, broke())
                else:
                    run.child_done(position, says("text"))
                run.next_step(only_new=True)
        return count()

    assert calls_of_three_steps(1_000) == calls_of_three_steps(50)


@given(runs, scripts)
def test_saving_and_loading_at_any_point_changes_nothing(run: AnyRun, script: Script) -> None:
    saved = run.to_json()

    plain = play(run, script, lambda run: run)
    reloading = play(
        type(run).from_json(saved, run.spec), script, lambda run: type(run).from_json(run.to_json(), run.spec)
    )

    assert plain == reloading


@given(scripts, st.integers(1, 4), st.none() | st.integers(1, 3))
def test_a_group_comes_to_the_same_whatever_the_order_in_which_its_children_end(
    script: Script, children: int, max_parallel: int | None
) -> None:
    def ending(picks: list[int]) -> object:
        run = group(children, max_parallel=max_parallel, on_error="collect")
        outcome, _ = play(run, Script(script.pauses, script.fails, picks, script.limits), lambda run: run)
        return "failed" if isinstance(outcome, str) else outcome

    assert ending(script.picks) == ending([])
