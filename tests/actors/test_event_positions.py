"""A reader that goes on in the middle of a turn whose text is gone: the reader is told to drop its part, and loses nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import understudy as us
from understudy.actors.run_view.event_position import EventPosition, rest_of

YES = us.ModelTurn((us.TextPart("Yes."),))
STARTED = us.TurnStarted(turn=3, seq=12)
DONE = us.RunFinished(outcome=us.Complete(text="Yes.", output="Yes."), seq=14)


def delta(attempt: int, text: str = "Yes.", seq: int = 12, offset: int = 0) -> us.Event:
    return us.TextDelta(text=text, turn=3, attempt=attempt, seq=seq, offset=offset)


def turn(attempt: int, seq: int = 13) -> us.Event:
    return us.TurnFinished(turn=3, response=YES, attempts=attempt, seq=seq)


def dropped(seq: int, attempt: int = 1, text: str = "") -> us.TurnDropped:
    return us.TurnDropped(turn=3, attempt=attempt, text=text, by="", seq=seq)


def rest(after: str, events: Sequence[us.Event]) -> list[us.Event]:
    position = EventPosition.of(after)
    assert position is not None
    return list(rest_of(iter(events), position))


def test_the_turn_that_the_reader_has_a_part_of_goes_on() -> None:
    events = [STARTED, delta(1), turn(1), DONE]

    assert rest("12.3.1.2", events) == [delta(1, "s.", offset=2), turn(1), DONE]


def test_a_later_attempt_under_the_same_number_comes_after_the_part_was_taken_back() -> None:
    events = [STARTED, delta(2), turn(2), DONE]

    assert rest("12.3.1.2", events) == [dropped(12), *events[1:]]


def test_an_attempt_that_failed_here_is_taken_back_once() -> None:
    events = [STARTED, delta(1), dropped(13, text="Yes."), delta(2, seq=13), turn(2, 14)]

    assert rest("12.3.1.2", events) == [delta(1, "s.", offset=2), *events[2:]]
    assert rest("13.3.2.2", events) == [delta(2, "s.", seq=13, offset=2), turn(2, 14)]


def test_a_part_of_an_attempt_after_others_that_nobody_knows_is_taken_back_with_the_numbers_of_those() -> None:
    events = [STARTED, delta(2), turn(2), DONE]

    assert rest("14.3.2.4", events) == [dropped(12, attempt=2), *events[1:]]


def test_a_part_is_taken_back_by_a_turn_without_a_word() -> None:
    events = [STARTED, turn(2), DONE]

    assert rest("12.3.1.2", events) == [dropped(12), turn(2), DONE]


@pytest.mark.parametrize("seq", [11, 12])
def test_a_run_that_ended_before_the_turn_was_asked_for_again_tells_its_end(seq: int) -> None:
    end = us.RunFailed(error=us.RunCancelled("stopped"), seq=seq)

    assert rest("12.3.1.2", [end]) == [dropped(seq), end]


def test_an_earlier_end_of_a_run_that_went_on_is_not_told_again() -> None:
    paused = us.RunFinished(outcome=us.NeedsInput(question="?"), seq=11)

    assert rest("12.3.1.2", [paused, STARTED, delta(1), turn(1), DONE])[0] == delta(1, "s.", offset=2)


def test_a_place_behind_all_events_is_an_error_at_their_end() -> None:
    for events in ([], [STARTED, delta(1), turn(1), DONE]):
        with pytest.raises(ValueError, match="an event of this run.*; got 15"):
            rest("15", events)


def test_a_place_between_events_takes_nothing_back() -> None:
    events = [STARTED, delta(2), turn(2), DONE]

    assert rest("12", events) == events[1:]
