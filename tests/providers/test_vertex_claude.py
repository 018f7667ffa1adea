"""Claude on Vertex AI: Google's addresses and tokens around Anthropic's messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

import understudy as us
from tests.support import wire
from tests.support.http import ANTHROPIC_REPLY, HELLO, Answers
from tests.support.wire_streams import stream_cases
from understudy.errors import AuthenticationError, ProviderError
from understudy.orchestration.agent.typed_answers import output_spec
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.providers.anthropic import wire as messages
from understudy.providers.catalogue import client_of, resolve
from understudy.vocabulary.messages import ModelRequest, OutputSpec, Settings, user_message
from understudy.vocabulary.models import ModelName

pytestmark = pytest.mark.usefixtures("bare_environment")

MODEL = "claude-haiku-4-5@20251001"
PLACE = f"publishers/anthropic/models/{MODEL}"


def client(sent: httpx.BaseTransport, **options: Any) -> us.VertexClaude:
    given: dict[str, Any] = {"access_token": "some-token", "project": "p", "attempts": 1, "transport": sent}
    return us.VertexClaude(MODEL, **{**given, **options})


@pytest.mark.parametrize(
    ("location", "host"),
    [
        (None, "aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("us-east5", "us-east5-aiplatform.googleapis.com"),
    ],
)
def test_a_request_goes_to_the_publisher_at_its_location(location: str | None, host: str) -> None:
    sent = Answers(httpx.Response(200, json=ANTHROPIC_REPLY))

    turn = client(sent, location=location).complete(HELLO)

    where = f"https://{host}/v1/projects/p/locations/{location or 'global'}/{PLACE}:rawPredict"
    assert str(sent.requests[0].url) == where
    assert sent.requests[0].headers["authorization"] == "Bearer some-token"
    assert not {"x-api-key", "anthropic-version", "anthropic-beta"} & sent.requests[0].headers.keys()
    assert turn.text == "Hi."


def test_a_body_has_the_version_and_no_model() -> None:
    sent = Answers(httpx.Response(200, json=ANTHROPIC_REPLY))
    request = ModelRequest([user_message("Hi")], "Be kind.", settings=Settings(max_tokens=9, temperature=0.5))

    client(sent).complete(request)

    expected = dict(messages.encode(request, MODEL))
    del expected["model"]
    assert sent.body() == {"anthropic_version": "vertex-2023-10-16", **expected}


def test_extra_fields_stand_as_they_are() -> None:
    sent = Answers(httpx.Response(200, json=ANTHROPIC_REPLY))
    extra: dict[str, Any] = {"anthropic_version": "vertex-2030-01-01", "model": "x", "metadata": {"user_id": "u"}}

    client(sent).complete(replace(HELLO, settings=Settings(extra=extra)))

    assert sent.body().items() >= extra.items()


def test_a_stream_has_a_method_of_its_own_and_betas_a_header() -> None:
    sent = Answers(httpx.Response(200, json=ANTHROPIC_REPLY))

    list(client(sent, betas=["context-1m-2025-08-07"]).stream(HELLO))

    assert sent.requests[0].url.path.endswith(f"{PLACE}:streamRawPredict")
    assert sent.body()["stream"] is True
    assert sent.requests[0].headers["anthropic-beta"] == "context-1m-2025-08-07"


@pytest.mark.skipif(not wire.FOLDER.is_dir(), reason=wire.MISSING)
def test_recorded_streams_of_claude_are_read() -> None:
    cases = [case for case in stream_cases() if case.provider == "anthropic" and case.expected["error"] is None]
    assert cases

    for case in cases:
        sent = Answers(httpx.Response(200, headers={"content-type": "text/event-stream"}, content=case.body))
        assembler = TurnAssembler()
        for piece in client(sent).stream(HELLO):
            assembler.add(piece)
        assert assembler.turn() == case.turn


def test_without_a_project_the_error_names_its_variable() -> None:
    with pytest.raises(AuthenticationError, match="no project for vertex: set GOOGLE_CLOUD_PROJECT"):
        client(Answers(), project=None).complete(HELLO)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(seed=1),
        Settings(verbosity="low"),
        Settings(cache="24h"),
        Settings(service_tier="flex"),
        Settings(reasoning="xhigh"),
        Settings(reasoning=2000, max_tokens=1500),
        Settings(reasoning=2000, tool_choice="required"),
        Settings(reasoning=2000, temperature=0.5),
    ],
    ids=repr,
)
def test_refused_settings_are_those_of_vertex(settings: Settings) -> None:
    with pytest.raises(ValueError, match=r"^settings: (for )?vertex (has|max_tokens)"):
        client(Answers()).check_settings(settings)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (
            403,
            {"error": {"code": 403, "message": "Permission denied.", "status": "PERMISSION_DENIED"}},
            "PERMISSION_DENIED",
        ),
        (
            400,
            {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: too many"}},
            "invalid_request_error",
        ),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded_error"),
    ],
)
def test_errors_of_google_and_of_anthropic_are_read(status: int, body: dict[str, Any], code: str) -> None:
    with pytest.raises(ProviderError) as caught:
        client(Answers(httpx.Response(status, json=body))).complete(HELLO)

    assert (caught.value.provider, caught.value.status, caught.value.code) == ("vertex", status, code)
    assert str(caught.value) == body["error"]["message"]


def test_a_model_string_of_vertex_finds_the_client_by_its_model() -> None:
    assert isinstance(resolve(ModelName.parse(f"vertex:{MODEL}")), us.VertexClaude)
    assert client_of(ModelName("vertex", "gemini-2.5-flash")) is us.Vertex


def test_a_spec_makes_the_client_with_its_options() -> None:
    text = f"agents: [{{id: a, model: 'vertex:{MODEL}', location: us-east5, betas: [a-2025]}}]"

    assert isinstance(us.load_spec_text(text).agent("a").model, us.VertexClaude)
    with pytest.raises(us.SpecError, match="vertex has no 'betas'"):
        us.load_spec_text(text.replace(MODEL, "gemini-2.5-flash"))


def test_the_client_of_gemini_refuses_claude() -> None:
    with pytest.raises(ValueError, match=r"for Claude write VertexClaude\('claude-opus-4-5'\)"):
        us.Vertex("claude-opus-4-5")


def test_the_client_of_claude_refuses_gemini() -> None:
    with pytest.raises(ValueError, match=r"for Gemini write Vertex\('gemini-2.5-pro'\)"):
        us.VertexClaude("gemini-2.5-pro")


def test_a_typed_answer_comes_by_a_tool() -> None:
    asked = output_spec(OutputSpec("Answer", {"type": "object"}), "auto", ModelName("vertex", MODEL), [])

    assert asked.tool == "final_answer"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"project": "a/b"}, ValueError, "project must be an id"),
        ({"location": ""}, ValueError, "location must be an id"),
        ({"location": ".."}, ValueError, "location must be an id"),
        ({"project": ".."}, ValueError, "project must be an id"),
        ({"api_version": ".."}, ValueError, "api_version must be a word"),
        ({"access_token": 7}, TypeError, "access_token must be a string"),
        ({"betas": "a"}, TypeError, "betas must be a list"),
        ({"extra_headers": {"Anthropic-Beta": "b"}, "betas": ["a"]}, ValueError, "the client sends it itself"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        client(Answers(), **options)
