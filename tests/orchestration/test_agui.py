"""The events of runs as AG-UI 1.0."""

from __future__ import annotations

import functools
import json
from typing import Any

import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import understudy as us
from tests.support.agui_client import AguiClient, Call
from tests.support.plausible_runs import Told, told_runs
from tests.support.run_events import read_sse
from understudy.testing import calls, says
from understudy.vocabulary.runs.events import Event

TOO_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def encoder(*, inner: bool = False, shown: tuple[str, ...] = ()) -> us.AguiEncoder:
    return us.AguiEncoder(thread_id="thread", run_id="client-run", inner=inner, shown=shown)


def encoded(events: list[Event], *, inner: bool = False, shown: tuple[str, ...] = ()) -> list[Any]:
    agui = encoder(inner=inner, shown=shown)
    return [each for event in events for each in agui.encode(event)]


def types(told: list[Any]) -> list[str]:
    return [each["type"] for each in told]


def text_of(client: AguiClient) -> str:
    return "".join(client.own_texts())


# --- one run


def test_a_streamed_text_is_one_message() -> None:
    told = encoded(
        [
            us.TurnStarted(turn=1, run_id="r"),
            us.TextDelta(text="Sev", turn=1, run_id="r"),
            us.TextDelta(text="en.", turn=1, run_id="r", offset=3),
            us.TurnFinished(turn=1, response=says("Seven."), run_id="r"),
            us.RunFinished(outcome=us.Complete(text="Seven.", output="Seven."), run_id="r"),
        ]
    )

    assert told[:-1] == [
        {"type": "RUN_STARTED", "threadId": "thread", "runId": "client-run", "protocolVersion": "1.0"},
        {"type": "STEP_STARTED", "stepName": "turn 1"},
        {"type": "TEXT_MESSAGE_START", "messageId": "r.1.1", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "r.1.1", "delta": "Sev"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "r.1.1", "delta": "en."},
        {"type": "TEXT_MESSAGE_END", "messageId": "r.1.1"},
        {"type": "STEP_FINISHED", "stepName": "turn 1"},
    ]
    assert told[-1]["type"] == "RUN_FINISHED"
    assert told[-1]["outcome"] == {"type": "success"}
    assert told[-1]["result"]["text"] == "Seven."


def test_a_turn_without_deltas_gives_its_reasoning_and_text() -> None:
    response = us.ModelTurn((us.ReasoningPart("hm"), us.TextPart("Seven.")))
    told = encoded([us.TurnFinished(turn=1, response=response, run_id="r")])

    assert types(told) == [
        "RUN_STARTED",
        "STEP_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
    ]


def test_a_call_without_deltas_is_shown_when_it_starts() -> None:
    call = us.ToolCall("c1", "on_shelf", {"sku": "A-113"})
    told = encoded(
        [
            us.TurnFinished(turn=1, response=calls("on_shelf", sku="A-113"), run_id="r"),
            us.ToolStarted(call=call, run_id="r"),
            us.ToolFinished(call=call, result=us.ToolResult("c1", "7"), run_id="r"),
        ]
    )

    assert told[2:] == [
        {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "on_shelf", "parentMessageId": "r.1.1"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"sku":"A-113"}'},
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
        {"type": "TOOL_CALL_RESULT", "messageId": "c1.result", "toolCallId": "c1", "content": "7", "role": "tool"},
    ]


def test_calls_that_the_model_writes_at_once_keep_their_arguments_apart() -> None:
    response = us.ModelTurn((us.ToolCall("a", "look", {"n": 1}), us.ToolCall("b", "look", {"n": 2})))
    client = AguiClient().read(
        encoded(
            [
                us.TurnStarted(turn=1),
                us.ToolCallDelta(text="", index=0, name="look", call_id="a"),
                us.ToolCallDelta(text='{"n":', index=0, name="look", call_id="a"),
                us.ToolCallDelta(text='{"n":', index=1, name="look", call_id="b"),
                us.ToolCallDelta(text="1}", index=0, name="look", call_id="a"),
                us.ToolCallDelta(text="2}", index=1, name="look", call_id="b"),
                us.TurnFinished(turn=1, response=response),
            ]
        )
    )

    assert {id: call.arguments for id, call in client.calls.items()} == {"a": '{"n":1}', "b": '{"n":2}'}


def test_a_made_up_id_and_one_that_comes_again_do_not_meet_those_of_earlier_calls() -> None:
    made_up = us.ToolCall("call-1-0", "look", made_up_id=True)
    again = us.ToolCall("same", "look")
    events: list[Event] = []
    for turn in (1, 2):
        events.append(us.TurnStarted(turn=turn, run_id="r"))
        for call in (again, made_up):
            events.append(us.ToolStarted(call=call, run_id="r"))
            events.append(us.ToolFinished(call=call, result=us.ToolResult(call.id, str(turn)), run_id="r"))
    client = AguiClient().read(encoded(events))

    assert [call.results for call in client.calls.values()] == [["1"], ["1"], ["2"], ["2"]]
    assert list(client.calls)[:2] == ["same", "r.call-1-0"]


def test_what_was_shown_of_a_dropped_turn_is_named() -> None:
    told = encoded(
        [
            us.TurnStarted(turn=1, run_id="r"),
            us.TextDelta(text="My card is", turn=1, run_id="r"),
            us.ToolCallDelta(text="{", index=1, name="look", call_id="a", run_id="r"),
            us.TurnDropped(turn=1, text="My card is", by="no cards", run_id="r"),
            us.TextDelta(text="Sorry.", turn=1, attempt=2, run_id="r"),
            us.RunFinished(outcome=us.Complete(text="Sorry.", output="Sorry."), run_id="r"),
        ]
    )
    client = AguiClient().read(told)

    assert client.customs[0]["name"] == "understudy.turn_dropped"
    assert client.customs[0]["value"]["ids"] == ["r.1.1", "a"]
    assert client.own_texts() == ["Sorry."]
    assert client.calls["a"].results == ["Not run: the turn was dropped."]


def test_an_answer_that_no_turn_has_shown_is_a_message_at_the_end() -> None:
    client = AguiClient().read(encoded([us.RunFinished(outcome=us.Complete(text="All good.", output=""), run_id="r")]))

    assert client.texts == {"r.answer": "All good."}


def test_an_answer_in_place_of_a_dropped_one_is_a_message_at_the_end() -> None:
    client = AguiClient().read(
        encoded(
            [
                us.TurnFinished(turn=1, response=says("My card is 4111."), run_id="r"),
                us.TurnDropped(turn=1, text="My card is 4111.", by="no cards", run_id="r"),
                us.RunFinished(outcome=us.Complete(text="I cannot say.", output=""), run_id="r"),
            ]
        )
    )

    assert client.own_texts() == ["I cannot say."]


def test_an_error_closes_what_is_open_and_is_the_last_event() -> None:
    agui = encoder()
    told = [
        *agui.encode(us.TextDelta(text="Sev", turn=1)),
        *agui.encode(us.RunFailed(error=us.RateLimited("slow down"))),
        *agui.encode(us.TurnStarted(turn=2)),
    ]

    assert types(told)[-3:] == ["TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_ERROR"]
    assert told[-1] == {"type": "RUN_ERROR", "message": "slow down", "code": "RateLimited"}


def test_a_run_that_was_cancelled_did_not_fail() -> None:
    told = encoded([us.RunFailed(error=us.RunCancelled("stopped"))])

    assert told[-1]["outcome"] == {"type": "cancelled"}


def test_each_call_and_each_question_is_an_interrupt() -> None:
    asked = us.ToolCall("c1", "refund", {"cents": 1200})
    below = us.ToolCall("c2", "pay", {})
    pauses = (
        us.Pause(id="approval", path=("desk",), calls=(asked,), reasons={"c1": "more than 10 euros"}),
        us.Pause(id="child/x/approval", path=("desk", "helper"), calls=(below,)),
        us.Pause(id="question/y", path=("desk",), question="Which order?"),
    )
    outcome = us.NeedsApproval(calls=(asked, below), pauses=pauses, token="t.1")
    client = AguiClient().read(encoded([us.RunFinished(outcome=outcome, run_id="r")]))

    assert client.end is not None
    first, second, third = client.end["outcome"]["interrupts"]
    assert (first["reason"], first["message"], first["toolCallId"]) == ("tool_call", "more than 10 euros", "c1")
    assert first["metadata"]["understudy"]["call"]["arguments"] == {"cents": 1200}
    assert "toolCallId" not in second
    assert second["metadata"]["understudy"]["path"] == ["desk", "helper"]
    assert (third["reason"], third["message"]) == ("input_required", "Which order?")
    assert client.end["result"]["token"] == "t.1"


def test_a_run_that_goes_on_adds_to_the_calls_that_the_client_has() -> None:
    call = us.ToolCall("call-1-0", "refund", {"cents": 1200}, made_up_id=True)
    told = encoded(
        [
            us.ToolStarted(call=call, run_id="r"),
            us.ToolFinished(call=call, result=us.ToolResult("c1", "paid"), run_id="r"),
            us.TurnStarted(turn=2, run_id="r"),
        ],
        shown=("r.call-1-0",),
    )

    assert types(told) == ["RUN_STARTED", "TOOL_CALL_RESULT", "STEP_STARTED"]
    assert told[1]["toolCallId"] == "r.call-1-0"


ASKED = us.ToolCall("h", "helper", {"input": "go"})
BELOW: dict[str, Any] = {"run_id": "r2", "path": ("lead", "helper"), "parent_run_id": "r1"}
PAY = us.ToolCall("p", "pay", {"cents": 5})
PAUSED_BELOW: list[Event] = [
    us.TurnStarted(turn=1, run_id="r1", path=("lead",)),
    us.ToolStarted(call=ASKED, run_id="r1", path=("lead",)),
    us.ToolStarted(call=PAY, **BELOW),
    us.RunFinished(
        outcome=us.NeedsApproval(
            calls=(PAY,), pauses=(us.Pause(id="child/h/approval", path=("lead", "helper"), calls=(PAY,)),), token="t.1"
        ),
        run_id="r1",
        path=("lead",),
    ),
]
GONE_ON: list[Event] = [
    us.ToolFinished(call=PAY, result=us.ToolResult("p", "paid"), **BELOW),
    us.ToolFinished(call=ASKED, result=us.ToolResult("h", "done"), run_id="r1", path=("lead",)),
]


def test_calls_around_a_run_that_waits_have_no_result_before_it_goes_on() -> None:
    before = AguiClient().read(encoded(PAUSED_BELOW, inner=True))
    went_on = encoded(GONE_ON, inner=True, shown=tuple(before.calls))

    assert {id: call.results for id, call in before.calls.items()} == {"h": [], "r2.p": []}
    assert types(went_on) == ["RUN_STARTED", "SUBAGENT_STARTED", "TOOL_CALL_RESULT", "TOOL_CALL_RESULT"]
    assert [each["toolCallId"] for each in went_on[2:]] == ["r2.p", "h"]


def test_runs_inside_are_subagents_and_their_words_are_left_out() -> None:
    child: dict[str, Any] = {"run_id": "r2", "path": ("desk", "clerk"), "parent_run_id": "r1"}
    about: dict[str, Any] = {
        "position": 0,
        "runner_id": "clerk",
        "child_run_id": "r2",
        "run_id": "r1",
        "path": ("desk",),
    }
    events: list[Event] = [
        us.ChildStarted(**about),
        us.TextDelta(text="Seven.", turn=1, **child),
        us.ChildFinished(outcome=us.Complete(text="Seven.", output=""), **about),
    ]

    assert types(encoded(events)) == ["RUN_STARTED", "SUBAGENT_STARTED", "SUBAGENT_FINISHED"]

    told = encoded(events, inner=True)
    assert types(told)[2:6] == ["STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert {each["subagentRunId"] for each in told[1:]} == {"r2"}


def test_pictures_and_documents_of_a_result_are_parts() -> None:
    result = us.ToolResult("c", "two", parts=(us.ImagePart("AAAA", "image/png"), us.FilePart(url="http://x/y")))
    told = encoded([us.ToolFinished(call=us.ToolCall("c", "look"), result=result)])

    assert told[-1]["content"] == [
        {"type": "text", "text": "two"},
        {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}},
        {"type": "document", "source": {"type": "url", "value": "http://x/y"}},
    ]


def test_a_failed_call_says_so() -> None:
    result = us.ToolResult("c", "no such order", is_error=True, error_kind="raised")
    told = encoded([us.ToolFinished(call=us.ToolCall("c", "look"), result=result)])

    assert told[-1]["metadata"] == {"understudy": {"is_error": True, "error_kind": "raised"}}


# --- any run


@given(inner=st.booleans(), told=told_runs(), data=st.data())
@settings(max_examples=300, suppress_health_check=TOO_SLOW)
def test_a_client_accepts_each_run_from_any_event_to_any_other(inner: bool, told: Told, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(told.events) - 1))
    events = encoded(told.events[first:], inner=inner)

    client = AguiClient().read(events)
    assert client.end is not None
    for call in client.calls.values():
        assert is_void(call) or call.arguments == "{oops" or isinstance(json.loads(call.arguments), dict)


@given(inner=st.booleans(), told=told_runs())
@settings(max_examples=200, suppress_health_check=TOO_SLOW)
def test_a_reader_of_the_whole_run_has_its_texts_calls_and_results(inner: bool, told: Told) -> None:
    client = AguiClient().read(encoded(told.events, inner=inner))

    shown = text_of(client)
    assert shown.startswith("".join(told.texts))
    own = [call for call in client.calls.values() if call.owner is None and not is_void(call)]
    ended = [(event.call.name, arguments_of(event.call), event.result.content) for event in told.finished]
    waiting = [(call.name, arguments_of(call), "") for call in told.waiting]
    assert sorted((call.name, squeezed(call.arguments), words(call)) for call in own) == sorted(ended + waiting)


@functools.cache
def official_events() -> pydantic.TypeAdapter[Any]:
    core: Any = pytest.importorskip("ag_ui.core")  # of the package ag-ui-protocol
    return pydantic.TypeAdapter(core.Event)


@given(inner=st.booleans(), told=told_runs())
@settings(max_examples=100, suppress_health_check=TOO_SLOW)
def test_the_official_models_take_each_event_as_it_is(inner: bool, told: Told) -> None:
    for each in encoded(told.events, inner=inner):
        event = official_events().validate_python(each)
        assert not event.model_extra
        assert event.model_dump(mode="json", by_alias=True) == each


def is_void(call: Call) -> bool:
    return any(str(each).startswith("Not run") or each == "The call is not part of the turn." for each in call.results)


def words(call: Call) -> str:
    content: Any = call.results[0] if call.results else ""
    return content if isinstance(content, str) else str(content[0]["text"])


def arguments_of(call: us.ToolCall) -> str:
    return squeezed(call.bad_arguments or json.dumps(dict(call.arguments)))


def squeezed(text: str) -> str:
    return text if text == "{oops" else json.dumps(json.loads(text))


@given(inner=st.booleans(), told=told_runs())
@settings(max_examples=100, suppress_health_check=TOO_SLOW)
def test_the_bytes_are_the_same_events(inner: bool, told: Told) -> None:
    agui = encoder(inner=inner)
    body = b"".join([agui.encode_bytes(event) for event in told.events])

    assert [json.loads(each.data) for each in read_sse(body)] == json.loads(
        json.dumps(encoded(told.events, inner=inner))
    )
