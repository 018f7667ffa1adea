"""Requests that are longer than a model's context window: how each API refuses them, as `ContextOverflow`."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from understudy.errors import ContextOverflow, ProviderError, RateLimited
from understudy.providers.http.errors import embedded_failure, failure
from understudy.providers.http.retries import is_worth_it
from understudy.vocabulary.messages import JsonObject, JsonValue

OPENAI = "This model's maximum context length is 128000 tokens. However, your messages resulted in 130052 tokens."
VLLM = (
    "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, "
    "10000 in the completion). Please reduce the length of the messages or completion."
)
VLLM_NEW = (
    "You passed 5000 input tokens and requested 100 output tokens. However, the model's context length is only 4096 "
    "tokens, resulting in a maximum input length of 3996 tokens."
)
MISTRAL = "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"
GEMINI = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
LLAMA = "the request exceeds the available context size. try increasing the context size or enable context shift"


def refused(error: JsonValue, status: int = 400) -> ProviderError:
    body: JsonObject = {"error": error}
    return failure(status, {}, json.dumps(body).encode(), provider="test", now=0.0)


@pytest.mark.parametrize(
    ("error", "tokens", "limit"),
    [
        ({"message": OPENAI, "type": "invalid_request_error", "code": "context_length_exceeded"}, 130052, 128000),
        ({"message": "Your input exceeds the context window of this model.", "code": "x"}, None, None),
        ({"message": "Too long.", "code": "context_length_exceeded"}, None, None),
        ({"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}, 210000, 200000),
        ({"message": "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000"}, 199000, 200000),
        ({"code": 400, "status": "INVALID_ARGUMENT", "message": GEMINI}, 1200000, 1048576),
        ({"message": "the input token count is 1200000 but model only supports up to 1048576."}, 1200000, 1048576),
        ({"message": VLLM, "type": "BadRequestError", "code": 400}, 122946, 16384),
        ({"message": VLLM_NEW}, 5000, 4096),
        ({"code": 400, "type": "exceed_context_size_error", "message": LLAMA, "n_prompt_tokens": 1407, "n_ctx": 256}, 1407, 256),
        ({"message": "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it"}, 5000, 4096),
        ({"message": "prompt too long; exceeded max context length by 120 tokens"}, None, None),
        ({"message": "the input length exceeds the context length"}, None, None),
        ({"message": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}, 537812, 131072),
        ({"message": MISTRAL}, 40000, 32768),
        ({"message": f"prompt is too long: {'9' * 5_000} tokens > 4 maximum"}, None, 4),
        ({"message": LLAMA, "n_prompt_tokens": 10**400, "n_ctx": 256}, None, 256),
        ("prompt is too long: 5 tokens > 4 maximum", 5, 4),
    ],
)  # fmt: skip
def test_a_refusal_because_of_the_length_is_a_context_overflow(
    error: JsonValue, tokens: int | None, limit: int | None
) -> None:
    found = refused(error)

    assert isinstance(found, ContextOverflow), found
    assert (found.tokens, found.limit, found.status) == (tokens, limit, 400)
    assert not is_worth_it(found)


def test_a_server_that_refuses_with_status_500_or_inside_of_an_answer_is_understood_too() -> None:
    assert isinstance(refused({"code": 500, "message": LLAMA}, 500), ContextOverflow)
    body: JsonObject = {"error": {"code": 400, "message": LLAMA}}

    assert isinstance(embedded_failure(body, json.dumps(body).encode(), provider="test"), ContextOverflow)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        ({"message": "Request too large for gpt-4o: Limit 30000, Requested 40000", "code": "rate_limit_exceeded"}, 429, RateLimited),
        ({"message": "max_tokens is too large: 9000. This model supports at most 4096 completion tokens"}, 400, ProviderError),
        ({"message": "You exceeded your current quota", "code": "insufficient_quota"}, 429, RateLimited),
        ({"message": "prompt is too long: 2 tokens > 1 maximum"}, 429, RateLimited),
    ],
)  # fmt: skip
def test_another_refusal_is_none(error: JsonValue, status: int, kind: type[ProviderError]) -> None:
    assert type(refused(error, status)) is kind


def test_a_context_overflow_survives_copy_and_pickle() -> None:
    error = ContextOverflow("too long", tokens=5, limit=4, token="t", status=400)

    for made in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert isinstance(made, ContextOverflow)
        assert (str(made), made.tokens, made.limit, made.token, made.status) == ("too long", 5, 4, "t", 400)
