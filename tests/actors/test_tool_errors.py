"""`Retry`, and tools whose errors end the run."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import understudy as us
from tests.support import process_tools
from tests.support.scripts import WAIT, eventually, finished, results_of
from understudy.testing import ScriptedModel, calls, says
from understudy.vocabulary.tools.isolation import Isolation

STARTS = 60.0  # Seconds for an interpreter on a busy machine.


class TryOtherwise(us.Retry):
    """A reason of a kind of its own, made without asking its base."""

    def __init__(self, number: int) -> None:
        self.number = number


def make(tool: us.ToolLike, *turns: us.ModelTurn, **options: object) -> us.Agent:
    return us.Agent("clerk", model=ScriptedModel([*turns, says("ok")]), tools=[tool], **options)  # type: ignore[call-overload, no-any-return]  # pyright: ignore[reportArgumentType]


def result_of(tool: us.ToolLike, turn: us.ModelTurn, **options: object) -> us.ToolResult:
    return results_of(make(tool, turn, **options).run("go", timeout=STARTS))[0]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


# --- Retry


@pytest.mark.parametrize("isolation", ["thread", "caller"])
def test_the_model_reads_the_reason_as_the_tool_wrote_it_and_the_tool_is_not_tried_again(
    isolation: Isolation,
) -> None:
    attempts: list[int] = []

    @us.tool(retries=3, isolation=isolation)
    def look(sku: str) -> str:
        attempts.append(1)
        raise us.Retry("a product number has a dash, such as A-113")

    for options in ({}, {"on_tool_error": "raise"}):
        attempts.clear()
        result = result_of(look, calls("look", sku="A113"), **options)
        assert result == us.ToolResult(
            result.call_id, "a product number has a dash, such as A-113", True, "retry", name="look"
        )
        assert attempts == [1]


def test_the_same_of_an_async_tool_beside_another() -> None:
    @us.tool
    async def look() -> str:
        raise us.Retry("later")

    outcome = make(look, calls("look") + calls("look")).run("go")

    assert [(r.content, r.error_kind) for r in results_of(outcome)] == [("later", "retry")] * 2


def test_the_same_of_a_tool_in_a_process() -> None:
    result = result_of(process_tools.wants_it_otherwise, calls("wants_it_otherwise"))

    assert (result.content, result.error_kind, result.is_error) == ("with a dash, please", "retry", True)


def test_a_retry_is_no_failure_of_the_agent_and_drops_what_the_call_changed() -> None:
    @us.tool
    def look(ctx: us.ToolContext) -> str:
        ctx.session["half"] = "done"
        raise us.Retry("later")

    with us.ActorSystem("shop") as system:
        ref = system.spawn(make(look, calls("look"), restart_on=[Exception]))
        outcome = ref.run("go")

        assert (dict(outcome.session), results_of(outcome)[0].error_kind) == ({}, "retry")
        assert [row.failed for row in system.health().actors if row.address == "shop/clerk"] == [0]


def test_a_reason_is_words() -> None:
    for nothing in ("", " ", None, 3):
        with pytest.raises(TypeError, match="Retry takes the reason"):
            us.Retry(nothing)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert TryOtherwise(7).reason == "7"
    assert not issubclass(us.Retry, us.UnderstudyError)


# --- on_tool_error="raise"


def test_what_a_tool_raises_ends_the_run_and_is_the_cause() -> None:
    class Gone(Exception):
        pass

    def pay() -> str:
        raise Gone("the bank is gone")

    with pytest.raises(us.ToolError, match="pay failed: Gone: the bank is gone") as caught:
        make(pay, us.ModelTurn((us.ToolCall("c1", "pay"),)), on_tool_error="raise").run("go")

    assert isinstance(caught.value.__cause__, Gone)
    assert (type(caught.value), caught.value.tool, caught.value.call_id) == (us.ToolError, "pay", "c1")


def test_retries_come_first() -> None:
    attempts: list[int] = []

    @us.tool(retries=1, on_error="raise")
    def pay() -> str:
        attempts.append(1)
        if len(attempts) < 2:
            raise ConnectionError("no")
        return "paid"

    assert finished(make(pay, calls("pay")).run("go")).text == "ok"
    assert attempts == [1, 1]


@pytest.mark.parametrize("beside", [us.ModelTurn(()), calls("fine")])
def test_a_call_that_hangs_ends_it_with_a_timeout(gate: threading.Event, beside: us.ModelTurn) -> None:
    @us.tool(timeout=0.05)
    def hang() -> str:
        gate.wait()
        return "late"

    def fine() -> str:
        return "fine"

    agent = make(hang, calls("hang") + beside, on_tool_error="raise").replace(tools=[hang, fine])

    with pytest.raises(us.ToolTimeout, match="did not return within 0.05 s") as caught:
        agent.run("go", timeout=WAIT)

    assert caught.value.tool == "hang"


def test_a_call_that_finds_no_slot_ends_it(gate: threading.Event) -> None:
    @us.tool(timeout=0.05, max_parallel=1)
    def hang() -> str:
        gate.wait()
        return "late"

    with us.ActorSystem("shop") as system:
        make(hang, calls("hang")).run("go", system=system)
        with pytest.raises(us.ToolUnavailable):
            make(hang, calls("hang"), on_tool_error="raise").run("go", system=system)
        gate.set()


def test_the_other_calls_of_the_turn_are_cancelled_at_once(gate: threading.Event) -> None:
    told, begun = threading.Event(), threading.Event()

    @us.tool
    def slow(ctx: us.ToolContext) -> str:
        ctx.scope.on_cancel(told.set)
        begun.set()
        gate.wait()
        return "late"

    @us.tool
    def pay() -> str:
        assert begun.wait(WAIT)
        raise LookupError("no")

    agent = make(slow, calls("slow") + calls("pay") + calls("slow"), on_tool_error="raise")
    with us.ActorSystem("shop") as system:
        handle = agent.replace(tools=[slow, pay]).submit("go", system=system)

        with pytest.raises(us.ToolError, match="pay failed"):
            handle.result(WAIT)

        assert told.wait(WAIT)
        finished_calls = [event for event in handle.events() if isinstance(event, us.ToolFinished)]
        assert sorted(event.result.error_kind for event in finished_calls) == ["not_run", "not_run", "raised"]
        gate.set()
        eventually(lambda: system.hung == 0, "the slow calls came back")


def test_an_error_that_is_named_restarts_the_agent_once_and_ends_the_run() -> None:
    def pay() -> str:
        raise ConnectionError("the bank is gone")

    with us.ActorSystem("shop") as system:
        ref = system.spawn(make(pay, calls("pay"), on_tool_error="raise", restart_on=[ConnectionError]))

        with pytest.raises(us.ToolError, match="the bank is gone"):
            ref.run("go")

        row = next(row for row in system.health().actors if row.address == "shop/clerk")
        assert row.failed == 1


def test_a_process_gives_words_and_no_cause() -> None:
    agent = us.Agent(
        "clerk", model=ScriptedModel([calls("raises")]), tools=[process_tools.raises], on_tool_error="raise"
    )

    with pytest.raises(us.ToolError, match="raises failed: LookupError: no such order"):
        agent.run("go", timeout=STARTS)


class Shop:
    def stock(self) -> int:
        raise KeyError("shelf")


@pytest.mark.parametrize(
    ("deps", "told"),
    [
        (None, "look failed: AttributeError: 'NoneType' object has no attribute 'stock' (the run was given no deps=)"),
        (Shop(), "look failed: KeyError: 'shelf'"),
    ],
)
def test_an_error_of_a_tool_that_takes_deps_says_that_the_run_was_given_none(deps: Shop | None, told: str) -> None:
    @us.tool
    def look(ctx: us.ToolContext[Shop]) -> int:
        return ctx.deps.stock()

    outcome = make(look, calls("look")).run("go", deps=deps)

    assert results_of(outcome)[0].content == told


def test_an_error_of_a_tool_that_takes_no_deps_says_nothing_of_them() -> None:
    @us.tool
    def look(ctx: us.ToolContext) -> int:
        raise KeyError("shelf")

    assert results_of(make(look, calls("look")).run("go"))[0].content == "look failed: KeyError: 'shelf'"
