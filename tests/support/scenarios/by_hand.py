"""Scenarios played on the machine of a run, without a thread; the run is saved and loaded after every step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import understudy as us
from understudy.orchestration import Ruling
from understudy.orchestration.agent.steps import Step

from .scenario import Answer, Played, Scenario, call_words


def play_by_hand(scenario: Scenario, machine: type[us.AgentRun] = us.AgentRun) -> Played:
    """Drive the run to the end of its scenario; `machine` may be a subclass that a test watches."""
    run = machine(scenario.agent.run_spec, "Hi")
    turns, answers = iter(scenario.turns), iter(scenario.answers)
    steps: list[str] = []
    while True:
        run = machine.from_json(run.to_json(), scenario.agent.run_spec)
        _rule(run, scenario)
        try:
            step = run.next_step()
        except us.UnderstudyError as error:
            steps.append(type(error).__name__)
            if not _answered(run, answers):
                return failed(run, tuple(steps), error)
            continue
        if isinstance(step, us.Done):
            steps.append(step.outcome.status)
            if not (isinstance(step.outcome, us.Incomplete) and _answered(run, answers)):
                return ended(scenario.agent, tuple(steps), step.outcome)
        else:
            steps.append(_taken(run, scenario, step, turns, answers))


def _taken(
    run: us.AgentRun, scenario: Scenario, step: Step, turns: Iterator[us.ModelTurn], answers: Iterator[Answer]
) -> str:
    """Do a step as the scenario has it, and return its words."""
    match step:
        case us.CallModel():
            _take_turn(run, scenario, next(turns))
            return "model"
        case us.CallTools(calls=calls):
            run.tool_results([result_of(scenario, call) for call in calls])
            return " ".join(["tools", *sorted([call_words(call.id, call.arguments) for call in calls])])
        case us.AwaitApproval(calls=calls):
            assert _answered(run, answers)
            return " ".join(["waits for", *[call.id for call in calls]])
        case us.AwaitInput(question=question):
            assert _answered(run, answers)
            return f"asks {question}"
        case us.Done():
            raise AssertionError(step)


def _take_turn(run: us.AgentRun, scenario: Scenario, turn: us.ModelTurn) -> None:
    """Feed a turn with what the agent's own functions say about it."""
    if (action := scenario.after_model.get(turn.text)) is not None:
        run.turn_ruled(turn, Ruling("Guard", action))
        return
    run.model_response(turn, **about_turn(scenario, turn, run))


def about_turn(scenario: Scenario, turn: us.ModelTurn, run: us.AgentRun) -> dict[str, Any]:
    """Return what the agent's own functions say about a turn."""
    positions = {call.id: position for position, call in enumerate(turn.tool_calls)}
    problems = {positions[id]: words for id, words in scenario.misfits.items() if id in positions}
    text = run.answer_in(turn) if scenario.agent.output_type is not None else None
    return {
        "problems": problems,
        "resolutions": {
            bad.position: scenario.resolutions[bad.call.id]
            for bad in run.invalid_calls(turn, problems)
            if bad.call.id in scenario.resolutions
        },
        "approvals": {positions[id]: verdict for id, verdict in scenario.verdicts.items() if id in positions},
        "met": scenario.met.get(turn.text),
        "output_problem": None if text is None else scenario.agent.check_output(text).problem,
    }


def _rule(run: us.AgentRun, scenario: Scenario) -> None:
    """Say what the callback decides about calls that are to run, and about results that are to be read."""
    if run.unguarded():
        run.guard(rulings(scenario.before_tool, [call.id for call in run.unguarded()]))
    if run.unreviewed():
        run.review(rulings(scenario.after_tool, [call.id for call, _ in run.unreviewed()]))


def rulings(actions: Mapping[str, us.CallbackAction], ids: list[str]) -> dict[str, Ruling]:
    return {id: Ruling("Guard", actions[id]) for id in ids if id in actions}


def result_of(scenario: Scenario, call: us.ToolCall) -> us.ToolResult:
    match scenario.returns.get(call.id, f"result of {call.id}"):
        case us.Retry(reason=reason):
            return us.ToolResult(call.id, reason, True, "retry", name=call.name)
        case Exception() as error:
            words = f"{call.name} failed: {type(error).__name__}: {error}"
            return us.ToolResult(call.id, words, True, "raised", name=call.name)
        case text:
            return us.ToolResult(call.id, text)


def _answered(run: us.AgentRun, answers: Iterator[Answer]) -> bool:
    """Answer a pause or raise a limit with the next answer, if there is one."""
    match next(answers, None):
        case None:
            return False
        case str(text):
            run.answer(text)
        case decisions if all(isinstance(each, us.Approve | us.Reject) for each in decisions.values()):
            run.decisions(cast("Mapping[str, us.Decision]", decisions))
        case limits:
            run.extend(**cast("dict[str, int]", limits))  # type: ignore[arg-type]  # names of limits
    return True


def ended(agent: us.Agent[object], steps: tuple[str, ...], outcome: us.Complete[str] | us.Incomplete) -> Played:
    return Played(
        steps=steps,
        text=outcome.text if isinstance(outcome, us.Complete) else outcome.last_text,
        output=agent.check_output(outcome.text).value if isinstance(outcome, us.Complete) else None,
        reason=outcome.completion_reason,
        turns=outcome.turns,
        rounds=outcome.iterations,
        usage=outcome.usage,
        cost_usd=outcome.cost_usd,
        history=outcome.messages[1:],
    )


def failed(run: us.AgentRun, steps: tuple[str, ...], error: us.UnderstudyError) -> Played:
    return Played(steps=steps, text=str(error), history=tuple(run.messages)[1:], error=error)
