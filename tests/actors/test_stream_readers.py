"""Readers of a streamed run: those that leave, go on from a place, wait or stand still."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import understudy as us
from tests.support.events import DELTAS
from tests.support.scripts import WAIT, eventually
from tests.support.streaming import Tap, streaming_clerk, text_of, text_turn
from tests.support.tools import look
from understudy.actors.run_view.log import Retried, RunLog
from understudy.actors.run_view.log_reader import LogReader
from understudy.actors.run_view.shown_turn import ShownTurn
from understudy.testing import says


def test_a_with_block_cancels_a_run_that_is_not_over() -> None:
    tap = Tap(text_turn("a", "b"))
    tap.let()

    with streaming_clerk(tap).stream("go") as events:
        for event in events:
            if isinstance(event, us.TextDelta):
                break

    assert isinstance(events.handle.exception(WAIT), us.RunCancelled)
    tap.let(3)


def test_a_run_goes_on_when_its_reader_leaves_the_loop() -> None:
    tap = Tap(text_turn("a", "b"))
    tap.let()
    events = streaming_clerk(tap).stream("go")
    for event in events:
        if isinstance(event, us.TextDelta):
            break
    events.close()
    tap.let(3)

    assert events.handle.result(WAIT).text == "ab"


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
    handle = streaming_clerk(first, text_turn("It is ", "x."), tools=[look]).submit("go")
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
    handle = streaming_clerk(text_turn("ok")).submit("go")

    with pytest.raises(kind, match=words):
        handle.events(after=after)


def test_a_place_behind_the_last_event_is_refused_at_once_if_the_run_is_over() -> None:
    handle = streaming_clerk(text_turn("ok")).submit("go")
    handle.result(WAIT)
    last = list(handle.events())[-1].seq

    for after in (last + 1, 999, "57"):
        with pytest.raises(ValueError, match=f"an event of this run, whose last one has the seq {last}; got {after}"):
            handle.events(after=after)
        with pytest.raises(ValueError, match="an event of this run"):
            us.sse(handle, after=after)
    assert list(handle.events(after=last)) == []


def test_a_place_behind_the_last_event_of_a_run_under_way_is_refused_when_it_ends() -> None:
    tap = Tap(text_turn("a", "b"))
    handle = streaming_clerk(tap).submit("go")
    events, told = handle.events(after=999), us.sse(handle, after="57", heartbeat=0.01)
    assert next(told).startswith(b":")
    tap.let(3)

    with pytest.raises(ValueError, match=r"an event of this run, whose last one has the seq \d+; got 999"):
        next(events)
    with pytest.raises(ValueError, match=r"an event of this run, whose last one has the seq \d+; got 57"):
        list(told)


def test_a_place_among_the_events_of_several_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="does not go with inner=True"):
        streaming_clerk(text_turn("ok")).submit("go").events(after=1, inner=True)


def test_a_wait_for_an_event_can_be_limited_and_the_run_goes_on() -> None:
    tap = Tap(text_turn("a", "b"))
    tap.let()
    handle = streaming_clerk(tap).submit("go")
    events = handle.events(timeout=0.05)

    with pytest.raises(TimeoutError, match=r"told no event in 0\.05 s and goes on"):
        list(events)

    tap.let(3)
    assert handle.result(WAIT).text == "ab"


def test_a_hundred_readers_that_stand_still_hold_no_run_up() -> None:
    before = threading.active_count()
    handle = streaming_clerk(text_turn(*("word " for _ in range(2000)))).submit("go")
    readers = [handle.events() for _ in range(100)]
    for reader in readers:
        next(reader)

    assert len(handle.result(WAIT).text) == 10_000

    assert {text_of(list(reader)) for reader in readers} == {"word " * 2000}
    eventually(lambda: threading.active_count() < before + 50, "no reader has a thread")


def test_a_retry_told_in_mid_stream_follows_the_text_also_for_a_reader_that_is_quick() -> None:
    log, shown, told = RunLog("r-1", "clerk"), ShownTurn(1), list[us.Event]()
    reader = LogReader(log, ("clerk",), queue.SimpleQueue())
    steps: list[Callable[[], object]] = [
        lambda: log.note(1),
        lambda: shown.add(us.TextPiece("half a ")),
        lambda: log.show(shown),
        lambda: log.note(Retried(what="model", attempt=1, wait=0.0, error=us.ProviderError("lost"), turn=1)),
        lambda: shown.add(us.TextPiece("text")),
        lambda: log.note((1, says("half a text"))),
    ]

    for step in steps:
        step()
        told += reader.read()

    assert [type(event).__name__ for event in told] == [
        *("TurnStarted", "TextDelta", "TextDelta", "RetryScheduled", "TurnFinished")
    ]
    assert [event.seq for event in told] == [0, 0, 0, 1, 2]


def test_retries_told_in_mid_stream_change_no_number_for_late_readers() -> None:
    def turn(_: us.ModelRequest) -> Iterator[us.Piece]:
        yield us.TextPiece("half a ")
        scope = us.current_scope()
        assert scope is not None
        scope.tell_retry(1, 0.0, us.ProviderError("lost"))
        yield us.TextPiece("text")
        scope.tell_retry(2, 0.0, us.ProviderError("lost"))
        yield us.TurnEnd()

    handle = streaming_clerk(turn).submit("go")
    live = list(handle.events())
    late = list(handle.events())

    assert [type(event).__name__ for event in live if not isinstance(event, us.TextDelta)] == [
        *("TurnStarted", "RetryScheduled", "RetryScheduled", "TurnFinished", "RunFinished")
    ]
    assert text_of(live) == text_of(late) == "half a text"
    assert {event.seq for event in [*live, *late] if isinstance(event, us.TextDelta)} == {0}
    for had in live:
        rest = list(handle.events(after=had.id))
        told = live[: live.index(had) + 1]
        assert text_of(told) + text_of(rest) == "half a text"
        assert not [event for event in rest if isinstance(event, us.TurnDropped)]
