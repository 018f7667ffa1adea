"""What a person's answer does to a paused run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.errors import ProtocolViolation
from understudy.orchestration.pauses import check_answers, sort_answers

from .record import Record
from .runrecord import RunRecord

if TYPE_CHECKING:
    from understudy.orchestration import AgentRun
    from understudy.orchestration.port import Answer, ResumeOptions
    from understudy.orchestration.runner import Runner
    from understudy.outcomes import PauseAnswer


def feed_answer(record: RunRecord, runner: Runner[object], answer: Answer, options: ResumeOptions) -> None:
    """Raise the limits and feed the answer to the run's machine, or change nothing.

    Raises:
        TypeError: the answer is not of the kind the run waits for.
        ProtocolViolation: an answer is for something that does not wait.
        ValueError: the run belongs to another agent, or a limit would be lowered.
    """
    if runner.id != record.runner.id:
        raise ValueError(f"run {record.run_id} belongs to agent {record.runner.id!r}, not to {runner.id!r}")
    assert isinstance(record, Record)
    machine = record.machine
    assert machine is not None
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
