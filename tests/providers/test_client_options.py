"""The options that all clients share: their one place, and headers of a user's own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import httpx
import pytest

from tests.support.http import ANTHROPIC_REPLY, EVERYWHERE, HELLO, OPENAI_REPLY, Answers
from tests.support.paths import ROOT
from understudy.errors import ProviderError
from understudy.providers import Anthropic, AzureOpenAI, Gemini, OpenAI, OpenAIResponses, Recorder, Secret, Vertex
from understudy.providers.http.client_options import ClientOptions
from understudy.providers.http.model_client import HttpModel
from understudy.vocabulary.checks import WrongReturn

CANARY = "canary-0123456789"


def openai(headers: Any, *answers: httpx.Response, **options: Any) -> tuple[OpenAI, Answers]:
    """Return a client with extra headers, and the transport with its requests."""
    transport = Answers(*(answers or (httpx.Response(200, json=OPENAI_REPLY),)))
    return OpenAI("m", api_key="k" * 20, attempts=1, transport=transport, extra_headers=headers, **options), transport


def test_the_shared_options_are_parameters_of_every_client() -> None:
    shared = inspect.signature(HttpModel).parameters
    assert shared.keys() == {"model", "api_key", "base_url"} | ClientOptions.__annotations__.keys()

    for client in (Anthropic, Gemini, OpenAI, OpenAIResponses, Vertex):
        taken = inspect.signature(client).parameters
        assert {name: taken[name] for name in ClientOptions.__annotations__} == {
            name: shared[name] for name in ClientOptions.__annotations__
        }


def test_the_types_of_the_shared_options_are_those_of_the_constructor() -> None:
    shared = inspect.signature(HttpModel).parameters

    for name, kind in ClientOptions.__annotations__.items():
        assert getattr(kind, "__forward_arg__", kind) == shared[name].annotation


def test_the_page_of_providers_has_a_row_for_each_shared_option() -> None:
    page = (ROOT / "docs" / "providers.md").read_text()
    table = page.partition("### Options of all clients")[2].partition("\n## ")[0]

    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(ClientOptions.__annotations__)


@pytest.mark.parametrize("make", [Anthropic, Gemini, OpenAI, OpenAIResponses, Vertex])
def test_an_option_that_no_client_has_is_refused(make: Callable[..., HttpModel]) -> None:
    with pytest.raises(TypeError, match=rf"^{make.__name__} has no argument timout=: did you mean timeout=\?$"):
        make("m", timout=3)


@pytest.mark.parametrize(
    ("make", "name", "instead"),
    [
        (OpenAI, "api_base", "use base_url="),
        (AzureOpenAI, "api_base", "use endpoint="),
        (OpenAI, "endpoint", "use base_url="),
        (OpenAI, "max_retries", "use attempts="),
        (Vertex, "credentials", "use access_token="),
        (OpenAI, "credentials", "it takes"),
        (OpenAI, "temperature", "use Agent\\(settings="),
    ],
)
def test_an_option_of_other_libraries_is_answered_with_ours(
    make: Callable[..., HttpModel], name: str, instead: str
) -> None:
    with pytest.raises(TypeError, match=rf"^{make.__name__} has no argument {name}=: {instead}"):
        make("m", **{name: "x"})


@pytest.mark.parametrize(
    "headers",
    [{"X-Team": "shop", "x-gateway-key": Secret(CANARY)}, lambda: {"X-Team": "shop", "x-gateway-key": CANARY}],
    ids=["mapping", "function"],
)
def test_extra_headers_go_with_each_request(headers: object) -> None:
    client, sent = openai(headers)

    client.complete(HELLO)

    assert (sent.requests[0].headers["x-team"], sent.requests[0].headers["x-gateway-key"]) == ("shop", CANARY)
    assert sent.requests[0].headers["authorization"] == f"Bearer {'k' * 20}"


def test_extra_headers_go_with_a_stream() -> None:
    client, sent = openai({"x-team": "shop"})

    list(client.stream(HELLO))

    assert sent.requests[0].headers["x-team"] == "shop"


def test_a_function_of_headers_is_asked_before_each_attempt() -> None:
    numbers = iter("123")
    refused = httpx.Response(401, json={"error": {"message": "expired"}})
    transport = Answers(refused, httpx.Response(200, json=OPENAI_REPLY))
    client = OpenAI("m", api_key=lambda: "k" * 20, transport=transport, extra_headers=lambda: {"x-n": next(numbers)})

    client.complete(HELLO)

    assert [request.headers["x-n"] for request in transport.requests] == ["1", "2"]


@pytest.mark.parametrize(
    ("headers", "error", "words"),
    [
        ([("x-team", "shop")], TypeError, "must be a mapping or a function"),
        ("x-team: shop", TypeError, "must be a mapping or a function"),
        ({1: "shop"}, TypeError, "names must be strings, got int"),
        ({"x-team": 7}, TypeError, "'x-team' must be a string or a Secret, got int"),
        ({"x-team": None}, TypeError, "'x-team' must be a string or a Secret, got NoneType"),
        ({"x team": "shop"}, ValueError, "'x team' is not the name of a header"),
        ({"": "shop"}, ValueError, "'' is not the name of a header"),
        ({"x-team": ""}, ValueError, "'x-team' is empty"),
        ({"x-team": "shop\r\nx-other: 1"}, ValueError, "no HTTP header can carry"),
        ({"x-team": "a", "X-Team": "b"}, ValueError, "'X-Team' twice"),
        ({"Content-Type": "text/plain"}, ValueError, "'Content-Type': the client sends it itself"),
        ({"Authorization": CANARY}, ValueError, "'Authorization': the client sends it itself"),
    ],
)
def test_wrong_headers_are_refused(headers: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        openai(headers)
    assert CANARY not in str(caught.value)

    if isinstance(headers, Mapping):
        found = cast("Mapping[str, str]", headers)
        client, sent = openai(lambda: found)  # what a function returns
        with pytest.raises(WrongReturn, match=words):
            client.complete(HELLO)
        assert sent.requests == []


async def _headers() -> dict[str, str]:
    return {}


def test_a_coroutine_is_no_function_of_headers() -> None:
    with pytest.raises(TypeError, match="not async def"):
        openai(_headers)

    client, sent = openai(lambda: None)
    with pytest.raises(WrongReturn, match="must return a mapping, got None"):
        client.complete(HELLO)
    assert sent.requests == []


@pytest.mark.parametrize("name", sorted(EVERYWHERE.keys() - {"azure with a token"}))  # another header than without
def test_the_header_of_the_key_is_refused_by_every_client(name: str) -> None:
    sent = Answers(httpx.Response(500))
    client = EVERYWHERE[name](sent, CANARY)
    with pytest.raises(ProviderError):
        client.complete(HELLO)
    header = next(key for key, value in sent.requests[0].headers.items() if CANARY in value)

    with pytest.raises(ValueError, match="the client sends it itself"):
        type(client)("m", extra_headers={header.title(): "mine"})


@pytest.mark.parametrize("value", [CANARY, f"Bearer {CANARY}"])
def test_a_header_that_a_server_quotes_is_hidden_in_its_error(value: str) -> None:
    said = httpx.Response(403, json={"error": {"message": f"the gateway does not know {CANARY}"}})
    client, _ = openai({"x-whatever": value}, said)

    with pytest.raises(ProviderError) as caught:
        client.complete(HELLO)

    assert str(caught.value) == "the gateway does not know ***"
    assert CANARY not in repr(client)


@pytest.mark.parametrize(
    ("headers", "hidden"),
    [
        ({"x-team": "research-group"}, False),
        ({"x-team": Secret("research-group")}, True),
        ({"x-gateway-key": "research-group"}, True),
        ({"Helicone-Auth": "Bearer research-group"}, True),
    ],
)
def test_a_tape_hides_the_headers_that_are_keys(headers: Any, hidden: bool, path: Any) -> None:
    reply = {"choices": [{"message": {"content": "Ask research-group."}, "finish_reason": "stop"}]}
    client, _ = openai(headers, httpx.Response(200, json=reply))

    with Recorder(path) as recorder:
        cast(Any, recorder.record(client)).complete(HELLO)

    assert ("research-group" not in path.read_text()) == hidden


def test_betas_are_sent_in_the_header_of_the_api() -> None:
    sent = Answers(httpx.Response(200, json=ANTHROPIC_REPLY))

    Anthropic("m", api_key="k" * 20, transport=sent, betas=["a-2025-01-01", "b-2025-02-02", "a-2025-01-01"]).complete(
        HELLO
    )
    Anthropic("m", api_key="k" * 20, transport=sent).complete(HELLO)

    assert [request.headers.get("anthropic-beta") for request in sent.requests] == ["a-2025-01-01,b-2025-02-02", None]


@pytest.mark.parametrize(
    ("betas", "error"),
    [("a-2025", TypeError), (None, TypeError), ([7], TypeError), (["a,b"], ValueError), ([""], ValueError)],
)
def test_wrong_betas_are_refused(betas: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="betas must be"):
        Anthropic("m", betas=betas)
