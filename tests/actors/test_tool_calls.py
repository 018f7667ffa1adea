"""Tool calls in a run: whatever a tool does, its call has one result, and nothing else is disturbed."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextvars import ContextVar, copy_context
from types import MappingProxyType, SimpleNamespace
from typing import Annotated, cast

import pydantic
import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished, results_of, scripted
from understudy.actors.cells.mailbox import Fate
from understudy.actors.threads.promise import Promise
from understudy.actors.tools import executor
from understudy.actors.tools.tool_call import ToolCallTask
from understudy.testing import FunctionModel, ScriptedModel, calls, says


def result_of(turn: us.ModelTurn, *tools: us.ToolLike) -> us.ToolResult:
    """Run one turn's only call and return its result."""
    return results_of(scripted(turn, says("ok"), tools=tools).run("go"))[0]


def fine(word: str = "x") -> str:
    return f"fine {word}"


def raises() -> str:
    raise LookupError("no such order")


def exits() -> str:
    sys.exit(3)


def interrupts() -> str:
    raise KeyboardInterrupt


@pytest.fixture
def hang() -> Iterator[us.Tool[[], str]]:
    """Make a tool that hangs until its test is over."""
    gate = threading.Event()

    @us.tool(timeout=0.05)
    def hang() -> str:
        gate.wait(WAIT)
        return "late"

    yield hang
    gate.set()


class Speechless(Exception):
    """An error whose message cannot be made, as when a `__str__` returns an attribute that is None."""

    def __str__(self) -> str:
        raise self


def speechless() -> str:
    raise Speechless


FAILURES = [
    pytest.param(calls("raises"), "raised", "raises failed: LookupError: no such order", id="raises"),
    pytest.param(calls("exits"), "raised", "exits failed: SystemExit: 3", id="calls sys.exit"),
    pytest.param(calls("interrupts"), "raised", "interrupts failed: KeyboardInterrupt", id="interrupts"),
    pytest.param(calls("speechless"), "raised", "speechless failed: Speechless", id="raises what cannot be shown"),
    pytest.param(calls("fien"), "unknown_tool", "there is no tool 'fien' (did you mean 'fine'?)", id="unknown tool"),
    pytest.param(
        calls("fine", word=[1]),
        "bad_arguments",
        "argument 'word': input should be a valid string, got [1]",
        id="wrong type",
    ),
    pytest.param(calls("fine", wrod="x"), "bad_arguments", "argument 'wrod'", id="unknown argument"),
    pytest.param(
        us.ModelTurn((us.ToolCall("c", "fine", bad_arguments='{"word": '),)),
        "bad_json",
        'must be a JSON object, got: {"word": ',
        id="arguments that are not JSON",
    ),
]


TOOLS = [fine, raises, exits, interrupts, speechless]


@pytest.mark.parametrize(("turn", "kind", "words"), FAILURES)
def test_a_call_that_fails_becomes_a_result_that_says_what_was_wrong(turn: us.ModelTurn, kind: str, words: str) -> None:
    result = result_of(turn, *TOOLS)

    assert (result.is_error, result.error_kind) == (True, kind)
    assert words in result.content


@pytest.mark.parametrize(("turn", "kind", "words"), FAILURES)
def test_a_call_that_fails_leaves_the_others_of_its_turn_alone(turn: us.ModelTurn, kind: str, words: str) -> None:
    agent = scripted(calls("fine", word="a") + turn + calls("fine", word="b"), says("ok"), tools=TOOLS)

    before, failed, after = results_of(agent.run("go"))

    assert (before.content, after.content) == ("fine a", "fine b")
    assert (failed.error_kind, words in failed.content) == (kind, True)


def test_a_tool_that_hangs_alone_gets_a_timeout_result_and_the_run_goes_on(hang: us.Tool[[], str]) -> None:
    result = result_of(calls("hang"), hang)

    assert (result.error_kind, result.content) == ("timed_out", "hang did not return within 0.05 s; it was given up")


def test_a_tool_that_hangs_beside_others_gets_a_timeout_result_and_the_others_theirs(hang: us.Tool[[], str]) -> None:
    agent = scripted(calls("fine") + calls("hang") + calls("fine"), says("ok"), tools=[fine, hang])
    results = results_of(agent.run("go"))

    assert [r.error_kind for r in results] == ["", "timed_out", ""]


def test_what_a_hung_tool_brings_too_late_is_refused() -> None:
    gate, returned = threading.Event(), threading.Event()
    session = us.SessionState({"seen": "before"})

    @us.tool(timeout=0.05)
    def hang(ctx: us.ToolContext) -> str:
        ctx.session["seen"] = "late"
        gate.wait(WAIT)
        returned.set()
        return "late"

    outcome = scripted(calls("hang"), says("ok"), tools=[hang]).run("go", session=session)
    gate.set()
    assert returned.wait(WAIT)

    assert results_of(outcome)[0].error_kind == "timed_out"
    assert (session["seen"], outcome.session["seen"]) == ("before", "before")


def test_what_a_hung_tool_brings_while_its_run_goes_on_is_refused_too() -> None:
    gate, system = threading.Event(), us.ActorSystem("ward")

    @us.tool(timeout=0.05)
    def hang(ctx: us.ToolContext) -> str:
        ctx.session["seen"] = "late"
        gate.wait(WAIT)
        return "late"

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 1:
            return calls("hang")
        gate.set()
        eventually(lambda: system.hung == 0, "the first work brought its result, and ended")
        return says("ok")

    agent = us.Agent("clerk", model=FunctionModel(answer), tools=[hang])
    outcome = finished(agent.run("go", system=system, session={"seen": "before"}))

    assert outcome.session["seen"] == "before"
    assert [r.error_kind for r in results_of(outcome)] == ["timed_out"]


def test_a_call_that_was_given_up_before_it_began_is_not_run_and_not_counted_as_hung(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late: list[executor.LentTurn] = []
    ran: list[int] = []

    @us.tool(timeout=0.05)
    def look() -> str:
        ran.append(1)
        return "seen"

    def comes_late(turn: executor.LentTurn) -> None:
        late.append(turn)

    run_turns = executor.LentTurn.run_turns
    monkeypatch.setattr(executor.LentTurn, "run_turns", comes_late)
    with us.ActorSystem("slow") as system:
        outcome = scripted(calls("look") + calls("look"), says("ok"), tools=[look]).run("go", system=system)
        for each in late:
            run_turns(each)

        assert [r.error_kind for r in results_of(outcome)] == ["timed_out"] * 2
        assert (len(late), ran, system.hung) == (2, [], 0)


def test_a_call_that_cannot_enter_its_context_fails_and_is_not_counted_as_hung() -> None:
    ended: list[str] = []

    class Order:
        """As much of an order as a turn needs that does not get to its tool."""

        record = SimpleNamespace(run_id="run-1")
        call = SimpleNamespace(id="call-1")

        def came_back(self, fate: Fate) -> None:
            ended.append(fate.name)

    reply, context = Promise[object](), copy_context()
    made = executor.LentTurn(cast("ToolCallTask", Order()), reply, context)

    context.run(made.run_turns)  # it is entered already

    error = reply.error()
    assert isinstance(error, us.AgentCrashed) and isinstance(error.__cause__, RuntimeError)
    assert (error.actor, ended) == ("run-1/call-1", ["FAILED"])


def test_each_hung_call_of_a_run_is_given_up_in_its_turn(hang: us.Tool[[], str]) -> None:
    outcome = scripted(calls("hang"), calls("hang"), calls("hang"), says("ok"), tools=[hang]).run("go")

    assert [r.error_kind for r in results_of(outcome)] == ["timed_out"] * 3
    assert outcome.iterations == 3


class Till:
    """Something with methods that are tools, decorated or not."""

    def __init__(self, name: str) -> None:
        self.name = name

    def count(self, coin: int) -> str:
        return f"{self.name} holds {coin}"

    @us.tool
    def close(self) -> str:
        return f"{self.name} is closed"


@pytest.mark.parametrize("names", [("sets",), ("sets", "sets")], ids=["alone", "beside another"])
def test_a_context_variable_that_a_tool_sets_ends_with_its_call(names: tuple[str, ...]) -> None:
    variable, seen = ContextVar("variable", default="the caller's"), list[str]()

    def sets() -> str:
        variable.set("the tool's")
        return variable.get()

    def model(request: us.ModelRequest) -> us.ModelTurn:
        seen.append(variable.get())
        return says("ok") if request.tool_results else sum([calls(name) for name in names], says(""))

    outcome = us.Agent("clerk", model=FunctionModel(model), tools=[sets]).run("go")

    assert {result.content for result in results_of(outcome)} == {"the tool's"}
    assert seen == ["the caller's"] * 2


def test_methods_are_called_on_their_instance() -> None:
    till = Till("north")
    agent = scripted(calls("count", coin=2) + calls("close"), says("ok"), tools=[till.count, till.close])

    assert [r.content for r in results_of(agent.run("go"))] == ["north holds 2", "north is closed"]


def test_an_async_tool_runs_in_a_loop_of_its_own() -> None:
    async def look(word: str) -> str:
        await asyncio.sleep(0)
        return f"saw {word}"

    assert result_of(calls("look", word="x"), look).content == "saw x"


def test_a_plain_function_that_wraps_an_async_one_is_awaited_too() -> None:
    async def look() -> str:
        return "saw it"

    def wrapped() -> object:
        return look()

    assert result_of(calls("wrapped"), wrapped).content == "saw it"


def test_an_async_tool_is_cancelled_with_its_run() -> None:
    entered, stopped = threading.Event(), threading.Event()

    async def hang() -> str:
        entered.set()
        try:
            await asyncio.sleep(WAIT)
        except asyncio.CancelledError:
            stopped.set()
            raise
        return "late"

    handle = scripted(calls("hang"), tools=[hang]).submit("go")
    assert entered.wait(WAIT)
    handle.cancel()

    assert stopped.wait(WAIT)


def test_an_async_tool_may_return_while_its_run_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    entered, cancelling, closed = threading.Event(), threading.Event(), threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    def hold_up() -> None:
        cancelling.set()
        assert closed.wait(WAIT)

    async def until_cancelled() -> str:
        loops.append(asyncio.get_running_loop())
        entered.set()
        await asyncio.to_thread(cancelling.wait, WAIT)
        return "saw it"

    def look(ctx: us.ToolContext) -> object:
        ctx.scope.on_cancel_at_once(hold_up)  # added before the loop's own, so called before it
        return until_cancelled()

    handle = scripted(calls("look"), tools=[look]).submit("go")
    assert entered.wait(WAIT)
    canceller = threading.Thread(target=handle.cancel, daemon=True)
    with caplog.at_level("ERROR", "understudy"):
        canceller.start()
        eventually(loops[0].is_closed, "the tool returned")
        closed.set()
        canceller.join(WAIT)

    assert caplog.records == []


@pytest.mark.parametrize(
    ("retries", "content"), [(1, "flaky failed: ConnectionError: busy 2"), (2, "there"), (9, "there")]
)
def test_a_tool_that_raises_is_tried_again_as_often_as_it_says(retries: int, content: str) -> None:
    attempts: list[int] = []

    @us.tool(retries=retries)
    def flaky() -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise ConnectionError(f"busy {len(attempts)}")
        return "there"

    assert result_of(calls("flaky"), flaky).content == content


def test_a_tool_that_has_no_time_for_another_attempt_fails_with_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "RETRY_PAUSE", 1000.0)  # longer than the tool's timeout

    @us.tool(retries=1)
    def flaky() -> str:
        raise ConnectionError("busy")

    assert result_of(calls("flaky"), flaky).content == "flaky failed: ConnectionError: busy"


@pytest.mark.parametrize("beside", [0, 1], ids=["alone", "beside another"])
def test_a_tool_that_is_given_up_is_told_so(beside: int) -> None:
    told, stopped = threading.Event(), threading.Event()

    @us.tool(timeout=0.05)
    def hang(ctx: us.ToolContext) -> str:
        ctx.scope.on_cancel(told.set)
        assert told.wait(WAIT)
        raise ConnectionError("cut")

    @us.tool(timeout=0.05)
    async def hang_async() -> str:
        try:
            await asyncio.sleep(WAIT)
        finally:
            stopped.set()
        return "late"

    turns = [calls("hang"), calls("hang_async")] if not beside else [calls("hang") + calls("hang_async")]
    outcome = scripted(*turns, says("ok"), tools=[hang, hang_async]).run("go")

    assert [r.error_kind for r in results_of(outcome)] == ["timed_out"] * 2
    assert told.wait(WAIT) and stopped.wait(WAIT)


@pytest.mark.parametrize("beside", [0, 1], ids=["alone", "beside another"])
@pytest.mark.parametrize(("idempotent", "expected"), [(True, "second time"), (False, "timed out")])
def test_a_call_that_timed_out_is_tried_again_only_if_the_tool_is_idempotent(
    idempotent: bool, expected: str, beside: int
) -> None:
    gate, attempts = threading.Event(), list[int]()

    @us.tool(timeout=0.1, retries=1, idempotent=idempotent)
    def slow() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            gate.wait(WAIT)
        return "second time"

    turn = calls("slow") + calls("fine") if beside else calls("slow")
    result = result_of(turn, slow, fine)
    gate.set()

    assert (result.content if not result.is_error else "timed out") == expected


@pytest.mark.parametrize("beside", [0, 1], ids=["alone", "beside another"])
def test_an_attempt_that_fails_of_being_given_up_does_not_answer_for_the_next_one(beside: int) -> None:
    attempts = list[int]()
    failed = threading.Event()

    @us.tool(timeout=0.5, retries=1, idempotent=True)
    def slow(ctx: us.ToolContext) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            told = threading.Event()
            ctx.scope.on_cancel(told.set)
            assert told.wait(WAIT)
            failed.set()
            raise ConnectionError("given up")
        assert failed.wait(WAIT)
        return "second time"

    turn = calls("slow") + calls("fine") if beside else calls("slow")

    assert result_of(turn, slow, fine).content == "second time"


class Stock(pydantic.BaseModel):
    sku: str
    count: int


@dataclasses.dataclass
class Shelf:
    sku: str
    places: list[int]


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text as it is", "text as it is"),
        (7, "7"),
        (20.0, "20.0"),
        (True, "true"),
        (None, "null"),
        ({"ä": [1, 2]}, '{"ä": [1, 2]}'),
        (Stock(sku="A", count=2), '{"sku":"A","count":2}'),
        ([Stock(sku="A", count=2)], '[{"sku": "A", "count": 2}]'),
        (Shelf("A", [1]), '{"sku": "A", "places": [1]}'),
        ({"b", "a"}, '["a", "b"]'),
    ],
)
def test_what_a_tool_returns_reaches_the_model_as_text_or_json(value: object, content: str) -> None:
    def give() -> object:
        return value

    assert result_of(calls("give"), give).content == content


def test_a_value_that_cannot_be_shown_is_the_tools_failure() -> None:
    class Unshowable:
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def give() -> object:
        return [Unshowable()]

    assert result_of(calls("give"), give).error_kind == "raised"


@dataclasses.dataclass
class Shop:
    name: str


def test_a_tool_sees_its_run() -> None:
    seen: list[us.ToolContext[Shop]] = []

    def look(ctx: us.ToolContext[Shop], sku: str) -> str:
        seen.append(ctx)
        return ctx.deps.name

    outcome = scripted(calls("look", sku="A"), says("ok"), tools=[look]).run("go", deps=Shop("main"), user_id="ada")

    (ctx,) = seen
    assert results_of(outcome)[0].content == "main"
    assert (ctx.run_id, ctx.agent_id, ctx.tool_name, ctx.user_id) == (outcome.run_id, "clerk", "look", "ada")
    assert (ctx.call_id, ctx.arguments) == (results_of(outcome)[0].call_id, {"sku": "A"})
    assert ctx.scope.remaining() is not None


def test_the_model_is_not_told_of_the_context() -> None:
    def look(ctx: us.ToolContext[Shop], sku: str) -> str:
        return sku

    model = ScriptedModel([says("ok")])
    us.Agent("clerk", model=model, tools=[look]).run("go")

    assert list(model.requests[0].tools[0].schema["properties"]) == ["sku"]  # type: ignore[arg-type]  # JSON: an object here


def broken(value: str) -> str:
    raise LookupError("the validator broke")


def test_a_validator_of_the_users_that_breaks_is_the_tools_failure() -> None:
    def look(word: Annotated[str, pydantic.AfterValidator(broken)]) -> str:
        return word

    result = result_of(calls("look", word="x"), look)

    assert (result.error_kind, result.content) == ("raised", "look failed: LookupError: the validator broke")


# --- sessions


def test_what_tools_write_is_seen_by_later_tools_and_by_the_caller() -> None:
    def write(ctx: us.ToolContext, value: str) -> str:
        before = str(ctx.session.get("last", "nothing"))
        ctx.session["last"] = value
        return before

    session = us.SessionState({"customer": "ada"})
    agent = scripted(calls("write", value="one"), calls("write", value="two"), says("ok"), tools=[write])
    outcome = agent.run("go", session=session)

    assert [r.content for r in results_of(outcome)] == ["nothing", "one"]
    assert session.snapshot() == {"customer": "ada", "last": "two"}
    assert outcome.session == session.snapshot()


def test_what_a_failing_tool_wrote_is_dropped() -> None:
    def write(ctx: us.ToolContext) -> str:
        ctx.session["last"] = "half done"
        raise ValueError("no")

    session = us.SessionState()
    scripted(calls("write"), says("ok"), tools=[write]).run("go", session=session)

    assert session.snapshot() == {}


def test_calls_at_once_do_not_see_each_other_and_the_later_call_wins() -> None:
    first_wrote, second_wrote = threading.Event(), threading.Event()
    seen: list[object] = []

    def one(ctx: us.ToolContext) -> str:
        assert second_wrote.wait(WAIT)
        seen.append(ctx.session.get("key"))
        ctx.session["key"] = "one"
        first_wrote.set()
        return "ok"

    def two(ctx: us.ToolContext) -> str:
        ctx.session["key"] = "two"
        second_wrote.set()
        assert first_wrote.wait(WAIT)
        return "ok"

    session = us.SessionState()
    scripted(calls("one") + calls("two"), says("ok"), tools=[one, two]).run("go", session=session)

    assert seen == [None]
    assert session["key"] == "two"


def test_a_callers_plain_dict_is_updated_and_any_other_mapping_is_not() -> None:
    def write(ctx: us.ToolContext) -> str:
        ctx.session["new"] = 1
        del ctx.session["old"]
        return "ok"

    plain: dict[str, us.JsonValue] = {"old": 1}
    others: list[Mapping[str, us.JsonValue]] = [OrderedDict(plain), MappingProxyType(dict(plain))]
    for given in (plain, *others):
        outcome = scripted(calls("write"), says("ok"), tools=[write]).run("go", session=given)
        assert outcome.session == {"new": 1}

    assert plain == {"new": 1}
    assert others == [{"old": 1}, {"old": 1}]


def test_the_session_of_an_outcome_is_not_updated_by_the_run_that_is_given_it() -> None:
    def count(ctx: us.ToolContext) -> str:
        ctx.session["n"] = cast(int, ctx.session.get("n", 0)) + 1
        return "ok"

    first = scripted(calls("count"), says("ok"), tools=[count]).run("go", session={})
    second = scripted(calls("count"), says("ok"), tools=[count]).run("go", session=first.session)

    assert (first.session, second.session) == ({"n": 1}, {"n": 2})


def test_a_key_that_was_removed_is_gone_for_the_caller_too() -> None:
    def forget(ctx: us.ToolContext) -> str:
        del ctx.session["old"]
        return "ok"

    session = us.SessionState({"old": 1})
    scripted(calls("forget"), says("ok"), tools=[forget]).run("go", session=session)

    assert session.snapshot() == {}


def test_a_tool_that_writes_a_reserved_key_fails() -> None:
    def write(ctx: us.ToolContext) -> str:
        ctx.session["__secret"] = 1
        return "ok"

    assert "__secret" in result_of(calls("write"), write).content


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("beside", [False, True])
def test_a_child_that_a_tool_forks_and_lets_return_ends(beside: bool) -> None:
    def forks() -> str:
        child = os.fork()
        return "child" if not child else str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    turn = calls("fine") + calls("forks") if beside else calls("forks")
    outcome = scripted(turn, says("ok"), tools=[forks, fine]).run("go", timeout=WAIT)

    assert results_of(outcome)[-1].content == "1"
