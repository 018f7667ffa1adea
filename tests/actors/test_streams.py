"""Turns that are shown while the model writes them, and are those of a run without a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from tests.support.events import DELTAS
from tests.support.scripts import WAIT
from tests.support.streaming import StreamedScript, Tap, streaming_clerk, text_of, text_turn
from tests.support.tools import look
from understudy.orchestration.front_ends.sse import encode_event
from understudy.testing import FunctionModel, says


def test_a_reader_sees_each_piece_before_the_next_one_is_written() -> None:
    tap = Tap(text_turn("The ", "sum is ", "4."))
    tap.let()

    with streaming_clerk(tap).stream("2 + 2?") as events:
        seen: list[tuple[str, int, int, int]] = []
        for event in events:
            if isinstance(event, us.TextDelta):
                seen.append((event.text, event.turn, event.attempt, event.offset))
                tap.let(1 if len(seen) < 3 else 2)

    assert seen == [("The ", 1, 1, 0), ("sum is ", 1, 1, 4), ("4.", 1, 1, 11)]
    assert events.handle.result(WAIT).text == "The sum is 4."


def test_reasoning_text_and_calls_are_told_apart_and_in_their_order() -> None:
    first = [
        us.ReasoningPiece("Look "),
        us.ReasoningPiece("first.", signature="s"),
        us.TextPiece("One moment."),
        us.CallPiece(0, id="c1"),
        us.CallPiece(0, '{"word"', name="look"),
        us.CallPiece(1, '{"word": "y"}', "c2", "look"),
        us.CallPiece(0, ': "x"}'),
        us.TurnEnd(),
    ]
    handle = streaming_clerk(first, text_turn("Done."), tools=[look]).submit("go")
    assert handle.result(WAIT).text == "Done."

    told = [event for event in handle.events() if isinstance(event, DELTAS)]

    assert [(type(event).__name__, event.text, event.offset) for event in told] == [
        ("ReasoningDelta", "Look first.", 0),
        ("TextDelta", "One moment.", 11),
        ("ToolCallDelta", '{"word"', 22),
        ("ToolCallDelta", '{"word": "y"}', 29),
        ("ToolCallDelta", ': "x"}', 42),
        ("TextDelta", "Done.", 0),
    ]
    calls = [event for event in told if isinstance(event, us.ToolCallDelta)]
    assert [(each.index, each.name, each.call_id) for each in calls] == [
        (0, "look", "c1"),
        (1, "look", "c2"),
        (0, "look", "c1"),
    ]


def test_readers_are_not_waited_for_and_a_late_one_gets_fewer_and_longer_deltas() -> None:
    handle = streaming_clerk(text_turn(*"The answer is 4.")).submit("go")
    slow = handle.events()
    first = next(slow)

    assert handle.result(WAIT).text == "The answer is 4."

    late = list(handle.events())
    assert [type(event).__name__ for event in late] == ["TurnStarted", "TextDelta", "TurnFinished", "RunFinished"]
    assert text_of([first, *slow]) == text_of(late) == "The answer is 4."


def test_events_have_the_time_at_which_it_happened() -> None:
    import time

    before = time.time()
    times = [event.time for event in streaming_clerk(text_turn("a", "b")).submit("go").events()]

    assert all(before - 1 < each < time.time() + 1 for each in times)


def of_run(agent: us.Agent) -> us.Outcome:
    return agent.run("go")


def of_submit(agent: us.Agent) -> us.Outcome:
    return agent.submit("go").result(WAIT)


def of_a_line(agent: us.Agent) -> us.Outcome[object]:
    return us.SequentialAgent("line", [agent]).submit("go").result(WAIT)


def of_map(agent: us.Agent) -> us.Outcome:
    (answer,) = agent.map(["go"])
    return answer.outcome


@pytest.mark.parametrize(("begin", "whole"), [(of_run, 1), (of_map, 1), (of_submit, 0), (of_a_line, 0)])
def test_runs_that_have_a_handle_are_streamed_with_all_inside_of_them(
    begin: Callable[[us.Agent], us.Outcome[object]], whole: int
) -> None:
    model = StreamedScript([text_turn("o", "k")])

    assert begin(us.Agent("clerk", model=model)).text == "ok"

    assert (model.whole, len(model.requests)) == (whole, 1)


def test_a_run_that_goes_on_with_a_handle_is_streamed() -> None:
    model = StreamedScript([text_turn("__ask_user__: who?"), text_turn("Hello ", "Ada.")])
    agent = us.Agent("clerk", model=model)
    paused = agent.run("go")
    assert isinstance(paused, us.NeedsInput) and model.whole == 1

    assert agent.submit_resume(paused.token, "Ada").result(WAIT).text == "Hello Ada."

    assert model.whole == 1


@pytest.mark.parametrize("hold", [None, "turn"])
def test_a_guardrail_that_holds_the_turn_shows_no_text_that_it_rejects(hold: Any) -> None:
    rail = us.OutputGuardrail(
        "no-secrets", lambda _, text: "secret" if "sesame" in text else None, retry=True, hold=hold
    )
    events = list(
        streaming_clerk(text_turn("It is ", "sesame."), text_turn("I ", "can't."), callbacks=[rail])
        .submit("go")
        .events()
    )

    (dropped,) = [event for event in events if isinstance(event, us.TurnDropped)]
    assert (dropped.turn, dropped.attempt, dropped.by) == (1, 1, "no-secrets")
    told = b"".join([encode_event(event) for event in events])
    assert (b"sesame" in told) == (hold is None)
    assert dropped.text == ("" if hold else "It is sesame.")
    last = events[-1]
    assert isinstance(last, us.RunFinished) and last.outcome.text == "I can't."


def test_a_guardrail_holds_a_turn_or_nothing() -> None:
    with pytest.raises(ValueError, match="guardrail 'a': hold must be 'turn' or None, got 'all'"):
        us.OutputGuardrail("a", lambda _, text: None, hold="all")  # type: ignore[arg-type]


class Censored(StreamedScript):
    """Answers by a `complete` of its own."""

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        return says("censored")


@pytest.mark.parametrize(
    "model", [Censored([text_turn("secret")]), MagicMock(complete=MagicMock(return_value=says("censored")))]
)
def test_a_stream_that_does_not_belong_to_complete_is_not_asked(model: Any) -> None:
    assert us.Agent("clerk", model=model).submit("go").result(WAIT).text == "censored"


def test_a_character_that_comes_in_two_pieces_is_whole_in_the_answer_and_for_readers() -> None:
    handle = streaming_clerk(text_turn("go \ud83d", "\ude00!")).submit("go")

    assert handle.result(WAIT).text == "go \U0001f600!"
    assert text_of(list(handle.events())) == "go \U0001f600!"


WORDS = st.text("ab 1", max_size=6)
CUTS = st.lists(st.integers(0, 12), max_size=4)


def cut(text: str, at: list[int]) -> list[str]:
    places = sorted({min(each, len(text)) for each in at})
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


@st.composite
def turns(draw: st.DrawFn) -> list[us.Piece]:
    """Return the pieces of a turn: reasoning, text and calls, good and bad, of known and unknown tools."""
    pieces: list[us.Piece] = []
    if draw(st.booleans()):
        pieces += [us.ReasoningPiece(each) for each in cut(draw(WORDS), draw(CUTS))]
    if draw(st.booleans()):
        pieces += [us.TextPiece(each) for each in cut(draw(WORDS), draw(CUTS))]
    for number in range(draw(st.integers(0, 2))):
        given = draw(st.sampled_from(['{"word": "x"}', '{"word": "yy"}', "{}", '{"wor', "", "[1]"]))
        name = draw(st.sampled_from(["look", "look", "fly"]))
        pieces.append(us.CallPiece(number, id=draw(st.sampled_from(["", "c1", f"c{number}"])), name=name))
        pieces += [us.CallPiece(number, each) for each in cut(given, draw(CUTS))]
    usage = us.Usage(draw(st.integers(0, 9)), draw(st.integers(0, 9)))
    return [*pieces, us.UsagePiece(usage), us.TurnEnd(model="m", dialect=draw(st.sampled_from(["", "openai"])))]


def story(handle: us.RunHandle[Any]) -> tuple[object, ...]:
    """Return all that a run did, without its deltas and its id."""
    events = [replace(each, run_id="") for each in handle.events() if not isinstance(each, DELTAS)]
    error = handle.exception(WAIT)
    if error is not None:
        return (
            [type(each) for each in events],
            [each.seq for each in events],
            type(error),
            str(error).replace(handle.run_id, ""),
        )
    outcome = handle.result(WAIT)
    told = [replace(each, outcome=None) if isinstance(each, us.RunFinished) else each for each in events]  # type: ignore[arg-type]
    return (told, type(outcome), outcome.messages, outcome.usage, outcome.completion_reason)


@settings(deadline=None)
@given(script=st.lists(turns(), min_size=1, max_size=4))
def test_a_streamed_run_is_the_run_that_a_blocking_model_gives(script: list[list[us.Piece]]) -> None:
    script = [*script, text_turn("The ", "end.")]
    streamed = StreamedScript(script)
    whole = StreamedScript(script)
    in_pieces = us.Agent("clerk", model=streamed, tools=[look], max_parallel_calls=1).submit("go")
    in_one = us.Agent("clerk", model=FunctionModel(whole.complete), tools=[look], max_parallel_calls=1).submit("go")

    assert story(in_pieces) == story(in_one)

    assert streamed.whole == 0
    events = list(in_pieces.events())
    texts = {event.turn: event.response.text for event in events if isinstance(event, us.TurnFinished)}
    for turn, text in texts.items():
        assert text_of([each for each in events if isinstance(each, us.TextDelta) and each.turn == turn]) == text
