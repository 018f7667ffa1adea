"""The limits of one key: shared by all clients that have it, and kept while they wait, give up, fork or change their minds."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

import httpx
import pytest

import understudy as us
from tests.hosts.forking import in_child
from tests.support.http import HEAD, HELLO, REPLY, Answers, FakeTime, pool, read_request, speaking, within
from tests.support.scripts import WAIT, eventually
from understudy.errors import ProviderError, ProviderTimeout, RateLimited, RunCancelled, RunTimedOut
from understudy.providers import OpenAI, Vertex
from understudy.providers.http.credentials import Secret
from understudy.providers.http.elsewhere import asked_elsewhere_after
from understudy.providers.http.limits.limiter import Limiter
from understudy.providers.http.limits.rates import RETRIES
from understudy.providers.http.limits.registry import Limits, family_of, shared
from understudy.providers.http.limits.settings import NO_SETTINGS, Given, Settings
from understudy.vocabulary.checks import UNSET, Unset
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.context.scope import Scope

REFUSED = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: %s\r\ncontent-length: 2\r\n\r\n{}"


CANARY = "sk-a-key-that-nobody-may-see"


def limiter(*, in_flight: int = 256, requests: int | None = None) -> Limiter:
    return Limiter("a key", settings=Settings(in_flight=in_flight, requests=requests, tokens=None))


def limiter_of(client: OpenAI | Vertex, key: str = "k", url: str = "https://a.test/v1") -> Limiter:
    """Return the limiter that the client uses with a key."""
    from understudy.providers.http.attempt import Outgoing

    outgoing = Outgoing(url=url, body=b"", headers={}, provider=client.provider)
    return client._limiter_of(outgoing, Secret(key))  # pyright: ignore[reportPrivateUsage]  # nothing else shows it


def take(limits: Limiter, until: float = float("inf")) -> str:
    with limits.call(400, until=until):
        return "was sent"


def refuse(limits: Limiter, seconds: float) -> None:
    """Let a request be refused that names this wait."""
    with pytest.raises(RateLimited), limits.call(400):
        raise RateLimited("slow down", retry_after=seconds, retryable=True)


# --- who shares one


@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [
        ({}, {}, True),
        ({}, {"key": "another"}, False),
        ({}, {"url": "https://b.test/v1"}, False),
        ({}, {"url": "https://a.test/another/path"}, True),
        ({"model": "gpt-4o"}, {"model": "gpt-4o-2024-08-06"}, True),
        ({"model": "gpt-4o"}, {"model": "gpt-4o-mini"}, False),
        ({"provider": "gemini"}, {"provider": "vertex"}, False),
    ],
)
def test_a_limiter_belongs_to_provider_address_family_and_key(
    one: dict[str, str], other: dict[str, str], is_shared: bool
) -> None:
    limits = Limits()

    def of(provider: str = "openai", url: str = "https://a.test/v1", model: str = "m", key: str = "k") -> Limiter:
        return limits.of(provider, url, model, key)

    assert (of(**one) is of(**other)) is is_shared


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4-0613", "gpt-4"),
        ("gpt-4.1-mini", "gpt-4.1-mini"),
        ("claude-opus-4-5-20251101", "claude-opus-4"),
        ("claude-opus-4-1", "claude-opus-4"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
        ("models/gemini-2.5-flash", "gemini-2.5-flash"),
        ("gemini-1.5-pro-002", "gemini-1.5-pro"),
        ("llama3:70b", "llama3:70b"),
    ],
)
def test_versions_of_a_model_are_one_family(model: str, family: str) -> None:
    assert family_of(model) == family


def test_clients_share_a_limiter_by_the_key_they_use_whatever_they_take_it_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from the environment")

    def script(connection: socket.socket, over: threading.Event) -> None:
        while read_request(connection):
            connection.sendall(HEAD + REPLY)

    with speaking(script) as address:
        clients = [
            OpenAI("m", base_url=address),
            OpenAI("m", base_url=address, api_key="from the environment"),
            OpenAI("m", base_url=address, api_key=lambda: "from the environment"),
            OpenAI("m", base_url=address, api_key="another"),
        ]
        for client in clients:
            with client:
                client.complete(HELLO)

    assert len({id(client.in_flight) for client in clients}) == 2
    assert clients[0].in_flight is clients[2].in_flight


def test_vertex_counts_by_project_for_its_tokens_are_renewed() -> None:
    client = Vertex("gemini-2.5-flash", access_token="t", project="p")
    other = Vertex("gemini-2.5-flash", access_token="t", project="q")

    assert limiter_of(client, "one token") is limiter_of(client, "the next token")
    assert limiter_of(client, "one token") is not limiter_of(other, "one token")


def test_no_key_is_kept_or_shown() -> None:
    limits = Limits()
    made = limits.of("openai", "https://a.test/v1", "m", CANARY)

    kept = repr((made, made.figures(), limits._known))  # pyright: ignore[reportPrivateUsage]  # what is in memory
    assert CANARY not in kept
    assert made.figures().name == "openai:m at a.test"


def test_a_client_with_a_clock_or_transport_of_its_own_has_limits_of_its_own() -> None:
    own = OpenAI("m", api_key="k", transport=Answers(httpx.Response(200, content=REPLY)))

    assert limiter_of(own) is not limiter_of(OpenAI("m", api_key="k"))


def test_limiters_of_keys_that_are_not_used_any_more_are_dropped_and_busy_ones_stay() -> None:
    limits = Limits()
    busy = limits.of("openai", "https://a.test", "m", "busy")
    with busy.call(400):
        for number in range(1_100):
            limits.of("openai", "https://a.test", "m", str(number))

        assert len(limits.figures()) == 1_000
        assert limits.of("openai", "https://a.test", "m", "busy") is busy


# --- a refusal holds for all


@pytest.mark.parametrize("wait", [0.3, 30.0])
def test_a_refusal_of_one_client_holds_back_the_others_with_its_key_and_nobody_else(wait: float) -> None:
    came: list[tuple[float, bytes]] = []

    def script(connection: socket.socket, over: threading.Event) -> None:
        while request := read_request(connection):
            came.append((time.monotonic(), request))
            connection.sendall(REFUSED % str(wait).encode() if len(came) == 1 else HEAD + REPLY)

    with speaking(script) as address:
        first, second, other = [
            OpenAI("m", api_key=key, base_url=address, attempts=1, model_timeout=5.0) for key in ("one", "one", "two")
        ]
        with first, second, other:
            with pytest.raises(RateLimited):
                first.complete(HELLO)
            other.complete(HELLO)
            if wait > 5.0:
                with pytest.raises(RateLimited):
                    second.complete(HELLO)
            else:
                second.complete(HELLO)

    assert [b"two" in request for _, request in came] == [False, True, False][: 3 if wait < 5.0 else 2]
    assert wait > 5.0 or came[2][0] - came[0][0] >= wait


def test_a_call_with_less_time_than_the_provider_asked_for_fails_at_once_and_nothing_is_sent() -> None:
    limits = limiter()
    refuse(limits, 30.0)
    began = time.monotonic()

    with pytest.raises(RateLimited, match="the limits of this key allow the next request in") as in_a_run:
        within(Scope(began + 5.0, time.monotonic), lambda: take(limits))
    with pytest.raises(RateLimited):
        take(limits, began + 5.0)

    assert time.monotonic() - began < 2.0
    assert in_a_run.value.retryable
    assert in_a_run.value.retry_after == pytest.approx(30.0, abs=1.0)
    assert (limits.figures().taken, limits.figures().waiting) == (0, 0)


def test_a_call_that_has_no_time_left_in_the_queue_is_told_so() -> None:
    limits = limiter(requests=1)
    take(limits)

    with pool(1) as threads:
        scope = Scope(None, time.monotonic)
        first = threads.submit(within, scope, lambda: take(limits))  # it waits for a minute
        eventually(lambda: limits.figures().waiting == 1, "the first one waits")
        with pytest.raises(RunTimedOut):
            within(Scope(time.monotonic() + 0.05, time.monotonic), lambda: take(limits))
        with pytest.raises(ProviderTimeout):
            take(limits, time.monotonic() + 0.05)
        scope.cancel()

        assert isinstance(first.exception(WAIT), RunCancelled)
    assert (limits.figures().taken, limits.figures().waiting) == (0, 0)


def test_waiters_go_in_the_order_in_which_they_came_and_one_that_is_cancelled_leaves_at_once() -> None:
    limits, order = limiter(requests=1), list[int]()
    take(limits)  # the next one may go in a minute
    scopes = [Scope(None, time.monotonic) for _ in range(6)]

    def call(number: int) -> None:
        with limits.call(400):
            order.append(number)

    with pool(6) as threads:
        waiting: list[Future[None]] = []
        for number, scope in enumerate(scopes):
            waiting.append(threads.submit(within, scope, partial(call, number)))
            eventually(lambda: limits.figures().waiting == number + 1, "it waits")  # noqa: B023 (called in this turn)
        scopes[0].cancel()
        scopes[3].cancel()
        errors = [waiting[0].exception(WAIT), waiting[3].exception(WAIT)]
        assert order == []
        limits.apply(NO_SETTINGS)
        for number in (1, 2, 4, 5):
            waiting[number].result(WAIT)

    assert [type(error) for error in errors] == [RunCancelled, RunCancelled]
    assert order == [1, 2, 4, 5]
    assert scopes[1]._callbacks == {}  # pyright: ignore[reportPrivateUsage]  # a leak shows nowhere else


def test_a_client_on_a_clock_of_a_test_waits_by_its_sleep() -> None:
    fake = FakeTime()
    answers = Answers(httpx.Response(429, headers={"retry-after": "7"}), httpx.Response(200, content=REPLY))
    client = OpenAI("m", api_key="k", transport=answers, timing=fake.timing(), attempts=1)

    with pytest.raises(RateLimited):
        client.complete(HELLO)
    client.complete(HELLO)

    assert fake.slept == [7.0]


# --- callers that have another model to ask


def always(error: ProviderError) -> bool:
    return True


def held(pause: float, refused: float, passed: float) -> tuple[Limiter, FakeTime]:
    """Return limits that were refused after a request each `pause` seconds, so many seconds after that refusal."""
    fake = FakeTime()
    limits = Limiter("a key", clock=lambda: fake.now, sleep=fake.sleep)
    for _ in range(8):
        fake.now += pause
        take(limits)
    refuse(limits, refused)
    fake.now += passed
    return limits, fake


@pytest.mark.parametrize(
    ("pause", "refused", "passed", "told"),
    [
        (0.1, 0.05, 0.0, "the provider refused a request, and takes none for 0.05 s"),
        (0.1, 30.0, 10.0, "the provider refused a request, and takes none for 20 s"),
        (0.1, 0.05, 0.05, ""),
        (4.0, 0.05, 0.05, "by the limits of this key the call would wait for some"),
    ],
    ids=["refused for a moment", "refused for long", "a short wait for the rate", "a long wait for the rate"],
)
def test_a_call_leaves_for_another_model_while_requests_are_refused_or_if_it_would_wait_long(
    pause: float, refused: float, passed: float, told: str
) -> None:
    limits, fake = held(pause, refused, passed)
    first = limits.call(400)
    if passed >= refused:
        first.__enter__()  # the rate holds for a request beside another one

    with asked_elsewhere_after(always):
        if told:
            with pytest.raises(RateLimited, match=told) as caught:
                take(limits)
            assert fake.slept == []
            assert caught.value.retry_after is not None and caught.value.retry_after > 0.0
        else:
            assert take(limits) == "was sent"
            assert 0.0 < sum(fake.slept) <= 1.0


def test_the_calls_before_it_in_the_queue_count_for_the_wait_of_a_call_that_may_leave() -> None:
    limits, fake = held(0.8, 0.05, 0.05)
    scope = Scope(None, time.monotonic)

    with pool(1) as threads, limits.call(400):
        with asked_elsewhere_after(always):
            before = threads.submit(within, scope, lambda: take(limits))
            eventually(lambda: limits.figures().waiting == 1, "the first one waits")
            with pytest.raises(RateLimited, match="would wait for some"):
                take(limits, fake.now + 2.0)
            assert limits.figures().waiting == 1
        scope.cancel()
        before.exception(WAIT)


# --- retries


def test_when_the_retries_of_a_key_are_gone_an_error_is_final_and_says_why() -> None:
    answers = Answers(httpx.Response(503))
    client = OpenAI("m", api_key="k", transport=answers, timing=FakeTime().timing())
    limiter_of(client, url=client._url()).rates.retries = 3.5  # pyright: ignore[reportPrivateUsage]

    errors = [pytest.raises(ProviderError, client.complete, HELLO).value for _ in range(3)]

    assert len(answers.requests) == 3 + 2 + 1  # two retries, one, none
    assert [error.retries_used_up for error in errors] == [True, True, True]
    assert "not tried again: too many calls of openai:m at api.openai.com failed" in errors[2].__notes__
    assert RETRIES > 256  # one outage costs each call in flight a retry at most, and they all have one


# --- the user's settings


@pytest.fixture
def settings() -> Generator[Callable[..., None]]:
    """Return `set_limits`; undo what it set after the test."""
    from understudy.providers.http.limits import registry

    given = registry._given._given  # pyright: ignore[reportPrivateUsage]
    before = dict(given)
    yield us.set_limits
    given.clear()
    given.update(before)


def test_settings_of_a_model_go_before_those_of_an_address_and_of_a_provider(settings: Callable[..., None]) -> None:
    settings("openai", in_flight=10, requests_per_minute=600, tokens_per_minute=1_000)
    settings("https://a.test/v1", in_flight=20, tokens_per_minute=None)
    settings("openai:gpt-4o-2024-08-06", in_flight=30)
    settings("google", in_flight=40)
    limits = Limits()

    def most(provider: str, host: str, model: str) -> int:
        return limits.of(provider, f"https://{host}/v1", model, "k").figures().in_flight

    found = [most("openai", "b.test", "m"), most("openai", "a.test", "m"), most("openai", "a.test", "gpt-4o")]
    assert found == [10, 20, 30]
    assert [most("gemini", "c.test", "m"), most("anthropic", "c.test", "m")] == [40, 256]


def test_a_number_of_an_address_holds_for_all_models_and_keys_together(settings: Callable[..., None]) -> None:
    limits = Limits()
    url = "http://slots.test:8000/v1"
    before = limits.of("openai", url, "before", "k")
    settings("http://slots.test:8000", in_flight=2)
    settings("openai:its-own", in_flight=3)
    models = [before, limits.of("openai", url, "llama", "k"), limits.of("vllm", url, "qwen", "other")]

    with pool(3) as threads, models[0].call(400), models[1].call(400):
        waiting = [threads.submit(take, each) for each in models]
        eventually(lambda: [each.figures().waiting for each in models] == [3] * 3, "the server has two slots")
        assert [(each.figures().taken, each.figures().in_flight) for each in models] == [(2, 2)] * 3
        assert take(limits.of("openai", url, "its-own", "k")) == "was sent"
        assert take(limits.of("openai", "http://slots.test:9000/v1", "llama", "k")) == "was sent"
        settings("http://slots.test:8000", in_flight=3)
        assert [each.result(WAIT) for each in waiting] == ["was sent"] * 3

    assert [(each.figures().taken, each.is_idle) for each in models] == [(0, True)] * 3


def test_settings_hold_for_calls_that_wait_already(settings: Callable[..., None]) -> None:
    limits = shared.of("openai", "https://settings.test", "m", "k")
    settings("https://settings.test", in_flight=1, requests_per_minute=1)

    with pool(3) as threads:
        with limits.call(400):
            waiting = [threads.submit(take, limits) for _ in range(3)]
            eventually(lambda: limits.figures().waiting == 3, "no more than one is in flight")
            settings("https://settings.test", in_flight=2)
            eventually(lambda: limits.figures().taken == 2, "another one has a place")
            settings("https://settings.test", requests_per_minute=None)

            assert [each.result(WAIT) for each in waiting] == ["was sent"] * 3
        assert (limits.figures().taken, limits.figures().in_flight) == (0, 2)


def test_a_client_with_a_limit_of_its_own_keeps_it_and_obeys_refusals_all_the_same() -> None:
    fake = FakeTime()
    answers = Answers(httpx.Response(429, headers={"retry-after": "7"}), httpx.Response(200, content=REPLY))
    client = OpenAI("m", api_key="k", transport=answers, timing=fake.timing(), attempts=1, max_in_flight=1_000)

    with pytest.raises(RateLimited):
        client.complete(HELLO)
    client.complete(HELLO)

    assert (client.in_flight.most, fake.slept) == (1_000, [7.0])


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"name": "opnai"}, ValueError, "set_limits: .*did you mean 'openai"),
        ({"name": "rehearsal"}, ValueError, "set_limits: 'rehearsal' has no key"),
        ({"name": None}, TypeError, "set_limits: expected a provider"),
        ({"name": "http://user:pw@host"}, ValueError, "set_limits: an address must"),
        ({"rpm": 60}, TypeError, "set_limits has no argument rpm=: use requests_per_minute="),
        ({"in_flight": 0}, ValueError, "set_limits: in_flight must be at least 1"),
        ({"in_flight": None}, TypeError, "set_limits: in_flight must be a whole number"),
        ({"requests_per_minute": "60"}, TypeError, "set_limits: requests_per_minute must be a whole number"),
        ({"tokens_per_minute": -1}, ValueError, "set_limits: tokens_per_minute must be at least 1"),
        ({"requests_per_minute": 10**400}, ValueError, "set_limits: requests_per_minute must be at most 1,000,"),
        ({"tokens_per_minute": 10**5_000}, ValueError, "set_limits: tokens_per_minute must be at most 1,000,"),
        ({"in_flight": 10**13}, ValueError, "set_limits: in_flight must be at most 1,000,"),
        ({"in_flight": UNSET}, TypeError, "set_limits: expected in_flight, requests_per_minute or tokens_per_minute"),
        ({"name": "127.0.0.1:11434"}, ValueError, "write 'http://127.0.0.1:11434'"),
        ({"name": "localhost:11434/v1"}, ValueError, "write 'http://localhost:11434/v1'"),
        ({"requests_per_minute": True}, TypeError, "set_limits: requests_per_minute must be a whole number"),
    ],
)
def test_wrong_settings_are_refused_and_change_nothing(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    before = shared.of("openai", "https://wrong.test", "m", "k").figures()

    with pytest.raises(error, match=text):
        given: dict[str, Any] = {"name": "openai", "in_flight": 3, **arguments}
        us.set_limits(**given)

    assert shared.of("openai", "https://wrong.test", "m", "k").figures() == before


def test_of_two_settings_at_once_neither_is_lost(
    settings: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.providers.http.limits import registry

    with pool(1) as threads:
        second: list[Future[None]] = []

        class Slow(dict[tuple[str, str], Given]):
            def get(self, key: Any, default: Any = None) -> Any:
                found = super().get(key, default)
                if not second:  # between reading and writing of the first one
                    second.append(threads.submit(settings, "deepseek", requests_per_minute=7))
                    wait(second, 0.2)  # it ends now if nothing holds it back
                return found

        monkeypatch.setattr(registry._given, "_given", Slow())  # pyright: ignore[reportPrivateUsage]  # a place to meet
        settings("deepseek", in_flight=3)
        second[0].result(WAIT)
        kept = registry._given.of("deepseek", "a.test", "m")  # pyright: ignore[reportPrivateUsage]

    assert (kept.in_flight, kept.requests) == (3, 7)


def test_settings_that_change_in_many_threads_while_calls_run_lose_no_call_and_no_place(
    settings: Callable[..., None],
) -> None:
    address = "https://changing.test"
    limits = [shared.of("openai", address, "m", key) for key in ("one", "two")]
    counted, under_way, most = threading.Lock(), Counter[Limiter](), Counter[Limiter]()
    settings(address, in_flight=4)

    def call(number: int) -> None:
        limiter = limits[number % 2]
        with limiter.call(400):
            with counted:
                under_way[limiter] += 1
                most[limiter] = max(most[limiter], under_way[limiter])
            with counted:
                under_way[limiter] -= 1

    def change(number: int) -> None:
        settings(address, in_flight=1 + number % 4)
        settings(address, requests_per_minute=None if number % 3 else 10**9, tokens_per_minute=10**12)

    with pool(12) as threads:
        calls = [threads.submit(call, number) for number in range(1_000)]
        changes = [threads.submit(change, number) for number in range(200)]
        for each in (*calls, *changes):
            each.result(WAIT)
        settings(address, in_flight=7, requests_per_minute=None, tokens_per_minute=None)

    for limiter in limits:
        figures = limiter.figures()
        assert (figures.taken, figures.waiting, figures.in_flight) == (0, 0, 7)
        assert limiter.in_flight.slots.free == 7
        assert 1 <= most[limiter] <= 4
        assert limiter.rates.is_open is False


# --- budgets, streams and forks


def test_a_budget_is_looked_at_again_after_a_wait_for_the_limits() -> None:
    answers = Answers(httpx.Response(429, headers={"retry-after": "0.3"}), httpx.Response(200, content=REPLY))
    client = OpenAI("m", api_key="k", transport=answers, attempts=1)
    with pytest.raises(RateLimited):
        client.complete(HELLO)
    limits = limiter_of(client, url=client._url())  # pyright: ignore[reportPrivateUsage]
    scope = Scope(None, time.monotonic)
    account = scope.account = Account("clerk", "openai:m", Spending(budget=us.Budget(total_tokens=10)))
    scope.is_turn = True

    with pool(1) as threads:
        call = threads.submit(within, scope, lambda: client.complete(HELLO))
        eventually(lambda: limits.figures().waiting == 1, "it waits for its time")
        account.charge(us.Usage(100, 100))

        assert isinstance(call.exception(WAIT), us.BudgetExceeded)
    assert len(answers.requests) == 1
    assert (limits.figures().taken, limits.rates.is_open) == (0, False)


def test_a_stream_is_open_until_its_end_and_its_tokens_count(settings: Callable[..., None]) -> None:
    body = b"".join(
        b"data: %s\n\n" % each
        for each in (
            b'{"choices":[{"delta":{"content":"Hi."}}]}',
            b'{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":700,"completion_tokens":300}}',
            b"[DONE]",
        )
    )
    answers = Answers(httpx.Response(200, content=body, headers={"content-type": "text/event-stream"}))
    settings("openai", tokens_per_minute=6_000)
    client = OpenAI("m", api_key="k", transport=answers, timing=FakeTime().timing())
    stream = client.stream(HELLO)
    next(stream)
    limits = limiter_of(client, url=client._url())  # pyright: ignore[reportPrivateUsage]

    assert (limits.figures().taken, limits.rates.is_open) == (1, True)
    for _ in stream:
        pass
    assert (limits.figures().taken, limits.rates.is_open) == (0, False)
    assert limits.rates.wait(limits.clock(), 0) == pytest.approx(
        400 / 90, rel=0.05
    )  # 600 were there, and 1,000 are used


@pytest.mark.parametrize("most", [UNSET, 1])
def test_a_garbage_collection_that_closes_a_stream_inside_of_the_lock_ends_its_call(most: int | Unset) -> None:
    body = b'data: {"choices":[{"delta":{"content":"Hi."}}]}\n\n'
    answers = Answers(httpx.Response(200, content=body, headers={"content-type": "text/event-stream"}))
    client = OpenAI("m", api_key="k", transport=answers, timing=FakeTime().timing(), max_in_flight=most)
    stream = client.stream(HELLO)
    next(stream)
    limits = limiter_of(client, url=client._url())  # pyright: ignore[reportPrivateUsage]

    with pool(1) as threads:

        def collect() -> tuple[int, bool]:
            with limits.lock, client.in_flight.slots.lock:
                stream.close()
            return client.in_flight.taken, limits.rates.is_open

        assert threads.submit(collect).result(WAIT) == (0, False)


def test_calls_that_are_open_at_a_fork_are_the_parents() -> None:
    limits = limiter(in_flight=1)

    with limits.call(400):
        limits.start_afresh()
        limits.in_flight.start_afresh()
        assert (take(limits), limits.figures().taken) == ("was sent", 0)

    assert limits.figures().taken == 0
    assert limits.rates.is_open is False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_waits_neither_for_its_parents_lock_nor_for_its_calls() -> None:
    limits = limiter(in_flight=1)
    refuse(limits, 60.0)

    with limits.in_flight.slot(), limits.lock:
        in_child(lambda: within(Scope(time.monotonic() + WAIT, time.monotonic), lambda: take(limits)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_child_that_is_forked_while_limits_are_set_has_all_of_them_or_none(
    settings: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = shared.of("openai", "https://forking.test", "m", "k")
    apply, forked = Limiter.apply, list[Future[None]]()

    def in_the_child() -> None:
        assert limits.figures().in_flight == 3
        us.set_limits("https://forking.test", in_flight=5)
        assert limits.figures().in_flight == 5

    with pool(1) as threads:

        def fork_first(limiter: Limiter, given: Settings) -> None:
            if not forked:
                forked.append(threads.submit(in_child, in_the_child))
                wait(forked, 0.2)  # it ends now if nothing holds it back
            apply(limiter, given)

        monkeypatch.setattr(Limiter, "apply", fork_first)  # a place to meet
        settings("https://forking.test", in_flight=3)
        forked[0].result(WAIT)
