"""Content that a provider refuses or holds back: which errors and turns say so, and which do not."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

import understudy as us
from tests.support.http import HELLO, MAKERS, Answers
from tests.support.machines import make_spec, reloaded, run_of
from tests.support.wire_streams import as_events
from understudy.providers.http.model_client import HttpModel
from understudy.vocabulary.messages import JsonObject, JsonValue, ModelTurn, TextPart

AZURE: JsonObject = {
    "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    "type": None,
    "param": "prompt",
    "code": "content_filter",
    "status": 400,
    "innererror": {
        "code": "ResponsibleAIPolicyViolation",
        "content_filter_result": {
            "hate": {"filtered": False, "severity": "safe"},
            "jailbreak": {"filtered": True, "detected": True},
            "violence": {"filtered": True, "severity": "high"},
        },
    },
}
OLD_AZURE: JsonObject = {
    "code": "content_filter",
    "inner_error": {"content_filter_results": {"jailbreak": {"filtered": True, "detected": True}}},
    "message": "The response was filtered.",
}
MODERATION: JsonObject = {
    "code": 403,
    "message": "The input was flagged.",
    "metadata": {"reasons": ["violence", "hate"], "flagged_input": "I will …", "provider_name": "A"},
}
REFUSED: list[tuple[str, int, JsonValue, str, tuple[str, ...]]] = [
    ("openai", 400, {"error": AZURE}, "content_filter", ("jailbreak", "violence")),
    ("openai", 400, {"error": OLD_AZURE}, "content_filter", ("jailbreak",)),
    ("openai", 400, {"error": {"code": "content_policy_violation", "message": "no"}}, "content_policy_violation", ()),
    (
        "openai",
        400,
        {
            "error": {
                "code": "invalid_prompt",
                "message": "Your prompt was flagged as potentially violating our usage policy.",
            }
        },
        "invalid_prompt",
        (),
    ),
    ("openai", 403, {"error": MODERATION}, "", ("violence", "hate")),
    (
        "openai",
        403,
        {"code": "permission-denied", "error": "Content violates usage guidelines. Team: t, Failed check: CHECK_BIO"},
        "permission-denied",
        ("CHECK_BIO",),
    ),
    (
        "openai",
        400,
        {"error": {"type": "invalid_request_error", "message": "Content Exists Risk"}},
        "invalid_request_error",
        (),
    ),
    ("openai", 400, {"error": {"code": "data_inspection_failed", "message": "no"}}, "data_inspection_failed", ()),
    (
        "anthropic",
        400,
        {"error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}},
        "invalid_request_error",
        (),
    ),
]


def answers_of(status: int, body: JsonValue) -> Answers:
    return Answers(httpx.Response(status, json=body))


@pytest.mark.parametrize(("provider", "status", "body", "reason", "categories"), REFUSED)
def test_a_refused_prompt_is_blocked_content(
    provider: str, status: int, body: JsonValue, reason: str, categories: tuple[str, ...]
) -> None:
    with pytest.raises(us.ContentBlocked) as caught:
        MAKERS[provider](answers_of(status, body), "k").complete(HELLO)

    error = caught.value
    assert (error.reason, error.categories, error.status, error.retryable) == (reason, categories, status, False)


OTHERS: list[tuple[int, JsonObject, type[us.ProviderError]]] = [
    (400, {"code": "invalid_request_error", "message": "content must be a string"}, us.ProviderError),
    (403, {"code": "permission-denied", "message": "Access to the chat endpoint is denied"}, us.AuthenticationError),
    (429, {"code": "content_filter", "message": "slow down"}, us.RateLimited),
    (500, {"code": "content_filter", "message": "the filter failed"}, us.ProviderError),
    (400, {"code": "context_length_exceeded", "message": "content exists risk"}, us.ContextOverflow),
    (400, {"message": "no", "metadata": {"reasons": ["busy"]}}, us.ProviderError),
    (400, {"message": "no", "innererror": "content_filter", "code": ["content_filter"]}, us.ProviderError),
]


@pytest.mark.parametrize(("status", "said", "kind"), OTHERS)
def test_no_other_error_is_blocked_content(status: int, said: JsonObject, kind: type[us.ProviderError]) -> None:
    with pytest.raises(us.ProviderError) as caught:
        MAKERS["openai"](answers_of(status, {"error": said}), "k").complete(HELLO)

    assert type(caught.value) is kind


def test_an_error_in_a_stream_tells_of_blocked_content() -> None:
    body = as_events({"choices": [{"delta": {"content": "Hi"}}]}, {"error": AZURE})
    stream = Answers(httpx.Response(200, content=body, headers={"content-type": "text/event-stream"}))

    with pytest.raises(us.ContentBlocked) as caught:
        list(MAKERS["openai"](stream, "k").stream(HELLO))

    assert caught.value.categories == ("jailbreak", "violence")
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hi"


# --- turns

FILTERS: JsonValue = {"violence": {"filtered": True, "severity": "high"}}
USAGE: JsonValue = {"promptTokenCount": 7}
HELD_BACK: list[tuple[str, dict[str, Any], str, tuple[str, ...]]] = [
    (
        "openai",
        {"choices": [{"finish_reason": "content_filter", "content_filter_results": FILTERS}]},
        "content_filter",
        ("violence",),
    ),
    (
        "openai",
        {"choices": [{"message": {"content": None}, "delta": {}, "finish_reason": "content_filter"}]},
        "content_filter",
        (),
    ),
    ("gemini", {"promptFeedback": {"blockReason": "OTHER"}, "usageMetadata": USAGE}, "OTHER", ()),
    ("gemini", {"candidates": [{"finishReason": "SPII"}], "usageMetadata": USAGE}, "SPII", ()),
]


@pytest.mark.parametrize(("provider", "body", "reason", "categories"), HELD_BACK)
@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_of_which_nothing_is_shown_is_blocked_content(
    provider: str, body: dict[str, Any], reason: str, categories: tuple[str, ...], streamed: bool
) -> None:
    content = as_events(body) if streamed else None
    answer = httpx.Response(200, content=content, headers={"content-type": "text/event-stream"})
    model = MAKERS[provider](Answers(answer if streamed else httpx.Response(200, json=body)), "k")

    with pytest.raises(us.ContentBlocked) as caught:
        list(model.stream(HELLO)) if streamed else model.complete(HELLO)

    error = caught.value
    assert (error.reason, error.code, error.categories, error.retryable) == (reason, reason, categories, False)
    assert error.partial is not None
    assert error.partial.finish_reason == "blocked"
    assert error.partial.usage.input_tokens == (7 if provider == "gemini" else None)


def anthropic(*blocks: JsonObject, **more: JsonValue) -> HttpModel:
    return MAKERS["anthropic"](answers_of(200, {"content": blocks, "stop_reason": "refusal", **more}), "k")


def test_a_refusal_without_words_is_blocked_content_and_one_with_words_is_an_answer() -> None:
    with pytest.raises(us.ContentBlocked, match=r"anthropic blocked the model's answer \(refusal\)"):
        anthropic().complete(HELLO)

    assert anthropic({"type": "text", "text": "No."}).complete(HELLO).text == "No."
    explained = anthropic(stop_details={"type": "refusal", "explanation": "It is harmful."})
    assert explained.complete(HELLO).refusal == "It is harmful."


def test_an_answer_that_was_blocked_in_the_middle_is_an_answer_that_says_so() -> None:
    body: JsonValue = {"choices": [{"message": {"content": "Take the"}, "finish_reason": "content_filter"}]}

    outcome = us.Agent("clerk", model=MAKERS["openai"](answers_of(200, body), "k")).run("How?")

    assert isinstance(outcome, us.Complete)
    assert (outcome.text, outcome.finish_reason) == ("Take the", "content_filter")
    assert outcome.completion_reason == "the provider ended the model's answer (content_filter)"


def test_a_call_that_google_did_not_expect_is_no_blocked_content() -> None:
    body: JsonValue = {"candidates": [{"content": {}, "finishReason": "UNEXPECTED_TOOL_CALL"}]}

    with pytest.raises(us.BadReply) as caught:
        MAKERS["gemini"](answers_of(200, body), "k").complete(HELLO)

    assert caught.value.retryable


# --- runs


def test_a_run_that_ends_with_blocked_content_keeps_its_tokens_and_has_no_token() -> None:
    body: JsonValue = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": USAGE}
    clerk = us.Agent("clerk", model=MAKERS["gemini"](answers_of(200, body), "k"))

    with pytest.raises(us.ContentBlocked) as caught:
        clerk.run("How?")

    assert (caught.value.token, caught.value.path, caught.value.usage.input_tokens) == ("", ("clerk",), 7)


def test_a_model_of_a_users_own_that_holds_its_answer_back_ends_a_run_in_the_same_way() -> None:
    turn = ModelTurn((), finish_reason="blocked", raw_finish_reason="blocked:SAFETY", request_id="req-1")
    run = reloaded(run_of(make_spec(), [turn]))

    with pytest.raises(us.ContentBlocked) as caught:
        run.next_step()

    assert (caught.value.reason, caught.value.request_id, caught.value.retryable) == ("SAFETY", "req-1", False)


def test_text_that_is_shown_before_a_block_is_still_a_turn_in_the_machine() -> None:
    run = run_of(make_spec(), [ModelTurn((TextPart("Half"),), finish_reason="blocked", raw_finish_reason="SAFETY")])

    step = run.next_step()

    assert isinstance(step, us.Done)
    assert step.outcome.completion_reason == "the provider ended the model's answer (SAFETY)"
