"""Every recorded exchange without a stream, over HTTP: what we make of the answer, and what we sent to get it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support import wire
from tests.support.clients import client
from tests.support.wire import Case, obj
from understudy.errors import AuthenticationError, ContentBlocked, ContextOverflow, ProviderError, RateLimited
from understudy.vocabulary.messages import JsonObject, JsonValue, ModelRequest, ModelTurn

CASES = wire.cases()
FAILING = [case for case in CASES if case.expected["error"] is not None]
ANSWERED = [case for case in CASES if case.expected["error"] is None]
COUNTS = {
    "openai": ("prompt_tokens", "completion_tokens", "prompt_tokens_details.cached_tokens"),
    "openai-responses": ("input_tokens", "output_tokens", "input_tokens_details.cached_tokens"),
    "anthropic": ("input_tokens", "output_tokens", "cache_read_input_tokens"),
    "gemini": ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount"),
    "vertex": ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount"),
}
ERRORS = {401: AuthenticationError, 429: RateLimited}

BLOCKED = {
    "gemini-gen-safety-block-a": (
        "SAFETY",
        ("HARM_CATEGORY_HATE_SPEECH",),
        "gemini blocked the model's answer (SAFETY): there is no answer",
    ),
    "vertex-gen-prompt-blocked-a": (
        "MODEL_ARMOR",
        (),
        "vertex blocked the prompt (MODEL_ARMOR): The prompt violated Prompt Injection and Jailbreak filters.",
    ),
    "vertex-gen-response-blocked-a": (
        "MODEL_ARMOR",
        (),
        (
            "vertex blocked the model's answer (MODEL_ARMOR): The response violated Responsible AI Safety settings "
            "(Hate Speech, Harassment, Dangerous) filters."
        ),
    ),
}
"""Recorded answers that were held back -> reason, categories, message."""

pytestmark = pytest.mark.skipif(not wire.FOLDER.is_dir(), reason=wire.MISSING)


def ask(case: Case, server: str, request: ModelRequest | None = None) -> ModelTurn:
    with client(case, server) as model:
        return model.complete(case.wants if request is None else request)


def turn_in(case: Case, server: str) -> ModelTurn:
    """Return the turn of an answer, also of one that was held back."""
    try:
        return ask(case, server)
    except ContentBlocked as error:
        assert case.name in BLOCKED
        assert error.partial is not None
        return error.partial


def picked(usage: JsonObject, path: str) -> JsonValue:
    *outer, last = path.split(".")
    for key in outer:
        usage = obj(usage.get(key))
    return usage.get(last)


def normalised(case: Case, turn: ModelTurn) -> JsonObject:
    """Write a turn as the line of `expected.jsonl` does."""
    names = ("input", "output", "cached")
    return {
        "case": case.name,
        "text": turn.text,
        "thinking": turn.thinking,
        "refusal": turn.refusal,
        "tool_calls": [{"id": c.id or None, "name": c.name, "arguments": c.arguments} for c in turn.tool_calls],
        "finish_reason": turn.raw_finish_reason,
        "usage": {
            n: picked(turn.usage.raw, p)
            for n, p in zip(names, COUNTS[case.api if case.api in COUNTS else "openai"], strict=True)
        },
        "error": None,
    }


def test_some_recordings_have_the_id_of_their_request() -> None:
    assert sum([bool(case.request_id) for case in ANSWERED]) >= 3
    assert sum([bool(case.request_id) for case in FAILING]) >= 3


def test_there_are_33_recordings_without_a_stream() -> None:
    assert len(CASES) == 33


@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case.name)
def test_a_recorded_answer_is_read_as_the_official_library_reads_it(case: Case, server: str) -> None:
    turn = turn_in(case, server)

    assert normalised(case, turn) == case.expected
    assert turn.request_id == case.request_id


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case.name)
def test_a_recorded_error_keeps_its_class_status_word_and_message(case: Case, server: str) -> None:
    expected = obj(case.expected["error"])

    with pytest.raises(ProviderError) as caught:
        ask(case, server)

    overflows = any(words in str(expected["message"]) for words in ("prompt is too long", "exceeds the context window"))
    assert type(caught.value) is (ContextOverflow if overflows else ERRORS.get(case.status, ProviderError))
    assert (caught.value.status, caught.value.type) == (expected["status"], expected["type"])
    said = str(caught.value).partition(f" (the request went to {server}/")[0]  # a 404 names the address
    assert said == str(expected["message"]).replace("\n", r"\n")  # an error is one line
    assert caught.value.provider == case.provider
    assert caught.value.request_id == case.request_id


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_was_sent_says_what_the_recorded_request_said(case: Case, server: str) -> None:
    try:
        ask(case, server)
    except ProviderError:
        assert case in FAILING or case.name in BLOCKED

    entry = wire.log_of(server)[-1]
    assert entry["case"] == case.name
    wire.same_request(case.api, obj(entry["body"]), case.request)


@pytest.mark.parametrize("case", [c for c in CASES if c.name in BLOCKED], ids=lambda case: case.name)
def test_a_recorded_block_tells_its_reason_and_what_was_found(case: Case, server: str) -> None:
    with pytest.raises(ContentBlocked) as caught:
        ask(case, server)

    error = caught.value
    assert (error.reason, error.categories, str(error)) == BLOCKED[case.name]
    assert (error.provider, error.status, error.code, error.retryable) == (case.provider, 200, error.reason, False)


def test_the_wait_of_a_recorded_rate_limit_is_known(server: str) -> None:
    case = next(c for c in CASES if c.name == "gemini-gen-error-429-a")

    with pytest.raises(RateLimited) as caught:
        ask(case, server)

    assert caught.value.retry_after == 48.0
    assert caught.value.retryable


@pytest.mark.parametrize("case", [c for c in CASES if c.name.endswith(".1")], ids=lambda case: case.name)
def test_a_turn_goes_back_as_the_next_request_was_recorded(case: Case, server: str) -> None:
    second = next(c for c in CASES if c.name == case.name.replace(".1", ".2"))
    asked = second.wants
    turn = ask(case, server)
    history = [wire.as_history(turn, m) if m.role == "assistant" else m for m in asked.messages]

    ask(second, server, replace(asked, messages=history))

    entry = wire.log_of(server)[-1]
    assert entry["case"] == second.name
    wire.same_request(case.api, obj(entry["body"]), second.request)
