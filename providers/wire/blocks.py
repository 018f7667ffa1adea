"""Recognises what a provider refuses or holds back because of its content: in errors, and in turns."""

from __future__ import annotations

import re
from collections.abc import Iterator

from understudy.errors import ContentBlocked
from understudy.vocabulary.messages import JsonObject, ModelTurn

from .json_values import inner, is_array, is_object, objects, text

CODES = frozenset(
    {
        "content_filter",  # Azure OpenAI, Content filtering
        "content_policy_violation",  # OpenAI API, Images; LiteLLM, OpenRouter
        "responsibleaipolicyviolation",  # Azure OpenAI
        "moderation_blocked",  # OpenAI API, Images
        "data_inspection_failed",  # Alibaba Model Studio, Error codes
        "datainspectionfailed",
    }
)
"""Words for it in the fields `code` and `type`, in lower case."""
WORDS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # xAI: "Content violates usage guidelines. Team: …, Failed check: SAFETY_CHECK_TYPE_BIO"
        r"content violates usage guidelines(?:.*?failed check: (?P<check>\w+))?",
        # OpenAI, reasoning models: "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
        r"flagged as potentially violating our usage policy",
        # Anthropic: "Output blocked by content filtering policy"
        r"output blocked by content filtering policy",
        # DeepSeek: "Content Exists Risk"
        r"content exists risk",
    )
)
"""The messages of the APIs that have no word of their own for it."""
FILTERS = ("content_filter_result", "content_filter_results")
NEVER = (401, 408, 409, 429)
"""Statuses that tell of a key or of time; a 403 of xAI and OpenRouter can tell of content."""


def refused_for(said: JsonObject, message: str, status: int) -> tuple[str, ...] | None:
    """Return the categories for which an error object tells that content was refused; None for any other error."""
    if status in NEVER or status >= 500:
        return None
    places = (said, *_details(said))
    codes = {text(place, key).lower() for place in places for key in ("code", "type", "error_type")}
    words = next(filter(None, [pattern.search(message) for pattern in WORDS]), None)
    metadata = inner(said, "metadata")  # OpenRouter API, Errors, Moderation errors
    if words is None and CODES.isdisjoint(codes) and "flagged_input" not in metadata:
        return None
    check = words.groupdict().get("check") if words else None
    reasons = metadata.get("reasons")
    listed = [each for each in reasons if isinstance(each, str)] if is_array(reasons) else []
    filtered = [name for place in places for name in _filtered(place)]
    return (*([check] if check else []), *filtered, *listed)


def _details(said: JsonObject) -> tuple[JsonObject, ...]:
    """Return the objects inside of an error that say more of it: Azure's, in its two spellings, and OpenRouter's."""
    return inner(said, "innererror"), inner(said, "inner_error"), inner(said, "metadata")


def _filtered(source: JsonObject) -> Iterator[str]:
    """Yield the names of the filters that held something back (Azure OpenAI, Content filtering)."""
    for key in FILTERS:
        yield from (name for name, each in inner(source, key).items() if is_object(each) and each.get("filtered"))


def held_back(turn: ModelTurn, provider: str) -> ContentBlocked | None:
    """Return the error of a turn of which the provider shows nothing; None for any other turn.

    A blocked turn with text is the answer as far as it may be shown, and one with calls has results that say that they were
    not run.
    """
    if turn.finish_reason != "blocked" or turn.text or turn.refusal or turn.tool_calls:
        return None
    raw, told = turn.raw_finish_reason or "blocked", turn.metadata
    feedback = inner(told, "promptFeedback")
    reason = raw.removeprefix("blocked:")
    what = "the model's answer" if reason == raw else "the prompt"
    words = text(feedback, "blockReasonMessage") or text(told, "finishMessage") or "there is no answer"
    ratings = [*objects(feedback, "safetyRatings"), *objects(told, "safetyRatings")]
    rated = [text(each, "category") for each in ratings if each.get("blocked") is True]
    return ContentBlocked(
        f"{provider} blocked {what} ({reason}): {words}",
        reason=reason,
        categories=tuple(dict.fromkeys([*rated, *_filtered(told)])),
        provider=provider,
        status=200,
        code=reason,
        partial=turn,
    )
