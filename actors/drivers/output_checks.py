"""Typed answers: user code reads them, so a driver does, outside of the record's lock."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from understudy.orchestration.agent.typed_answers import answer_in
from understudy.vocabulary.runs.outcomes import Complete, Incomplete

if TYPE_CHECKING:
    from understudy.actors.runs.agent_record import AgentRunRecord
    from understudy.actors.runs.turn_findings import AboutTurn
    from understudy.vocabulary.answers.output_type import CheckedOutput
    from understudy.vocabulary.messages import ModelTurn


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
    """Return an outcome with the answer in the agent's output type, read again if this driver has not read it.

    Raises:
        InvalidOutput: it fits no longer.
    """
    if isinstance(outcome, Incomplete) or record.agent.run_spec.output is None:
        return outcome
    if checked is None or checked.text != outcome.text:
        checked = record.agent.check_output(outcome.text)
    return replace(cast("Complete[object]", outcome), output=checked.value)
