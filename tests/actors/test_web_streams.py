"""The events of a run as the bytes of a web response."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import understudy as us
from tests.support.events import numbers
from tests.support.scripts import WAIT, eventually
from tests.support.streaming import Tap, streaming_clerk, text_turn
from tests.support.tools import look
from understudy.orchestration.front_ends.sse import HEARTBEAT


def read(chunks: list[bytes]) -> list[dict[str, Any]]:
    """Return the events of a stream, read as a browser reads them."""
    found: list[dict[str, Any]] = []
    for block in b"".join(chunks).decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            fields = dict(line.split(": ", 1) for line in lines)
            found.append(json.loads(fields["data"]) | {"last": fields["id"]})
    return found


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join([event["text"] for event in events if event["type"] == "text_delta"])


def test_a_browser_gets_each_event_and_the_outcome_last() -> None:
    look_first = [us.CallPiece(0, '{"word": "x"}', "c1", "look"), us.TurnEnd()]
    handle = streaming_clerk(look_first, text_turn("It is ", "x."), tools=[look]).submit("go")

    events = read(list(us.sse(handle)))

    assert [event["type"] for event in events if event["type"] not in ("text_delta", "tool_call_delta")] == [
        *("turn_started", "turn_finished", "tool_started", "tool_finished"),
        *("turn_started", "turn_finished", "run_finished"),
    ]
    assert text_of(events) == events[-1]["outcome"]["text"] == "It is x."
    assert [event["last"] for event in events] == [event["id"] for event in events]


def test_a_browser_that_comes_back_after_any_event_misses_nothing_and_gets_nothing_twice() -> None:
    look_first = [
        us.TextPiece("One "),
        us.TextPiece("moment."),
        us.CallPiece(0, '{"word": "x"}', "c1", "look"),
        us.TurnEnd(),
    ]
    handle = streaming_clerk(look_first, text_turn("It is ", "x."), tools=[look]).submit("go")
    handle.result(WAIT)
    whole = read(list(us.sse(handle)))

    for number, event in enumerate(whole):
        assert read(list(us.sse(handle, after=event["last"]))) == whole[number + 1 :]


def test_a_heartbeat_comes_while_the_run_says_nothing() -> None:
    tap = Tap(text_turn("a", "b"))
    tap.let()
    chunks: list[bytes] = []

    for chunk in us.sse(streaming_clerk(tap).submit("go"), heartbeat=0.01):
        chunks.append(chunk)
        if chunks.count(b": still here\n\n") == 3:
            tap.let(3)

    assert chunks.count(b": still here\n\n") >= 3
    events = read(chunks)
    assert text_of(events) == "ab"
    assert [event["type"] for event in events].count("turn_started") == 1


def test_a_reader_that_goes_away_leaves_the_run_alone() -> None:
    tap = Tap(text_turn("a", "b"))
    tap.let()
    handle = streaming_clerk(tap).submit("go")
    stream = us.sse(handle)
    next(stream)
    stream.close()
    tap.let(3)

    assert handle.result(WAIT).text == "ab"


def test_a_run_that_fails_ends_its_stream_with_the_error() -> None:
    events = read(list(us.sse(streaming_clerk([us.TextPiece("a")]).submit("go"))))

    assert events[-1]["type"] == "run_failed"
    assert events[-1]["error"]["type"] == "BadReply"


@pytest.mark.parametrize(
    ("options", "kind"),
    [({"after": "abc"}, ValueError), ({"heartbeat": 0}, ValueError), ({"heartbeat": None}, TypeError)],
)
def test_wrong_options_are_refused_before_the_response_begins(options: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        us.sse(streaming_clerk(text_turn("a")).submit("go"), **options)


def test_a_stream_is_numbered_like_the_events() -> None:
    handle = streaming_clerk(text_turn("a")).submit("go")
    told = list(handle.events())

    assert [event["seq"] for event in read(list(us.sse(handle))) if "offset" not in event] == numbers(told)
    eventually(lambda: not handle.running(), "the run is over")


FORMS: list[Any] = [us.agui, us.ai_sdk]


@pytest.mark.parametrize("form", FORMS)
def test_clients_of_other_protocols_get_the_text_and_heartbeats(form: Any) -> None:
    tap = Tap(text_turn("a", "b"))
    tap.let()
    chunks: list[bytes] = []

    for chunk in form(streaming_clerk(tap).submit("go"), heartbeat=0.01):
        assert chunk
        chunks.append(chunk)
        if chunks.count(HEARTBEAT) == 2:
            tap.let(3)

    data = [line[6:] for line in b"".join(chunks).decode().splitlines() if line.startswith("data: {")]
    assert chunks.count(HEARTBEAT) >= 2
    assert "".join([str(json.loads(each)["delta"]) for each in data if "delta" in json.loads(each)]) == "ab"


@pytest.mark.parametrize("form", [us.sse, *FORMS])
def test_a_stream_object_is_refused_with_a_hint(form: Any) -> None:
    with (
        pytest.raises(TypeError, match=r"got a RunStream: pass its \.handle"),
        streaming_clerk(text_turn("a")).stream("go") as stream,
    ):
        form(stream)


class Measured(BaseModel):
    length: float


@pytest.mark.parametrize("form", [us.sse, *FORMS])
def test_a_number_that_json_has_no_word_for_does_not_end_the_stream(form: Any) -> None:
    handle = streaming_clerk(text_turn('{"length": ', "1e999}"), output_type=Measured).submit("go")
    output: object = handle.result(WAIT).output
    assert output == Measured(length=float("inf"))

    told = b"".join(form(handle)).decode()

    assert "inf" not in told.lower().replace("info", "")
    assert told.count("run_finished") + told.count("RUN_FINISHED") + told.count('"type":"finish"') >= 1


@pytest.mark.parametrize("form", [us.sse, us.agui, us.ai_sdk])
def test_runs_inside_are_told_on_demand_also_after_a_heartbeat(form: Any) -> None:
    tap = Tap(text_turn("in", "side"))
    handle = us.SequentialAgent("g", [streaming_clerk(tap)]).submit("go")
    told: list[bytes] = []
    for chunk in form(handle, inner=True, heartbeat=0.02):
        told.append(chunk)
        if chunk == HEARTBEAT:
            tap.let()

    assert told.count(HEARTBEAT) >= 3
    whole = b"".join(told)
    assert b'"in"' in whole and b'"side"' in whole
    assert b"id: " not in whole.replace(b'"id: ', b"")


@pytest.mark.parametrize("form", [us.sse, us.agui, us.ai_sdk])
def test_a_place_or_another_handle_does_not_go_with_runs_inside(form: Any) -> None:
    handle = streaming_clerk(text_turn("ok")).submit("go")
    handle.result(WAIT)

    with pytest.raises(ValueError, match="does not go with inner=True"):
        form(handle, inner=True, after="1")
    with pytest.raises(TypeError, match="inner must be True or False, got 'yes'"):
        form(handle, inner="yes")
    with pytest.raises(
        TypeError, match="inner=True needs the handle that submit returned in this process, got _HasRunId"
    ):
        form(_HasRunId(), inner=True)
    assert list(form(handle, inner=True, after=""))


class _HasRunId:
    run_id = "r"


def agui(handle: us.RunHandle) -> Any:
    return us.agui(handle, thread_id="t")


@pytest.mark.parametrize("front", [us.sse, us.ai_sdk, agui])
def test_half_a_surrogate_pair_in_a_key_of_the_arguments_ends_no_stream(front: Callable[[us.RunHandle], Any]) -> None:
    @us.tool(approval=True)
    def count(stock: dict[str, int]) -> dict[str, int]:
        """Count the stock."""
        return stock

    call = us.ToolCall("c1", "count", {"stock": {"\ud83d": 1}})
    clerk = us.Agent("clerk", model=us.ScriptedModel([us.ModelTurn((call,))]), tools=[count])

    told = b"".join(front(clerk.submit("go"))).decode()

    assert '\\\\ud83d\\":1' in told or '"\\ud83d":1' in told
    assert "run_finished" in told or "needs_approval" in told
