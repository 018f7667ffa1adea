"""Callbacks: what users may look at and decide while a run goes on, at six moments of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from understudy.given import checked_mapping, checked_text
from understudy.messages import JsonObject, ModelRequest, ModelTurn, ToolCall, ToolResult
from understudy.outcomes import Outcome
from understudy.session import RunContext

Moment: TypeAlias = Literal[
    "before_model_call", "after_model_call", "before_tool_call", "after_tool_call", "on_error", "on_finish"
]


@dataclass(frozen=True, slots=True)
class Continue:
    """Nothing to say: the next callback is asked, and after the last one the run goes on."""


@dataclass(frozen=True, slots=True)
class OverrideResponse:
    """End the run with this text in place of the model's, or in place of an error, as if the model had said it.

    Tool calls of the turn do not run, and are not in the history.
    """

    text: str

    def __post_init__(self) -> None:
        checked_text("OverrideResponse: text", self.text)


@dataclass(frozen=True, slots=True)
class RetryWithFeedback:
    """Drop the model's turn and ask again; the model reads the feedback as a user's message, and not what it said.

    The dropped turn counts as a turn, and its tokens count.
    """

    feedback: str

    def __post_init__(self) -> None:
        if not checked_text("RetryWithFeedback: feedback", self.feedback).strip():
            raise ValueError("RetryWithFeedback needs words: providers refuse an empty message")


@dataclass(frozen=True, slots=True)
class RewriteArguments:
    """Run the tool call with these arguments; the history keeps what the model wrote."""

    arguments: JsonObject

    def __post_init__(self) -> None:
        checked_mapping("RewriteArguments: arguments", self.arguments)


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """Have the model read this in place of the tool's result. Events tell what the tool gave."""

    content: str

    def __post_init__(self) -> None:
        checked_text("RewriteResult: content", self.content)


@dataclass(frozen=True, slots=True)
class Skip:
    """Do not run the tool call; the model reads `result`, which is no error."""

    result: str

    def __post_init__(self) -> None:
        checked_text("Skip: result", self.result)


@dataclass(frozen=True, slots=True)
class Block:
    """Do not run the tool call; the model reads the reason as an error."""

    reason: str

    def __post_init__(self) -> None:
        checked_text("Block: reason", self.reason)


@dataclass(frozen=True, slots=True)
class RequireApproval:
    """Have a person decide whether the tool call runs, as for a tool with `approval=True`."""

    reason: str = ""
    """Why, for the person: `NeedsApproval.reasons` has it by call id."""

    def __post_init__(self) -> None:
        checked_text("RequireApproval: reason", self.reason)


@dataclass(frozen=True, slots=True)
class Abort:
    """End the run with `CallbackAbort`."""

    message: str

    def __post_init__(self) -> None:
        checked_text("Abort: message", self.message)


CallbackAction: TypeAlias = (
    Continue
    | OverrideResponse
    | RetryWithFeedback
    | RewriteArguments
    | RewriteResult
    | Skip
    | Block
    | RequireApproval
    | Abort
)
"""What a callback answers. Each moment takes some of them; another one there is a `TypeError`."""

ACCEPTED: Final[Mapping[Moment, tuple[type[CallbackAction], ...]]] = {
    "before_model_call": (OverrideResponse, Abort),
    "after_model_call": (OverrideResponse, RetryWithFeedback, Abort),
    "before_tool_call": (RewriteArguments, Skip, Block, RequireApproval, Abort),
    "after_tool_call": (RewriteResult, Abort),
    "on_error": (OverrideResponse,),
    "on_finish": (),
}
"""Moment -> what it takes besides `Continue`."""

_CONTINUE = Continue()


class AgentCallback:
    """Watches the runs of an agent and may steer them; override the moments you care about.

    Callbacks are asked in the order of `callbacks=[…]`. The first that does not continue decides; those after it are
    not asked. All are called on the thread that drives the run, so a slow one slows its run only; many runs may call
    one object at the same time. What a callback writes to `ctx.session` is kept when it returns. What it raises fails
    the agent, as any failure of the agent's own code does; an `UnderstudyError` ends the run as it is.

    Attributes:
        name: what errors and reasons call it; the class's name, unless the class or the object says another.
    """

    name: str = "AgentCallback"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def before_model_call(self, ctx: RunContext, request: ModelRequest) -> CallbackAction:
        """A model call is due. May answer `OverrideResponse` (the model is not asked) or `Abort`."""
        return _CONTINUE

    def after_model_call(self, ctx: RunContext, turn: ModelTurn) -> CallbackAction:
        """The model answered, and nothing came of it yet. May answer `OverrideResponse`, `RetryWithFeedback`, `Abort`."""
        return _CONTINUE

    def before_tool_call(self, ctx: RunContext, call: ToolCall) -> CallbackAction:
        """The model wants a tool it may call, with arguments that fit; asked once for each call of a turn.

        Comes before a person is asked, and once more when one has approved the call: `RequireApproval` counts as given
        then. May answer `RewriteArguments`, `Skip`, `Block`, `RequireApproval` or `Abort`.
        """
        return _CONTINUE

    def after_tool_call(self, ctx: RunContext, call: ToolCall, result: ToolResult) -> CallbackAction:
        """A call has its result, before the model reads it; errors, blocked, rejected and invalid calls included.

        Comes in call order, once all calls that may run have run. May answer `RewriteResult` or `Abort`.
        """
        return _CONTINUE

    def on_error(self, ctx: RunContext, error: BaseException) -> CallbackAction:
        """The run is about to fail. May answer `OverrideResponse`, and the run ends with that text.

        A run that is ended from outside (cancelled, past its deadline) or because the agent failed has ended already:
        this is called afterwards, on another thread, and the answer changes nothing.
        """
        return _CONTINUE

    def on_finish(self, ctx: RunContext, outcome: Outcome[object]) -> CallbackAction:
        """The run has its outcome: it is complete, or pauses. Takes `Continue` only; the token is not made yet."""
        return _CONTINUE


def checked_action(callback: AgentCallback, moment: Moment, action: CallbackAction) -> CallbackAction:
    """Return what a callback answered, if the moment takes it.

    Raises:
        TypeError: it does not; names the callback, the moment, and what is taken there.
    """
    accepted = ACCEPTED[moment]
    if isinstance(action, (Continue, *accepted)):
        return action
    names = ", ".join(["Continue", *[kind.__name__ for kind in accepted]])
    raise TypeError(f"callback {callback.name!r}: {moment} takes {names}; it answered {action!r}")
