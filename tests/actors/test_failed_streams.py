"""Streams that are wrong, fail, stand still or are ended: what the run, its tokens and its readers have of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import understudy as us
from tests.support.scripts import WAIT
from tests.support.streaming import StreamedScript, Tap, streaming_clerk, text_of, text_turn
from tests.support.tools import look
from understudy.actors.runs import model_call
from understudy.testing import says


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
    handle = streaming_clerk(turn, tools=[look]).submit("go")

    error = handle.exception(WAIT)

    assert isinstance(error, kind) and words in str(error)
    events = list(handle.events())
    dropped = [(event.text, event.by) for event in events if isinstance(event, us.TurnDropped)]
    assert dropped == ([(shown, "")] if shown else [])
    assert isinstance(events[-1], us.RunFailed) and events[-1].error is error


@pytest.mark.parametrize(
    ("turn", "may_pass"),
    [([us.TextPiece("The ans")], True), ([us.TextPiece("a"), "b"], False), ([us.CallPiece(), us.TurnEnd()], False)],
    ids=["cut off", "of wrong pieces", "of a wrong turn"],
)
def test_a_stream_that_was_cut_off_may_be_asked_for_again(turn: Any, may_pass: bool) -> None:
    error = streaming_clerk(turn).submit("go").exception(WAIT)

    assert isinstance(error, us.BadReply)
    assert (error.retryable, error.token != "") == (may_pass, may_pass)


def test_tokens_of_a_stream_that_fails_are_counted() -> None:
    error = streaming_clerk(fails_with_its_own).submit("go").exception(WAIT)

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
    handle = streaming_clerk(tap, model_timeout=None if is_cancelled else 0.3).submit("go")
    events = handle.events()
    seen = next(event for event in events if isinstance(event, us.TextDelta))
    if is_cancelled:
        handle.cancel()

    rest = [seen, *events]

    assert isinstance(handle.exception(WAIT), kind)
    assert [type(event).__name__ for event in rest[-2:]] == ["TurnDropped", "RunFailed"]
    assert text_of(rest) == next(event.text for event in rest if isinstance(event, us.TurnDropped))
    tap.let(3)


def test_a_turn_that_is_taken_up_after_a_crash_is_shown_once() -> None:
    class FailsOnce(us.AgentCallback):
        failed = False

        def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> None:
            if not self.failed:
                self.failed = True
                raise RuntimeError("the callback is broken")

    handle = streaming_clerk(text_turn("All ", "good."), callbacks=[FailsOnce()]).submit("go")
    told = list(handle.events())

    assert text_of(told) == text_of(list(handle.events())) == "All good."
    assert handle.result(WAIT).text == "All good."


def test_a_stream_of_a_run_that_is_over_is_closed_at_its_next_piece() -> None:
    tap = Tap(text_turn("a", "b", "c"))
    tap.let()
    handle = streaming_clerk(tap, model_timeout=60).submit("go")
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
    error = streaming_clerk(turn).submit("go").exception(WAIT)

    assert isinstance(error, us.BadReply)
    assert error.usage == us.Usage(7, 3)


def test_a_count_that_is_no_count_is_left_out() -> None:
    error = streaming_clerk([us.UsagePiece(us.Usage(-7, 3)), us.TextPiece("a")]).submit("go").exception(WAIT)

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
    assert streaming_clerk(gives(ClosesBadly(us.TextPiece("ok"), us.TurnEnd()))).submit("go").result(WAIT).text == "ok"


def test_nothing_is_read_after_the_end_of_a_turn() -> None:
    tap = Tap([us.TextPiece("ok"), us.TurnEnd(), us.TextPiece("never asked for")])
    tap.let(2)

    assert streaming_clerk(tap).submit("go").result(WAIT).text == "ok"
    assert tap.closed.wait(WAIT)


def test_a_stream_that_stands_still_ends_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_call, "DEFAULT_IDLE_TIMEOUT", 0.01)
    monkeypatch.setattr(model_call, "GRACE", 0.01)
    tap = Tap(text_turn("a", "b"))
    tap.let()

    error = streaming_clerk(tap).submit("go").exception(WAIT)

    assert isinstance(error, us.ProviderTimeout)
    tap.let(3)


def test_a_model_time_limit_holds_for_streams_too() -> None:
    tap = Tap(text_turn("a", "b"))
    tap.let()

    error = streaming_clerk(tap, model_timeout=0.05).submit("go").exception(WAIT)

    assert isinstance(error, us.ProviderTimeout) and "gave no answer within 0.05 s" in str(error)
    tap.let(3)


def test_a_stream_tells_of_a_failure_and_raises_it_then() -> None:
    seen: list[us.Event] = []

    with pytest.raises(us.RateLimited), streaming_clerk(fails_with_its_own).stream("go") as events:
        seen.extend(events)

    assert isinstance(seen[-1], us.RunFailed)


class Broken(StreamedScript):
    """A model whose properties fail."""

    fails = ""

    def __getattribute__(self, name: str) -> Any:
        if name == Broken.fails:
            raise LookupError(f"no {name}")
        return super().__getattribute__(name)


@pytest.mark.parametrize("name", ["streamed_timeout", "idle_timeout", "stream"])
def test_a_property_that_fails_is_a_failure_of_a_streamed_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = us.Agent("clerk", model=Broken([text_turn("ok")]))
    monkeypatch.setattr(Broken, "fails", name)

    error = agent.submit("go").exception(WAIT)

    assert isinstance(error, us.ProviderError) and isinstance(error.__cause__, LookupError)
    assert str(error).startswith(f"the model of agent 'clerk' failed: LookupError: no {name}")


@pytest.mark.parametrize("name", ["model_timeout", "complete"])
def test_a_property_that_fails_is_a_failure_of_a_blocking_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = us.Agent("clerk", model=Broken([text_turn("ok")]))
    monkeypatch.setattr(Broken, "fails", name)

    with pytest.raises(us.ProviderError, match=f"the model of agent 'clerk' failed: LookupError: no {name}"):
        agent.run("go")
