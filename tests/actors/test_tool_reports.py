"""What people hear of a tool that raised: one line of the log with its traceback, and the call's event."""

from __future__ import annotations

import logging
import threading
import weakref

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished, results_of, scripted
from understudy.testing import calls, says


class Held:
    """What a tool has at hand when it fails."""


@us.tool(retries=1)
def lookup(order: str) -> str:
    raise LookupError(f"no order {order}")


def fine() -> str:
    return "fine"


ALONE = calls("lookup", order="canary")
TOGETHER = calls("fine") + ALONE


def told_of(turn: us.ModelTurn, *tools: us.ToolLike, name: str = "lookup") -> us.ToolFinished:
    """Run a turn, and return the event of the call of a tool."""
    events = list(scripted(turn, says("ok"), tools=tools).submit("go").events())
    return next(event for event in events if isinstance(event, us.ToolFinished) and event.call.name == name)


@pytest.mark.parametrize("turn", [ALONE, TOGETHER])
def test_what_a_tool_raised_is_logged_once_with_its_traceback(
    turn: us.ModelTurn, caplog: pytest.LogCaptureFixture
) -> None:
    scripted(turn, says("ok"), tools=[lookup, fine]).run("go")

    (record,) = caplog.records
    assert (record.name, record.levelno) == ("understudy", logging.WARNING)
    heading, first, place, *_, last = record.getMessage().splitlines()
    assert heading.startswith("tool lookup failed (run ")
    assert heading.endswith(", 2 attempts):")
    assert (first, last) == ("Traceback (most recent call last):", "LookupError")
    assert place.endswith("in lookup")
    assert "canary" not in record.getMessage()  # what an error says may quote the arguments


def test_what_it_came_of_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    def parse() -> str:
        try:
            return str(int("canary"))
        except ValueError as error:
            raise LookupError("gone") from error

    scripted(calls("parse"), says("ok"), tools=[parse]).run("go")

    (record,) = caplog.records
    assert record.getMessage().index("\nValueError") < record.getMessage().index("\nLookupError")
    assert "canary'" not in record.getMessage()


def test_a_failed_call_that_is_no_failure_of_the_tool_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def again() -> str:
        raise us.Retry("later")

    @us.tool(timeout=0.05)
    def slow(ctx: us.ToolContext[object]) -> str:
        eventually(lambda: ctx.scope.cancelled, "the time is over")
        return "late"

    turn = calls("again") + calls("slow") + calls("lookup", ordre="x") + calls("unknown")
    events = list(scripted(turn, says("ok"), tools=[again, slow, lookup]).submit("go").events())

    assert [event.error for event in events if isinstance(event, us.ToolFinished)] == [None] * 4
    assert caplog.records == []


def test_a_tool_that_hears_of_a_cancellation_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    inside, left = threading.Event(), threading.Event()

    def wait(ctx: us.ToolContext[object]) -> str:
        inside.set()
        try:
            ctx.scope.sleep(WAIT)
        finally:
            left.set()
        return "late"

    with us.ActorSystem("shop") as system:
        handle = scripted(calls("wait"), tools=[wait]).submit("go", system=system)
        assert inside.wait(WAIT)
        handle.cancel()

        assert left.wait(WAIT)
        eventually(lambda: system.health().hung == 0, "its thread is past the place where errors are logged")
        assert caplog.records == []


@pytest.mark.parametrize("turn", [ALONE, TOGETHER])
def test_the_event_of_a_call_has_the_error_its_attempts_and_its_time(turn: us.ModelTurn) -> None:
    event = told_of(turn, lookup, fine)

    assert isinstance(event.error, LookupError)
    assert str(event.error) == "no order canary"
    assert event.attempts == 2
    assert event.duration > 0.1  # the pause before the second attempt
    assert "LookupError(" not in repr(event)


def test_a_call_that_worked_has_no_error_and_one_attempt() -> None:
    event = told_of(calls("fine"), fine, name="fine")

    assert (event.error, event.attempts) == (None, 1)
    assert event.duration > 0


def test_a_call_that_never_ran_has_no_attempts() -> None:
    event = told_of(calls("fine", size=3), fine, name="fine")

    assert (event.error, event.attempts, event.duration) == (None, 0, 0.0)


@pytest.mark.parametrize("beside", [False, True])
def test_attempts_that_timed_out_count(beside: bool) -> None:
    tried: list[int] = []
    release = threading.Event()

    @us.tool(timeout=0.1, retries=2, idempotent=True)
    def flaky() -> str:
        tried.append(1)
        if len(tried) < 3:
            release.wait(WAIT)
        return "there"

    event = told_of(calls("fine") + calls("flaky") if beside else calls("flaky"), flaky, fine, name="flaky")
    release.set()

    assert (event.result.content, event.attempts) == ("there", 3)
    assert event.duration > 0.2


def test_an_event_keeps_nothing_alive_that_a_tool_had_at_hand() -> None:
    seen: list[weakref.ref[Held]] = []

    def fails() -> str:
        held = Held()
        seen.append(weakref.ref(held))
        raise LookupError("gone")

    event = told_of(calls("fails"), fails, name="fails")

    assert isinstance(event.error, LookupError)
    eventually(lambda: seen[0]() is None, "what the tool had is gone")


@pytest.mark.parametrize("name", ["__cause__", "__context__", "__traceback__", "__notes__", "__class__"])
@pytest.mark.parametrize("beside", [False, True])
def test_an_error_with_a_property_that_raises_is_the_call_s_error(name: str, beside: bool) -> None:
    def refuse(error: object) -> object:
        raise RuntimeError("not now")

    kind = type("Odd", (Exception,), {name: property(refuse)})

    def odd() -> str:
        raise kind("at work")

    turn = calls("fine") + calls("odd") if beside else calls("odd")
    outcome = finished(scripted(turn, says("ok"), tools=[odd, fine]).run("go"))

    result = results_of(outcome)[-1]
    assert result.error_kind == "raised"
    assert result.content.startswith("odd failed: Odd")
