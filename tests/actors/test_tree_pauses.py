"""Trees of runners in which several wait at once: at several places, deep inside, answered in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import pytest

import understudy as us
from tests.support.scripts import WAIT, finished, paused
from tests.support.stores import DictStore
from understudy.testing import FunctionModel, calls, says

ASKS = "__ask_user__: "
Systems = Callable[[], us.ActorSystem]


class Asker:
    """An agent that asks one thing after another, and then repeats what it was told; its model counts its calls."""

    def __init__(self, id: str, *questions: str) -> None:
        self.calls = 0
        self._questions = questions
        self.agent = us.Agent(id, model=FunctionModel(self._answer))

    def _answer(self, request: us.ModelRequest) -> us.ModelTurn:
        self.calls += 1
        told = [message.text for message in request.messages if message.role == "user"]
        asked = len(told) - 1
        if asked < len(self._questions):
            return says(ASKS + self._questions[asked])
        return says(f"{self.agent.id}({' '.join(told)})")


class Payer:
    """An agent that pays, which a person must approve of."""

    def __init__(self, id: str) -> None:
        self.calls = self.paid = 0

        @us.tool(approval=True)
        def pay() -> str:
            """Pay."""
            self.paid += 1
            return "paid"

        def answer(request: us.ModelRequest) -> us.ModelTurn:
            self.calls += 1
            return says(request.tool_results[0].content) if request.tool_results else calls("pay")

        self.agent = us.Agent(id, model=FunctionModel(answer), tools=[pay])


# --- one agent at several places


def at_three_places(agent: us.Agent) -> us.ParallelAgent:
    flow = us.Workflow("w", [us.Task("t", agent, prompt="third")])
    return us.ParallelAgent("p", [agent, us.SequentialAgent("s", [agent]), flow])


PLACES: list[tuple[str, ...]] = [("p", "a"), ("p", "s", "a"), ("p", "w", "a")]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_an_agent_at_three_places_waits_at_each_and_goes_on_where_it_is_answered(
    another: Systems, order: Sequence[int]
) -> None:
    asker = Asker("a", "name?")
    tree = at_three_places(asker.agent)

    outcome = tree.run("x", system=another())
    paths = [pause.path for pause in paused(outcome).pauses]
    left = list(PLACES)
    for place in order:
        waits = paused(outcome)
        assert [pause.path for pause in waits.pauses] == left
        (pause,) = [pause for pause in waits.pauses if pause.path == PLACES[place]]
        left.remove(pause.path)
        outcome = tree.resume(waits.token, {pause.id: f"n{place}"}, system=another())

    assert paths == PLACES
    assert finished(outcome).combined_text == '["a(x n0)", "a(x n1)", "a(third n2)"]'
    assert asker.calls == 6


def test_an_agent_at_three_places_is_answered_at_all_of_them_at_once(another: Systems) -> None:
    asker = Asker("a", "name?")
    tree = at_three_places(asker.agent)

    waits = paused(tree.run("x", system=another()))
    answers = {pause.id: f"n{place}" for place, pause in enumerate(waits.pauses)}
    outcome = tree.resume(waits.token, answers, system=another())

    assert finished(outcome).combined_text == '["a(x n0)", "a(x n1)", "a(third n2)"]'
    assert asker.calls == 6


def test_an_agent_that_stands_twice_in_a_sequence_waits_twice_and_knows_nothing_of_the_first_time(
    another: Systems,
) -> None:
    asker = Asker("a", "name?")
    tree = us.SequentialAgent("s", [asker.agent, us.SequentialAgent("again", [asker.agent])])

    first = paused(tree.run("x", system=another()))
    second = paused(tree.resume(first.token, "n0", system=another()))
    outcome = tree.resume(second.token, "n1", system=another())

    assert [pause.path for pause in (*first.pauses, *second.pauses)] == [("s", "a"), ("s", "again", "a")]
    assert first.pauses[0].id != second.pauses[0].id
    assert finished(outcome).text == "a(x n1)"
    assert asker.calls == 4


# --- two that wait deep inside


class Deep:
    """A tree in which one asks twice and another needs an approval, three levels down, in groups of their own."""

    def __init__(self) -> None:
        self.left, self.right = Asker("left", "One?", "Two?"), Payer("right")
        self.other = Asker("other")
        flow = us.Workflow("flow", [us.Task("pay", self.right.agent), us.Task("note", self.other.agent)])
        panel = us.ParallelAgent("panel", [us.SequentialAgent("steps", [self.left.agent]), flow])
        self.tree = us.SequentialAgent("report", [panel], pass_output=True)


ONE, TWO, PAY = "One?", "Two?", "pay"
ORDERS = [(ONE, TWO, PAY), (ONE, PAY, TWO), (PAY, ONE, TWO)]


def what(pause: us.Pause) -> str:
    return pause.question or pause.calls[0].name


def answer_to(pause: us.Pause) -> us.PauseAnswer:
    return f"to {pause.question}" if pause.question else us.Approve()


@pytest.mark.parametrize("order", ORDERS)
def test_two_that_wait_three_levels_down_are_answered_one_after_the_other(
    another: Systems, order: Sequence[str]
) -> None:
    deep = Deep()
    outcome = deep.tree.run("x", system=another())
    for each in order:
        waits = paused(outcome)
        (pause,) = [pause for pause in waits.pauses if what(pause) == each]
        others = {what(pause) for pause in waits.pauses} - {each}
        outcome = deep.tree.resume(waits.token, {pause.id: answer_to(pause)}, system=another())
        still = {what(pause) for pause in outcome.pauses} if not isinstance(outcome, us.Complete) else set[str]()
        assert others <= still, "what was not answered waits on"

    assert finished(outcome).combined_text == '["left(x to One? to Two?)", "other(x)"]'
    assert (deep.left.calls, deep.right.calls, deep.right.paid, deep.other.calls) == (3, 2, 1, 1)


def test_two_that_wait_three_levels_down_are_answered_at_once(another: Systems) -> None:
    deep = Deep()

    first = paused(deep.tree.run("x", system=another()))
    answers = {pause.id: answer_to(pause) for pause in first.pauses}
    second = paused(deep.tree.resume(first.token, answers, system=another()))
    outcome = deep.tree.resume(second.token, "last", system=another())

    assert [pause.path for pause in first.pauses] == [
        ("report", "panel", "steps", "left"),
        ("report", "panel", "flow", "right"),
    ]
    assert [what(pause) for pause in second.pauses] == [TWO]
    assert finished(outcome).combined_text == '["left(x to One? last)", "other(x)"]'
    assert (deep.left.calls, deep.right.paid) == (3, 1)


def test_answers_that_fit_only_in_part_are_refused_and_nothing_goes_on(another: Systems) -> None:
    deep = Deep()
    waits = paused(deep.tree.run("x", system=another()))
    question, approval = waits.pauses

    for wrong in (
        {question.id: us.Approve()},
        {question.id: "yes", approval.id: "yes"},
        {question.id: "yes", "no": ""},
    ):
        with pytest.raises((TypeError, us.ProtocolViolation)):
            deep.tree.resume(waits.token, wrong, system=another())

    assert (deep.left.calls, deep.right.calls) == (1, 1)
    answers = {pause.id: answer_to(pause) for pause in waits.pauses}
    assert [what(pause) for pause in paused(deep.tree.resume(waits.token, answers, system=another())).pauses] == [TWO]


# --- pauses and faults


def test_a_group_that_crashes_while_it_is_stored_pauses_all_the_same() -> None:
    faults, store = iter([SystemExit("a fault in the store")]), DictStore()

    def fail_once(method: str) -> None:
        for fault in faults if method == "put" else ():
            raise fault

    store.on_call = fail_once
    deep = Deep()
    with us.ActorSystem("trees", store=store) as system:
        waits = paused(deep.tree.run("x", system=system, timeout=WAIT))
        answers = {pause.id: answer_to(pause) for pause in waits.pauses}
        again = paused(deep.tree.resume(waits.token, answers, system=system))

    assert next(faults, None) is None
    assert [what(pause) for pause in again.pauses] == [TWO]
    assert (deep.left.calls, deep.right.calls, deep.right.paid) == (2, 2, 1)
