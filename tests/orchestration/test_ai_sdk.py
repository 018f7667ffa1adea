"""The events of runs as the UI message stream of the AI SDK."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import understudy as us
from tests.support.ai_sdk_client import AiSdkClient
from tests.support.plausible_runs import Told, told_runs
from tests.support.run_events import read_sse
from understudy.testing import says
from understudy.vocabulary.runs.events import Event

TOO_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
VERSIONS = st.sampled_from((5, 6, 7))


def encoded(
    events: list[Event], *, version: Literal[5, 6, 7] = 7, inner: bool = False, shown: tuple[str, ...] = ()
) -> list[Any]:
    encoder = us.AiSdkEncoder("message", version=version, inner=inner, shown=shown)
    return [each for event in events for each in encoder.encode(event)]


def types(told: list[Any]) -> list[str]:
    return [each["type"] for each in told]


def test_a_streamed_text_is_one_part() -> None:
    told = encoded(
        [
            us.TurnStarted(turn=1, run_id="r"),
            us.TextDelta(text="Sev", turn=1, run_id="r"),
            us.TextDelta(text="en.", turn=1, run_id="r", offset=3),
            us.TurnFinished(turn=1, response=says("Seven."), run_id="r"),
            us.RunFinished(outcome=us.Complete(text="Seven.", output="Seven."), run_id="r"),
        ]
    )

    assert [each for each in told if each["type"] != "data-outcome"] == [
        {"type": "start", "messageId": "message"},
        {"type": "start-step"},
        {"type": "text-start", "id": "r.1.1"},
        {"type": "text-delta", "id": "r.1.1", "delta": "Sev"},
        {"type": "text-delta", "id": "r.1.1", "delta": "en."},
        {"type": "text-end", "id": "r.1.1"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
    ]


def test_the_pages_that_an_answer_names_are_sources() -> None:
    pages = ("https://a.test", "A"), ("https://b.test", ""), ("https://a.test", ""), ("", "a document")
    text = us.TextPart("Seven.", citations=tuple([us.Citation(title, url) for url, title in pages]))
    outcome = us.Complete(text="Seven.", output="Seven.", messages=(us.Message("assistant", (text,)),))
    told = encoded([us.RunFinished(outcome=outcome, run_id="r")])

    assert [each for each in told if each["type"] == "source-url"] == [
        {"type": "source-url", "sourceId": "https://a.test", "url": "https://a.test", "title": "A"},
        {"type": "source-url", "sourceId": "https://b.test", "url": "https://b.test"},
    ]
    assert types(told)[-2:] == ["data-outcome", "finish"]


def test_a_call_and_its_result_are_one_part() -> None:
    call = us.ToolCall("c1", "on_shelf", {"sku": "A-113"})
    finished = us.ToolFinished(call=call, result=us.ToolResult("c1", "7"))
    told = encoded([us.TurnStarted(turn=1), us.ToolStarted(call=call), finished])

    assert told[2:] == [
        {"type": "tool-input-start", "toolCallId": "c1", "toolName": "on_shelf"},
        {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": '{"sku":"A-113"}'},
        {"type": "tool-input-available", "toolCallId": "c1", "toolName": "on_shelf", "input": {"sku": "A-113"}},
        {"type": "tool-output-available", "toolCallId": "c1", "output": "7"},
    ]


@pytest.mark.parametrize("key", ["__proto__", "constructor"])
def test_a_key_that_the_client_refuses_does_not_end_the_stream(key: str) -> None:
    call = us.ToolCall("c1", "look", {"filter": {key: {"a": 1}}})
    told = encoded([us.ToolStarted(call=call), us.ToolProgress(call=call, text="")])

    assert told[3]["input"] == {"filter": f'{{"{key}":{{"a":1}}}}'}
    assert told[4]["data"]["call"]["arguments"] == told[3]["input"]


DROPPED: list[Event] = [
    us.TurnStarted(turn=1, run_id="r"),
    us.TextDelta(text="My card is", turn=1, run_id="r"),
    us.TurnDropped(turn=1, text="My card is", by="no cards", run_id="r"),
    us.RunFinished(outcome=us.Complete(text="Sorry.", output="Sorry."), run_id="r"),
]


def test_a_dropped_turn_is_taken_back() -> None:
    client = AiSdkClient().read(encoded(DROPPED))

    assert [part.get("text") for part in client.parts] == [None, "Sorry."]


@pytest.mark.parametrize("version", [5, 6])
def test_a_client_that_cannot_take_back_is_told_what_does_not_stand(version: Literal[5, 6]) -> None:
    client = AiSdkClient(version).read(encoded(DROPPED, version=version))

    assert client.data[0]["data"]["ids"] == ["r.1.1"]
    assert client.data[0]["transient"] is True
    assert client.texts() == ["Sorry."]


REFUND = us.ToolCall("c1", "refund", {"cents": 1200})
PAUSED = us.RunFinished(
    outcome=us.NeedsApproval(
        calls=(REFUND,),
        pauses=(us.Pause(id="approval", path=("desk",), calls=(REFUND,), reasons={"c1": "more than 10 euros"}),),
        token="t.1",
    )
)


def test_a_call_that_needs_a_decision_is_an_approval_request() -> None:
    told = encoded([us.TurnStarted(turn=1), PAUSED])
    client = AiSdkClient().read(told)

    assert client.tools()[0]["state"] == "approval-requested"
    request = next(each for each in told if each["type"] == "tool-approval-request")
    assert (request["toolCallId"], request["reason"]) == ("c1", "more than 10 euros")
    assert told[-1] == {"type": "finish", "finishReason": "tool-calls"}


def test_version_5_gets_an_approval_as_data() -> None:
    client = AiSdkClient(5).read(encoded([us.TurnStarted(turn=1), PAUSED], version=5))

    (approval,) = [part for part in client.parts if part["type"] == "data-approval"]
    assert approval["data"]["call"]["arguments"] == {"cents": 1200}
    assert approval["data"]["toolCallId"] == "c1"


@pytest.mark.parametrize("kind", ["", "rejected"])
def test_a_run_that_goes_on_ends_the_call_that_the_client_has(kind: Literal["", "rejected"]) -> None:
    result = us.ToolResult("c1", "paid", is_error=bool(kind), error_kind=kind)
    told = encoded(
        [us.ToolStarted(call=REFUND), us.ToolFinished(call=REFUND, result=result), us.TurnStarted(turn=2)],
        shown=("c1",),
    )

    assert types(told) == ["start", "tool-output-denied" if kind else "tool-output-available", "start-step"]


def test_an_approval_of_a_run_inside_gets_its_result() -> None:
    pause = us.Pause(id="child/x/approval", path=("desk", "helper"), calls=(REFUND,))
    paused = us.RunFinished(outcome=us.NeedsApproval(calls=(REFUND,), pauses=(pause,), token="t.1"))
    before = AiSdkClient().read(encoded([us.TurnStarted(turn=1), paused]))
    (part,) = before.tools()

    finished = us.ToolFinished(call=REFUND, result=us.ToolResult("c1", "paid"), run_id="r2", path=("desk", "helper"))
    told = encoded([finished], shown=(part["toolCallId"],))

    assert told[1:] == [{"type": "tool-output-available", "toolCallId": part["toolCallId"], "output": "paid"}]


def test_a_call_whose_run_inside_waits_does_not_keep_the_client_from_answering() -> None:
    call = us.ToolCall("h", "helper")
    pause = us.Pause(id="child/h/approval", path=("lead", "helper"), calls=(REFUND,))
    paused = us.RunFinished(outcome=us.NeedsApproval(calls=(REFUND,), pauses=(pause,), token="t.1"))
    client = AiSdkClient().read(encoded([us.TurnStarted(turn=1), us.ToolStarted(call=call), paused]))

    assert [part["state"] for part in client.tools()] == ["output-available", "approval-requested"]

    finished = us.ToolFinished(call=call, result=us.ToolResult("h", "done"))
    assert encoded([finished], shown=("h",))[1:] == [
        {"type": "tool-output-available", "toolCallId": "h", "output": "done"}
    ]


def test_a_question_is_a_part_that_the_client_keeps() -> None:
    pause = us.Pause(id="question", path=("desk",), question="Which order?")
    told = encoded([us.RunFinished(outcome=us.NeedsInput(question="Which order?", pauses=(pause,), token="t.1"))])

    assert told[1]["type"] == "data-question"
    assert told[1]["id"] == "t.1/1/question/question"
    assert told[1]["data"] == {"question": "Which order?", "path": ["desk"]}


def test_an_error_is_the_last_chunk() -> None:
    encoder = us.AiSdkEncoder("message")
    told = encoder.encode(us.TextDelta(text="Sev")) + encoder.encode(us.RunFailed(error=us.RateLimited("slow down")))

    assert told[-1] == {"type": "error", "errorText": "RateLimited: slow down"}
    assert encoder.encode_bytes(us.TurnStarted(turn=2)) == b""


def test_a_run_that_was_cancelled_is_an_abort() -> None:
    assert encoded([us.RunFailed(error=us.RunCancelled("stopped"))])[-1] == {"type": "abort", "reason": "stopped"}


def test_events_of_runs_inside_are_data_that_the_client_does_not_keep() -> None:
    event = us.TextDelta(text="Seven.", run_id="r2", path=("desk", "clerk"))

    assert types(encoded([event])) == ["start"]
    (told,) = encoded([event], inner=True)[1:]
    assert (told["type"], told["transient"], told["data"]["text"]) == ("data-inner", True, "Seven.")


def test_a_version_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="5, 6 or 7"):
        us.AiSdkEncoder("message", version=4)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@given(told=told_runs(), version=VERSIONS, data=st.data())
@settings(max_examples=300, suppress_health_check=TOO_SLOW)
def test_a_client_accepts_each_run_from_any_event_on(
    told: Told, version: Literal[5, 6, 7], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(told.events) - 1))
    client = AiSdkClient(version).read(encoded(told.events[first:], version=version, inner=True))

    assert client.end is not None


@given(told=told_runs(), version=VERSIONS)
@settings(max_examples=200, suppress_health_check=TOO_SLOW)
def test_a_reader_of_the_whole_run_has_its_texts_and_results(told: Told, version: Literal[5, 6, 7]) -> None:
    client = AiSdkClient(version).read(encoded(told.events, version=version))

    assert "".join(client.texts()).startswith("".join(told.texts))
    results = [part.get(name) for part in client.tools() for name in ("output", "errorText")]
    assert [event for event in told.finished if not event.result.parts and event.result.content not in results] == []


@given(told=told_runs())
@settings(max_examples=100, suppress_health_check=TOO_SLOW)
def test_the_bytes_are_the_same_chunks_and_a_last_word(told: Told) -> None:
    encoder = us.AiSdkEncoder("message")
    *sent, last = read_sse(b"".join([encoder.encode_bytes(event) for event in told.events]))

    assert [json.loads(each.data) for each in sent] == json.loads(json.dumps(encoded(told.events)))
    assert last.data == "[DONE]"
