"""What a person's answer does to a paused run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from understudy.orchestration.steps import AwaitApproval, AwaitInput
from understudy.outcomes import Approve, Decision, Reject

from .record import Record

if TYPE_CHECKING:
    from understudy.orchestration import Agent, AgentRun
    from understudy.orchestration.port import Answer, ResumeOptions


def feed_answer(record: Record, agent: Agent[object], answer: Answer, options: ResumeOptions) -> None:
    """Raise the limits and feed the answer to the run's machine, or change nothing.

    Raises:
        TypeError: the answer is not of the kind the run waits for.
        ValueError: the run belongs to another agent, a limit would be lowered, or a call id does not wait.
    """
    machine = record.machine
    assert machine is not None
    if agent.id != record.agent.id:
        raise ValueError(f"run {record.run_id} belongs to agent {record.agent.id!r}, not to {agent.id!r}")
    if machine.at_limit():
        if answer is not None:
            raise TypeError(f"run {record.run_id} waits for a higher limit, not for an answer: pass max_iterations=…")
        machine.extend(max_iterations=options.max_iterations, max_turns=options.max_turns)
        return
    _answer_step(machine, record.run_id, answer)
    machine.extend(max_iterations=options.max_iterations, max_turns=options.max_turns)


def _answer_step(machine: AgentRun, run_id: str, answer: Answer) -> None:
    step = machine.next_step()
    match step, answer:
        case AwaitInput(), str():
            machine.answer(answer)
        case AwaitApproval(calls=calls), Approve() | Reject():
            machine.decisions({call.id: answer for call in calls})
        case AwaitApproval(), Mapping():
            machine.decisions(_checked(answer))
        case AwaitInput(question=question), _:
            raise TypeError(f"run {run_id} waits for an answer to {question!r}: pass a string, got {answer!r}")
        case AwaitApproval(calls=calls), _:
            ids = ", ".join(call.id for call in calls)
            raise TypeError(
                f"run {run_id} waits for decisions about {ids}: pass Approve() or Reject(…), got {answer!r}"
            )
        case _:
            if answer is not None:
                raise TypeError(f"run {run_id} waits for no answer, got {answer!r}")


def _checked(decisions: Mapping[str, Decision]) -> Mapping[str, Decision]:
    for call_id, decision in decisions.items():
        if not isinstance(decision, (Approve, Reject)):
            raise TypeError(f"the decision about call {call_id!r} must be Approve() or Reject(…), got {decision!r}")
    return decisions
