"""OpenAI's models on Azure: addresses, versions, and the two kinds of keys."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

import understudy as us
from tests.support import wire
from tests.support.http import HELLO, OPENAI_REPLY, Answers
from understudy.errors import AuthenticationError, ProviderError
from understudy.providers.catalogue import resolve
from understudy.providers.http.credentials import check_key
from understudy.providers.http.environment import keys_that_are_set
from understudy.vocabulary.messages import ModelRequest, Settings, user_message
from understudy.vocabulary.models import ModelName, name_of

pytestmark = pytest.mark.usefixtures("bare_environment")

KEY = "canary-0123456789"
HOME = "https://shop.openai.azure.com"


def answers() -> Answers:
    return Answers(httpx.Response(200, json=OPENAI_REPLY))


@pytest.mark.parametrize(
    ("version", "path"),
    [
        (None, "/openai/v1/chat/completions"),
        ("v1", "/openai/v1/chat/completions"),
        ("preview", "/openai/v1/chat/completions?api-version=preview"),
        ("2024-10-21", "/openai/deployments/my%20model%2F2/chat/completions?api-version=2024-10-21"),
        ("2025-04-01-preview", "/openai/deployments/my%20model%2F2/chat/completions?api-version=2025-04-01-preview"),
    ],
)
@pytest.mark.parametrize("endpoint", [HOME, f"{HOME}/", f"{HOME}/openai/v1/", f"{HOME}/openai"])
def test_the_version_is_in_the_path_or_in_the_query(version: str | None, path: str, endpoint: str) -> None:
    sent = answers()

    client = us.AzureOpenAI("my model/2", endpoint=endpoint, api_key=KEY, api_version=version, transport=sent)
    client.complete(HELLO)

    assert str(sent.requests[0].url) == HOME + path
    assert sent.body()["model"] == "my model/2"


def test_endpoint_version_and_key_are_read_from_the_environment_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = answers()
    client = us.AzureOpenAI("gpt-4o", transport=sent)
    with pytest.raises(AuthenticationError, match="AZURE_OPENAI_API_KEY, or pass api_key= or token="):
        client.complete(HELLO)
    with pytest.raises(AuthenticationError, match="AZURE_OPENAI_API_KEY"):
        check_key("azure")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    with pytest.raises(
        ProviderError, match="no endpoint for azure: set AZURE_OPENAI_ENDPOINT, or pass endpoint="
    ) as caught:
        client.complete(HELLO)
    assert (caught.value.provider, caught.value.retryable) == ("azure", False)

    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", HOME)
    client.complete(HELLO)
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    client.complete(HELLO)

    assert [request.url.path for request in sent.requests] == [
        "/openai/v1/chat/completions",
        "/openai/deployments/gpt-4o/chat/completions",
    ]
    assert [request.headers["api-key"] for request in sent.requests] == [KEY, KEY]
    assert all("authorization" not in request.headers for request in sent.requests)
    assert KEY in keys_that_are_set()


@pytest.mark.parametrize(
    "options", [{}, {"token": KEY}, {"token": lambda: KEY}], ids=["environment", "token", "function"]
)
def test_a_token_is_sent_as_a_bearer_token_and_goes_before_a_key_of_the_environment(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "another-0123456789")
    if not options:
        monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", KEY)
    sent = answers()

    us.AzureOpenAI("gpt-4o", endpoint=HOME, transport=sent, **options).complete(HELLO)

    assert sent.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "api-key" not in sent.requests[0].headers


@pytest.mark.parametrize(
    ("version", "limit", "stream_options"),
    [
        ("v1", "max_completion_tokens", True),
        ("2024-09-01-preview", "max_completion_tokens", True),
        ("2024-08-01-preview", "max_tokens", False),
        ("2024-02-01", "max_tokens", False),
    ],
)
def test_an_old_version_gets_the_fields_that_it_knows(version: str, limit: str, stream_options: bool) -> None:
    sent = answers()
    request = ModelRequest([user_message("Hi")], settings=Settings(max_tokens=5))
    client = us.AzureOpenAI("gpt-4o", endpoint=HOME, api_key=KEY, api_version=version, transport=sent)

    client.complete(request)
    list(client.stream(request))

    assert {"max_tokens", "max_completion_tokens"} & sent.body(0).keys() == {limit}
    assert ("stream_options" in sent.body(1)) == stream_options


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"api_key": KEY, "token": KEY}, ValueError, "api_key or token, not both"),
        ({"token": 7}, TypeError, "token must be a string"),
        ({"token": ""}, ValueError, "token must not be empty"),
        ({"api_key": 7}, TypeError, "api_key must be a string"),
        ({"endpoint": 7}, TypeError, "endpoint must be a string"),
        ({"endpoint": "shop.openai.azure.com"}, ValueError, "endpoint must look like https://"),
        ({"endpoint": f"{HOME}?api-version=1"}, ValueError, "endpoint must look like .* query"),
        ({"api_version": 7}, TypeError, "api_version must be a string"),
        ({"api_version": "v2"}, ValueError, "api_version must be 'v1', 'preview' or a date"),
        ({"api_version": "2024-10-21&x=1"}, ValueError, "api_version must be"),
        ({"base_url": HOME}, TypeError, "base_url"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        us.AzureOpenAI("gpt-4o", **options)
    assert KEY not in str(caught.value)


def test_a_wrong_version_in_the_environment_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_VERSION", "v2")

    with pytest.raises(ValueError, match="OPENAI_API_VERSION must be 'v1'"):
        us.AzureOpenAI("gpt-4o", endpoint=HOME, api_key=KEY).complete(HELLO)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (
            404,
            {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}},
            "DeploymentNotFound",
        ),
        (401, {"statusCode": 401, "message": "Access denied."}, ""),
    ],
)
def test_an_error_has_the_words_of_azure(status: int, body: dict[str, Any], code: str) -> None:
    sent = Answers(httpx.Response(status, json=body))

    with pytest.raises(ProviderError) as caught:
        us.AzureOpenAI("gpt-4o", endpoint=HOME, api_key=KEY, attempts=1, transport=sent).complete(HELLO)

    assert (caught.value.provider, caught.value.status, caught.value.code) == ("azure", status, code)
    assert str(caught.value).partition(" (the request went to ")[0] == body.get("error", body)["message"]


def test_a_model_string_names_a_deployment() -> None:
    model = resolve(ModelName.parse("azure:my-gpt"))

    assert isinstance(model, us.AzureOpenAI)
    assert name_of(model) == "azure:my-gpt"


def test_a_spec_has_the_endpoint_and_the_version() -> None:
    text = f"agents: [{{id: a, model: azure:my-gpt, endpoint: {HOME}, api_version: 2024-10-21}}]"

    model = us.load_spec_text(text).agent("a").model

    assert isinstance(model, us.AzureOpenAI)
    assert model.base_url == HOME


@pytest.mark.skipif(not wire.FOLDER.is_dir(), reason=wire.MISSING)
def test_the_recorded_request_is_what_the_client_sends() -> None:
    path = wire.FOLDER / "azure-openai-chat-empty-choices-stream-a.json"
    case = json.loads(path.read_text(encoding="utf-8"))["request"]
    sent = answers()
    client = us.AzureOpenAI("example-deployment", endpoint=HOME, api_key=KEY, api_version="2024-02-01", transport=sent)

    list(client.stream(ModelRequest([user_message("Tell me a joke about opentelemetry")])))

    assert sent.body() == case["body"]
    assert sent.requests[0].url.path == case["path"]
    assert sent.requests[0].url.query.decode() == case["query"]
