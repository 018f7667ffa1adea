"""What a person's answer does to a paused run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from understudy.orchestration.rounds import check_decisions
from understudy.orchestration.steps import AwaitApproval, AwaitInput
from understudy.outcomes import Approve, Reject

from .record import Record

if TYPE_CHECKING:
    from understudy.orchestration import Agent, AgentRun
    from understudy.orchestration.port import Answer, ResumeOptions


def feed_answer(record: Record, agent: Agent[object], answer: Answer, options: ResumeOptions) -> None:
    """Raise the limits and feed the answer to the run's machine, or change nothing.

    Raises:
        TypeError: the answer is not of the kind the run waits for.
        ProtocolViolation: a decision is about a call that does not wait.
        ValueError: the run belongs to another agent, or a limit would be lowered.
    """
    machine = record.machine
    assert machine is not None
    if agent.id != record.agent.id:
        raise ValueError(f"run {record.run_id} belongs to agent {record.agent.id!r}, not to {agent.id!r}")
    feed = _checked(machine, record.run_id, answer)
    machine.extend(max_iterations=options.max_iterations, max_turns=options.max_turns)
    feed()


def _checked(machine: AgentRun, run_id: str, answer: Answer) -> Callable[[], object]:
    """Return what feeds the answer and cannot fail any more."""
    if machine.at_limit():
        if answer is not None:
            raise TypeError(f"run {run_id} waits for a higher limit, not for an answer: pass max_iterations=…")
        return _nothing
    step = machine.next_step()
    match step, answer:
        case AwaitInput(), str():
            return partial(machine.answer, answer)
        case AwaitApproval(calls=calls), Approve() | Reject():
            return partial(machine.decisions, {call.id: answer for call in calls})
        case AwaitApproval(), Mapping():
            assert machine.state.round is not None
            check_decisions(machine.state.round, answer)
            return partial(machine.decisions, answer)
        case AwaitInput(question=question), _:
            raise TypeError(f"run {run_id} waits for an answer to {question!r}: pass a string, got {answer!r}")
        case AwaitApproval(calls=calls), _:
            ids = ", ".join(call.id for call in calls)
            raise TypeError(
                f"run {run_id} waits for decisions about {ids}: pass Approve() or Reject(…), got {answer!r}"
            )
        case _ if answer is not None:
            raise TypeError(f"run {run_id} waits for no answer, got {answer!r}")
        case _:
            return _nothing


def _nothing() -> None:
    """What a run is fed that waits for no answer, only for a higher limit."""
