"""Scenarios played on threads, by the runtime, with a scripted model."""

from __future__ import annotations

from typing import Any

import understudy as us

from .cast import ScenarioModel, Stage
from .scenario import Answer, Played, Scenario


def play_on_threads(scenario: Scenario) -> Played:
    """Run the agent, and resume it while the script has an answer."""
    stage = Stage(scenario)
    model = ScenarioModel(scenario.turns, stage)
    agent, go_on = scenario.agent.replace(model=model), iter([_arguments(answer) for answer in scenario.answers])
    token, arguments = "", dict[str, Any]()
    while True:
        try:
            outcome = agent.resume(token, deps=stage, **arguments) if token else agent.run("Hi", deps=stage)
        except us.UnderstudyError as error:
            stage.note(type(error).__name__)
            token, arguments = getattr(error, "token", ""), next(go_on, dict[str, Any]())
            if not (token and arguments):
                return _failed(stage, model, error)
            continue
        stage.note(_words(outcome))
        arguments = {} if isinstance(outcome, us.Complete) else next(go_on, dict[str, Any]())
        if not arguments:
            return _ended(stage, outcome)
        assert not isinstance(outcome, us.Complete)
        token = outcome.token


def _words(outcome: us.Outcome[object]) -> str:
    match outcome:
        case us.NeedsInput(question=question):
            return f"asks {question}"
        case us.NeedsApproval(calls=calls):
            return " ".join(["waits for", *[call.id for call in calls]])
        case _:
            return outcome.status


def _arguments(answer: Answer) -> dict[str, Any]:
    """Return what `resume` is given for it."""
    if isinstance(answer, str) or all(isinstance(each, us.Approve | us.Reject) for each in answer.values()):
        return {"answer": answer}
    return dict(answer)


def _ended(stage: Stage, outcome: us.Outcome[object]) -> Played:
    return Played(
        steps=stage.steps,
        text=outcome.last_text if isinstance(outcome, us.Incomplete) else outcome.text,
        output=None if isinstance(outcome, us.Incomplete) else outcome.output,
        reason=outcome.completion_reason,
        turns=outcome.turns,
        rounds=outcome.iterations,
        usage=outcome.usage,
        cost_usd=outcome.cost_usd,
        history=outcome.messages[1:],
    )


def _failed(stage: Stage, model: ScenarioModel, error: us.UnderstudyError) -> Played:
    read = tuple(model.requests[-1].messages)[1:] if model.requests else ()
    return Played(steps=stage.steps, text=str(error), history=read, error=error)
