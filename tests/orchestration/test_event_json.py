"""Events as JSON objects, and as `text/event-stream`."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, get_args

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from tests.support.run_events import HALF, event_values, events, read_sse
from understudy.orchestration.front_ends.sse import HEARTBEAT, encode_event, frame, json_text
from understudy.vocabulary.messages import JsonValue
from understudy.vocabulary.runs.events import Event


def test_an_event_has_its_type_its_id_and_all_its_fields() -> None:
    call = us.ToolCall("c1", "on_shelf", {"sku": "A-113"})
    told = us.event_json(us.ToolStarted(call=call, run_id="r", seq=3, path=("desk", "clerk"), parent_run_id="p"))

    assert told["type"] == "tool_started"
    assert told["id"] == "3"
    assert (told["run_id"], told["seq"], told["path"], told["parent_run_id"]) == ("r", 3, ["desk", "clerk"], "p")
    assert told["call"] == {"id": "c1", "name": "on_shelf", "arguments": {"sku": "A-113"}}


def test_a_call_with_arguments_that_are_no_object_has_the_models_own_text() -> None:
    told = us.event_json(us.ToolStarted(call=us.ToolCall("c1", "on_shelf", bad_arguments="{sku")))

    assert told["call"] == {"id": "c1", "name": "on_shelf", "arguments": {}, "bad_arguments": "{sku"}


def test_a_turn_has_no_data_that_only_its_provider_reads() -> None:
    parts = (
        us.ReasoningPart("hm", signature="secret-signature", redacted="secret-thought"),
        us.TextPart("Seven.", "secret-signature"),
        us.OpaquePart({"secret": "part"}),
    )
    told = us.event_json(us.TurnFinished(turn=1, response=us.ModelTurn(parts, us.Usage(10, 5, raw={"secret": 1}))))

    assert "secret" not in json.dumps(told)
    assert isinstance(told["response"], dict)
    assert told["response"]["text"] == "Seven."
    assert told["response"]["thinking"] == "hm"
    assert told["response"]["usage"] == {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


def test_a_result_has_its_pictures() -> None:
    result = us.ToolResult("c1", "a cat", parts=(us.ImagePart("AAAA", "image/png"), us.FilePart(url="u", name="n")))
    told = us.event_json(us.ToolFinished(call=us.ToolCall("c1", "look"), result=result))

    assert isinstance(told["result"], dict)
    assert told["result"]["parts"] == [
        {"kind": "image", "media_type": "image/png", "data": "AAAA"},
        {"kind": "file", "media_type": "application/octet-stream", "url": "u", "name": "n"},
    ]


def test_an_error_has_its_type_and_message_and_no_traceback() -> None:
    try:
        raise KeyError("stock")
    except KeyError as error:
        told = us.event_json(us.RunFailed(error=error))

    assert told["error"] == {"type": "KeyError", "message": "'stock'"}


def test_an_error_has_the_token_to_go_on_with() -> None:
    error = us.RateLimited("slow down", status=429, retryable=True)
    error.token = "r.1.x"
    error.path = ("desk", "clerk")
    told = us.event_json(us.RunFailed(error=error))

    assert told["error"] == {
        "type": "RateLimited",
        "message": "slow down",
        "retryable": True,
        "status": 429,
        "path": ["desk", "clerk"],
        "token": "r.1.x",
    }


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_whose_message_fails_is_told_all_the_same() -> None:
    told = us.event_json(us.RunFailed(error=Silent()))

    assert told["error"] == {"type": "Silent", "message": "(it has no message that can be shown)"}


class Broken(pydantic.BaseModel):
    @pydantic.model_serializer
    def give(self) -> dict[str, object]:
        raise RuntimeError("cannot be written")


def test_an_output_that_cannot_be_written_does_not_keep_the_end_of_a_run_from_being_told() -> None:
    told = us.event_json(us.RunFinished(outcome=us.Complete(run_id="r", text="done", output=Broken())))

    assert isinstance(told["outcome"], dict)
    assert told["outcome"]["text"] == "done"
    assert told["outcome"]["output"] is None
    assert "cannot be written" in str(told["outcome"]["output_error"])


def test_a_partial_output_that_cannot_be_written_is_null() -> None:
    assert us.event_json(us.PartialOutput(output=Broken(), turn=1))["output"] is None


def test_a_number_that_json_has_not_is_null() -> None:
    told = us.event_json(us.ToolProgress(call=us.ToolCall("c", "t"), text="", done=math.nan, total=math.inf))

    assert told["done"] is None
    assert told["total"] is None


class Place(pydantic.BaseModel):
    stock: Any


@dataclass
class Shelf:
    stock: Any


class Sku(str):
    pass


class Kind(Enum):
    LOST = HALF


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({HALF: 1, "b": math.nan, 2: 3}, {HALF: 1, "b": None, "2": 3}),
        ([({HALF: Decimal(1)},)], [[{HALF: "1"}]]),
        (Place(stock={HALF: Decimal(1)}), {"stock": {HALF: "1"}}),
        (Shelf(stock=[Shelf({HALF: {1}})]), {"stock": [{"stock": {HALF: [1]}}]}),
        (Sku(HALF), HALF),
        ({"a": [Kind.LOST], HALF: Kind.LOST}, {"a": [HALF], HALF: HALF}),
    ],
)
def test_half_a_surrogate_pair_is_told_wherever_it_stands(value: Any, told: JsonValue) -> None:
    call = us.ToolCall("c1", "look", {"stock": value})
    outcome = us.NeedsApproval(run_id="r", calls=(call,), pauses=(us.Pause(id="approval", calls=(call,)),), token="t")

    assert us.event_json(us.ToolStarted(call=call))["call"] == {
        "id": "c1",
        "name": "look",
        "arguments": {"stock": told},
    }
    assert us.event_json(us.PartialOutput(output=value, turn=1))["output"] == told
    assert us.Complete(text="", output=value).to_dict()["output"] == told
    assert json.loads(json.dumps(outcome.to_dict()))["calls"][0]["arguments"] == {"stock": told}


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: str(kind.__name__))
@settings(max_examples=20)
@given(data=st.data())
def test_every_type_of_event_is_json(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(event_values(kind))

    told = us.event_json(event)

    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert set(told) == {"type", "id", *kind.__dataclass_fields__}


@given(st.lists(events(), max_size=4))
def test_a_reader_of_server_sent_events_gets_each_event_whole(told: list[Event]) -> None:
    body = HEARTBEAT + b"".join([HEARTBEAT + encode_event(event) for event in told])

    read = read_sse(body)

    assert [json.loads(each.data) for each in read] == [json.loads(json.dumps(us.event_json(event))) for event in told]
    assert [each.event for each in read] == [us.event_json(event)["type"] for event in told]


@given(event_values(us.TextDelta) | event_values(us.ReasoningDelta))
def test_a_delta_is_framed_as_every_other_event_is(event: Event) -> None:
    told = us.event_json(event)
    id = "" if len(event.path) > 1 else event.id

    assert encode_event(event) == frame(json_text(told), event=str(told["type"]), id=id)


def test_an_event_of_a_run_inside_does_not_move_the_readers_position() -> None:
    body = encode_event(us.TurnStarted(turn=1, seq=7, path=("desk",)))
    body += encode_event(us.TurnStarted(turn=1, seq=2, path=("desk", "clerk")))

    assert [each.last_id for each in read_sse(body)] == ["7", "7"]


def test_each_line_of_a_text_has_a_data_line() -> None:
    assert frame("a\nb\r\nc\rd", event="note", id="3") == b"id: 3\nevent: note\ndata: a\ndata: b\ndata: c\ndata: d\n\n"


def test_the_json_of_an_event_is_ascii() -> None:
    body = encode_event(us.TextDelta(text="é\u2028\u0085\ud83d\r\n"))

    assert body.isascii()
    assert body.count(b"\n") == 4


@pytest.mark.parametrize(("event", "id"), [("a\nb", ""), ("", "1\r2"), ("", "1\n"), ("", "\0")])
def test_a_type_or_id_of_several_lines_is_refused(event: str, id: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        frame("x", event=event, id=id)
