"""What a person's answer does to a paused run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.errors import ProtocolViolation
from understudy.orchestration.pauses import check_answers, sort_answers

from .record import Record

if TYPE_CHECKING:
    from understudy.orchestration import Agent, AgentRun
    from understudy.orchestration.port import Answer, ResumeOptions
    from understudy.outcomes import PauseAnswer


def feed_answer(record: Record, agent: Agent[object], answer: Answer, options: ResumeOptions) -> None:
    """Raise the limits and feed the answer to the run's machine, or change nothing.

    Raises:
        TypeError: the answer is not of the kind the run waits for.
        ProtocolViolation: an answer is for something that does not wait.
        ValueError: the run belongs to another agent, or a limit would be lowered.
    """
    machine = record.machine
    assert machine is not None
    if agent.id != record.agent.id:
        raise ValueError(f"run {record.run_id} belongs to agent {record.agent.id!r}, not to {agent.id!r}")
    try:
        given = _sorted(machine, answer)
    except (TypeError, ProtocolViolation) as error:
        raise type(error)(f"run {record.run_id}: {error}") from None
    machine.extend(
        max_iterations=options.max_iterations,
        max_turns=options.max_turns,
        max_continues=options.max_continues,
        budget=options.budget,
        max_output_retries=options.max_output_retries,
    )
    if given:
        machine.respond(given)


def _sorted(machine: AgentRun, answer: Answer) -> dict[str, PauseAnswer]:
    """Return what each pause gets, checked; empty for a run that waits for a higher limit."""
    if machine.at_limit():
        if answer is not None:
            raise TypeError("it waits for a higher limit, not for an answer: pass max_iterations=… or budget=…")
        return {}
    pauses = machine.pauses
    if answer is None and not pauses:
        return {}
    given = sort_answers(pauses, answer)
    check_answers(pauses, given)
    return given
