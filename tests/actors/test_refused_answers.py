"""Answers that fit neither the output type nor the criteria, and were shown."""

from __future__ import annotations

from typing import Any

import pytest

import understudy as us
from tests.support.events import DELTAS
from tests.support.streaming import StreamedScript, streaming_clerk, text_turn
from understudy.orchestration.front_ends.sse import encode_event
from understudy.testing import FunctionModel


def by_tool(*texts: str) -> list[us.Piece]:
    return [us.CallPiece(name="final_answer"), *(us.CallPiece(0, text) for text in texts), us.TurnEnd()]


REFUSED: dict[str, tuple[str, list[list[us.Piece]], dict[str, Any]]] = {
    "type": (
        "output_type",
        [text_turn('{"answer": ', '"wrong"}'), text_turn('{"answer": 5}')],
        {"output_type": int, "output_mode": "native"},
    ),
    "type by a tool": (
        "output_type",
        [by_tool('{"answer": ', '"wrong"}'), by_tool('{"answer": 5}')],
        {"output_type": int, "output_mode": "tool"},
    ),
    "criterion": (
        "criteria",
        [text_turn("wr", "ong"), text_turn("5 DONE")],
        {"criteria": [us.KeywordCriteria("DONE")]},
    ),
}


@pytest.mark.parametrize("hold", [None, "turn"])
@pytest.mark.parametrize("kind", REFUSED)
def test_an_answer_that_is_refused_is_taken_back(kind: str, hold: Any) -> None:
    by, turns, options = REFUSED[kind]
    rail = us.OutputGuardrail("held", lambda _, text: None, hold=hold)
    agent = streaming_clerk(*turns, callbacks=[rail], **options)

    events = list(agent.submit("go").events())

    (at,) = [n for n, event in enumerate(events) if isinstance(event, us.TurnDropped)]
    dropped, finished = events[at], events[at - 1]
    assert isinstance(dropped, us.TurnDropped) and isinstance(finished, us.TurnFinished)
    assert (dropped.turn, dropped.attempt, dropped.by) == (1, 1, by)
    told = b"".join([encode_event(event) for event in events])
    assert (b"wrong" in told) == (hold is None)
    last = events[-1]
    assert isinstance(last, us.RunFinished) and "5" in last.outcome.text
    for encoder in (us.AguiEncoder(thread_id="t", run_id="r"), us.AiSdkEncoder("m")):
        chunks = [chunk for event in events for chunk in encoder.encode(event)]
        begun = [str(chunk["id"]) for chunk in chunks if chunk["type"] == "text-start"]
        assert len(begun) <= (2 if hold is None else 1)
        assert b"wrong" not in told or [
            chunk for chunk in chunks if "dropped" in str(chunk) or chunk["type"] == "reset-step"
        ]


SHOWN = DELTAS | us.PartialOutput


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_answer_has_the_same_events_in_a_run_that_is_not_streamed(kind: str) -> None:
    _, turns, options = REFUSED[kind]
    streamed = streaming_clerk(*turns, **options)
    whole = us.Agent("clerk", model=FunctionModel(StreamedScript(turns).complete), **options)

    kinds = [
        [type(event).__name__ for event in agent.submit("go").events() if not isinstance(event, SHOWN)]
        for agent in (streamed, whole)
    ]

    assert kinds[0] == kinds[1]
    assert kinds[0].count("TurnDropped") == 1


def test_the_last_text_of_a_run_that_is_incomplete_is_not_taken_back() -> None:
    agent = streaming_clerk(text_turn("12"), text_turn("34"), criteria=[us.KeywordCriteria("DONE")], max_continues=1)

    events = list(agent.submit("go").events())

    assert [event.turn for event in events if isinstance(event, us.TurnDropped)] == [1]
    last = events[-1]
    assert (
        isinstance(last, us.RunFinished) and isinstance(last.outcome, us.Incomplete) and last.outcome.last_text == "34"
    )
