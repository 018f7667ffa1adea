"""Callbacks: users' code that a run asks at six points, and the actions that it may return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast, get_args

from understudy.vocabulary.checks import checked_json, checked_text, found_instead
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.messages import JsonObject, ModelRequest, ModelTurn, ToolCall, ToolResult

from .outcomes import Outcome

Moment: TypeAlias = Literal[
    "before_model_call", "after_model_call", "before_tool_call", "after_tool_call", "on_error", "on_finish"
]


@dataclass(frozen=True, slots=True)
class Continue:
    """No decision: the next callback is asked, and after the last one the run goes on."""


@dataclass(frozen=True, slots=True)
class OverrideResponse:
    """End the run with this text in place of the model's, or in place of an error, as if the model had said it.

    About a model's turn, its tool calls do not run and are not in the history. About a tool call or its result, the turn
    stays in the history, and its calls without a result are answered as not run.
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
        checked_json("RewriteArguments: arguments", self.arguments)


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """Let the model read this text in place of the tool's result. Events have the tool's own result."""

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
    """Let a person decide whether the tool call runs, as for a tool with `approval=True`."""

    reason: str = ""
    """The reason, for the person: `NeedsApproval.reasons` has it by call id."""

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
"""The actions that a callback may return; None is `Continue`. Each point accepts some of them."""
ACTIONS: Final = get_args(CallbackAction)

ACCEPTED: Final[Mapping[Moment, tuple[type[CallbackAction], ...]]] = {
    "before_model_call": (OverrideResponse, Abort),
    "after_model_call": (OverrideResponse, RetryWithFeedback, Abort),
    "before_tool_call": (RewriteArguments, Skip, Block, RequireApproval, OverrideResponse, Abort),
    "after_tool_call": (RewriteResult, OverrideResponse, Abort),
    "on_error": (OverrideResponse,),
    "on_finish": (),
}
"""Point of a run -> the actions it accepts besides `Continue`."""

_CONTINUE = Continue()


class AgentCallback:
    """Watches and steers the runs of an agent; override the methods you need.

    Callbacks are asked in the order of `callbacks=[…]`. The first that does not continue decides; those after it are
    not asked. None is `Continue`. An answer that the moment does not take never lets a call run and never loses an
    outcome: it blocks the call, or ends the run with `CallbackAbort`.

    All are called on the thread that drives the run, so a slow one slows its run only; many runs may call one object at
    the same time. What a callback writes to `ctx.session` is kept when it returns. What it raises fails the agent, as
    any failure of the agent's own code does; an `UnderstudyError` ends the run as it is.

    Attributes:
        name: what errors and reasons call it; the class's name, unless the class or the object says another.
        writes_log: whether it writes log lines about turns, tool calls and the end of a run; the runtime leaves out its own
            then.
        hold: `"turn"` to show readers nothing of a turn before `after_model_call` has seen it. The model is asked for the
            whole turn then. None shows each piece of a streamed turn at once; a rejected turn is taken back by
            `TurnDropped`.
    """

    name: str = "AgentCallback"
    writes_log: bool = False
    hold: Literal["turn"] | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def before_model_call(self, ctx: RunContext, request: ModelRequest) -> CallbackAction | None:
        """A model call is due. May answer `OverrideResponse` (the model is not asked) or `Abort`."""
        return _CONTINUE

    def after_model_call(self, ctx: RunContext, turn: ModelTurn) -> CallbackAction | None:
        """The model answered; nothing is done yet. May answer `OverrideResponse`, `RetryWithFeedback`, `Abort`."""
        return _CONTINUE

    def before_tool_call(self, ctx: RunContext, call: ToolCall) -> CallbackAction | None:
        """The model wants a tool it may call, with arguments that fit; asked once for each call of a turn.

        Comes before a person is asked, and once more when one has approved the call: `RequireApproval` counts as given
        then. May answer `RewriteArguments`, `Skip`, `Block`, `RequireApproval`, `OverrideResponse` or `Abort`. After one
        of the last two nothing of the turn runs, and nobody is asked about its later calls.
        """
        return _CONTINUE

    def after_tool_call(self, ctx: RunContext, call: ToolCall, result: ToolResult) -> CallbackAction | None:
        """A call has its result, before the model reads it; also for failed, blocked, rejected and invalid calls.

        Comes in call order, once all calls that may run have run. May answer `RewriteResult`, `OverrideResponse` or
        `Abort`; after one of the last two nobody is asked about later results.
        """
        return _CONTINUE

    def on_error(self, ctx: RunContext, error: BaseException) -> CallbackAction | None:
        """The run is about to fail. May answer `OverrideResponse`, and the run ends with that text.

        A run that is ended from outside (cancelled, past its deadline) or because the agent failed has ended already:
        this is called afterwards, on another thread, and the answer changes nothing.
        """
        return _CONTINUE

    def on_finish(self, ctx: RunContext, outcome: Outcome[object]) -> CallbackAction | None:
        """The run has its outcome: it is complete, or pauses; the token is not made yet.

        Takes `Continue` only: another answer is logged, and the outcome stands.
        """
        return _CONTINUE


def action_of(callback: AgentCallback, moment: Moment, answer: object) -> tuple[CallbackAction, str]:
    """Return the action for a callback's answer, and the problem of the answer, or an empty text.

    None is `Continue`. An answer that the moment does not take lets nothing through and loses nothing: before a tool call
    it blocks the call, before and after a model call and after a tool call it ends the run with `CallbackAbort`, and at
    the end of a run the outcome or the error stands.
    """
    accepted = ACCEPTED[moment]
    if answer is None:
        return _CONTINUE, ""
    if isinstance(answer, (Continue, *accepted)):
        return cast(CallbackAction, answer), ""  # pyright: ignore[reportUnnecessaryCast]  # mypy does not narrow it
    names = ", ".join(["Continue", *[kind.__name__ for kind in accepted]])
    said = repr(answer) if isinstance(answer, ACTIONS) else found_instead(answer)
    fault = f"callback {callback.name!r}: {moment} takes {names}; it answered {said}"
    if Block in accepted:
        return Block(fault), fault
    return Abort(fault) if Abort in accepted else _CONTINUE, fault
