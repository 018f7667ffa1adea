"""Turns that are shown while the model writes them."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel

import understudy as us
from tests.support.events import DELTAS
from tests.support.scripts import WAIT, eventually
from tests.support.streaming import StreamedScript, Tap, text_turn
from tests.support.tools import look
from understudy.actors.drivers import model_call
from understudy.orchestration.front_ends.sse import encode_event
from understudy.testing import FunctionModel, says


def clerk(*turns: Any, **options: Any) -> us.Agent:
    return us.Agent("clerk", model=StreamedScript(turns), **options)


def text_of(events: list[us.Event]) -> str:
    return "".join([event.text for event in events if isinstance(event, us.TextDelta)])


# --- pieces as they come


def test_a_reader_sees_each_piece_before_the_next_one_is_written() -> None:
    tap = Tap(text_turn("The ", "sum is ", "4."))
    tap.let()

    with clerk(tap).stream("2 + 2?") as events:
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
    handle = clerk(first, text_turn("Done."), tools=[look]).submit("go")
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
    handle = clerk(text_turn(*"The answer is 4.")).submit("go")
    slow = handle.events()
    first = next(slow)

    assert handle.result(WAIT).text == "The answer is 4."

    late = list(handle.events())
    assert [type(event).__name__ for event in late] == ["TurnStarted", "TextDelta", "TurnFinished", "RunFinished"]
    assert text_of([first, *slow]) == text_of(late) == "The answer is 4."


def test_events_have_the_time_at_which_it_happened() -> None:
    import time

    before = time.time()
    times = [event.time for event in clerk(text_turn("a", "b")).submit("go").events()]

    assert all(before - 1 < each < time.time() + 1 for each in times)


# --- when turns are streamed


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
    rail = us.OutputGuardrail("no-secrets", lambda _, text: "secret" if "1234" in text else None, retry=True, hold=hold)
    events = list(
        clerk(text_turn("It is ", "1234."), text_turn("I ", "can't."), callbacks=[rail]).submit("go").events()
    )

    (dropped,) = [event for event in events if isinstance(event, us.TurnDropped)]
    assert (dropped.turn, dropped.attempt, dropped.by) == (1, 1, "no-secrets")
    told = b"".join([encode_event(event) for event in events])
    assert (b"1234" in told) == (hold is None)
    assert dropped.text == ("" if hold else "It is 1234.")
    last = events[-1]
    assert isinstance(last, us.RunFinished) and last.outcome.text == "I can't."


def test_a_guardrail_holds_a_turn_or_nothing() -> None:
    with pytest.raises(ValueError, match="guardrail 'a': hold must be 'turn' or None, got 'all'"):
        us.OutputGuardrail("a", lambda _, text: None, hold="all")  # type: ignore[arg-type]


# --- a streamed run is the same run

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


# --- wrong streams


async def coroutine(_: us.ModelRequest) -> None: ...


async def asynchronous(_: us.ModelRequest) -> AsyncIterator[us.Piece]:
    yield us.TextPiece("a")


def fails(_: us.ModelRequest) -> Iterator[us.Piece]:
    yield us.TextPiece("The ans")
    raise ValueError("the line is cut")


def fails_with_its_own(_: us.ModelRequest) -> Iterator[us.Piece]:
    yield us.UsagePiece(us.Usage(7, 3))
    yield us.TextPiece("The ans")
    raise us.RateLimited("slow down")


def gives(returned: object) -> Callable[[us.ModelRequest], object]:
    """Return a `stream` that returns something else than an iterator of pieces."""
    return lambda _: returned


NOTHING = "streamed no turn: got NoneType, expected an iterator of pieces"


@pytest.mark.parametrize(
    ("turn", "kind", "words", "shown"),
    [
        (gives(None), us.BadReply, NOTHING, ""),
        (gives("Hello"), us.BadReply, "got str, expected an iterator of pieces", ""),
        (gives(says("Hello")), us.BadReply, "got ModelTurn, expected an iterator of pieces", ""),
        (coroutine, us.BadReply, "got coroutine; write stream as a plain generator", ""),
        (asynchronous, us.BadReply, "got async_generator; write stream as a plain generator", ""),
        ([None], us.BadReply, "yields pieces such as TextPiece, got NoneType", ""),
        ([us.TextPiece("a"), "b"], us.BadReply, "yields pieces such as TextPiece, got str", "a"),
        ([us.TextPiece("The ans")], us.BadReply, "a TurnEnd must be the last piece", "The ans"),
        ([], us.BadReply, "a TurnEnd must be the last piece", ""),
        ([us.CallPiece(arguments="{}"), us.TurnEnd()], us.BadReply, "a call of the turn has no name", ""),
        ([us.TextPiece("a"), us.TurnEnd("done")], us.BadReply, "finish_reason", "a"),  # type: ignore[arg-type]
        (fails, us.ProviderError, "the line is cut", "The ans"),
        (fails_with_its_own, us.RateLimited, "slow down", "The ans"),
    ],
)
def test_a_wrong_stream_ends_the_run_and_takes_back_what_was_shown(
    turn: Any, kind: type[BaseException], words: str, shown: str
) -> None:
    handle = clerk(turn, tools=[look]).submit("go")

    error = handle.exception(WAIT)

    assert isinstance(error, kind) and words in str(error)
    events = list(handle.events())
    dropped = [(event.text, event.by) for event in events if isinstance(event, us.TurnDropped)]
    assert dropped == ([(shown, "")] if shown else [])
    assert isinstance(events[-1], us.RunFailed) and events[-1].error is error


def test_tokens_of_a_stream_that_fails_are_counted() -> None:
    error = clerk(fails_with_its_own).submit("go").exception(WAIT)

    assert isinstance(error, us.RateLimited)
    assert error.partial is not None and (error.partial.text, error.partial.usage) == ("The ans", us.Usage(7, 3))
    assert error.usage == us.Usage(7, 3)


@pytest.mark.parametrize(
    ("is_cancelled", "kind"),
    [(True, us.RunCancelled), (False, us.ProviderTimeout)],
    ids=["cancelled", "timed out"],
)
def test_a_run_that_is_ended_in_mid_turn_takes_back_what_was_shown(is_cancelled: bool, kind: type[Exception]) -> None:
    tap = Tap(text_turn("half ", "a ", "word"))
    tap.let(2)
    handle = clerk(tap, model_timeout=None if is_cancelled else 0.3).submit("go")
    events = handle.events()
    seen = next(event for event in events if isinstance(event, us.TextDelta))
    if is_cancelled:
        handle.cancel()

    rest = [seen, *events]

    assert isinstance(handle.exception(WAIT), kind)
    assert [type(event).__name__ for event in rest[-2:]] == ["TurnDropped", "RunFailed"]
    assert text_of(rest) == next(event.text for event in rest if isinstance(event, us.TurnDropped))
    tap.let(3)


def test_a_turn_that_another_driver_takes_up_is_shown_once() -> None:
    class FailsOnce(us.AgentCallback):
        failed = False

        def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> None:
            if not self.failed:
                self.failed = True
                raise RuntimeError("the callback is broken")

    handle = clerk(text_turn("All ", "good."), callbacks=[FailsOnce()]).submit("go")
    told = list(handle.events())

    assert text_of(told) == text_of(list(handle.events())) == "All good."
    assert handle.result(WAIT).text == "All good."


def test_a_stream_of_a_run_that_is_over_is_closed_at_its_next_piece() -> None:
    tap = Tap(text_turn("a", "b", "c"))
    tap.let()
    handle = clerk(tap, model_timeout=60).submit("go")
    next(event for event in handle.events() if isinstance(event, us.TextDelta))

    handle.cancel()
    tap.let()

    assert tap.closed.wait(WAIT)
    assert text_of(list(handle.events())) == "a"


@pytest.mark.parametrize(
    "turn",
    [
        [us.UsagePiece(us.Usage(7, 3))],
        [us.TextPiece("a"), us.TurnEnd("done", usage=us.Usage(7, 3))],  # type: ignore[arg-type]
        [us.CallPiece(arguments="{}"), us.TurnEnd(usage=us.Usage(7, 3))],
    ],
)
def test_tokens_of_a_turn_that_is_refused_are_counted(turn: list[us.Piece]) -> None:
    error = clerk(turn).submit("go").exception(WAIT)

    assert isinstance(error, us.BadReply)
    assert error.usage == us.Usage(7, 3)


def test_a_count_that_is_no_count_is_left_out() -> None:
    error = clerk([us.UsagePiece(us.Usage(-7, 3)), us.TextPiece("a")]).submit("go").exception(WAIT)

    assert isinstance(error, us.BadReply)
    assert error.partial is not None and (error.partial.text, error.partial.usage) == ("a", us.Usage())


class ClosesBadly:
    """Yields pieces, and fails when it is closed."""

    def __init__(self, *pieces: us.Piece) -> None:
        self._pieces = iter(pieces)

    def __iter__(self) -> Iterator[us.Piece]:
        return self

    def __next__(self) -> us.Piece:
        return next(self._pieces)

    def close(self) -> None:
        raise RuntimeError("cannot be closed")


def test_a_stream_that_cannot_be_closed_gives_its_turn() -> None:
    assert clerk(gives(ClosesBadly(us.TextPiece("ok"), us.TurnEnd()))).submit("go").result(WAIT).text == "ok"


def test_a_character_that_comes_in_two_pieces_is_whole_in_the_answer_and_for_readers() -> None:
    handle = clerk(text_turn("go \ud83d", "\ude00!")).submit("go")

    assert handle.result(WAIT).text == "go \U0001f600!"
    assert text_of(list(handle.events())) == "go \U0001f600!"


def test_a_turn_without_text_that_is_rejected_is_taken_back() -> None:
    rail = us.OutputGuardrail("polite", lambda _, text: "rude" if "A-1" in text else None)
    turn = [us.CallPiece(name="final_answer"), us.CallPiece(0, '{"sku": "A-1"}'), us.TurnEnd()]
    handle = clerk(turn, output_type=Order, output_mode="tool", callbacks=[rail]).submit("go")

    assert isinstance(handle.exception(WAIT), us.CallbackAbort)
    assert [event.by for event in handle.events() if isinstance(event, us.TurnDropped)] == ["polite"]


class Censored(StreamedScript):
    """Answers by a `complete` of its own."""

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        return says("censored")


@pytest.mark.parametrize("model", [Censored([text_turn("secret")]), MagicMock(complete=gives(says("censored")))])
def test_a_stream_that_does_not_belong_to_complete_is_not_asked(model: Any) -> None:
    assert us.Agent("clerk", model=model).submit("go").result(WAIT).text == "censored"


def test_nothing_is_read_after_the_end_of_a_turn() -> None:
    tap = Tap([us.TextPiece("ok"), us.TurnEnd(), us.TextPiece("never asked for")])
    tap.let(2)

    assert clerk(tap).submit("go").result(WAIT).text == "ok"
    assert tap.closed.wait(WAIT)


def test_a_stream_that_stands_still_ends_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_call, "DEFAULT_IDLE_TIMEOUT", 0.01)
    monkeypatch.setattr(model_call, "GRACE", 0.01)
    tap = Tap(text_turn("a", "b"))
    tap.let()

    error = clerk(tap).submit("go").exception(WAIT)

    assert isinstance(error, us.ProviderTimeout)
    tap.let(3)


def test_a_model_time_limit_holds_for_streams_too() -> None:
    tap = Tap(text_turn("a", "b"))
    tap.let()

    error = clerk(tap, model_timeout=0.05).submit("go").exception(WAIT)

    assert isinstance(error, us.ProviderTimeout) and "gave no answer within 0.05 s" in str(error)
    tap.let(3)


# --- typed answers


class Order(BaseModel):
    sku: str
    notes: list[str] = []


LINES = ['{"sku": "A', '-113", "not', 'es": ["to', "day", '", "quick"]}']


def in_step(turn: Sequence[us.Piece], **options: Any) -> list[object]:
    """Run a typed agent whose model waits for the reader after each piece; return the answers that it showed."""
    tap = Tap(turn)
    tap.let()
    handle = clerk(tap, **options).submit("go")
    shown: list[object] = []
    for event in handle.events():
        if isinstance(event, us.PartialOutput):
            shown.append(event.output)
        if isinstance(event, us.TextDelta | us.ToolCallDelta):
            tap.let()
    return [*shown, handle.result(WAIT).output]


@pytest.mark.parametrize(
    ("output_type", "texts", "expected"),
    [
        (
            Order,
            LINES,
            [
                Order(sku="A"),
                Order(sku="A-113"),
                Order(sku="A-113", notes=["to"]),
                Order(sku="A-113", notes=["today"]),
                Order(sku="A-113", notes=["today", "quick"]),
            ],
        ),
        (list[int], ['{"answer": [1', "2, 3", "]}"], [[1], [12, 3]]),
        (
            us.JsonSchema({"type": "object", "required": ["a"]}),
            ['{"b": 1,', '"a": "x', 'y"}'],
            [{"b": 1, "a": "x"}, {"b": 1, "a": "xy"}],
        ),
    ],
)
@pytest.mark.parametrize("mode", ["native", "tool"])
def test_an_answer_is_shown_as_far_as_it_fits_its_type(
    output_type: Any, texts: list[str], expected: list[object], mode: Any
) -> None:
    as_text: list[us.Piece] = [*(us.TextPiece(text) for text in texts), us.TurnEnd()]
    as_call: list[us.Piece] = [
        us.CallPiece(name="final_answer"),
        *(us.CallPiece(0, text) for text in texts),
        us.TurnEnd(),
    ]

    told = in_step(as_text if mode == "native" else as_call, output_type=output_type, output_mode=mode)

    assert [each for n, each in enumerate(told) if each not in told[:n]] == expected


def test_a_validator_that_fails_at_a_part_of_an_answer_shows_nothing() -> None:
    class Strict(BaseModel):
        sku: Annotated[str, AfterValidator(lambda sku: sku if sku == "A-113" else 1 / 0)]

    assert in_step(text_turn('{"sku": "A', "-1", '13"', "}"), output_type=Strict)[-1] == Strict(sku="A-113")


# --- leaving


def test_a_with_block_cancels_a_run_that_is_not_over() -> None:
    tap = Tap(text_turn("a", "b"))
    tap.let()

    with clerk(tap).stream("go") as events:
        for event in events:
            if isinstance(event, us.TextDelta):
                break

    assert isinstance(events.handle.exception(WAIT), us.RunCancelled)
    tap.let(3)


def test_a_run_goes_on_when_its_reader_leaves_the_loop() -> None:
    tap = Tap(text_turn("a", "b"))
    tap.let()
    events = clerk(tap).stream("go")
    for event in events:
        if isinstance(event, us.TextDelta):
            break
    events.close()
    tap.let(3)

    assert events.handle.result(WAIT).text == "ab"


def test_a_stream_tells_of_a_failure_and_raises_it_then() -> None:
    seen: list[us.Event] = []

    with pytest.raises(us.RateLimited), clerk(fails_with_its_own).stream("go") as events:
        seen.extend(events)

    assert isinstance(seen[-1], us.RunFailed)


# --- going on


def positions(handle: us.RunHandle[Any]) -> list[str]:
    return [event.id for event in handle.events()]


def joined(events: list[us.Event]) -> list[us.Event]:
    """Return the events with neighbouring deltas of one kind joined."""
    found: list[us.Event] = []
    for event in events:
        last = found[-1] if found else None
        if (
            isinstance(event, DELTAS)
            and isinstance(last, DELTAS)
            and (type(event), event.turn) == (type(last), last.turn)
        ):
            found[-1] = replace(last, text=last.text + event.text)
        else:
            found.append(event)
    return found


def test_a_reader_goes_on_exactly_where_it_was() -> None:
    first = [
        us.TextPiece("Let me"),
        us.TextPiece(" look."),
        us.CallPiece(0, '{"word": "x"}', "c1", "look"),
        us.TurnEnd(),
    ]
    handle = clerk(first, text_turn("It is ", "x."), tools=[look]).submit("go")
    handle.result(WAIT)
    whole = list(handle.events())
    places = ["", *positions(handle), *(f"0.1.1.{offset}" for offset in range(26)), *(f"4.2.1.{n}" for n in range(9))]

    for place in places:
        assert joined([*before(whole, place), *handle.events(after=place)]) == joined(whole), place


def before(events: list[us.Event], place: str) -> list[us.Event]:
    """Return the events before a place, and of a delta that it cuts the part before it."""
    if not place:
        return []
    seq, turn, attempt, offset = [int(each) for each in (place + ".0.0.0").split(".")[:4]]
    found: list[us.Event] = []
    for event in events:
        if isinstance(event, DELTAS):
            if event.seq < seq:
                found.append(event)
            elif event.seq == seq and (event.turn, event.attempt) == (turn, attempt) and event.offset < offset:
                found.append(replace(event, text=event.text[: offset - event.offset]))
        elif event.seq <= seq:
            found.append(event)
    return found


@pytest.mark.parametrize(
    ("after", "kind", "words"),
    [
        ("abc", ValueError, "after must be an event's seq, such as 12, or its id"),
        ("1.2", ValueError, "got '1.2'"),
        (-1, ValueError, "got -1"),
        ("٣", ValueError, "got"),
        (1.5, TypeError, "after must be an event's seq or id, or None; got 1.5"),
        (True, TypeError, "got True"),
    ],
)
def test_a_wrong_place_is_refused_at_once(after: Any, kind: type[Exception], words: str) -> None:
    handle = clerk(text_turn("ok")).submit("go")

    with pytest.raises(kind, match=words):
        handle.events(after=after)


def test_a_place_among_the_events_of_several_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="does not go with inner=True"):
        clerk(text_turn("ok")).submit("go").events(after=1, inner=True)


def test_a_wait_for_an_event_can_be_limited_and_the_run_goes_on() -> None:
    tap = Tap(text_turn("a", "b"))
    tap.let()
    handle = clerk(tap).submit("go")
    events = handle.events(timeout=0.05)

    with pytest.raises(TimeoutError, match=r"told no event in 0\.05 s and goes on"):
        list(events)

    tap.let(3)
    assert handle.result(WAIT).text == "ab"


def test_a_hundred_readers_that_stand_still_hold_no_run_up() -> None:
    handle = clerk(text_turn(*("word " for _ in range(2000)))).submit("go")
    readers = [handle.events() for _ in range(100)]
    for reader in readers:
        next(reader)

    assert len(handle.result(WAIT).text) == 10_000

    assert {text_of(list(reader)) for reader in readers} == {"word " * 2000}
    eventually(lambda: threading.active_count() < 50, "no reader has a thread")
