"""`outcome.children`: how the runs inside of groups and workflows ended, live and after a store kept them; `to_dict()`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

import understudy as us
from tests.support.scripts import WAIT
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.vocabulary.messages import JsonValue


@us.tool(approval=True)
def refund(order: str) -> str:
    """Pay money back."""
    return f"paid {order}"


def answering(id: str, *turns: us.ModelTurn | Exception) -> us.Agent:
    return us.Agent(id, model=ScriptedModel(turns), tools=[refund])


def told(outcome: us.Outcome[object]) -> list[str]:
    """Return the text, status or error of each child."""
    return [
        f"{type(child).__name__}: {child}"
        if isinstance(child, BaseException)
        else child.text
        if isinstance(child, us.Complete)
        else child.status
        for child in outcome.children
    ]


def test_the_children_of_a_sequence_are_its_steps() -> None:
    line = us.SequentialAgent("line", [answering("a", says("one")), answering("b", says("two"))])

    outcome = line.run("go")

    assert told(outcome) == ["one", "two"]
    first = outcome.children[0]
    assert isinstance(first, us.Complete)
    assert (first.agent_id, len(first.messages)) == ("a", 2)


def test_an_agent_has_no_children() -> None:
    assert answering("a", says("one")).run("go").children == ()


def test_a_failure_that_is_collected_stands_in_its_place() -> None:
    busy = us.RateLimited("slow down")
    panel = us.ParallelAgent("panel", [answering("a", busy), answering("b", says("two"))], on_error="collect")

    outcome = panel.run("go")

    assert outcome.children[0] is busy
    assert told(outcome)[1] == "two"


def test_who_was_cancelled_for_the_first_says_so() -> None:
    def wait(request: us.ModelRequest) -> us.ModelTurn:
        scope = us.current_scope()
        assert scope is not None
        scope.sleep(WAIT)
        raise AssertionError

    slow = us.Agent("slow", model=FunctionModel(wait))
    panel = us.ParallelAgent("panel", [slow, answering("b", says("two"))], merge="first")

    outcome = panel.run("go")

    assert isinstance(outcome.children[0], us.RunCancelled)
    assert told(outcome)[1] == "two"


def test_the_children_of_a_workflow_come_in_the_order_of_its_tasks_and_items() -> None:
    echo = us.Agent("echo", model=FunctionModel(lambda request: says(request.text)))
    flow = us.Workflow(
        "flow",
        [
            us.Task("last", echo, prompt="of ${each}", dependencies=["each"]),
            us.Task("each", echo, prompt="item ${item}", for_each="${input}"),
            us.Task("never", echo, prompt="no", when="${each} == nothing", dependencies=["each"]),
        ],
    )

    assert told(flow.run("[1, 2]")) == ['of ["item 1", "item 2"]', "item 1", "item 2"]


def test_a_task_that_failed_is_there_with_its_last_error() -> None:
    flow = us.Workflow(
        "flow",
        [us.Task("a", answering("a", us.RateLimited("once"), us.BadReply("twice")), retries=1, backoff=(0.0, 0.0))],
    )

    outcome = flow.run("go")

    assert told(outcome) == ["BadReply: twice"]


@pytest.mark.parametrize("stored", [False, True])
def test_a_paused_group_has_those_before_and_the_one_that_waits(stored: bool, tmp_path: Path) -> None:
    line = us.SequentialAgent(
        "line",
        [
            answering("a", says("one")),
            answering("b", calls("refund", order="7"), says("two")),
            answering("c", says("three")),
        ],
    )
    store = f"sqlite:///{tmp_path}/shop.db" if stored else None
    with us.ActorSystem("shop", store=store) as system:
        paused = line.run("go", system=system)
    assert told(paused) == ["one", "needs_approval"]
    assert isinstance(paused, us.NeedsApproval)

    if stored:
        system = us.ActorSystem("shop", store=store)
        outcome = line.resume(paused.token, us.Approve(), system=system)
        assert told(outcome) == ["one", "two", "three"]
        system.stop(0.0)


# --- as plain data


@dataclass
class Verdict:
    label: str
    score: float


def test_an_outcome_is_plain_data_with_its_typed_output() -> None:
    judge = us.Agent("judge", model=ScriptedModel([says('{"label": "spam", "score": 0.9}')]), output_type=Verdict)

    found = judge.run("Win a prize!").to_dict()

    assert found.pop("run_id")
    assert found == {
        "status": "complete",
        "agent_id": "judge",
        "text": '{"label": "spam", "score": 0.9}',
        "output": {"label": "spam", "score": 0.9},
        "completion_reason": "the model answered",
        "iterations": 0,
        "turns": 1,
        "usage": {"input_tokens": None, "output_tokens": None, "total_tokens": None},
        "cost_usd": None,
        "finish_reason": "stop",
    }


def test_a_pause_is_plain_data_with_what_is_to_be_decided() -> None:
    clerk = answering("clerk", calls("refund", order="7"))

    outcome = clerk.run("go")
    found = outcome.to_dict()

    assert isinstance(outcome, us.NeedsApproval)
    (call,) = outcome.calls
    shown: JsonValue = {"id": call.id, "name": "refund", "arguments": {"order": "7"}}
    assert (found["status"], found["text"], found["token"]) == ("needs_approval", None, outcome.token)
    assert found["calls"] == [shown]
    assert found["pauses"] == [{"id": outcome.pauses[0].id, "path": ["clerk"], "calls": [shown]}]


def test_children_and_their_errors_are_plain_data_that_json_takes() -> None:
    panel = us.ParallelAgent(
        "panel", [answering("a", us.RateLimited("slow down")), answering("b", says("two"))], on_error="collect"
    )

    found = json.loads(json.dumps(panel.run("go").to_dict()))

    assert found["children"][0] == {"status": "failed", "error": {"type": "RateLimited", "message": "slow down"}}
    assert found["children"][1]["text"] == "two"


def test_an_output_that_json_has_no_form_for_is_text() -> None:
    class Own:
        def __str__(self) -> str:
            return "own"

    outcome: us.Complete[object] = us.Complete(text="", output=[Own(), float("nan"), {1}])

    assert outcome.to_dict()["output"] == ["own", None, [1]]
