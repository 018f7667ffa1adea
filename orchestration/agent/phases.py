"""The phases of an agent's run, as one table: the calls that `AgentRun` takes in each phase, and the phases they lead to.

The functions that change `RunState.phase` decide by more than the phase, such as counts and limits, so they do not read
the table. A test plays the scenarios and compares each transition with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Phase: TypeAlias = Literal["model", "tools", "input", "incomplete", "bad_output", "done", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRule:
    """One phase of a run."""

    meaning: str
    """The state of a run in this phase, in words."""
    due: tuple[str, ...]
    """The steps that `next_step` returns; empty if it raises an error."""
    moves: Mapping[str, frozenset[Phase]]
    """Method of `AgentRun` -> the phases that can follow; a method that is not here does not change the phase."""


_ENDED: frozenset[Phase] = frozenset({"done", "failed"})
_GOES_ON: frozenset[Phase] = frozenset({"tools", "model"})

PHASES: Mapping[Phase, PhaseRule] = {
    "model": PhaseRule(
        meaning="the model has to answer",
        due=("CallModel",),
        moves={
            "model_response": frozenset({"model", "tools", "input", "incomplete", "bad_output", *_ENDED}),
            "checked_response": frozenset({"model", "tools", "input", "incomplete", "bad_output", *_ENDED}),
            "turn_ruled": frozenset({"model", *_ENDED}),
            "end_by": _ENDED,
        },
    ),
    "tools": PhaseRule(
        meaning="a round of tool calls is open: calls run, or wait for a person",
        due=("CallTools", "AwaitApproval", "AwaitInput"),
        moves={
            "next_step": frozenset({*_GOES_ON, "failed"}),
            "guard": frozenset({"tools", *_ENDED}),
            "tool_results": frozenset({*_GOES_ON, "failed"}),
            "review": frozenset({"tools", *_ENDED}),
            "decisions": _GOES_ON,
            "answer": _GOES_ON,
            "respond": _GOES_ON,
            "end_by": _ENDED,
        },
    ),
    "input": PhaseRule(
        meaning="the model asked a person a question",
        due=("AwaitInput",),
        moves={"answer": frozenset({"model"}), "respond": frozenset({"model"}), "end_by": _ENDED},
    ),
    "incomplete": PhaseRule(
        meaning="the text meets no criterion, and max_continues is reached",
        due=("Done",),
        moves={"extend": frozenset({"incomplete", "model"}), "end_by": _ENDED},
    ),
    "bad_output": PhaseRule(
        meaning="the answer does not fit the output type, and the model is not asked again",
        due=(),
        moves={"extend": frozenset({"bad_output", "model"}), "end_by": _ENDED},
    ),
    "done": PhaseRule(meaning="the run has its answer", due=("Done",), moves={}),
    "failed": PhaseRule(
        meaning="the run failed; only a callback can still give a text", due=(), moves={"end_by": _ENDED}
    ),
}
