"""Guardrails: callbacks made of a name and a function that checks a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from understudy.vocabulary.answers.output_type import text_of
from understudy.vocabulary.checks import checked_flag, found_instead
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.messages import ModelRequest, ModelTurn

from .callbacks import Abort, AgentCallback, CallbackAction, Continue, RetryWithFeedback

TextCheck: TypeAlias = Callable[[RunContext, str], "str | None"]
"""Returns why a text is rejected, or None to accept it."""


class _Guardrail(AgentCallback):
    def __init__(self, name: str, check: TextCheck) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"a guardrail's first argument is its name, got {name!r}")
        if not callable(check):
            raise TypeError(f"guardrail {name!r}: expected a function of the context and the text, got {check!r}")
        self.name = name
        self._check = check

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _ruling(self, ctx: RunContext, text: str, *, retry: bool = False) -> CallbackAction:
        reason: object = self._check(ctx, text)
        if reason is None:
            return Continue()
        if not isinstance(reason, str):  # nothing passes, and the model cannot correct it
            said = found_instead(reason)
            return Abort(f"guardrail {self.name!r} must return why it rejects the text, or None; got {said}")
        return RetryWithFeedback(reason) if retry else Abort(reason)


class InputGuardrail(_Guardrail):
    """Checks a run's input before the first model call; a rejected input never reaches the model.

    The run ends with `CallbackAbort`, whose `.callback` is the guardrail's name. What a person answers to a question
    later in the run is not looked at.

    Args:
        name: what the error calls it.
        check: function of the context and the input's text: why it is rejected, or None.
    """

    def before_model_call(self, ctx: RunContext, request: ModelRequest) -> CallbackAction:
        if request.turn > 1:
            return Continue()
        return self._ruling(ctx, ctx.input)


def _text_in(turn: ModelTurn, answer_tool: str) -> str | None:
    """Return the turn's text for people, or the typed answer of its tool call; None if it only calls other tools."""
    calls = turn.tool_calls
    if not calls:
        return turn.text or turn.refusal
    return next((text_of(call) for call in calls if answer_tool and call.name == answer_tool), None)


class OutputGuardrail(_Guardrail):
    """Checks each text with which the model would end the run or ask a person, but no text beside tool calls.

    A typed answer that the model gives by a tool call is checked too, as the JSON of the call's arguments.

    Args:
        name: what the error calls it.
        check: function of the context and the text: why it is rejected, or None.
        retry: tell the model the reason and let it try again, instead of ending the run with `CallbackAbort`.
        hold: `"turn"` shows readers of events nothing of a turn before the guardrail has seen it; None shows each piece at
            once, and a rejected text is taken back by `TurnDropped`.
    """

    def __init__(
        self, name: str, check: TextCheck, *, retry: bool = False, hold: Literal["turn"] | None = None
    ) -> None:
        super().__init__(name, check)
        self._retry = checked_flag(f"guardrail {name!r}: retry", retry)
        if hold not in (None, "turn"):
            raise ValueError(f"guardrail {name!r}: hold must be 'turn' or None, got {hold!r}")
        self.hold = hold

    def after_model_call(self, ctx: RunContext, turn: ModelTurn) -> CallbackAction:
        text = _text_in(turn, ctx.answer_tool)
        return Continue() if text is None else self._ruling(ctx, text, retry=self._retry)
