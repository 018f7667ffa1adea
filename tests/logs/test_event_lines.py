"""The lines of the runtime: named events with values, about runs and actors, and no words of users or models."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from contextvars import ContextVar
from io import StringIO
from typing import Any

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.scripts import WAIT, eventually
from understudy.diagnostics import emit
from understudy.testing import ScriptedModel, calls, says

Line = dict[str, Any]


def lines_of(caplog: pytest.LogCaptureFixture, *names: str) -> list[Line]:
    """Return the lines of these events, or of all that have one, as far as they were written."""
    lines = [vars(record) for record in caplog.records if record.name == "understudy" and hasattr(record, "event")]
    return [line for line in lines if not names or line["event"] in names]


def written(caplog: pytest.LogCaptureFixture, name: str) -> Line:
    """Wait for the line of an event and return it."""
    eventually(lambda: bool(lines_of(caplog, name)), f"{name} is written")
    return lines_of(caplog, name)[0]


def look(sku: str) -> str:
    return f"found {sku}"


def clerk(*turns: us.ModelTurn | Exception, **options: Any) -> us.Agent:
    return us.Agent("clerk", model=ScriptedModel(turns), tools=[look], **options)


def test_a_run_has_a_line_for_its_start_its_tools_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "understudy")

    outcome = clerk(calls("look", sku="A-113"), says("Seven.")).run("How many?", conversation_id="c-7", timeout=WAIT)

    lines = lines_of(caplog)
    assert [line["event"] for line in lines] == ["run_started", "tool_finished", "run_finished"]
    named = [(line["run_id"], line["agent"], line["conversation_id"]) for line in lines]
    assert named == [(outcome.run_id, "clerk", "c-7")] * 3
    assert (lines[1]["tool"], lines[1]["is_error"], lines[1]["attempts"]) == ("look", False, 1)
    assert (lines[2]["status"], lines[2]["turns"], lines[2]["iterations"]) == ("complete", 2, 1)


def test_the_line_of_each_tool_comes_before_that_of_the_run_s_end(logger: logging.Logger) -> None:
    is_over, events = threading.Event(), list[str]()

    def slow(record: logging.LogRecord) -> bool:
        event = str(getattr(record, "event", ""))
        if event == "tool_finished" and event not in events:
            is_over.wait(0.3)  # it is not: the run waits for this line
        events.append(event)
        return True

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if getattr(record, "event", "") == "run_finished":
                is_over.set()

    keep = Keep()
    logger.setLevel(logging.INFO)
    logger.addFilter(slow)
    logger.addHandler(keep)
    try:
        turn = calls("look", sku="A-113") + calls("look", sku="A-114")
        clerk(turn, says("None.")).run("How many?")
    finally:
        logger.removeFilter(slow)
        logger.removeHandler(keep)

    assert events[-1] == "run_finished"
    assert events.count("tool_finished") == 2


def test_turns_and_starts_of_tools_are_told_at_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "understudy")

    clerk(calls("look", sku="A-113"), says("Seven.")).run("How many?", timeout=WAIT)

    of_run = [line["event"] for line in lines_of(caplog) if "run_id" in line]
    turn = ["turn_started", "turn_finished"]
    assert of_run == ["run_started", *turn, "tool_started", "tool_finished", *turn, "run_finished"]


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_no_line_has_what_was_said(caplog: pytest.LogCaptureFixture, level: int) -> None:
    caplog.set_level(level, "understudy")

    clerk(calls("look", sku="A-113"), calls("hidden_name"), says("Seven.")).run("How many?", timeout=WAIT)
    with pytest.raises(us.RateLimited):
        clerk(us.RateLimited("key sk-123 is used up")).run("How many?", timeout=WAIT)

    shown = caplog.text + repr([vars(record) for record in caplog.records])
    assert [word for word in ("How many", "A-113", "found", "Seven", "sk-123", "hidden_name") if word in shown] == []


def test_a_run_that_fails_is_told_without_the_text_of_its_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "understudy")

    with pytest.raises(us.RateLimited):
        clerk(us.RateLimited("slow down")).run("go", timeout=WAIT)

    line = written(caplog, "run_failed")
    assert (line["agent"], line["error_type"], line["levelno"]) == ("clerk", "RateLimited", logging.INFO)


def test_a_callback_that_logs_leaves_start_and_retries_to_the_runtime(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "understudy")

    clerk(calls("look", sku="A"), says("ok"), callbacks=[us.LoggingCallback()]).run("go", timeout=WAIT)

    assert [line["event"] for line in lines_of(caplog)] == ["run_started"]
    assert [record.name for record in caplog.records].count("understudy.runs") == 7


def test_a_retry_of_a_tool_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "understudy")
    tries = iter([ConnectionError("the shelf 4711 is busy"), None])

    @us.tool(retries=1)
    def fetch() -> str:
        error = next(tries)
        if error is not None:
            raise error
        return "ok"

    agent = us.Agent("clerk", model=ScriptedModel([calls("fetch"), says("ok")]), tools=[fetch])
    agent.run("go", timeout=WAIT)

    line = written(caplog, "retry_scheduled")
    assert {name: line[name] for name in ("agent", "what", "tool", "attempt", "error_type")} == {
        "agent": "clerk",
        "what": "tool",
        "tool": "fetch",
        "attempt": 1,
        "error_type": "ConnectionError",
    }
    assert "4711" not in line["message"]


def test_a_tool_that_fails_has_a_line_with_its_values(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> str:
        raise KeyError("A-113")

    agent = us.Agent("clerk", model=ScriptedModel([calls("broken"), says("ok")]), tools=[broken])
    outcome = agent.run("go", timeout=WAIT)

    line = written(caplog, "tool_failed")
    assert (line["run_id"], line["agent"], line["tool"]) == (outcome.run_id, "clerk", "broken")
    assert line["message"].startswith(f"tool broken failed (run {outcome.run_id})")


class Fragile(us.Actor[str]):
    def on_receive(self, message: str) -> None:
        raise ValueError(message)


def test_a_restart_of_an_actor_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "understudy")

    with us.ActorSystem("shop") as system:
        system.spawn(Fragile, name="desk", strategy=us.OneForOne(max_restarts=2)).tell("drop")
        line = written(caplog, "actor_restarted")

    assert (line["actor"], line["restarts"]) == ("shop/desk", 1)
    assert written(caplog, "actor_failed")["actor"] == "shop/desk"


def test_a_failure_at_a_message_whose_answer_somebody_waits_for_has_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "understudy")

    with us.ActorSystem("shop") as system:
        desk = system.spawn(Fragile, name="desk", strategy=us.OneForOne(max_restarts=2))
        with pytest.raises(us.AgentCrashed):
            desk.ask("drop")

    (record,) = [each for each in caplog.records if vars(each).get("event") == "actor_failed"]
    assert (record.levelno, vars(record)["actor"]) == (logging.INFO, "shop/desk")
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


def test_an_actor_that_does_not_start_says_why(caplog: pytest.LogCaptureFixture) -> None:
    class Diskless(us.Actor[str]):
        def on_start(self) -> None:
            raise OSError("no disk")

    with us.ActorSystem("shop") as system:
        desk = system.spawn(Diskless, name="desk", strategy=us.OneForOne(max_restarts=0))
        with pytest.raises(us.AgentDown):
            desk.ask("go")

    line = written(caplog, "actor_failed")
    assert line["message"] == "shop/desk did not start: OSError: no disk"
    assert line["exc_info"] is not None


def test_an_actor_that_is_given_up_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with us.ActorSystem("shop") as system:
        system.spawn(Fragile, name="desk", strategy=us.OneForOne(max_restarts=0)).tell("drop")
        line = written(caplog, "actor_given_up")

    assert (line["actor"], line["error_type"], line["levelname"]) == ("shop/desk", "ValueError", "WARNING")


def test_work_that_is_abandoned_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "understudy")
    gate = Gate()

    @us.tool(timeout=0.01)
    def hang() -> str:
        gate()
        return "late"

    try:
        agent = us.Agent("clerk", model=ScriptedModel([calls("hang"), says("ok")]), tools=[hang])
        outcome = agent.run("go", timeout=WAIT)
    finally:
        gate.open()

    overdue, line = written(caplog, "work_overdue"), written(caplog, "work_abandoned")
    assert (line["run_id"], line["what"]) == (outcome.run_id, "running tool hang")
    assert "stack" not in overdue


def test_a_message_that_is_lost_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with us.ActorSystem("shop") as system:
        desk = system.spawn(Fragile, name="desk")
        desk.stop()
        desk.tell("drop")
        line = written(caplog, "dead_letter")

    assert (line["actor"], line["message_type"], line["reason"]) == ("shop/desk", "str", "stopped")


def test_a_handler_that_fails_ends_no_run() -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            called.set()
            raise RuntimeError("the disk is full")

    logger, handler, called = logging.getLogger("understudy"), Broken(), threading.Event()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)

    assert clerk(calls("look", sku="A"), says("ok")).run("go", timeout=WAIT).text == "ok"
    assert called.is_set()


def test_each_line_of_a_run_is_written_with_the_context_variables_of_its_caller() -> None:
    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append((getattr(record, "event", ""), request.get()))

    request, seen = ContextVar("request", default="none"), list[tuple[str, str]]()
    logger, handler = logging.getLogger("understudy"), Noting()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    token = request.set("q-1")
    try:
        clerk(calls("look", sku="A"), says("ok")).run("go")
    finally:
        request.reset(token)
        logger.removeHandler(handler)

    lines = [line for line in seen if not line[0].startswith("actor")]
    turn = ["turn_started", "turn_finished"]
    assert [event for event, _ in lines] == [
        "run_started",
        *turn,
        "tool_started",
        "tool_finished",
        *turn,
        "run_finished",
    ]
    assert {value for _, value in lines} == {"q-1"}


class Exiting(logging.Handler):
    """Ends the thread at each line that is not written in the main thread."""

    def emit(self, record: logging.LogRecord) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise SystemExit


def test_a_handler_that_exits_ends_no_run_that_goes_on_after_a_failure() -> None:
    logger, left = logging.getLogger("understudy"), [RuntimeError("no prompt")]
    logger.addHandler(Exiting())
    logger.setLevel(logging.DEBUG)

    def prompt(ctx: us.RunContext) -> str:
        if left:
            raise left.pop()
        return "Be brief."

    assert clerk(calls("look", sku="A"), says("ok"), system_prompt=prompt).run("go", timeout=WAIT).text == "ok"
    assert not left


def test_a_handler_that_exits_keeps_no_actor_from_its_restart() -> None:
    logger = logging.getLogger("understudy")
    logger.addHandler(Exiting())
    logger.setLevel(logging.DEBUG)

    with us.ActorSystem("shop") as system:
        desk = system.spawn(Fragile, name="desk", strategy=us.OneForOne(max_restarts=2))
        for _ in range(2):
            with pytest.raises(us.AgentCrashed):
                desk.ask("drop", timeout=WAIT)
        assert desk.is_alive()


class Cancelling(logging.Handler):
    """Cancels a run at one of its lines."""

    def __init__(self, event: str) -> None:
        super().__init__()
        self.event = event
        self.run = Future[us.RunHandle]()

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", "") == self.event:
            self.run.result(WAIT).cancel()


@pytest.mark.parametrize("event", ["turn_finished", "tool_finished"])
@pytest.mark.parametrize(
    "turn",
    [calls("look", sku="A") + calls("look", sku="B"), calls("hang"), calls("again")],
    ids=["two", "hung", "again"],
)
def test_a_handler_may_cancel_the_run_that_a_line_is_about(event: str, turn: us.ModelTurn) -> None:
    gate = Gate()
    hang = us.Tool(lambda: gate(), name="hang", description="Hang.", timeout=0.01)
    again = us.Tool(lambda: gate(), name="again", description="Hang.", timeout=0.01, retries=1, idempotent=True)
    logger, handler = logging.getLogger("understudy"), Cancelling(event)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    model = ScriptedModel([turn, says("ok")])

    try:
        handle = us.Agent("clerk", model=model, tools=[look, hang, again]).submit("go")
        handler.run.set_result(handle)
        with pytest.raises(us.RunCancelled):
            handle.result(WAIT)
    finally:
        gate.open()


class StoppedBy(logging.Handler):
    """Cancels a run when the program says so in a line of its own; holds its lock meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.run = Future[us.RunHandle]()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "stop":
            self.run.result(WAIT).cancel()


def test_a_handler_may_cancel_a_run_whose_end_has_a_line_for_it() -> None:
    gate, handler = Gate(), StoppedBy()
    hang = us.Tool(lambda: gate(), name="hang", description="Hang.")
    logging.getLogger().addHandler(handler)
    logging.getLogger("understudy").setLevel(logging.DEBUG)

    try:
        handle = us.Agent("clerk", model=ScriptedModel([calls("hang"), says("ok")]), tools=[hang]).submit("go")
        handler.run.set_result(handle)
        stopping = threading.Thread(target=logging.getLogger("shop").warning, args=("stop",), daemon=True)
        stopping.start()
        with pytest.raises(us.RunCancelled):
            handle.result(WAIT)
        stopping.join(WAIT)
        assert not stopping.is_alive()
    finally:
        gate.open()
        logging.getLogger().removeHandler(handler)


def test_who_has_the_lock_of_a_handler_may_cancel_a_run_that_has_a_line_for_it_at_this_moment() -> None:
    handler, run = logging.StreamHandler(StringIO()), Future[us.RunHandle]()
    is_held, has_line = threading.Event(), threading.Event()

    class Noticing(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            if getattr(record, "event", "") == "tool_finished":
                has_line.set()
            return True

    def stop() -> None:
        assert handler.lock is not None
        with handler.lock:
            is_held.set()
            assert has_line.wait(WAIT)
            run.result(WAIT).cancel()

    def wait() -> None:
        assert is_held.wait(WAIT)

    package, noticing = logging.getLogger("understudy"), Noticing()
    package.addHandler(handler)
    package.addFilter(noticing)
    package.setLevel(logging.INFO)
    model = ScriptedModel([calls("stop") + calls("wait"), says("ok")])

    try:
        handle = us.Agent("clerk", model=model, tools=[stop, wait]).submit("go")
        run.set_result(handle)
        with pytest.raises(us.RunCancelled):
            handle.result(WAIT)
    finally:
        package.removeFilter(noticing)


@pytest.mark.parametrize("how", ["cancel", "deadline"])
@pytest.mark.parametrize("event", ["tool_started", "tool_finished"])
def test_a_line_that_is_not_taken_keeps_no_run_from_its_end(event: str, how: str) -> None:
    arrived, gate, taken = threading.Event(), threading.Event(), list[bool]()

    class Blocked(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            if getattr(record, "event", "") == event:
                arrived.set()
                taken.append(gate.wait(WAIT))
            return True

    package, blocked = logging.getLogger("understudy"), Blocked()
    package.addFilter(blocked)
    package.setLevel(logging.DEBUG)
    model = ScriptedModel([calls("look", sku="A") + calls("look", sku="B"), says("ok")])

    try:
        timeout = 0.2 if how == "deadline" else None
        handle = us.Agent("clerk", model=model, tools=[look]).submit("go", timeout=timeout)
        assert arrived.wait(WAIT)
        if how == "cancel":
            handle.cancel()
        error = handle.exception(WAIT / 2)
        assert type(error) is (us.RunCancelled if how == "cancel" else us.RunTimedOut)
        assert not taken
    finally:
        gate.set()
        package.removeFilter(blocked)


def test_an_interrupt_in_a_handler_of_the_main_thread_is_raised() -> None:
    class Interrupted(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise KeyboardInterrupt

    logging.getLogger("understudy").addHandler(Interrupted())

    with pytest.raises(KeyboardInterrupt):
        emit(logging.ERROR, "actor_failed", {})


def test_a_run_that_nobody_listens_to_asks_the_logger_once(monkeypatch: pytest.MonkeyPatch) -> None:
    logger, asked = logging.getLogger("understudy"), list[int]()

    def deaf(level: int) -> bool:
        asked.append(level)
        return False

    monkeypatch.setattr(logger, "isEnabledFor", deaf)

    with us.ActorSystem("shop") as system:
        agent = clerk(says("one"), calls("look", sku="A"), says("two"))
        agent.run("go", system=system, timeout=WAIT)
        asked.clear()
        agent.run("go", system=system, timeout=WAIT)
        of_run = asked.copy()

    assert of_run == [logging.INFO]
