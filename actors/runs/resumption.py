"""How a paused run goes on: what higher limits and a person's answers do to its machine.

Arguments that a person gives with `Approve(arguments=…)` must fit the tools of the calls they are for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from understudy.errors import AnswerMissing, AnswerRefused, ProtocolViolation
from understudy.orchestration import Agent
from understudy.orchestration.agent.next_step import is_too_long, limits_reached
from understudy.orchestration.agent.pauses import check_answers, sort_answers
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.front_ends.interrupts import is_id
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.saving.machines import Machine, Orchestrator
from understudy.orchestration.saving.raised_limits import (
    Raising,
    has_kept_children,
    has_limited_children,
    raised_below,
    raised_in,
)
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.messages import JsonObject, ToolCall
from understudy.vocabulary.runs.outcomes import Approve
from understudy.vocabulary.tools.parameters import BadArguments

from .record import RunRecord

if TYPE_CHECKING:
    from understudy.actors.run_view.log import Finished
    from understudy.orchestration.definitions.port import Answer, ResumeOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.vocabulary.runs.outcomes import Pause, PauseAnswer
    from understudy.vocabulary.tools.definition import Tool


class UnfitArguments(ValueError):
    """Arguments that a person gave do not fit; names each."""


def check_edits(runner: Runner[object], pauses: Sequence[Pause], answers: Mapping[str, PauseAnswer]) -> None:
    """Refuse edited arguments that do not fit the tool, at whatever depth its call waits.

    Validators of the tool's parameters run on the calling thread, as they do when the model makes the call.

    Raises:
        UnfitArguments: some do not fit.
    """
    for pause in pauses:
        answer = answers.get(pause.id)
        if answer is None or pause.question is not None:
            continue
        for call in pause.calls:
            decision = answer.get(call.id) if isinstance(answer, Mapping) else answer
            if isinstance(decision, Approve) and decision.arguments is not None:
                _check_edit(runner, pause, call, decision.arguments)


def _check_edit(runner: Runner[object], pause: Pause, call: ToolCall, arguments: JsonObject) -> None:
    problems: list[str] = []
    for tool in _tools_named(call.name, runner, pause.path):
        problem = _problem(tool, arguments)
        if not problem:
            return
        problems.append(problem)
    if problems:
        raise UnfitArguments(f"Approve(arguments=…) for call {call.id!r} does not fit: {problems[0]}; the token stands")


def _tools_named(name: str, runner: Runner[object], path: Sequence[str]) -> Iterator[Tool[..., object]]:
    """Yield the tools of that name of all agents that a pause's path can mean: two children may have one id."""
    owners = [runner]
    for id in path[1:]:
        owners = [inner for owner in owners for inner in owner.inner_runners if inner.id == id]
    for owner in owners:
        if isinstance(owner, Agent) and name in owner.tools_by_name:
            yield owner.tools_by_name[name]


def _problem(tool: Tool[..., object], arguments: JsonObject) -> str:
    """Return what is wrong with the arguments; empty if they fit."""
    if tool.isolation == "process":  # its validators run in its worker alone
        return _wrong_names(tool, arguments)
    from understudy.vocabulary.tools.schemas import check_arguments

    try:
        check_arguments(tool.signature, tool.name, arguments)
    except BadArguments as error:
        return str(error)
    except Exception:  # a validator failed, and does so again when the call is made: as a failure of the tool
        return ""
    return ""


def _wrong_names(tool: Tool[..., object], arguments: JsonObject) -> str:
    parameters = {each.name: each.default is each.empty for each in tool.signature.parameters}
    missing = [
        f"argument {name!r}: field required" for name, needed in parameters.items() if needed and name not in arguments
    ]
    unknown = [f"argument {name!r}: there is none of this name" for name in arguments if name not in parameters]
    return f"tool {tool.name!r}: " + "; ".join([*missing, *unknown]) if missing or unknown else ""


NUMBERS = ("max_iterations", "max_turns", "max_continues", "max_output_retries")
"""Limits of agents, of which groups have none themselves."""


def extend_agent(run_id: str, agent: Agent[object], machine: AgentRun, options: ResumeOptions) -> None:
    """Raise the limits of an agent's run, or of the sub-agents that stand at one; or change nothing.

    Raises:
        ValueError: a limit would be lowered, or an incomplete run would stay so.
    """
    wanted = _wanted(options)
    below = raised_below(agent, machine, wanted)
    if below:
        wanted.check()
        if "budget" not in wanted.taken:
            machine.extend(budget=options.budget)
        for call_id, text in below.items():
            machine.child_stopped(call_id, text)
        return
    _check_goes_on(run_id, machine, options.max_continues)
    machine.extend(
        max_iterations=options.max_iterations,
        max_turns=options.max_turns,
        max_continues=options.max_continues,
        budget=options.budget,
        max_output_retries=options.max_output_retries,
    )


def _check_goes_on(run_id: str, machine: AgentRun, wanted: int | None) -> None:
    """Refuse to resume an incomplete run that would stay incomplete: it would only use the token up."""
    state = machine.state
    if state.phase == "incomplete" and (wanted is None or state.max_continues <= wanted <= state.continues):
        raise ValueError(
            f"run {run_id} is incomplete, because {state.completion_reason}: pass max_continues= above "
            f"{state.continues} to go on; the token stands"
        )


def why_agent_takes_none(machine: AgentRun) -> str:
    """Return why an agent's run takes no answer, and how it goes on; empty if it takes one."""
    if not machine.at_limit():
        return ""
    if is_too_long(machine.state):
        return "its last request was too long for the model, and it waits for no answer: resume it without one"
    limits = [f"{name}=…" for name in limits_reached(machine.state, machine.account)]
    return f"it waits for a higher limit, not for an answer: pass {' and '.join(limits)}"


def extend_group(
    run_id: str,
    group: Orchestrator,
    machine: Machine,
    account: Account,
    answers: Mapping[str, PauseAnswer],
    options: ResumeOptions,
) -> None:
    """Raise the limits of an orchestrator's run and feed it the answers; without any, do again what failed.

    Raises:
        ValueError: a limit would be lowered, or is one of agents and no child stands at it.
    """
    wanted = _wanted(options)
    stopped = has_limited_children(machine)
    for name in wanted.numbers if not stopped else ():
        raise ValueError(f"run {run_id}: {name} is a limit of agents, and {group.id!r} is none")
    raised = raised_in(group, machine, wanted) if stopped else {}
    wanted.moved |= not machine.at_limit() or has_kept_children(machine)  # what else is not done goes on
    wanted.check()
    if options.budget is not None and "budget" not in wanted.taken:
        account.extend(options.budget)
    if answers:
        machine.respond(answers)
    elif raised:
        machine.go_on(raised)
    else:
        machine.retry_failed()


def _wanted(options: ResumeOptions) -> Raising:
    limits = {name: getattr(options, name) for name in NUMBERS}
    return Raising(numbers={name: n for name, n in limits.items() if n is not None}, budget=options.budget)


def retry_group(group: Orchestrator, machine: Machine) -> None:
    """Do again what failed in an orchestrator's run, with no limit raised: a child that is incomplete goes on inside."""
    raised = raised_in(group, machine, Raising(numbers={}, budget=None)) if isinstance(machine, GraphRun) else {}
    if raised:
        machine.go_on(raised)
    else:
        machine.retry_failed()


def why_group_takes_none(machine: Machine) -> str:
    """Return why an orchestrator's run takes no answer, and how it goes on; empty if it takes one."""
    if isinstance(machine, GraphRun) and machine.is_incomplete():
        return "it waits to begin its failed tasks anew, not for an answer: resume it without one"
    if machine.at_limit():
        limit = "the limit that a child of it reached, such as max_iterations=… or budget=…"
        return f"it waits for a higher limit, not for an answer: pass {limit}"
    return ""


def feed_answer(
    record: RunRecord, runner: Runner[object], answer: Answer, options: ResumeOptions
) -> Sequence[Finished]:
    """Raise the limits and feed the answer to the run's machine, or change nothing.

    Returns:
        The calls that have their result by the answer; the caller notes them in the run's log.

    Raises:
        AnswerMissing: there is no answer, and the run waits for one.
        AnswerRefused: the answer is not of the kind the run waits for, or arguments of an approval do not fit.
        ProtocolViolation: an answer is for something that does not wait.
        ValueError: the run belongs to another runner, a limit would be lowered, or an incomplete run would stay so.
    """
    if runner.id != record.runner.id:
        raise ValueError(f"run {record.run_id} belongs to {record.runner.id!r}, not to {runner.id!r}")
    try:
        given = _sorted(record, runner, answer)
    except (TypeError, UnfitArguments, ProtocolViolation) as error:
        if answer is None:
            raise _missing(record, error) from None
        kind = ProtocolViolation if isinstance(error, ProtocolViolation) else AnswerRefused
        raise kind(f"run {record.run_id}: {_without_tokens(error, answer)}", run_id=record.run_id) from None
    return record.go_on(given, options)


def _without_tokens(error: Exception, answer: Answer) -> str:
    """Return the text of an error without ids that front ends were sent: they hold the token, which still works."""
    text = str(error)
    for key in answer if isinstance(answer, Mapping) else ():
        if isinstance(key, str) and is_id(key):  # pyright: ignore[reportUnnecessaryIsInstance]  # of users
            text = text.replace(repr(key), "of a front end, which us.answers_of reads")
    return text


def _missing(record: RunRecord, error: Exception) -> AnswerMissing:
    calls = [call for pause in record.pauses for call in pause.calls]
    questions = [pause.question for pause in record.pauses if pause.question is not None]
    return AnswerMissing(f"run {record.run_id}: {error}", run_id=record.run_id, calls=calls, questions=questions)


def _sorted(record: RunRecord, runner: Runner[object], answer: Answer) -> dict[str, PauseAnswer]:
    """Return what each pause gets, checked; empty for a run that needs no answer to go on."""
    why_none = record.takes_no_answer()
    if why_none:
        if answer is not None:
            raise TypeError(why_none)
        return {}
    pauses = record.pauses
    if answer is None and (record.by_error or not (pauses and record.needs_answer)):
        return {}  # after an error the run goes on and, if it waits for a person, says so
    given = sort_answers(pauses, answer)
    check_answers(pauses, given)
    check_edits(runner, pauses, given)
    return given
