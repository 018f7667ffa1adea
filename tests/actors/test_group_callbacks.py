"""Callbacks of groups and workflows: they hear how each run ends, and change nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.scripts import WAIT, echo, eventually, needs_input
from understudy.testing import FunctionModel, ScriptedModel, calls, says

Make = Callable[[us.Runner[Any], list[us.AgentCallback]], us.Runner[Any]]


def sequence(child: us.Runner[Any], callbacks: list[us.AgentCallback]) -> us.Runner[Any]:
    return us.SequentialAgent("panel", [child], callbacks=callbacks)


def parallel(child: us.Runner[Any], callbacks: list[us.AgentCallback]) -> us.Runner[Any]:
    return us.ParallelAgent("panel", [child, echo("other")], callbacks=callbacks)


def workflow(child: us.Runner[Any], callbacks: list[us.AgentCallback]) -> us.Runner[Any]:
    return us.Workflow("panel", [us.Task("only", child)], callbacks=callbacks)


KINDS = (sequence, parallel, workflow)


class Witness(us.AgentCallback):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, us.RunContext, Any]] = []

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> None:
        self.heard.append(("on_finish", ctx, outcome))

    def on_error(self, ctx: us.RunContext, error: BaseException) -> None:
        self.heard.append(("on_error", ctx, error))

    def moments(self) -> list[str]:
        return [moment for moment, _, _ in self.heard]


@pytest.mark.parametrize("make", KINDS)
def test_callbacks_hear_of_the_outcome_before_the_caller_does(make: Make) -> None:
    witness = Witness()

    outcome = make(echo("a"), [witness]).run("go", conversation_id="c-7", user_id="ada", timeout=WAIT)

    ((moment, ctx, told),) = witness.heard
    assert (moment, told.text, told.status, told.run_id) == ("on_finish", outcome.text, "complete", outcome.run_id)
    assert (ctx.agent_id, ctx.run_id, ctx.input) == ("panel", outcome.run_id, "go")
    assert (ctx.conversation_id, ctx.user_id, ctx.turns) == ("c-7", "ada", outcome.turns)


@pytest.mark.parametrize("make", [sequence, parallel])
def test_callbacks_hear_of_the_error_before_the_caller_does(make: Make) -> None:
    witness = Witness()
    failing = us.Agent("a", model=ScriptedModel([us.RateLimited("slow down")]))

    with pytest.raises(us.RateLimited) as caught:
        make(failing, [witness]).run("go", timeout=WAIT)

    ((moment, ctx, error),) = witness.heard
    assert (moment, ctx.agent_id, error) == ("on_error", "panel", caught.value)


def test_a_workflow_with_a_failed_task_is_told_as_incomplete() -> None:
    witness = Witness()
    failing = us.Agent("a", model=ScriptedModel([us.RunError("no")]))

    with us.ActorSystem("shop") as system:
        outcome = workflow(failing, [witness]).run("go", system=system, timeout=WAIT)

    assert (outcome.status, [told.status for _, _, told in witness.heard]) == ("incomplete", ["incomplete"])


@pytest.mark.parametrize("make", KINDS)
def test_callbacks_hear_of_a_cancellation_once(make: Make) -> None:
    witness, gate = Witness(), Gate()
    held = us.Agent("a", model=FunctionModel(gate.then(says("late"))))

    handle = make(held, [witness]).submit("go")
    assert gate.entered.wait(WAIT)
    handle.cancel()
    gate.open()

    eventually(lambda: bool(witness.heard), "the callback is told")
    ((moment, ctx, error),) = witness.heard
    assert (moment, ctx.run_id, type(error)) == ("on_error", handle.run_id, us.RunCancelled)


@pytest.mark.parametrize("make", KINDS)
def test_callbacks_hear_of_a_pause_and_of_the_end_after_it(make: Make) -> None:
    witness = Witness()
    asks = us.Agent("a", model=ScriptedModel([calls("ask_user", question="Which?"), says("ok")]), tools=[us.ask_user])
    runner = make(asks, [witness])

    paused = needs_input(runner.run("go", timeout=WAIT))
    outcome = runner.resume(paused.token, "The red one", timeout=WAIT)

    assert outcome.status == "complete"
    assert [(told.status, ctx.run_id) for _, ctx, told in witness.heard] == [
        ("needs_input", outcome.run_id),
        ("complete", outcome.run_id),
    ]


class Unruly(us.AgentCallback):
    """Answers with a given value, or raises an error of a given class."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> Any:
        ctx.session["seen"] = True
        if isinstance(self._answer, type):
            raise self._answer("no")
        return self._answer


@pytest.mark.parametrize("answer", [us.Abort("no"), "yes", ValueError, us.RunError, SystemExit], ids=repr)
@pytest.mark.parametrize("make", KINDS)
def test_a_callback_that_answers_or_fails_changes_nothing(
    make: Make, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    witness, session = Witness(), us.SessionState()

    outcome = make(echo("a"), [Unruly(answer), witness]).run("go", session=session, timeout=WAIT)

    assert (outcome.status, dict(session)) == ("complete", {})
    assert witness.moments() == ["on_finish"]
    (record,) = [record for record in caplog.records if vars(record).get("event") == "callback_failed"]
    assert outcome.run_id in record.getMessage()


@pytest.mark.parametrize("make", KINDS)
def test_a_logging_callback_writes_the_end_of_a_group(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "understudy")

    outcome = make(echo("a"), [us.LoggingCallback()]).run("go", timeout=WAIT)

    of_group = [vars(record) for record in caplog.records if vars(record).get("run_id") == outcome.run_id]
    assert [(line["name"], line["event"]) for line in of_group] == [
        ("understudy", "run_started"),
        ("understudy.runs", "run_finished"),
    ]
    assert of_group[1]["agent_id"] == "panel"


class Guard(us.AgentCallback):
    def before_model_call(self, ctx: us.RunContext, request: us.ModelRequest) -> us.CallbackAction:
        return us.Abort("no")


@pytest.mark.parametrize(
    ("callbacks", "words"),
    [
        ([Guard()], "callback 'Guard' has neither on_finish nor on_error"),
        ([us.InputGuardrail("polite", lambda ctx, text: None)], "give it to the agents inside"),
        (us.LoggingCallback(), "callbacks must be a list of AgentCallback objects"),
        ([us.LoggingCallback], r"got a class; write LoggingCallback\(\)"),
        (["audit"], "callbacks must hold AgentCallback objects"),
        (None, "callbacks must be a list"),
    ],
)
@pytest.mark.parametrize("make", KINDS)
def test_what_would_never_be_called_is_refused(make: Make, callbacks: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        make(echo("a"), callbacks)


@pytest.mark.parametrize("make", KINDS)
def test_a_copy_keeps_its_callbacks_and_they_are_no_part_of_the_fingerprint(make: Make) -> None:
    witness = Witness()
    watched, plain = make(echo("a"), [witness]), make(echo("a"), [])
    assert isinstance(watched, (us.SequentialAgent, us.ParallelAgent, us.Workflow))

    assert watched.replace(description="a panel").callbacks == (witness,)
    assert watched.replace(callbacks=[]).callbacks == ()
    assert watched.fingerprint() == plain.fingerprint()


def test_a_workflow_with_parameters_keeps_its_callbacks() -> None:
    witness = Witness()
    flow = us.Workflow("flow", [us.Task("only", echo("a"), prompt="${topic}")], callbacks=[witness])

    assert flow.with_parameters({"topic": "tides"}).callbacks == (witness,)
