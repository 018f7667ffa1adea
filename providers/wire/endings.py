"""Why a turn ended: the provider's word as a neutral one, and the error of a turn that did not come to a known end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from understudy.errors import BadReply, ProviderError
from understudy.vocabulary.messages import NO_USAGE, FinishReason, ModelTurn, Part, TextPart, ToolCall, Usage

FAILED_THERE = frozenset({"error", "network_error", "insufficient_system_resource", "abort", "aborted", "cancelled"})
"""The server itself failed, and another attempt may succeed.

OpenRouter and Mistral say `error`, DeepSeek `insufficient_system_resource`, Z.ai `network_error`, vLLM `abort`.
"""
MISFORMED = frozenset({"malformed_function_call", "malformed_response", "other", "image_other", "no_image"})
"""Gemini API, FinishReason: the model wrote what nobody can read, or nothing. The next attempt is another draw."""


def neutral(raw: str, known: Mapping[str, FinishReason], parts: tuple[Part, ...]) -> FinishReason:
    """Return the neutral word for `raw`; `other` for one that the provider's table does not have.

    Args:
        raw: the provider's word; empty where it gave none.
        known: the provider's words for the ends that a turn can come to.
        parts: what the turn holds. Calls decide, unless the turn was blocked or its end is unknown. A turn that has neither
            calls nor text, and names no other end, is `other`.
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
    """Make the error for a turn whose end is none that its provider is known for; it has the turn as `partial`."""
    raw = turn.raw_finish_reason or ""
    word = raw.lower()
    how = f"with {raw!r}" if raw else "without a reason and without an answer"
    kind = ProviderError if word in FAILED_THERE else BadReply
    return kind(
        f"{provider} ended the model's turn {how}, so that it is no answer; what came of it is in .partial",
        provider=provider,
        status=200,
        code=raw,
        retryable=not raw or word in FAILED_THERE or word in MISFORMED,
        partial=turn,
    )


def usage_of(failed: Sequence[ModelTurn]) -> Usage:
    """Return the tokens of the turns that failed attempts brought: they are paid for too."""
    return sum([turn.usage for turn in failed], NO_USAGE)


def with_usage_of(failed: Sequence[ModelTurn], last: ModelTurn | None) -> ModelTurn | None:
    """Return what came of the last attempt, with the tokens of all `failed` ones; `last` is among them, or None."""
    if not failed or (len(failed) == 1 and last is not None):
        return last
    return replace(ModelTurn(()) if last is None else last, usage=usage_of(failed))
