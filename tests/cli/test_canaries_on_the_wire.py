"""Secrets in addresses, proxies, headers and variables: none comes out of what a client logs, raises or shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import understudy as us
from tests.support.canaries import KEYS, REQUEST_ID, SAID, Seen, serving
from tests.support.scripts import WAIT, scripted
from understudy import cli

SECRET = KEYS["address"]
HELLO = us.ModelRequest([us.Message("user", (us.TextPart("hello"),))])

CLASSES: dict[str, Any] = {"openai": us.OpenAI, "anthropic": us.Anthropic, "gemini": us.Gemini, "vertex": us.Vertex}


def client_of(provider: str, **options: Any) -> us.Model:
    key = {"access_token": KEYS["string"], "project": "p"} if provider == "vertex" else {"api_key": KEYS["string"]}
    made: us.Model = CLASSES[provider]("model-1", **key, **options)
    return made


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERSTUDY_OFFLINE", raising=False)


@pytest.mark.parametrize(
    "url",
    [
        f"https://user:{SECRET}@host.test/v1",
        f"user:{SECRET}@host.test/v1",
        f"https:/user:{SECRET}@host.test/v1",
        f"https://user:{SECRET}@\u2100host.test/v1",
        f"https://user:{SECRET}",
        f"https://host.test/v1?key={SECRET}",
        f"https://host.test/v1#{SECRET}",
        f"ftp://host.test/v1?key={SECRET}",
    ],
)
def test_an_address_that_is_refused_is_not_quoted_where_it_may_hold_a_secret(
    url: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    for provider in CLASSES:
        with seen.expecting(ValueError):
            client_of(provider, base_url=url)
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with seen.expecting(ValueError):
        client_of("openai").complete(HELLO)

    assert seen.leaks_of({"address": SECRET}, seen.logged, seen.raised) == set()


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        (f"sqlite://user:{SECRET}@host/x", ValueError),
        (f"mysql://user:{SECRET}@host/x", ValueError),
        (f"host=127.0.0.1 password={SECRET}", ValueError),
        (f"host=127.0.0.1 port=1 password={SECRET}: x", ValueError),
        (f"postgresql:host=127.0.0.1 password={SECRET}", ValueError),
        (f"postgresql+psycopg://u:{SECRET}@127.0.0.1:1/d", ValueError),
        (f"postgresql://u:{SECRET}@127.0.0.1:port", us.StoreError),
        (f"postgresql://u:{SECRET}@127.0.0.1:1", us.StoreError),
        (f"postgresql://u:{SECRET}", us.StoreError),
        (f"postgresql://u:{SECRET}%zz@127.0.0.1:1/d", us.StoreError),
        (f"postgresql://u:a {SECRET}@127.0.0.1:1/d", us.StoreError),
        (f"postgresql://u:a@{SECRET}@127.0.0.1:1/d", us.StoreError),
        (f"postgresql://u:[{SECRET}]@127.0.0.1:1/d", us.StoreError),
        (f"postgresql://u:{SECRET}@[bad/d", us.StoreError),
        (f"postgresql://u:1/{SECRET}@127.0.0.1:1/d", us.StoreError),
        (f"postgresql://u:{SECRET}/1@127.0.0.1:1/d", us.StoreError),
        (f"postgresql://u:1#{SECRET}@127.0.0.1:1/d", us.StoreError),
        (f"postgresql://u:1?{SECRET}@127.0.0.1:1/d", us.StoreError),
        (f"postgresql://u:{SECRET}%40127.0.0.1:1/d", us.StoreError),
        (f"postgresql://u@127.0.0.1:1/d?password={SECRET}", us.StoreError),
        (f"postgresql://u@127.0.0.1:1/d?password=a&{SECRET}", us.StoreError),
        (f"postgresql://u@127.0.0.1:1/d?passwrod={SECRET}", us.StoreError),
    ],
)
def test_a_store_that_is_refused_does_not_quote_a_password(
    url: str, kind: type[Exception], seen: Seen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg")
    for room in ("connections", "database"):
        monkeypatch.setattr(f"understudy.actors.stores.postgres.{room}.PATIENCE", 0.2)

    with seen.expecting(kind):
        us.ActorSystem("shop", store=url)
    with seen.expecting(kind):
        print(memory := us.PersistentMemory(url))
        memory.load(us.ConversationKey("shop", "ada", "c-1"))
    assert cli.main(["runs", "--store", url]) in (1, 2)

    assert seen.leaks_of({"address": SECRET}, seen.raised, [*capsys.readouterr()]) == set()


@pytest.mark.parametrize(
    "proxy",
    [
        f"http://user:{SECRET}@127.0.0.1:1",
        f"user:{SECRET}@127.0.0.1:1",
        f"ftp://user:{SECRET}@127.0.0.1:1",
        f"socks5://user:{SECRET}@127.0.0.1:1",
        f"http://user:x/{SECRET}@127.0.0.1:1",
        f"http://user:{SECRET}",
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxys_password_comes_out_nowhere_and_a_wrong_one_is_a_provider_error(
    scheme: str, proxy: str, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("NO_PROXY", "")
    client = client_of("openai", base_url=f"{scheme}://host.test/v1", attempts=1, timeout=WAIT)

    with seen.expecting(us.ProviderError):
        client.complete(HELLO)
    seen.show(client)

    assert seen.leaks_of(KEYS, seen.logged, seen.shown, seen.raised) == set()


def test_what_a_server_sets_and_sends_in_headers_stays_out_of_logs_and_errors(seen: Seen) -> None:
    with serving() as address:
        for name in CLASSES:
            client = client_of(name, base_url=address, attempts=1, timeout=WAIT)
            for word in ("status 401", "status 302", "status 429", "status 500", "broken", "cut"):
                with seen.expecting(us.ProviderError):
                    client.complete(us.ModelRequest([us.Message("user", (us.TextPart(word),))]))
            seen.show(client)
            assert any(f"refused: {name}" in text or "302" in text for text in seen.raised)
        assert client_of("openai", base_url=address).complete(HELLO).text == SAID["reply"]

    assert any("POST" in line for line in seen.logged)  # the HTTP library has logged
    assert seen.leaks_of(KEYS, seen.logged, seen.shown, seen.raised) == set()
    assert not any(REQUEST_ID in line for line in seen.logged)
    assert any(f"'request_id': '{REQUEST_ID}'" in text for text in seen.raised)


@pytest.mark.parametrize("provider", sorted(CLASSES))
def test_no_key_stands_in_the_variables_that_a_crash_reporter_shows(provider: str, seen: Seen) -> None:
    def fail(error: Exception) -> Callable[[httpx.Request], httpx.Response]:
        def answer(_: httpx.Request) -> httpx.Response:
            raise error

        return answer

    answers: list[Callable[[httpx.Request], httpx.Response]] = [
        fail(httpx.ConnectError("no")),
        fail(httpx.ReadTimeout("late")),
        fail(RuntimeError("a transport that breaks")),
        lambda _: httpx.Response(401, json={"error": {"message": "no"}}),
        lambda _: httpx.Response(200, text="{"),
    ]
    for answer in answers:
        client = client_of(provider, transport=httpx.MockTransport(answer), attempts=1)
        with seen.expecting(us.ProviderError, RuntimeError):
            client.complete(HELLO)
    with seen.expecting(us.ProviderError):
        client_of(provider, base_url="http://127.0.0.1:1", attempts=1).complete(HELLO)  # where nobody listens

    assert any("_exchange" in text for text in seen.held)
    assert seen.leaks_of(KEYS, seen.held) == set()


def test_a_callers_mistake_is_not_answered_with_what_users_said_or_settings_hold(seen: Seen) -> None:
    agent = scripted()
    said: Any = {"role": "user", "content": SAID["input"]}
    settings: Any = {"extra": {"authorization": KEYS["extra"]}}
    mistakes: list[Callable[[], object]] = [
        lambda: agent.run(said),
        lambda: agent.run([said]),
        lambda: agent.run("hello", history=said),
        lambda: agent.run("hello", history=[said]),
        lambda: agent.run("hello", session=[said]),  # type: ignore[arg-type]  # the mistake under test
        lambda: us.Agent("clerk", model="rehearsal", settings=settings),
        lambda: us.Settings(extra=[KEYS["extra"]]),  # type: ignore[arg-type]  # the mistake under test
        lambda: us.SessionState([said]),  # type: ignore[arg-type]  # the mistake under test
        lambda: us.OpenAI("gpt-4o", api_key=[KEYS["string"]]),  # type: ignore[arg-type]  # the mistake under test
        lambda: us.OpenAI("gpt-4o", transport={"authorization": KEYS["string"]}),  # type: ignore[arg-type]
    ]
    for mistake in mistakes:
        with seen.expecting(TypeError, ValueError):
            mistake()

    assert seen.leaks_of({**SAID, **KEYS}, seen.raised) == set()


def test_a_server_is_never_sent_a_key_or_a_cookie_that_it_did_not_ask_for_by_a_redirect() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(307, headers={"location": f"https://evil.test/?key={SECRET}"}, json={})

    with pytest.raises(us.ProviderError) as caught:
        client_of("openai", transport=httpx.MockTransport(answer), attempts=1).complete(HELLO)

    assert [request.url.host for request in asked] == ["api.openai.com"]
    assert SECRET not in json.dumps([str(caught.value), repr(caught.value), repr(vars(caught.value))])
