"""How a turn ended: maps the provider's finish reason to ours, and makes the error of a turn without a known one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace

from understudy.errors import BadReply, ProviderError
from understudy.vocabulary.messages import NO_USAGE, FinishReason, ModelTurn, Part, TextPart, ToolCall, Usage

FAILED_THERE = frozenset(
    {"error", "failed", "network_error", "insufficient_system_resource", "abort", "aborted", "cancelled"}
)
"""Finish reasons of a failed server, where another attempt may succeed.

OpenRouter and Mistral say `error`, OpenAI's Responses `failed`, DeepSeek `insufficient_system_resource`, Z.ai `network_error`, vLLM `abort`.
"""
MISFORMED = frozenset(
    {"malformed_function_call", "unexpected_tool_call", "malformed_response", "other", "image_other", "no_image"}
)
"""Gemini API, FinishReason: the model wrote something unreadable, or nothing; another attempt may succeed."""


def neutral(raw: str, known: Mapping[str, FinishReason], parts: tuple[Part, ...]) -> FinishReason:
    """Return our finish reason for the provider's; `other` if `known` does not have it.

    Args:
        raw: the provider's finish reason; empty if it gave none.
        known: the provider's reason -> our reason.
        parts: the parts of the turn. A turn with calls is `tool_calls`, unless it was blocked or its reason is unknown. A
            turn with neither calls nor text is `other` if the provider gave no reason, or one for tool calls.
    """
    reason = known.get(raw, "other") if raw else "tool_calls"
    if reason in ("blocked", "other"):
        return reason
    if any(type(part) is ToolCall for part in parts):
        return "tool_calls"
    if reason != "tool_calls":
        return reason
    return "stop" if any(type(part) is TextPart and part.text for part in parts) else "other"


def unfinished(turn: ModelTurn, provider: str) -> ProviderError:
    """Make the error for a turn without a known finish reason; the turn is its `partial`."""
    raw = turn.raw_finish_reason or ""
    word = raw.lower()
    how = f"with {raw!r}" if raw else "without a reason and without an answer"
    kind = ProviderError if word in FAILED_THERE else BadReply
    return kind(
        f"{provider} ended the model's turn {how}, so it is no answer; .partial has the turn until then",
        provider=provider,
        status=200,
        code=raw,
        retryable=not raw or word in FAILED_THERE or word in MISFORMED,
        partial=turn,
    )


def usage_of(failed: Sequence[ModelTurn]) -> Usage:
    """Return the tokens of partial turns of failed attempts: they are paid for too."""
    return sum([turn.usage for turn in failed], NO_USAGE)


def with_usage_of(failed: Sequence[ModelTurn], last: ModelTurn | None) -> ModelTurn | None:
    """Return the last attempt's turn with the tokens of all `failed` turns added; `last` is one of the failed turns, or None."""
    if not failed or (len(failed) == 1 and last is not None):
        return last
    return replace(ModelTurn(()) if last is None else last, usage=usage_of(failed))


def with_partial(error: ProviderError, partial: ModelTurn | None) -> ProviderError:
    """Return a copy of an error with this partial turn. The error itself stays: a user's model may raise one object each time."""
    made = copy(error).with_traceback(error.__traceback__)
    made.partial = partial
    return made
