"""What all model clients share: options, keys, attempts and what an answer can be."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import TypeAlias

import httpx
import pytest

import understudy as us
from tests.support.http import (
    ANTHROPIC_REPLY,
    EVERYWHERE,
    GOOGLE_REPLY,
    HELLO,
    MAKERS,
    OPENAI_REPLY,
    RESPONSES_REPLY,
    Answers,
    FakeTime,
    closed_port,
    within,
)
from tests.support.wire import obj
from understudy.errors import (
    AuthenticationError,
    BadReply,
    ProviderError,
    ProviderTimeout,
    RateLimited,
    RunCancelled,
    RunTimedOut,
)
from understudy.providers import (
    Anthropic,
    AzureOpenAI,
    Gemini,
    OpenAI,
    OpenAIResponses,
    Secret,
    Vertex,
    VertexClaude,
    resolve,
)
from understudy.providers.http.errors import one_line
from understudy.vocabulary.context.scope import NO_RETRIES_LEFT, Scope
from understudy.vocabulary.messages import JsonValue, Usage
from understudy.vocabulary.models import Model, ModelName
from understudy.vocabulary.presets import Preset

ApiKey: TypeAlias = Callable[[], Secret] | str
REPLIES: dict[str, JsonValue] = {
    "openai": OPENAI_REPLY,
    "openai-responses": RESPONSES_REPLY,
    "anthropic": ANTHROPIC_REPLY,
    "gemini": GOOGLE_REPLY,
    "vertex": GOOGLE_REPLY,
}
CANARY = "sk-canary-7f3a9"
LONG = "two\nlines \x1b[31m" + "x" * 10_000

pytestmark = pytest.mark.usefixtures("bare_environment")


def ok(reply: JsonValue = OPENAI_REPLY) -> httpx.Response:
    return httpx.Response(200, json=reply)


def busy(status: int = 429, **headers: str) -> httpx.Response:
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    return httpx.Response(status, headers=named, json={"error": {"message": "busy", "type": "too_busy"}})


def openai(answers: Answers, *, time: FakeTime | None = None, attempts: int = 3) -> OpenAI:
    return OpenAI("gpt-4o", api_key="k", transport=answers, timing=(time or FakeTime()).timing(), attempts=attempts)


# Making a client


def test_making_clients_loads_no_http_library_and_needs_no_key() -> None:
    program = """
import sys
from understudy import providers as p
from understudy.vocabulary.models import ModelName
p.OpenAI("m"); p.Anthropic("m"); p.Gemini("m"); p.Vertex("m"); p.resolve(ModelName.parse("openai:m"))
print(sorted({"httpx", "httpcore", "tenacity", "pydantic", "ssl", "google"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("make", [OpenAI, Anthropic, Gemini, Vertex])
def test_wrong_options_are_refused_when_the_client_is_made(make: type[OpenAI]) -> None:
    with pytest.raises(ValueError, match="model"):
        make(" ")
    for seconds in (-1, 10**400, -(10**5_000), float("inf")):
        with pytest.raises(ValueError, match="^timeout must be above 0 seconds and finite"):
            make("m", timeout=seconds)
        with pytest.raises(ValueError, match="^model_timeout must be above 0 seconds and finite"):
            make("m", model_timeout=seconds)
    with pytest.raises(ValueError, match="attempts"):
        make("m", attempts=0)
    with pytest.raises(ValueError, match="base_url"):
        make("m", base_url="localhost:8080")
    with pytest.raises(TypeError, match="timeout"):
        make("m", timeout="fast")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a caller's mistake
    with pytest.raises(TypeError, match="model"):
        make(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a caller's mistake


GOOD = [
    "http://h",
    "http://h_1:80/v1",
    "http://127.0.0.1:9",
    "http://[::1]:80",
    "http://[fe80::1%eth0]/v1",
    "https://bücher.test",
]
UNSHOWN = [
    "http://h h",
    "http://h/a b",
    " http://h",
    "http://h\n",
    "http://h/v1\r\n",
    "http://h\t",
    "http://\0",
    "http://h\u200b",
]


@pytest.mark.parametrize("address", [*UNSHOWN, "http://h<h", "http://h%20h", "http://h,h", 'http://"h"', "http://h\\h"])
def test_an_address_with_a_character_that_none_has_is_refused_and_not_quoted(address: str) -> None:
    problem = "must not hold a space, a line break" if address in UNSHOWN else "a character that no host's name has"
    for make in (OpenAI, with_preset):
        with pytest.raises(ValueError, match=problem) as caught:
            make("m", base_url=address)
        assert address not in str(caught.value)


@pytest.mark.parametrize("address", GOOD)
def test_hosts_may_be_names_in_any_language_and_addresses_of_both_kinds(address: str) -> None:
    assert OpenAI("m", base_url=address).base_url == address


def gemini_v1(model: str, *, base_url: str) -> Gemini:
    return Gemini(model, base_url=base_url, api_version="v1")


def with_preset(model: str, *, base_url: str) -> OpenAI:
    return OpenAI(model, preset=Preset(name="house", address=base_url, needs_key=False))


@pytest.mark.parametrize(
    ("make", "address", "added"),
    [
        (OpenAI, "https://m.test/v1/chat/completions", "'/chat/completions'"),
        (OpenAIResponses, "https://m.test/v1/responses/", "'/responses'"),
        (Anthropic, "https://m.test/v1/messages", "'/v1/messages'"),
        (Anthropic, "https://m.test/v1/", "'/v1'"),
        (Gemini, "https://m.test/v1beta", "'/v1beta'"),
        (gemini_v1, "https://m.test/v1", "'/v1'"),
        (Gemini, "https://m.test/v1beta/models/m:generateContent", "':generateContent'"),
        (Vertex, "https://m.test/v1", "'/v1'"),
        (VertexClaude, "https://m.test/v1", "'/v1'"),
        (with_preset, "https://m.test/v1", "'/v1'"),
    ],
)
def test_an_address_with_a_path_that_the_client_adds_is_refused(
    make: Callable[..., Model], address: str, added: str
) -> None:
    with pytest.raises(ValueError, match="the client adds") as caught:
        make("m", base_url=address)

    assert added in str(caught.value)
    make("m", base_url="https://m.test/v2")  # a path that no client adds


def test_such_an_address_in_the_environment_is_refused_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://m.test/v1")

    with pytest.raises(ValueError, match="^ANTHROPIC_BASE_URL must be the address without a version"):
        Anthropic("m", api_key="k").complete(HELLO)


def test_an_empty_key_is_refused_when_the_client_is_made() -> None:
    with pytest.raises(ValueError, match="api_key"):
        OpenAI("m", api_key="")


# Keys


@pytest.mark.parametrize(
    ("model", "variable", "parameter"),
    [
        (OpenAI("m"), "OPENAI_API_KEY", "api_key="),
        (Anthropic("m"), "ANTHROPIC_API_KEY", "api_key="),
        (Gemini("m"), "GEMINI_API_KEY or GOOGLE_API_KEY", "api_key="),
        (Vertex("m", access_token="t"), "GOOGLE_CLOUD_PROJECT", "project="),
    ],
)
def test_what_is_missing_is_named_at_the_first_call(model: Model, variable: str, parameter: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        model.complete(HELLO)

    assert variable in str(caught.value)
    assert parameter in str(caught.value)


def test_the_key_and_address_of_the_environment_are_read_at_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(ok())
    model = OpenAI("m", transport=answers)
    monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://model.test/v9/")

    model.complete(HELLO)

    assert answers.requests[0].headers["authorization"] == "Bearer from-environment"
    assert str(answers.requests[0].url) == "http://model.test/v9/chat/completions"


@pytest.mark.parametrize(
    ("make", "prefix", "header"),
    [(OpenAI, "OPENAI", "authorization"), (Anthropic, "ANTHROPIC", "x-api-key")],
)
def test_a_change_of_the_environment_is_seen_by_the_next_call_also_after_one_that_failed(
    make: type[OpenAI], prefix: str, header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers(busy(400))
    model = make("m", transport=answers)

    for name in ("first", "second"):
        monkeypatch.setenv(f"{prefix}_BASE_URL", f"http://{name}.test")
        monkeypatch.setenv(f"{prefix}_API_KEY", f"key-of-{name}")
        with pytest.raises(ProviderError):
            model.complete(HELLO)

    assert [request.url.host for request in answers.requests] == ["first.test", "second.test"]
    assert [request.headers[header].split()[-1] for request in answers.requests] == ["key-of-first", "key-of-second"]


@pytest.mark.parametrize("name", sorted(EVERYWHERE))
def test_a_key_is_in_no_repr_error_log_or_pickle(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    quoting = httpx.Response(401, json={"error": {"message": f"wrong key {CANARY}", "type": "auth"}})
    html = httpx.Response(200, html=f"<p>{CANARY}</p>")
    shown: list[str] = []
    for answer in (quoting, html, httpx.ConnectError(f"no way to {CANARY}"), httpx.ReadTimeout("slow")):
        model = EVERYWHERE[name](Answers(answer), CANARY)
        with pytest.raises(ProviderError) as caught:
            model.complete(HELLO)
        error = caught.value
        cause = error.__cause__
        shown += [
            repr(model),
            str(vars(error)),
            repr(error.args),
            repr(pickle.dumps(error)),
            repr(pickle.dumps(model.model)),
        ]
        if not isinstance(answer, httpx.ConnectError):  # that one was given the key to quote
            shown.append("".join(traceback.format_exception(error)))
        if isinstance(cause, httpx.RequestError):
            shown.append(str(cause.request.headers.raw))
    shown.append(caplog.text)

    assert [text for text in shown if CANARY in text] == []


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (500, {"error": {"message": LONG, "code": LONG, "type": LONG}}),
        (400, {"error": {"message": LONG, "code": "content_filter", "metadata": {"reasons": [LONG] * 100}}}),
        (400, {"error": {"message": LONG, "code": "context_length_exceeded", "type": LONG}}),
        (200, {"error": {"message": LONG, "code": LONG}}),
        (200, {"choices": [{"finish_reason": LONG, "message": {"content": "Hi."}}]}),
    ],
)
def test_what_a_server_says_is_one_line_of_a_bounded_length_in_an_error(
    status: int, said: JsonValue, streamed: bool
) -> None:
    model = OpenAI("m", api_key="k", transport=Answers(httpx.Response(status, json=said)), attempts=1)

    with pytest.raises(ProviderError) as caught:
        list(model.stream(HELLO)) if streamed else model.complete(HELLO)

    error = caught.value
    error.partial = None  # what the model wrote keeps its length
    assert r"two\nlines \x1b[31m" in str(error)
    assert len(str(error)) <= 2_010
    assert len(str(vars(error))) < 15_000
    assert "\n" not in f"{error}{error.code}{error.type}"
    assert "\x1b" not in f"{error}{error.code}{error.type}"


def test_one_line_keeps_spaces_of_any_language_and_shows_what_changes_the_direction() -> None:
    assert one_line("für\xa0uns,\u3000\u202eend\ud800", 100) == "für\xa0uns,\u3000\\u202eend\\ud800"
    assert one_line("seven", 3) == "sev …"


@pytest.mark.parametrize("given", ["argument", "function", "environment"])
def test_a_key_that_cannot_be_sent_is_in_no_variable_of_a_frame(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = CANARY + "\u200b"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    options: dict[str, ApiKey] = {"argument": key, "function": lambda: Secret(key)}
    model = OpenAI("m", api_key=options.get(given), transport=Answers())

    with pytest.raises(AuthenticationError) as caught:
        model.complete(HELLO)

    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)][1:]  # the first one is this test's
    assert not [frame.f_code.co_name for frame in frames if CANARY in repr(frame.f_locals)]


@pytest.mark.parametrize("quoted", [r"sk-live\/canary", r"sk-live\u002fc\u0061nary", r"\u0073k-live/canary"])
@pytest.mark.parametrize("form", ["gateway {}", "{}"])
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, '{"error": {"message": "no %s", "code": "%s", "type": "%s"}}'),
        (400, '{"error": {"message": "context", "code": "context_length_exceeded", "type": "%s"}}'),
        (400, '{"error": {"code": "%s", "type": "content_filter", "metadata": {"reasons": ["%s"]}}}'),
        (500, '{"problem": "%s"}'),
        (500, "<p>%s</p>"),
        (200, '{"choices": [{"finish_reason": "odd %s", "message": {"content": "%s"}}]}'),
        (200, '{"choices": [{"finish_reason": "error", "error": {"code": "%s"}, "message": {"content": "%s"}}]}'),
        (200, '{"choices": "%s"}'),
        (200, '["%s"]'),
    ],
)
def test_a_key_that_a_server_quotes_as_json_may_is_in_no_error(status: int, body: str, form: str, quoted: str) -> None:
    key = "sk-live/canary"
    answer = httpx.Response(status, text=body.replace("%s", form.format(quoted)))
    header = form.format(key)
    model = OpenAI(
        "m",
        api_key=key if header == key else "k",
        extra_headers={"x-it": header},
        transport=Answers(answer),
        attempts=1,
    )

    with pytest.raises(ProviderError) as caught:
        model.complete(HELLO)

    error = caught.value
    assert not [each for each in (str(error), str(vars(error)), repr(error.args)) if key in each or quoted in each]


@pytest.mark.parametrize("name", sorted(EVERYWHERE))
def test_a_client_is_not_pickled(name: str) -> None:
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(EVERYWHERE[name](Answers(ok()), CANARY))


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret(CANARY)

    assert CANARY not in f"{secret} {secret!r} {secret!s:>20} {[secret]} {copy.deepcopy(secret)!r}"
    assert secret.reveal() == CANARY
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret)


@pytest.mark.parametrize("key", ["two\nlines", "schlüssel", "a\x00b"])
def test_a_key_that_fits_into_no_header_is_an_error_that_does_not_quote_it(key: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        OpenAI("m", api_key=key, transport=Answers(ok())).complete(HELLO)

    assert key not in str(caught.value)
    assert key not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_coroutine_is_no_function_of_keys(name: str) -> None:
    async def key() -> str:
        return "k" * 20

    with pytest.raises(TypeError, match="must be a plain function, not async def"):
        EVERYWHERE[name](Answers(), key)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake under test


@pytest.mark.filterwarnings("error")  # that a coroutine was never awaited
@pytest.mark.parametrize("found", ["a coroutine; write a plain function", "None"])
def test_a_function_that_returns_no_key_is_an_error_that_says_so(found: str) -> None:
    async def key() -> str:
        return "k" * 20

    answers = Answers()
    client = OpenAI("m", api_key=lambda: key() if "coroutine" in found else None, transport=answers)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake under test
    with pytest.raises(AuthenticationError, match=f"the key function for openai must return a string, got {found}"):
        client.complete(HELLO)
    assert answers.requests == []


@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_key_function_is_asked_again_once_after_401(name: str) -> None:
    keys = iter(["old-key", "new-key", "newer-key"])
    answers = Answers(busy(401), busy(400))

    with pytest.raises(ProviderError) as caught:
        EVERYWHERE[name](answers, lambda: next(keys)).complete(HELLO)

    assert caught.value.status == 400
    sent = [" ".join(request.headers.values()) for request in answers.requests]
    assert [re.findall("old-key|newer-key|new-key", headers) for headers in sent] == [["old-key"], ["new-key"]]


@pytest.mark.parametrize(("key", "sent"), [("k", 1), (lambda: Secret("k"), 2)], ids=["a fixed key", "a function"])
def test_401_is_final_at_once_with_a_fixed_key_and_the_second_time_with_a_function(key: ApiKey, sent: int) -> None:
    answers = Answers(busy(401))

    with pytest.raises(AuthenticationError):
        OpenAI("m", api_key=key, transport=answers).complete(HELLO)

    assert len(answers.requests) == sent


def test_offline_models_raise_and_name_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(ok())
    monkeypatch.setenv("UNDERSTUDY_OFFLINE", "1")

    with pytest.raises(ProviderError, match="UNDERSTUDY_OFFLINE"):
        openai(answers).complete(HELLO)

    assert answers.requests == []


# Errors


@pytest.mark.parametrize("status", [400, 404, 405])
def test_an_unknown_path_at_an_address_of_the_users_is_named(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def message(make: Callable[..., Model], **options: object) -> str:
        answers = Answers(httpx.Response(status, text="404 page not found"))
        with pytest.raises(ProviderError) as caught:
            make("m", api_key="k", transport=answers, attempts=1, **options).complete(HELLO)
        return str(caught.value).partition(" (the request went to ")[2].removesuffix(")")

    def here(path: str) -> str:
        return "" if status == 400 else f"http://m.test{path}"

    assert message(OpenAI, base_url="http://m.test") == here("/chat/completions")
    assert message(Gemini, base_url="http://m.test") == here("/v1beta/models/m:generateContent")
    azure = here("/openai/deployments/m/chat/completions")  # without ?api-version=…
    assert message(AzureOpenAI, endpoint="http://m.test", api_version="2024-10-21") == azure
    assert message(OpenAI, preset="ollama") == here("/v1/chat/completions").replace("m.test", "127.0.0.1:11434")
    assert message(OpenAI) == message(Anthropic) == message(Gemini) == ""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://m.test")
    assert message(Anthropic) == here("/v1/messages")


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, ProviderError, False),
        (401, AuthenticationError, False),
        (403, AuthenticationError, False),
        (404, ProviderError, False),
        (408, ProviderTimeout, True),
        (409, ProviderError, True),
        (429, RateLimited, True),
        (500, ProviderError, True),
        (503, ProviderError, True),
        (504, ProviderTimeout, True),
        (529, ProviderError, True),
        (302, ProviderError, False),
    ],
)
def test_a_status_decides_what_an_error_is(status: int, kind: type[ProviderError], retryable: bool) -> None:
    with pytest.raises(ProviderError) as caught:
        openai(Answers(busy(status)), attempts=1).complete(HELLO)

    assert type(caught.value) is kind
    assert caught.value.retryable is retryable
    assert (caught.value.status, caught.value.code, str(caught.value)) == (status, "too_busy", "busy")


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ({"detail": "Unauthorized"}, "Unauthorized", ""),
        ({"error": "model not loaded"}, "model not loaded", ""),
        ({"error": {"code": 502, "message": "upstream", "metadata": {}}}, "upstream", ""),
        ([{"error": {"code": 503, "message": "later", "status": "UNAVAILABLE"}}], "later", "UNAVAILABLE"),
        ({"message": "no route"}, "no route", ""),
    ],
)
def test_errors_of_compatible_servers_keep_their_message(body: JsonValue, message: str, code: str) -> None:
    with pytest.raises(ProviderError) as caught:
        openai(Answers(httpx.Response(503, json=body)), attempts=1).complete(HELLO)

    assert (str(caught.value), caught.value.code) == (message, code)


def test_an_error_page_is_quoted_with_its_status() -> None:
    page = httpx.Response(502, html="<html><title>Bad gateway</title>" + "x" * 1000)

    with pytest.raises(ProviderError, match="502.*Bad gateway") as caught:
        openai(Answers(page), attempts=1).complete(HELLO)

    assert caught.value.retryable
    assert len(str(caught.value)) < 400


def test_googles_refusal_of_a_key_is_an_authentication_error() -> None:
    details: JsonValue = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    body: JsonValue = {"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT", "details": details}}

    with pytest.raises(AuthenticationError) as caught:
        MAKERS["gemini"](Answers(httpx.Response(400, json=body)), "k").complete(HELLO)

    assert caught.value.code == "INVALID_ARGUMENT"


def test_an_exhausted_quota_is_not_worth_a_retry() -> None:
    body = {"error": {"message": "pay", "type": "insufficient_quota", "code": "insufficient_quota"}}
    answers = Answers(httpx.Response(429, json=body))

    with pytest.raises(RateLimited) as caught:
        openai(answers).complete(HELLO)

    assert not caught.value.retryable
    assert len(answers.requests) == 1


@pytest.mark.parametrize(("status", "word", "sent"), [(500, "false", 1), (400, "true", 2)])
def test_the_providers_own_word_on_a_retry_is_obeyed(status: int, word: str, sent: int) -> None:
    answers = Answers(busy(status, x_should_retry=word))

    with pytest.raises(ProviderError):
        openai(answers, attempts=2).complete(HELLO)

    assert len(answers.requests) == sent


def half(word: str | None, text: str | None = "Half", **usage: int) -> httpx.Response:
    return ok({"choices": [{"message": {"content": text}, "finish_reason": word}], "usage": dict(usage)})


@pytest.mark.parametrize("text", ["Half", None])
@pytest.mark.parametrize(
    ("word", "kind", "sent"),
    [
        ("insufficient_system_resource", ProviderError, 2),
        ("network_error", ProviderError, 2),
        ("error", ProviderError, 2),
        ("something_new", BadReply, 1),
    ],
)
def test_a_turn_that_did_not_come_to_a_good_end_is_an_error_with_what_came_of_it(
    word: str, kind: type[ProviderError], sent: int, text: str | None
) -> None:
    answers = Answers(half(word, text, prompt_tokens=5, completion_tokens=2))

    with pytest.raises(ProviderError, match=word) as caught:
        openai(answers, attempts=2).complete(HELLO)

    error = caught.value
    assert (type(error), error.code, error.retryable, len(answers.requests)) == (kind, word, sent == 2, sent)
    assert error.partial is not None
    assert (error.partial.text, error.partial.usage) == (text or "", Usage(5 * sent, 2 * sent))


NO_TURNS: list[tuple[str, JsonValue]] = [
    ("gemini", {"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL"}]}),
    ("gemini", {"candidates": [{"content": {"parts": [{"text": "Half"}]}, "finishReason": "OTHER"}]}),
    ("vertex", {"candidates": [{}]}),
    ("anthropic", {"content": [], "stop_reason": None}),
    ("openai", {"choices": [{"message": {"content": None}}]}),
    ("openai-responses", {"output": []}),
]


@pytest.mark.parametrize(("provider", "body"), NO_TURNS)
def test_an_empty_or_misformed_turn_is_a_bad_reply_that_is_worth_a_retry(provider: str, body: JsonValue) -> None:
    with pytest.raises(BadReply) as caught:
        MAKERS[provider](Answers(ok(body)), "k").complete(HELLO)

    assert caught.value.retryable


def test_the_tokens_of_turns_that_failed_are_counted_with_those_of_the_one_that_came() -> None:
    failing = half("error", prompt_tokens=5, completion_tokens=2)
    whole = half("stop", "Hi.", prompt_tokens=5, completion_tokens=1)

    turn = openai(Answers(failing, whole)).complete(HELLO)

    assert (turn.text, turn.usage) == ("Hi.", Usage(10, 3))


def test_the_tokens_of_a_turn_that_failed_are_kept_when_the_last_attempt_fails_in_another_way() -> None:
    with pytest.raises(ProviderError) as caught:
        openai(Answers(half("error", prompt_tokens=5, completion_tokens=2), busy(400))).complete(HELLO)

    assert caught.value.status == 400
    assert caught.value.partial is not None
    assert caught.value.partial.usage == Usage(5, 2)


def test_a_turn_that_anthropic_paused_goes_back_as_it_came() -> None:
    blocks: list[JsonValue] = [
        {"type": "text", "text": "Let me look."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "seven"}},
    ]
    rest: JsonValue = {"content": [{"type": "text", "text": "Seven."}], "stop_reason": "end_turn"}
    answers = Answers(ok({"content": blocks, "stop_reason": "pause_turn"}), ok(rest))
    model = Anthropic("claude-haiku-4-5", api_key="k", transport=answers)

    outcome = us.Agent("clerk", model=model).run("How many?")

    assert (outcome.text, outcome.turns) == ("Seven.", 2)
    assert answers.body()["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "How many?"}]},
        {"role": "assistant", "content": blocks},
    ]


def test_an_error_inside_of_a_choice_is_an_error_with_what_came_before_it() -> None:
    choice: JsonValue = {"message": {"content": "Half"}, "error": {"code": 502, "message": "upstream is gone"}}
    body: JsonValue = {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}

    with pytest.raises(ProviderError, match="upstream is gone") as caught:
        openai(Answers(ok(body)), attempts=1).complete(HELLO)

    assert (caught.value.status, caught.value.retryable) == (502, True)
    assert caught.value.partial is not None
    assert (caught.value.partial.text, caught.value.partial.usage) == ("Half", Usage(5, 2))


@pytest.mark.parametrize("beside", [{"finish_reason": "error KEY"}, {"error": {"message": "no KEY", "code": "KEY"}}])
def test_an_error_of_a_turn_quotes_the_key_nowhere(beside: dict[str, JsonValue]) -> None:
    key = "key-that-nobody-sees"
    body = json.dumps({"choices": [{"message": {"content": "Half KEY"}, **beside}]}).replace("KEY", key)

    with pytest.raises(ProviderError) as caught:
        OpenAI("m", api_key=key, transport=Answers(httpx.Response(200, text=body)), attempts=1).complete(HELLO)

    assert key not in repr((caught.value.args, vars(caught.value)))
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Half ***"


@pytest.mark.parametrize(
    ("provider", "error", "code", "type_"),
    [
        (
            "openai",
            {"type": "invalid_request_error", "code": "context_length_exceeded"},
            "context_length_exceeded",
            "invalid_request_error",
        ),
        ("openai", {"type": "server_error", "code": None}, "server_error", "server_error"),
        ("anthropic", {"type": "overloaded_error"}, "overloaded_error", "overloaded_error"),
        ("gemini", {"code": 400, "status": "INVALID_ARGUMENT"}, "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
    ],
)
def test_an_error_has_the_apis_code_and_its_type(provider: str, error: JsonValue, code: str, type_: str) -> None:
    with pytest.raises(ProviderError) as caught:
        MAKERS[provider](Answers(httpx.Response(400, json={"error": error})), "k").complete(HELLO)

    assert (caught.value.code, caught.value.type) == (code, type_)


def calling(provider: str, arguments: str) -> httpx.Response:
    """Answer with a call whose arguments are this text, in the provider's own form."""
    call = f'{{"id": "a", "name": "look", "input": {arguments}, "args": {arguments}, "type": "tool_use"}}'
    function = f'{{"name": "look", "arguments": {json.dumps(arguments)}}}'
    match provider:
        case "openai":
            body = f'{{"choices": [{{"message": {{"tool_calls": [{{"id": "a", "function": {function}}}]}}}}]}}'
        case "openai-responses":
            item = f'{{"type": "function_call", "call_id": "a", {function[1:]}'
            body = f'{{"status": "completed", "output": [{item}]}}'
        case "anthropic":
            body = f'{{"content": [{call}], "stop_reason": "tool_use"}}'
        case _:
            body = (
                f'{{"candidates": [{{"content": {{"parts": [{{"functionCall": {call}}}]}}, "finishReason": "STOP"}}]}}'
            )
    return httpx.Response(200, text=body)


DEEP = "[" * 400 + "]" * 400


@pytest.mark.parametrize(
    "arguments",
    ['{"x": 1e999}', '{"x": {"y": [1, -1e999]}}', f'{{"x": {DEEP}}}'],
    ids=["a number out of range", "one inside", "nested too deeply"],
)
@pytest.mark.parametrize("provider", sorted(MAKERS))
def test_arguments_that_a_run_cannot_keep_are_bad_json(provider: str, arguments: str) -> None:
    ran: list[float] = []

    def look(x: float) -> str:
        """Look."""
        ran.append(x)
        return "seven"

    answers = Answers(calling(provider, arguments), ok(REPLIES[provider]))

    outcome = us.Agent("clerk", model=MAKERS[provider](answers, "k"), tools=[look]).run("Go")

    assert ran == []
    assert [r.error_kind for m in outcome.messages for r in m.tool_results] == ["bad_json"]
    assert outcome.text == "Hi."


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        ("openai", '{"choices": [{"message": {"content": "Hi."}}], "usage": {"cost": 1e999}}'),
        ("openai", f'{{"choices": [{{"message": {{"content": "Hi."}}}}], "usage": {{"cost": {DEEP}}}}}'),
        ("openai", '{"choices": [{"message": {"content": "Hi.", "reasoning_details": [1e999]}}]}'),
        ("openai-responses", '{"status": "completed", "output": [{"type": "odd", "n": 1e999}]}'),
        ("openai-responses", '{"status": "completed", "output": [{"type": "reasoning", "n": 1e999}]}'),
        ("openai-responses", '{"status": "completed", "output": [], "usage": {"cost": 1e999}}'),
        ("anthropic", '{"content": [{"type": "odd", "n": 1e999}], "stop_reason": "end_turn"}'),
        ("gemini", '{"candidates": [{"content": {"parts": [{"odd": 1e999}]}, "finishReason": "STOP"}]}'),
    ],
)
def test_what_could_not_be_sent_back_is_a_bad_reply(provider: str, body: str) -> None:
    with pytest.raises(BadReply, match="range"):
        MAKERS[provider](Answers(httpx.Response(200, text=body)), "k").complete(HELLO)


COUNTS: dict[str, tuple[str, str, str]] = {
    "openai": ("usage", "prompt_tokens", "completion_tokens"),
    "openai-responses": ("usage", "input_tokens", "output_tokens"),
    "anthropic": ("usage", "input_tokens", "output_tokens"),
    "gemini": ("usageMetadata", "promptTokenCount", "candidatesTokenCount"),
    "vertex": ("usageMetadata", "promptTokenCount", "candidatesTokenCount"),
}


@pytest.mark.parametrize("strange", [-3200, "12", 1.5, True])
@pytest.mark.parametrize("provider", sorted(COUNTS))
def test_a_count_that_can_be_none_is_not_counted_and_kept_as_it_came(provider: str, strange: JsonValue) -> None:
    where, asked, answered = COUNTS[provider]
    reply = {**obj(REPLIES[provider]), where: {asked: strange, answered: 2}}

    usage = MAKERS[provider](Answers(ok(reply)), "k").complete(HELLO).usage

    assert (usage.input_tokens, usage.output_tokens) == (None, 2)
    assert usage.raw[asked] == strange


@pytest.mark.parametrize("name", sorted(EVERYWHERE))
@pytest.mark.parametrize(
    ("answer", "quoted"),
    [
        (httpx.Response(200, html="<html>Please log in</html>"), "Please log in"),
        (httpx.Response(200, text='{"choices": ['), "choices"),
        (httpx.Response(200, text=""), "an empty body"),
        (httpx.Response(200, json=[1, 2]), "array"),
        (httpx.Response(200, json={"something": "else"}), "something"),
        (httpx.Response(200, text='{"choices": NaN}'), "NaN"),
        (httpx.Response(200, content=b"\xff\xfe\x00"), "not JSON"),
        (httpx.Response(200, text="[" * 100_000), "not JSON"),
        (
            httpx.Response(200, json={"choices": "x", "content": 5, "candidates": {"a": 1}, "output": "x"}),
            "must",
        ),
    ],
)
def test_an_answer_of_another_shape_says_what_came(name: str, answer: httpx.Response, quoted: str) -> None:
    with pytest.raises(BadReply) as caught:
        EVERYWHERE[name](Answers(answer), "k").complete(HELLO)

    assert quoted in str(caught.value)
    assert any(word in str(caught.value) for word in ("expected", "must"))
    assert len(str(caught.value)) < 600
    assert not caught.value.retryable


def test_an_unreachable_host_is_named_and_worth_a_retry() -> None:
    port = closed_port()

    with pytest.raises(ProviderError, match=f"127.0.0.1:{port}") as caught:
        OpenAI("m", api_key="k", base_url=f"http://127.0.0.1:{port}/v1", attempts=1).complete(HELLO)

    assert caught.value.retryable
    assert caught.value.status is None


def test_redirects_are_not_followed() -> None:
    answers = Answers(httpx.Response(307, headers={"location": "https://elsewhere.test/"}))

    with pytest.raises(ProviderError, match="307"):
        openai(answers).complete(HELLO)

    assert len(answers.requests) == 1


# Retries


def test_waits_double_up_to_eight_seconds_and_the_last_error_is_raised() -> None:
    time, answers = FakeTime(), Answers(busy(500), busy(500), busy(500), busy(500), busy(500), busy(500), busy(503))

    with pytest.raises(ProviderError) as caught:
        openai(answers, time=time, attempts=7).complete(HELLO)

    assert caught.value.status == 503
    assert time.slept == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]


def test_chance_takes_up_to_a_quarter_off_a_wait() -> None:
    time = FakeTime()
    model = OpenAI("m", api_key="k", transport=Answers(busy(500), ok()), timing=time.timing(chance=1.0))

    model.complete(HELLO)

    assert time.slept == [0.375]


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.25"}, 0.25),
        ({"retry_after": "0"}, 0.0),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 9.0),
        ({"retry_after_ms": "1500", "retry_after": "1"}, 1.5),
        ({"retry_after_ms": "0", "retry_after": "1"}, 1.0),
        ({"retry_after_ms": "0", "retry_after": "Thu, 01 Jan 1970 00:17:10 GMT"}, 30.0),
        ({"retry_after": "Thu, 01 Jan 1970 00:17:10 GMT"}, 30.0),  # FakeTime starts 1,000 s after the epoch
        ({"retry_after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
        ({"retry_after": "soon"}, 0.5),
        ({"retry_after": "-3"}, 0.5),
        ({"retry_after": "nan"}, 0.5),
        ({"retry_after": "9" * 5_000}, 0.5),
        ({"retry_after": "Mon, 01 Jan 99999 00:00:00 GMT"}, 0.5),
        ({"retry_after": "01 Jan 9999999999999999999999 00:00:00 GMT"}, 0.5),
        ({"retry_after": "Mon, 99 Foo 2026 00:00:00 GMT"}, 0.5),
    ],
)
def test_the_wait_the_provider_asked_for_is_kept(headers: dict[str, str], wait: float) -> None:
    time = FakeTime()

    openai(Answers(busy(429, **headers), ok()), time=time).complete(HELLO)

    assert time.slept == [wait]


def test_a_wait_that_did_not_help_is_not_shorter_the_next_time_than_without_it() -> None:
    time = FakeTime()

    with pytest.raises(RateLimited):
        openai(Answers(busy(429, retry_after="0")), time=time, attempts=4).complete(HELLO)

    assert time.slept == [0.0, 1.0, 2.0]


def test_googles_retry_info_is_a_wait() -> None:
    details: JsonValue = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"}]
    full = httpx.Response(429, json={"error": {"code": 429, "message": "full", "details": details}})
    time = FakeTime()

    Gemini("m", api_key="k", transport=Answers(full, ok(GOOGLE_REPLY)), timing=time.timing()).complete(HELLO)

    assert time.slept == [3.5]


def test_a_hint_above_two_minutes_ends_the_call_at_once() -> None:
    time, answers = FakeTime(), Answers(busy(retry_after="121"))

    with pytest.raises(RateLimited) as caught:
        openai(answers, time=time).complete(HELLO)

    assert caught.value.retry_after == 121.0
    assert (len(answers.requests), time.slept) == (1, [])


def test_nothing_is_tried_again_that_does_not_fit_into_the_time_of_the_call() -> None:
    time, answers = FakeTime(), Answers(busy(500))
    model = OpenAI("m", api_key="k", transport=answers, timing=time.timing(), attempts=9, model_timeout=4)

    with pytest.raises(ProviderError):
        model.complete(HELLO)

    assert time.slept == [0.5, 1.0, 2.0]  # another four seconds would be beyond it


@pytest.mark.parametrize(
    ("options", "attempt", "call"),
    [
        ({}, 120.0, 120.0),
        ({"timeout": 600}, 600.0, 600.0),
        ({"timeout": 30}, 30.0, 120.0),
        ({"model_timeout": 600}, 600.0, 600.0),
        ({"timeout": 30, "model_timeout": 600}, 30.0, 600.0),
        ({"timeout": 600, "model_timeout": 60}, 60.0, 60.0),
        ({"timeout": 600, "model_timeout": None}, 600.0, None),
    ],
)
def test_a_timeout_of_more_than_two_minutes_holds(
    options: dict[str, float | None], attempt: float, call: float | None
) -> None:
    answers = Answers(ok())
    model = OpenAI("m", api_key="k", transport=answers, timing=FakeTime().timing(), **options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # options of several types

    model.complete(HELLO)

    assert answers.requests[0].extensions["timeout"]["read"] == attempt
    assert model.model_timeout == call


@pytest.mark.parametrize(
    "failures",
    [
        [httpx.ConnectError("refused"), httpx.ReadError("reset")],
        [httpx.Response(200, json={"error": {"code": 429, "message": "slow down"}})],
    ],
    ids=["a lost connection", "an error inside of a good status"],
)
def test_what_may_pass_is_tried_again(failures: list[httpx.Response | Exception]) -> None:
    answers = Answers(*failures, ok())

    assert openai(answers).complete(HELLO).text == "Hi."
    assert len(answers.requests) == len(failures) + 1


def test_a_hint_beyond_the_runs_deadline_ends_the_call_at_once() -> None:
    time, answers = FakeTime(), Answers(busy(retry_after="7"))

    with pytest.raises(RateLimited):
        within(Scope(time.now + 5.0, lambda: time.now), lambda: openai(answers, time=time).complete(HELLO))

    assert len(answers.requests) == 1


def test_a_run_that_is_cancelled_between_attempts_ends_the_call() -> None:
    scope = Scope(None, lambda: 0.0)

    def cancel(_: httpx.Request) -> httpx.Response:
        scope.cancel()
        return busy(500)

    with pytest.raises(RunCancelled):
        within(scope, lambda: OpenAI("m", api_key="k", transport=httpx.MockTransport(cancel)).complete(HELLO))


def test_a_run_past_its_deadline_sends_nothing() -> None:
    answers = Answers(ok())

    with pytest.raises(RunTimedOut):
        within(Scope(1.0, lambda: 2.0), lambda: openai(answers).complete(HELLO))

    assert answers.requests == []


def test_phases_wait_no_longer_than_the_run_may_take() -> None:
    time, answers = FakeTime(), Answers(ok())

    within(Scope(time.now + 5.0, lambda: time.now), lambda: openai(answers, time=time).complete(HELLO))

    assert answers.requests[0].extensions["timeout"] == {"connect": 5.0, "read": 5.0, "write": 5.0, "pool": 5.0}


# The retries of a run


def failing(scope: Scope, model: Model) -> ProviderError:
    """Ask in a scope where the answer is an error."""
    with pytest.raises(ProviderError) as caught:
        within(scope, lambda: model.complete(HELLO))
    return caught.value


def test_a_client_tries_again_as_long_as_the_run_has_retries_and_then_raises_its_last_error() -> None:
    answers = Answers(busy(503, retry_after_ms="0"), busy(500, retry_after_ms="0"), busy(429, retry_after_ms="0"))
    run = Scope(None, lambda: 0.0, retries=2)

    error = failing(Scope(None, lambda: 0.0, parent=run), openai(answers, attempts=9))

    assert (type(error), len(answers.requests), run.retries_left) == (RateLimited, 3, 0)
    assert error.__notes__ == [NO_RETRIES_LEFT]


def test_an_error_that_came_at_the_last_attempt_says_that_its_retries_are_used_up() -> None:
    run = Scope(None, lambda: 0.0, retries=9)

    error = failing(run, openai(Answers(busy(503, retry_after_ms="0")), attempts=3))

    assert error.retries_used_up
    assert run.retries_left == 7
    assert not hasattr(error, "__notes__")


@pytest.mark.parametrize(("status", "attempts"), [(400, 3), (503, 1)], ids=["not worth it", "not wanted"])
def test_an_error_after_which_nothing_was_tried_again_leaves_that_to_others(status: int, attempts: int) -> None:
    run = Scope(None, lambda: 0.0, retries=9)

    error = failing(run, openai(Answers(busy(status)), attempts=attempts))

    assert not error.retries_used_up
    assert run.retries_left == 9


def test_a_second_error_that_is_not_worth_it_takes_no_retry_of_its_own() -> None:
    run = Scope(None, lambda: 0.0, retries=9)
    answers = Answers(busy(503, retry_after_ms="0"), busy(400))

    error = failing(run, openai(answers))

    assert (error.status, error.retries_used_up, run.retries_left) == (400, False, 8)


def test_an_error_that_had_its_retries_elsewhere_is_not_tried_again() -> None:
    asked: list[int] = []

    def key() -> str:
        asked.append(1)
        error = ProviderError("the vault is down", retryable=True)
        error.retries_used_up = True
        raise error

    with pytest.raises(ProviderError, match="the vault"):
        OpenAI("m", api_key=key, timing=FakeTime().timing()).complete(HELLO)

    assert asked == [1]


# Names


def test_a_name_is_one_client_for_the_whole_process() -> None:
    first = resolve(ModelName.parse("anthropic:claude-haiku-4-5"))

    assert resolve(ModelName.parse("anthropic:claude-haiku-4-5")) is first
    assert isinstance(first, Anthropic)
    assert isinstance(resolve(ModelName.parse("google:gemini-2.5-flash")), Gemini)
    assert resolve(ModelName.parse("openai:a")) is not resolve(ModelName.parse("openai:b"))
