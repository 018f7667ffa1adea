"""A tool that crashes, hangs, takes all memory, floods or returns what nobody can read harms its own call, and nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from typing import NoReturn

import pytest

import understudy as us
from tests.support import harmful_tools
from tests.support.scripts import WAIT, finished, results_of
from tests.support.stores import DictStore
from understudy.testing import FunctionModel, ScriptedModel, calls, says

STARTS = 120.0  # Seconds for several interpreters on a busy machine.


def fine() -> str:
    return "fine"


def alone_and_beside(tool: us.Tool[..., object], model: us.Model | None = None) -> list[us.ToolResult]:
    """Call a tool by itself, then beside another one, and again, in one run; returns its results.

    The other call has its result, the run ends as its model says, and the agent has another run.
    """
    turns = [calls("bad"), calls("bad") + calls("fine"), says("ok"), says("again")]
    agent = us.Agent("clerk", model=ScriptedModel(turns) if model is None else model, tools=[tool, fine])

    outcome = finished(agent.run("go", timeout=WAIT * 3))

    first, second, other = results_of(outcome)
    assert (outcome.text, other.content, other.is_error) == ("ok", "fine", False)
    assert agent.run("go").text == "again"
    return [first, second]


def bad(function: Callable[[], object]) -> us.Tool[..., object]:
    def call() -> object:
        return function()

    return us.Tool(call, name="bad", timeout=WAIT)


# --- what it raises


class Unspeakable(Exception):
    """An error whose message cannot be had."""

    def __init__(self, why: type[BaseException]) -> None:
        super().__init__()
        self._why = why

    def __str__(self) -> str:
        raise self._why("in the message")


class Annotated(ValueError):
    """An error whose notes are none."""

    __notes__ = 7  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]  # the mistake under test


def deep() -> NoReturn:
    deep()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (StopIteration(1), "StopIteration: 1"),
        (MemoryError(), "MemoryError"),
        (BaseExceptionGroup("all of them", [KeyboardInterrupt(), ValueError("x")]), "all of them"),
        (ValueError("half a pair: \ud800"), "half a pair"),
        (Unspeakable(ValueError), "Unspeakable (it has no message that can be shown)"),
        (Unspeakable(SystemExit), "Unspeakable (it has no message that can be shown)"),
        (Unspeakable(KeyboardInterrupt), "Unspeakable (it has no message that can be shown)"),
        (Annotated("x"), "Annotated"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_what_a_tool_raises_does_not_end_its_run(error: BaseException, words: str) -> None:
    def fails() -> NoReturn:
        raise error

    for result in alone_and_beside(bad(fails)):
        assert result.error_kind == "raised"
        assert words in result.content


def test_a_tool_that_calls_itself_without_end_does_not_end_its_run() -> None:
    for result in alone_and_beside(bad(deep)):
        assert result.content.startswith("bad failed: RecursionError")


def test_a_tool_that_asks_for_more_memory_than_there_is_does_not_end_its_run() -> None:
    for result in alone_and_beside(bad(lambda: bytearray(1 << 60))):
        assert result.content.startswith("bad failed: MemoryError")


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(2), KeyboardInterrupt()], ids=repr)
def test_what_an_async_tool_raises_does_not_end_its_run(error: BaseException) -> None:
    async def fails() -> NoReturn:
        raise error

    for result in alone_and_beside(us.Tool(fails, name="bad")):
        assert (result.error_kind, type(error).__name__ in result.content) == ("raised", True)


def test_an_async_tool_that_stops_its_loop_does_not_hang_its_run() -> None:
    async def stops() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(WAIT)

    for result in alone_and_beside(us.Tool(stops, name="bad")):
        assert result.error_kind == "raised"


# --- what it returns


class NoDump:
    """Something that says it can be dumped, and cannot."""

    def model_dump(self, **options: object) -> object:
        raise SystemExit("no dump")


class NoJson:
    """The same of a model's JSON."""

    def model_dump_json(self) -> str:
        raise KeyboardInterrupt


class NoAttribute:
    """Something that cannot even be asked what it has."""

    def __getattr__(self, name: str) -> object:
        raise ZeroDivisionError(name)


@dataclasses.dataclass
class Box:
    inside: object = None


def endless() -> Generator[int]:
    while True:
        yield 1


async def endless_async() -> AsyncGenerator[int]:
    while True:
        yield 1


def circle() -> object:
    values: list[object] = []
    values.append(values)
    return values


def boxed_circle() -> object:
    box = Box()
    box.inside = box
    return box


def nested() -> object:
    value: object = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        NoDump,
        NoJson,
        NoAttribute,
        endless,
        endless_async,
        lambda: {"in": endless()},
        circle,
        boxed_circle,
        nested,
        lambda: 10**5000,
        lambda: {"n": 10**5000},
        lambda: {10**5000: "n"},
        lambda: {("a", "tuple"): 1},
    ],
)
def test_what_a_tool_returns_and_nobody_can_read_is_its_own_error(value: Callable[[], object]) -> None:
    for result in alone_and_beside(bad(lambda: value())):
        assert (result.error_kind, result.is_error) == ("raised", True)
        assert len(result.content) < 1000


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (math.nan, "NaN"),
        ({"a": math.inf}, '{"a": Infinity}'),
        (b"\xff", "\"b'\\\\xff'\""),
        ("half \ud800", "half \ud800"),
        ({"\udfff": "\ud800"}, '{"\udfff": "\ud800"}'),
        ("a\0b", "a\0b"),
        ({1, "a"}, '["a", 1]'),
    ],
)
def test_what_json_has_no_word_for_does_not_keep_the_model_from_being_asked(value: object, content: str) -> None:
    for result in alone_and_beside(bad(lambda: value)):
        assert (result.content, result.is_error) == (content, False)


# --- what it does beside


def test_a_tool_that_never_returns_does_not_hold_up_other_runs() -> None:
    over, hangs = threading.Event(), threading.Event()

    @us.tool(timeout=0.1)
    def hang() -> None:
        hangs.set()
        over.wait()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.text == "hang":
            return calls("hang")
        if not request.tool_results:
            return calls("fine")
        return says(request.tool_results[0].content)

    agent = us.Agent("clerk", model=FunctionModel(answer), tools=[hang, fine])
    try:
        hung = agent.submit("hang")
        assert hangs.wait(WAIT)

        assert [agent.run("go").text for _ in range(20)] == ["fine"] * 20
        assert "did not return within 0.1 s" in hung.result(WAIT).text
    finally:
        over.set()


def test_a_busy_loop_does_not_keep_its_run_past_its_timeout() -> None:
    over = threading.Event()

    @us.tool(timeout=0.1)
    def spin() -> None:
        while not over.is_set():
            pass

    agent = us.Agent("clerk", model=ScriptedModel([calls("spin") + calls("fine"), says("ok")]), tools=[spin, fine])
    try:
        first, second = results_of(agent.run("go", timeout=WAIT))
    finally:
        over.set()

    assert (first.error_kind, second.content) == ("timed_out", "fine")


def test_what_a_tool_left_in_the_session_and_no_store_can_keep_is_its_own_error() -> None:
    """Without a store a session may hold anything; with one the run could not wait any more."""
    circular: dict[str, object] = {}
    circular["self"] = circular
    for value in (object(), b"x", {1: 2}, {"a", "b"}, math.nan, 10**5000, circular):

        def put(ctx: us.ToolContext) -> str:
            ctx.session["it"] = value  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]  # noqa: B023
            return "put"

        model = ScriptedModel([calls("put") + calls("fine"), says("__ask_user__: Go on?"), says("ok")])
        agent = us.Agent("clerk", model=model, tools=[put, fine])
        with us.ActorSystem("shop", store=DictStore()) as system:
            paused = agent.run("go", system=system)
            assert isinstance(paused, us.NeedsInput)
            first, second = results_of(agent.resume(paused.token, "yes", system=system))

        assert first.content.startswith("put failed: TypeError: session['it']")
        assert (first.error_kind, second.content) == ("raised", "fine")


# --- what it does to its process


@pytest.mark.parametrize(
    "harm",
    [
        "goes_elsewhere",
        "works_in_a_folder_that_is_gone",
        "closes_stdout",
        "closes_its_output",
        "closes_everything",
        "forgets_its_environment",
        "sets_an_alarm",
        "allows_itself_few_files",
        "breaks_what_is_built_in",
        "starts_a_thousand_threads",
        "falls_without_end",
        "raises_the_unspeakable",
    ],
)
def test_what_a_call_did_to_its_process_does_not_reach_the_next_one(harm: str) -> None:
    model = ScriptedModel([calls(harm), calls("is_well"), says("ok")])
    agent = us.Agent("clerk", model=model, tools=harmful_tools.ALL)

    _, well = results_of(agent.run("go", timeout=STARTS))

    assert (well.content, well.is_error) == (f"{os.getcwd()} {os.environ['PATH']} 0.0 True", False)


def test_memory_that_a_call_kept_is_not_missing_for_the_next_one() -> None:
    model = ScriptedModel([calls("keeps_memory"), calls("needs_memory"), says("ok")])
    agent = us.Agent("clerk", model=model, tools=harmful_tools.ALL)

    kept, needed = results_of(agent.run("go", timeout=STARTS))

    assert (kept.content, needed.content) == ("done", "419,430,400")
