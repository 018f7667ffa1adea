"""`LoggingCallback`: one log line for each callback of a run."""

from __future__ import annotations

import logging

from understudy.diagnostics import emit
from understudy.errors import ProviderError
from understudy.vocabulary.checks import checked_flag, checked_whole
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.messages import JsonValue, ModelRequest, ModelTurn, ToolCall, ToolResult
from understudy.vocabulary.runs.callbacks import AgentCallback, CallbackAction, Continue
from understudy.vocabulary.runs.outcomes import Complete, Outcome

log = logging.getLogger("understudy.runs")  # silent as `understudy` is until the host configures logging

_CONTINUE = Continue()


class LoggingCallback(AgentCallback):
    """Logs each callback of a run as an event with fields, to the standard library's logger `understudy.runs`.

    The fields are attributes of the log record, for handlers that write JSON, and the message has them as `name=value`.
    Nothing is printed until the program configures `logging`.

    Args:
        contents: also log prompts, replies, arguments, results and the texts of errors. These are your users' data.
        level: level of all lines except `run_failed`, which is at least a warning.
        logger: the logger to use.
    """

    writes_log = True

    def __init__(
        self, *, contents: bool = False, level: int = logging.INFO, logger: logging.Logger | None = None
    ) -> None:
        if logger is not None and not isinstance(logger, logging.Logger):
            raise TypeError(f"LoggingCallback: logger must be a logging.Logger, got {logger!r}")
        self._contents = checked_flag("LoggingCallback: contents", contents)
        self._level = checked_whole("LoggingCallback: level", level, 0)
        self._log = log if logger is None else logger

    def before_model_call(self, ctx: RunContext, request: ModelRequest) -> CallbackAction:
        return self._say(
            "model_call_started", ctx, {"prompt": request.text}, turn=request.turn, messages=len(request.messages)
        )

    def after_model_call(self, ctx: RunContext, turn: ModelTurn) -> CallbackAction:
        return self._say(
            "model_call_finished",
            ctx,
            {"reply": turn.text},
            finish_reason=turn.finish_reason,
            tool_calls=len(turn.tool_calls),
            text_length=len(turn.text),
            input_tokens=turn.usage.input_tokens,
            output_tokens=turn.usage.output_tokens,
            model=turn.model,
            request_id=turn.request_id,
        )

    def before_tool_call(self, ctx: RunContext, call: ToolCall) -> CallbackAction:
        return self._say("tool_call_started", ctx, {"arguments": dict(call.arguments)}, tool=call.name, call_id=call.id)

    def after_tool_call(self, ctx: RunContext, call: ToolCall, result: ToolResult) -> CallbackAction:
        known = "" if result.error_kind == "unknown_tool" else call.name  # a name invented by a model can be any text
        return self._say(
            "tool_call_finished",
            ctx,
            {"result": result.content},
            tool=known,
            call_id=call.id,
            is_error=result.is_error,
            error_kind=result.error_kind,
        )

    def on_error(self, ctx: RunContext, error: BaseException) -> CallbackAction:
        level = max(self._level, logging.WARNING)
        ids = {"request_id": error.request_id} if isinstance(error, ProviderError) and error.request_id else {}
        return self._say("run_failed", ctx, {"error": str(error)}, level, error_type=type(error).__name__, **ids)

    def on_finish(self, ctx: RunContext, outcome: Outcome[object]) -> CallbackAction:
        reply = outcome.text if isinstance(outcome, Complete) else ""
        return self._say(
            "run_finished",
            ctx,
            {"completion_reason": outcome.completion_reason, "reply": reply},
            status=outcome.status,
            turns=outcome.turns,
            iterations=outcome.iterations,
            total_tokens=outcome.usage.total_tokens,
        )

    def _say(
        self, event: str, ctx: RunContext, contents: dict[str, JsonValue], level: int | None = None, **facts: JsonValue
    ) -> CallbackAction:
        fields: dict[str, JsonValue] = {"agent_id": ctx.agent_id, "run_id": ctx.run_id, **facts}
        if self._contents:
            fields |= contents
        emit(self._level if level is None else level, event, fields, logger=self._log)
        return _CONTINUE
