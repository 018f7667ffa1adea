"""What a person's answer does to a paused run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from understudy.errors import ProtocolViolation
from understudy.orchestration.agent.limits import limits_reached
from understudy.orchestration.agent.pauses import check_answers, sort_answers
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.saving.raised_limits import Raising, raised_in

from .agent_record import AgentRunRecord
from .edited_calls import UnfitArguments, check_edits
from .group_record import GroupRunRecord
from .record import RunRecord

if TYPE_CHECKING:
    from understudy.actors.run_view.log import Finished
    from understudy.orchestration.agent.state import RunState
    from understudy.orchestration.definitions.port import Answer, ResumeOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.orchestration.saving.machines import Machine
    from understudy.vocabulary.runs.outcomes import PauseAnswer

NUMBERS = ("max_iterations", "max_turns", "max_continues", "max_output_retries")
"""Limits of agents, of which groups have none themselves."""


def feed_answer(
    record: RunRecord, runner: Runner[object], answer: Answer, options: ResumeOptions
) -> Sequence[Finished]:
    """Raise the limits and feed the answer to the run's machine, or change nothing.

    Returns:
        The calls that have their result by the answer; whoever goes on with the run tells of them.

    Raises:
        TypeError: the answer is not of the kind the run waits for.
        ProtocolViolation: an answer is for something that does not wait.
        ValueError: the run belongs to another runner, a limit would be lowered, an incomplete run would
            stay so, or arguments of an approval do not fit.
    """
    if runner.id != record.runner.id:
        raise ValueError(f"run {record.run_id} belongs to {record.runner.id!r}, not to {runner.id!r}")
    try:
        given = _sorted(record, runner, answer)
    except UnfitArguments as error:
        raise ValueError(f"run {record.run_id}: {error}") from None
    except (TypeError, ProtocolViolation) as error:
        raise type(error)(f"run {record.run_id}: {error}") from None
    if isinstance(record, GroupRunRecord):
        _go_on(record, given, options)
        return ()
    assert isinstance(record, AgentRunRecord)
    machine = record.machine
    assert machine is not None
    _check_goes_on(record.run_id, machine.state, options.max_continues)
    machine.extend(
        max_iterations=options.max_iterations,
        max_turns=options.max_turns,
        max_continues=options.max_continues,
        budget=options.budget,
        max_output_retries=options.max_output_retries,
    )
    return record.respond(given) if given else ()


def _go_on(record: GroupRunRecord, given: Mapping[str, PauseAnswer], options: ResumeOptions) -> None:
    """Feed an orchestrator's machine; one that waits for no answer goes on at its limits, or begins anew what failed."""
    machine, limits = record.machine, {name: getattr(options, name) for name in NUMBERS}
    wanted = Raising(numbers={name: n for name, n in limits.items() if n is not None}, budget=options.budget)
    stopped = machine.at_limit()
    for name in wanted.numbers if not stopped else ():
        raise ValueError(f"run {record.run_id}: {name} is a limit of agents, and {record.runner.id!r} is none")
    anew = isinstance(machine, GraphRun) and not wanted.numbers and wanted.budget is None
    raised = raised_in(record.group, machine, wanted) if stopped and not anew else {}
    wanted.check()
    if options.budget is not None and "budget" not in wanted.taken:
        record.account.extend(options.budget)
    if given:
        machine.respond(given)
    elif raised:
        machine.go_on(raised)
    elif isinstance(machine, GraphRun):
        machine.retry_failed()


def _check_goes_on(run_id: str, state: RunState, wanted: int | None) -> None:
    """Refuse to resume an incomplete run that would stay incomplete: it would only use the token up.

    Raises:
        ValueError: the `max_continues` that is wanted is not above the number that the run has used.
    """
    if state.phase == "incomplete" and (wanted is None or state.max_continues <= wanted <= state.continues):
        raise ValueError(
            f"run {run_id} is incomplete, because {state.completion_reason}: pass max_continues= above "
            f"{state.continues} to go on; the token stands"
        )


def _limits(machine: AgentRun | Machine) -> list[str]:
    """Return the arguments by which a run that stands at a limit goes on."""
    if isinstance(machine, AgentRun):
        return [f"{name}=…" for name in limits_reached(machine.state, machine.account)]
    return ["the limit that a child of it reached, such as max_iterations=… or budget=…"]


def _sorted(record: RunRecord, runner: Runner[object], answer: Answer) -> dict[str, PauseAnswer]:
    """Return what each pause gets, checked; empty for a run that waits for a higher limit, or to try again."""
    assert isinstance(record, (AgentRunRecord, GroupRunRecord))
    machine = record.machine
    assert machine is not None
    unfinished = isinstance(machine, GraphRun) and machine.is_incomplete()
    if unfinished or machine.at_limit():
        if answer is not None:
            what = "to begin its failed tasks anew" if unfinished else "for a higher limit"
            hint = "resume it without one" if unfinished else f"pass {' and '.join(_limits(machine))}"
            raise TypeError(f"it waits {what}, not for an answer: {hint}")
        return {}
    pauses = machine.pauses
    if answer is None and not pauses:
        return {}
    given = sort_answers(pauses, answer)
    check_answers(pauses, given)
    check_edits(runner, pauses, given)
    return given
