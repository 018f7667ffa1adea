"""The steps that an agent's machine asks for, and the resolutions of invalid calls: two closed unions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from understudy.vocabulary.fast_init import fast_init
from understudy.vocabulary.messages import JsonObject, ModelRequest, ToolCall
from understudy.vocabulary.runs.compaction import Compaction
from understudy.vocabulary.runs.outcomes import Complete, Incomplete


@fast_init
@dataclass(frozen=True, slots=True)
class CallModel:
    """Send `request` to the model; answer with `AgentRun.model_response`."""

    request: ModelRequest
    compaction: Compaction | None = None
    """Set if the request is for a summary of the conversation: its `model` answers, or the agent's if that is None.

    `AgentRun.compaction_failed` says that there was no answer.
    """


@fast_init
@dataclass(frozen=True, slots=True)
class CallTools:
    """Run `calls`, in any order or at once; answer with `AgentRun.tool_results`, once or several times."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class AwaitApproval:
    """Ask a person about `calls`; answer with `AgentRun.decisions`, for all or some of them."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class AwaitInput:
    """Ask a person `question`; answer with `AgentRun.answer`."""

    question: str


@fast_init
@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do. `Incomplete` goes on only if its limit is raised with `AgentRun.extend`."""

    outcome: Complete[str] | Incomplete


Step: TypeAlias = CallModel | CallTools | AwaitApproval | AwaitInput | Done


InvalidKind: TypeAlias = Literal["unknown_tool", "bad_json", "bad_arguments"]


@dataclass(frozen=True, slots=True)
class InvalidCall:
    """A tool call that cannot run as the model wrote it."""

    position: int
    """Position among the turn's calls, from 0; ids may be missing or repeated."""
    call: ToolCall
    kind: InvalidKind
    reason: str
    """The problem and what was expected, in words for the model."""


@dataclass(frozen=True, slots=True)
class RetryTurn:
    """Run no call of the turn; the model reads `feedback` and tries again. Counts as a model turn."""

    feedback: str


@dataclass(frozen=True, slots=True)
class RepairCall:
    """Run the call under another name, or with other arguments."""

    name: str | None = None
    arguments: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class SkipCall:
    """Do not run the call; its result is `reason`, which is not an error."""

    reason: str


@dataclass(frozen=True, slots=True)
class FailRun:
    """End the run with a `ToolError`."""


@dataclass(frozen=True, slots=True)
class StopRun:
    """End the run as cancelled."""

    reason: str


Verdict: TypeAlias = bool | str
"""Whether a person must agree to a call. A text: the call does not run, and the model reads the text as an error."""


Resolution: TypeAlias = RetryTurn | RepairCall | SkipCall | FailRun | StopRun
"""How to handle an invalid call. Without one, the spec decides: an error for the model, or the end of the run."""
