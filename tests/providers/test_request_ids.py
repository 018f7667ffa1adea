"""The provider's id of a request: on turns, errors, outcomes and log lines, whole and streamed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

import understudy as us
from tests.support.http import ANTHROPIC_REPLY, GOOGLE_REPLY, HELLO, MAKERS, OPENAI_REPLY, Answers, FakeTime
from tests.support.machines import make_spec, reloaded, run_of
from tests.support.wire_streams import as_events
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.providers import OpenAI
from understudy.vocabulary.messages import JsonValue

KEY = "sk-test-0123456789"
REPLIES: dict[str, JsonValue] = {
    "openai": OPENAI_REPLY,
    "anthropic": ANTHROPIC_REPLY,
    "gemini": GOOGLE_REPLY,
    "vertex": GOOGLE_REPLY,
}
CALL: JsonValue = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def reply(request_id: str, status: int = 200, body: JsonValue = OPENAI_REPLY, **headers: str) -> httpx.Response:
    return httpx.Response(status, json=body, headers={"x-request-id": request_id, **headers})


@pytest.mark.parametrize("provider", REPLIES)
@pytest.mark.parametrize("header", ["x-request-id", "request-id", "x-goog-request-id", "apim-request-id"])
def test_a_turn_has_the_id_of_its_request(provider: str, header: str) -> None:
    answers = Answers(httpx.Response(200, json=REPLIES[provider], headers={header: "req-1"}))

    assert MAKERS[provider](answers, KEY).complete(HELLO).request_id == "req-1"


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, ""),
        ({"x-request-id": ""}, ""),
        ({"x-request-id": "", "request-id": "req-2"}, "req-2"),
        ({"x-request-id": "req-1", "apim-request-id": "req-2"}, "req-1"),
        ({"x-request-id": "r" * 1000}, ""),
        ({"x-request-id": "a\tb"}, ""),
        ({"x-request-id": f"for {KEY}"}, "for ***"),
    ],
)
def test_an_id_that_cannot_be_shown_is_left_out(headers: dict[str, str], found: str) -> None:
    good, bad = (httpx.Response(status, json=OPENAI_REPLY, headers=headers) for status in (200, 400))

    assert MAKERS["openai"](Answers(good), KEY).complete(HELLO).request_id == found
    with pytest.raises(us.ProviderError) as caught:
        MAKERS["openai"](Answers(bad), KEY).complete(HELLO)
    assert caught.value.request_id == found


ERRORS: list[tuple[httpx.Response, type[us.ProviderError]]] = [
    (reply("req-1", 429), us.RateLimited),
    (reply("req-1", 401), us.AuthenticationError),
    (reply("req-1", 500), us.ProviderError),
    (reply("req-1", 400, {"error": {"code": "context_length_exceeded"}}), us.ContextOverflow),
    (reply("req-1", 200, {"error": {"message": "no", "code": 502}}), us.ProviderError),
    (reply("req-1", 200, {"choices": [{"finish_reason": "error", "message": {"content": "a"}}]}), us.ProviderError),
    (reply("req-1", 200, {"strange": 1}), us.BadReply),
    (httpx.Response(200, content=b"<html>", headers={"x-request-id": "req-1"}), us.BadReply),
]


@pytest.mark.parametrize(("answer", "kind"), ERRORS)
@pytest.mark.parametrize("streamed", [False, True])
def test_each_error_of_an_answer_has_the_id_of_its_request(
    answer: httpx.Response, kind: type[us.ProviderError], streamed: bool
) -> None:
    model = MAKERS["openai"](Answers(answer), KEY)

    with pytest.raises(kind) as caught:
        list(model.stream(HELLO)) if streamed else model.complete(HELLO)

    assert caught.value.request_id == "req-1"


def stream_of(*events: object, request_id: str = "req-1") -> httpx.Response:
    headers = {"content-type": "text/event-stream", "x-request-id": request_id}
    return httpx.Response(200, content=as_events(*events), headers=headers)


HALF: JsonValue = {"choices": [{"delta": {"content": "Hi"}}]}
END: JsonValue = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


def test_a_streamed_turn_has_the_id_of_its_request() -> None:
    assembler = TurnAssembler()
    for piece in MAKERS["openai"](Answers(stream_of(HALF, END)), KEY).stream(HELLO):
        assembler.add(piece)

    assert (assembler.turn().text, assembler.turn().request_id) == ("Hi", "req-1")


@pytest.mark.parametrize("events", [(HALF,), (HALF, {"error": {"message": "no"}}), (HALF, "{broken")])
def test_a_stream_that_ends_badly_has_the_id_of_its_request(events: tuple[object, ...]) -> None:
    with pytest.raises(us.ProviderError) as caught:
        list(MAKERS["openai"](Answers(stream_of(*events)), KEY).stream(HELLO))

    assert caught.value.request_id == "req-1"
    assert caught.value.partial is not None


def test_an_error_without_an_answer_has_no_id() -> None:
    with pytest.raises(us.ProviderError) as caught:
        MAKERS["openai"](Answers(httpx.ConnectError("no")), KEY).complete(HELLO)

    assert caught.value.request_id == ""


# --- in a run


@us.tool(approval=True)
def look() -> str:
    """Look at the shelf."""
    return "seven"


def turn(request_id: str, content: str | None, *calls: JsonValue) -> httpx.Response:
    message: JsonValue = {"content": content, **({"tool_calls": list(calls)} if calls else {})}
    choice: JsonValue = {"message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return reply(request_id, body={"id": f"chat-{request_id}", "model": "gpt-4o-2024", "choices": [choice]})


def clerk(*answers: httpx.Response, attempts: int = 1) -> us.Agent[str]:
    model = OpenAI("gpt-4o", api_key=KEY, attempts=attempts, transport=Answers(*answers), timing=FakeTime().timing())
    return us.Agent("clerk", model=model, tools=[look])


def test_an_outcome_has_the_model_and_the_ids_of_its_last_turn_across_a_pause() -> None:
    agent = clerk(turn("req-1", None, CALL), turn("req-2", "Seven."))

    paused = agent.run("How many?")
    done = agent.resume(paused.token, us.Approve()) if isinstance(paused, us.NeedsApproval) else paused

    told = [(each.model, each.response_id, each.request_id) for each in (paused, done)]
    assert told == [("gpt-4o-2024", "chat-req-1", "req-1"), ("gpt-4o-2024", "chat-req-2", "req-2")]
    assert {name: done.to_dict()[name] for name in ("model", "response_id", "request_id")} == {
        "model": "gpt-4o-2024",
        "response_id": "chat-req-2",
        "request_id": "req-2",
    }
    assert "model" not in us.Complete(text="", output="").to_dict()


def test_the_ids_of_a_saved_run_come_back() -> None:
    said = replace(us.says("Seven."), model="gpt", response_id="chat-1", request_id="req-1")
    run = reloaded(run_of(make_spec(), [said]))

    step = run.next_step()
    assert isinstance(step, us.Done)
    assert (step.outcome.model, step.outcome.response_id, step.outcome.request_id) == ("gpt", "chat-1", "req-1")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    caplog.set_level(logging.DEBUG, "understudy")
    yield caplog


def values_of(lines: pytest.LogCaptureFixture, event: str, name: str) -> list[object]:
    return [getattr(record, name, None) for record in lines.records if getattr(record, "event", "") == event]


def test_the_lines_of_retries_and_failures_have_the_id(lines: pytest.LogCaptureFixture) -> None:
    with pytest.raises(us.RateLimited) as caught:
        clerk(reply("req-1", 429), reply("req-2", 429), attempts=2).run("How many?")

    assert caught.value.request_id == "req-2"
    assert values_of(lines, "retry_scheduled", "request_id") == ["req-1"]
    assert values_of(lines, "run_failed", "request_id") == ["req-2"]


def test_the_lines_of_turns_have_model_and_id(lines: pytest.LogCaptureFixture) -> None:
    clerk(turn("req-1", "Seven.")).run("How many?")

    assert values_of(lines, "turn_finished", "request_id") == ["req-1"]
    assert values_of(lines, "turn_finished", "model") == ["gpt-4o-2024"]
