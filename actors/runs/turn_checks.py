"""Checks of a model's turn before it is fed: the arguments of its calls, the rules of the user, and a typed answer.

The rules run on the thread of a work, outside the record's lock. The record keeps each answer until it is fed, so that the
next work does not ask again if this one fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from logging import WARNING
from math import inf
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

from understudy.diagnostics import emit
from understudy.errors import RunError, in_words
from understudy.orchestration.agent.steps import (
    FailRun,
    InvalidCall,
    RepairCall,
    Resolution,
    RetryTurn,
    StopRun,
    Verdict,
)
from understudy.orchestration.agent.turns import calls_of, may_end, repaired, with_ids
from understudy.orchestration.agent.typed_answers import answer_in, final_call
from understudy.orchestration.definitions.agent_rules import InvalidCallRule, resolved
from understudy.orchestration.supervision.call_time import GRACE
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.context.run_values import values_of_run
from understudy.vocabulary.messages import JsonObject, ModelTurn, ToolCall
from understudy.vocabulary.runs.outcomes import Complete, Incomplete
from understudy.vocabulary.tools.parameters import BadArguments
from understudy.vocabulary.tools.signature import Signature

from .agent_record import AgentRunRecord
from .ownership import Stale

if TYPE_CHECKING:
    from understudy.orchestration import AgentRun
    from understudy.vocabulary.answers.output_type import CheckedOutput
    from understudy.vocabulary.context.session import RunContext
    from understudy.vocabulary.messages import ModelTurn
    from understudy.vocabulary.runs.criteria import Criterion
    from understudy.vocabulary.tools.definition import Tool

    from .agent_record import AgentRunRecord

T = TypeVar("T")


class AboutTurn(TypedDict, total=False):
    """What the machine is told about a model's turn, besides the turn."""

    problems: Mapping[int, str]
    resolutions: Mapping[int, Resolution]
    approvals: Mapping[int, Verdict]
    met: str | None
    output_problem: str


NOTHING: AboutTurn = {}


def about_turn(record: AgentRunRecord, epoch: int, turn: ModelTurn) -> AboutTurn:
    """Check the turn's arguments, and ask the agent's rules about it. Raises `Stale` to a work without the run."""
    agent, machine = record.agent, record.machine
    assert machine is not None
    spec, calls = machine.spec, calls_of(turn.parts)
    if not calls or (spec.output is not None and final_call(spec, turn, calls) is not None):
        ask = agent.criteria and may_end(spec, turn)
        return {"met": _met(record, epoch, turn)} if ask else NOTHING
    problems = _problems(record, epoch, calls)
    judges = bool(spec.approvals) and None in spec.approvals.values()
    if agent.on_invalid_call == "result" and not judges:
        return {"problems": problems} if problems else NOTHING
    turn = with_named_calls(turn, machine)
    invalid = machine.invalid_calls(turn, problems)
    resolutions = _resolutions(record, epoch, invalid)
    about: AboutTurn = {"problems": problems, "resolutions": resolutions}
    if judges and not any(isinstance(found, (RetryTurn, FailRun, StopRun)) for found in resolutions.values()):
        unfit = {bad.position for bad in invalid} - {p for p, r in resolutions.items() if isinstance(r, RepairCall)}
        fixed = calls_of(repaired(turn.parts, resolutions))
        verdicts = {p: must_wait(record, epoch, call) for p, call in enumerate(fixed) if p not in unfit}
        about["approvals"] = {p: verdict for p, verdict in verdicts.items() if verdict is not None}
    return about


def with_named_calls(turn: ModelTurn, machine: AgentRun) -> ModelTurn:
    """Return the turn as the machine will see it: with an id for each call."""
    parts = with_ids(turn.parts, machine.state.turns + 1)
    return turn if parts is turn.parts else replace(turn, parts=parts)


# --- arguments


@cache
def _check_arguments() -> Callable[[Signature, str, JsonObject], dict[str, object]]:
    """Return the function, which brings pydantic along; kept, for an import statement takes a while each time."""
    from understudy.vocabulary.tools.schemas import check_arguments

    return check_arguments


def _problems(record: AgentRunRecord, epoch: int, calls: Sequence[ToolCall]) -> dict[int, str]:
    """Check the calls' arguments against the tools' parameters; position -> what is wrong."""
    record.checked = {}
    problems: dict[int, str] = {}
    for position, call in enumerate(calls):
        tool = record.agent.tools_by_name.get(call.name)
        # Validators are users' code: those of a tool that runs in a process may hang, and are left to the worker.
        if tool is not None and call.bad_arguments is None and tool.isolation != "process":
            problem = _problem(record, epoch, tool, call, position)
            if problem:
                problems[position] = problem
    return problems


def _problem(record: AgentRunRecord, epoch: int, tool: Tool[..., object], call: ToolCall, position: int) -> str:
    question = ("arguments", position)
    given_up = record.answered.get(question)
    if given_up is not None:
        return cast(str, given_up)
    if not tool.signature.is_plain:
        deadline = inf if tool.timeout is None else time.monotonic() + tool.timeout + GRACE
        record.begin_step(epoch, f"checking the arguments of {tool.name}", deadline, None, question)
    try:
        ready = _check_arguments()(tool.signature, tool.name, call.arguments)
    except BadArguments as error:
        return str(error)
    except BaseException:  # a validator failed, and does so again where the call is made: as a failure of the tool
        return ""
    record.checked[id(call.arguments)] = (call.arguments, ready)
    return ""


# --- rules


def _resolutions(record: AgentRunRecord, epoch: int, invalid: Sequence[InvalidCall]) -> dict[int, Resolution]:
    rule = record.agent.on_invalid_call
    if rule == "result":
        return {}
    found: dict[int, Resolution] = {}
    for bad in invalid:
        ask = partial(record.ask, epoch, partial(_resolved, rule, bad))
        resolution = _once(record, epoch, ("invalid", bad.position), "the rule for invalid calls", ask)
        if resolution is not None:
            found[bad.position] = resolution
    return found


def _resolved(rule: InvalidCallRule, bad: InvalidCall, context: RunContext) -> Resolution | None:
    return resolved(rule, context, bad)


def must_wait(record: AgentRunRecord, epoch: int, call: ToolCall) -> Verdict | None:
    """Ask the tool's own rule whether a person must agree; None for a tool that has no function for it.

    A rule that raises, or returns anything but True or False, never lets the call run: the verdict is a text then. A
    `RunError` that it raises ends the run.
    """
    tool = record.agent.tools_by_name.get(call.name)
    if tool is None or not callable(rule := tool.approval):
        return None
    question = ("approval", call.id, id(call.arguments))  # it is asked again about rewritten ones
    return _once(
        record, epoch, question, f"the approval rule of {tool.name}", partial(_verdict, record, epoch, rule, call)
    )


def _verdict(
    record: AgentRunRecord, epoch: int, rule: Callable[[ToolCall, RunContext], bool], call: ToolCall
) -> Verdict:
    try:
        said: object = record.ask(epoch, partial(rule, call))
    except (RunError, KeyboardInterrupt, Stale):  # a run that the rule began ends this one, as outside of tools
        raise
    except BaseException as error:  # also sys.exit(): a rule that raises does not let the call run
        fault = f"Not run: the approval rule of tool {call.name!r} raised {in_words(error)}"
        emit(
            WARNING,
            "approval_rule_failed",
            values_of_run(record.link),
            "%s (run %s)",
            fault,
            record.run_id,
            exc_info=error,
        )
        return fault
    if said is True or said is False:  # not isinstance, which asks the object's __class__: that may raise
        return said
    fault = f"Not run: the approval rule of tool {call.name!r} must return True or False, got {found_instead(said)}"
    emit(WARNING, "approval_rule_failed", values_of_run(record.link), "%s (run %s)", fault, record.run_id)
    return fault


def _met(record: AgentRunRecord, epoch: int, turn: ModelTurn) -> str | None:
    """Return why the turn's text ends the run; None if it meets no criterion."""
    text = turn.text or turn.refusal
    if turn.tool_calls:  # one of them is the answer
        text = answer_in(record.agent.run_spec, turn) or ""
    record.begin_step(epoch, "asking the criteria")
    return record.ask(epoch, lambda context: _first_met(record.agent.criteria, context, text))


def _first_met(criteria: Sequence[Criterion], context: RunContext, text: str) -> str | None:
    for criterion in criteria:
        met = criterion(context, text)
        if met is not None and not isinstance(met, (bool, str)):
            raise WrongReturn(
                f"criterion {_name_of(criterion)} must return True, False or a reason, got {found_instead(met)}"
            )
        if met:
            return met if isinstance(met, str) else f"criterion {_name_of(criterion)} was met"
    return None


def _name_of(criterion: object) -> str:
    return repr(getattr(criterion, "__name__", None) or criterion)


def _once(record: AgentRunRecord, epoch: int, question: Hashable, who: str, ask: Callable[[], T]) -> T:
    """Return what was said to a question; asks unless it was asked before."""
    if question not in record.answered:
        record.begin_step(epoch, f"asking {who}")
        record.note_answer(epoch, question, ask())
    return cast(T, record.answered[question])


def check_answer(record: AgentRunRecord, epoch: int, turn: ModelTurn, about: AboutTurn) -> CheckedOutput[object] | None:
    """Read the answer of a turn in the agent's output type; None if there is none that would end the run.

    Errors of validators are raised, except `ValueError`.
    """
    spec = record.agent.run_spec
    text = None if spec.output is None else answer_in(spec, turn)
    if text is None or (spec.criteria and about.get("met") is None):
        return None
    record.begin_step(epoch, "reading the answer")
    return record.agent.check_output(text)


def with_output(
    record: AgentRunRecord, outcome: Complete[str] | Incomplete, checked: CheckedOutput[object] | None
) -> Complete[object] | Incomplete:
    """Return an outcome with the answer in the agent's output type, read again if `checked` is not of its text.

    Raises:
        InvalidOutput: it fits no longer.
    """
    if record.machine is None or record.machine.spec.output is None or isinstance(outcome, Incomplete):
        return outcome
    if checked is None or checked.text != outcome.text:
        checked = record.agent.check_output(outcome.text)
    return replace(cast("Complete[object]", outcome), output=checked.value)
