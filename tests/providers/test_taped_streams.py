"""Streamed turns on a tape: how they were cut, how fast they came, and no secret between two pieces."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy as us
from tests.support.http import HELLO
from tests.support.streaming import StreamedScript, text_turn
from tests.support.tapes import lines_of, taped
from understudy.errors import BadReply, RateLimited, RunCancelled
from understudy.providers.tape import replay as replay_module
from understudy.providers.tape.cuts import Cut, cut_up
from understudy.providers.tape.recorded_model import RecordedModel
from understudy.testing import says
from understudy.vocabulary.messages import ModelRequest, user_message

CANARY = "sk-canary-0123456789"

PIECES: list[us.Piece] = [
    us.ReasoningPiece("Look "),
    us.ReasoningPiece("first.", signature="s"),
    us.TextPiece("One "),
    us.UsagePiece(us.Usage(1, 1)),
    us.CallPiece(1, '{"sku":', "c1", "look"),
    us.TextPiece("moment."),
    us.CallPiece(1, ' "A-113"}'),
    us.TurnEnd(usage=us.Usage(30, 5), model="m"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.jsonl"


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Keep the waits of replays in place of waiting."""
    kept: list[float] = []
    monkeypatch.setattr(replay_module, "_sleep", kept.append)
    return kept


def streamed(path: Path, *turns: list[us.Piece] | Callable[[us.ModelRequest], object]) -> list[list[us.Piece]]:
    """Record streamed turns, and return the pieces that the caller got of each."""
    got: list[list[us.Piece]] = []
    with us.Recorder(path) as recorder:
        model = cast(us.Replay, recorder.record(StreamedScript(turns)))
        for number in range(len(turns)):
            got.append(list(model.stream(us.ModelRequest(HELLO.messages, turn=number + 1))))
    return got


def whole(pieces: Iterator[us.Piece] | list[us.Piece]) -> us.ModelTurn:
    assembler = us.TurnAssembler()
    for piece in pieces:
        assembler.add(piece)
    return assembler.turn()


def texts(pieces: Iterator[us.Piece]) -> list[str]:
    return [piece.text for piece in pieces if isinstance(piece, us.TextPiece)]


def test_a_streamed_turn_goes_through_and_is_replayed_in_its_pieces(path: Path) -> None:
    assert streamed(path, PIECES) == [PIECES]

    again = list(us.Replay(path).stream(HELLO))

    assert [(type(piece), getattr(piece, "text", getattr(piece, "arguments", ""))) for piece in again] == [
        (us.ReasoningPiece, "Look "),
        (us.ReasoningPiece, "first."),
        (us.TextPiece, "One "),
        (us.CallPiece, '{"sku":'),
        (us.TextPiece, "moment."),
        (us.CallPiece, ' "A-113"}'),
        (us.TurnEnd, ""),
    ]
    assert whole(again) == whole(PIECES) == us.Replay(path).complete(HELLO)


def test_a_replay_comes_at_once_or_as_fast_as_it_was_recorded(path: Path, slept: list[float]) -> None:
    ticks = itertools.count(step=0.5)
    with us.Recorder(path) as recorder:
        model = RecordedModel(StreamedScript([text_turn("a", "b")]), "m", recorder._keep, clock=lambda: next(ticks))  # pyright: ignore[reportPrivateUsage]
        list(model.stream(HELLO))

    list(us.Replay(path).stream(HELLO))
    assert slept == []
    list(us.Replay(path, speed=1).stream(HELLO))
    assert slept == [0.5, 0.5, 0.5]
    list(us.Replay(path, speed=4).stream(HELLO))
    assert slept[3:] == [0.125, 0.125, 0.125]


def test_a_turn_that_was_recorded_as_a_whole_comes_in_one_piece(path: Path) -> None:
    assert texts(us.Replay(taped(path, (HELLO, says("Se ven.")))).stream(HELLO)) == ["Se ven."]
    assert "stream" not in lines_of(path)[0]


def test_a_secret_that_was_cut_in_two_is_not_on_the_tape_nor_its_length(path: Path) -> None:
    text: list[us.Piece] = [
        us.TextPiece("It is "),
        us.TextPiece(CANARY[:9]),
        us.TextPiece(CANARY[9:]),
        us.TextPiece(" now."),
    ]
    call: list[us.Piece] = [us.CallPiece(1, '{"password": "hun', "c1", "look"), us.CallPiece(1, 'ter2"}'), us.TurnEnd()]

    streamed(path, [*text, *call])

    tape = path.read_text(encoding="utf-8")
    assert not [part for part in (CANARY[:9], CANARY[9:], "hun", "ter2") if part in tape]
    assert [length for _, _, length in cast("list[list[float]]", lines_of(path)[0]["stream"])] == [0] * 7
    assert "".join(texts(us.Replay(path).stream(HELLO))) == "It is [redacted] now."


def test_a_stream_that_fails_is_replayed_as_its_error(path: Path) -> None:
    def fails(_: us.ModelRequest) -> Iterator[us.Piece]:
        yield us.TextPiece("Se")
        raise RateLimited("slow down")

    with pytest.raises(RateLimited):
        streamed(path, fails)
    with pytest.raises(RateLimited, match="slow down"):
        us.Replay(path).stream(HELLO)


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ([us.TextPiece("Se")], "has no end"),
        ([cast(us.Piece, "Se")], "got str"),
        ([us.CallPiece(0, "{}"), us.TurnEnd()], "a call of the turn has no name"),
    ],
)
def test_a_stream_that_is_no_turn_is_recorded_as_the_error_that_it_is(
    path: Path, pieces: list[us.Piece], says: str
) -> None:
    with pytest.raises(BadReply, match=says):
        streamed(path, pieces)
    with pytest.raises(BadReply, match=says):
        us.Replay(path).stream(HELLO)


def test_a_stream_that_its_run_ended_is_not_on_the_tape_and_is_closed(path: Path) -> None:
    closed: list[str] = []

    def cancelled(_: us.ModelRequest) -> Iterator[us.Piece]:
        try:
            yield us.TextPiece("Se")
            raise RunCancelled("cancelled")
        finally:
            closed.append("yes")

    with us.Recorder(path) as recorder:
        model = cast(us.Replay, recorder.record(StreamedScript([cancelled])))
        with pytest.raises(RunCancelled):
            list(model.stream(HELLO))
        left = model.stream(HELLO)
        next(left)
        cast("us.RunStream[str]", left).close()

        assert recorder.calls == 0
    assert closed == ["yes", "yes"]


def test_only_a_model_that_streams_is_recorded_as_one(path: Path) -> None:
    with us.Recorder(path) as recorder:
        assert not hasattr(recorder.record(us.FunctionModel(lambda _: "Seven.")), "stream")
        assert not hasattr(recorder.record(StreamedScript([])), "idle_timeout")


def test_a_recorded_run_and_its_replay_are_shown_in_the_same_pieces(path: Path) -> None:
    def run(model: us.Model) -> list[tuple[str, str]]:
        agent = us.Agent("clerk", model=model)
        with agent.stream("go") as events:
            deltas = [event for event in events if isinstance(event, us.TextDelta)]
        return [("".join([delta.text for delta in deltas]), events.handle.result(5).text)]

    with us.Recorder(path) as recorder:
        first = run(recorder.record(StreamedScript([text_turn("Yes: ", "seven.")])))

    assert run(us.Replay(path)) == first == [("Yes: seven.", "Yes: seven.")]
    assert texts(us.Replay(path).stream(ModelRequest([user_message("go")]))) == ["Yes: ", "seven."]


CUTS = st.lists(st.builds(Cut, st.floats(0, 1), st.integers(0, 5), st.integers(0, 20)))


@given(CUTS)
def test_whatever_the_cuts_are_the_turn_is_whole(cuts: list[Cut]) -> None:
    assert whole([piece for _, piece in cut_up(whole(PIECES), cuts)]) == whole(PIECES)


@pytest.mark.parametrize("stream", [7, [[0.1, 0]], [[0.1, -1, 2]], [["x", 0, 2]], [[-1, 0, 2]], [[0, 0.5, 2]]])
def test_cuts_that_are_none_are_a_broken_line(path: Path, stream: object) -> None:
    streamed(path, text_turn("a", "b"))
    header, line = path.read_text().splitlines()
    path.write_text(f"{header}\n{json.dumps({**json.loads(line), 'stream': stream})}\n")

    with pytest.raises(ValueError, match=r"tape.jsonl:2: a broken line: (stream|a cut) must be"):
        us.Replay(path)


@pytest.mark.parametrize(("speed", "kind"), [(0, ValueError), (float("nan"), ValueError), ("1", TypeError)])
def test_a_speed_that_is_none_is_refused(path: Path, speed: object, kind: type[Exception]) -> None:
    taped(path, (HELLO, says("Seven.")))

    with pytest.raises(kind, match="Replay: speed must be"):
        us.Replay(path, speed=cast(float, speed))
