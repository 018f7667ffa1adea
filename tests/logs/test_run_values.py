"""The values of a run stand on the users' own log lines, whatever part of a run writes them and on whatever thread."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Generator, Sequence

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.log_tools import values_there
from tests.support.scripts import WAIT, eventually, results_of
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.vocabulary.tools.isolation import Isolation

NAMES = ("run_id", "agent", "conversation_id", "tool", "call_id", "actor")


class Lines(logging.Handler):
    """Keeps the values of each line, by its message."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(us.RunContextFilter())
        self.seen: dict[str, dict[str, str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.seen[record.getMessage()] = {name: vars(record)[name] for name in NAMES if vars(record)[name] != ""}

    def __getitem__(self, message: str) -> dict[str, str]:
        eventually(lambda: message in self.seen, f"somebody logs {message!r}")
        return self.seen[message]


shop = logging.getLogger("shop")


@pytest.fixture
def lines() -> Generator[Lines]:
    """Keep the lines of the logger `shop`."""
    handler = Lines()
    shop.addHandler(handler)
    shop.setLevel(logging.INFO)
    yield handler
    shop.removeHandler(handler)
    shop.setLevel(logging.NOTSET)


@pytest.fixture
def system() -> Generator[us.ActorSystem]:
    with us.ActorSystem("shop") as made:
        yield made


def look(sku: str) -> str:
    shop.info("look %s", sku)
    return f"found {sku}"


class Audit(us.AgentCallback):
    def before_model_call(self, ctx: us.RunContext, request: us.ModelRequest) -> None:
        shop.info("before_model_call")

    def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> None:
        shop.info("after_model_call")

    def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> None:
        shop.info("before_tool_call")

    def after_tool_call(self, ctx: us.RunContext, call: us.ToolCall, result: us.ToolResult) -> None:
        shop.info("after_tool_call")

    def on_error(self, ctx: us.RunContext, error: BaseException) -> None:
        shop.info("on_error")

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> None:
        shop.info("on_finish")


class Shelf:
    """A memory that logs and keeps nothing."""

    def load(self, key: us.ConversationKey) -> Sequence[us.Message]:
        shop.info("load")
        return ()

    def append(self, key: us.ConversationKey, messages: Sequence[us.Message], run_id: str) -> None:
        shop.info("append")

    def clear(self, key: us.ConversationKey) -> None:
        raise AssertionError("the runtime forgets nothing")


def test_each_part_of_a_run_has_the_values_of_its_run(lines: Lines) -> None:
    def answer(request: us.ModelRequest) -> us.ModelTurn:
        shop.info("model")
        return says("Two.") if request.tool_results else calls("look", sku="A")

    def prompt(ctx: us.RunContext) -> str:
        shop.info("prompt")
        return "Be brief."

    def approval(call: us.ToolCall, ctx: us.RunContext) -> bool:
        shop.info("approval")
        return False

    def criterion(ctx: us.RunContext, text: str) -> bool:
        shop.info("criterion")
        return True

    agent = us.Agent(
        "clerk",
        model=FunctionModel(answer),
        tools=[us.tool(approval=approval)(look)],
        system_prompt=prompt,
        callbacks=[Audit(), us.InputGuardrail("polite", lambda ctx, text: shop.info("guardrail"))],
        criteria=[criterion],
        memory=Shelf(),
    )

    outcome = agent.run("How many?", conversation_id="c-7", timeout=WAIT)

    in_tool = lines.seen.pop("look A")
    of_run = {"run_id": outcome.run_id, "agent": "clerk", "conversation_id": "c-7"}
    moments = {name for name in vars(Audit) if name.startswith(("before_", "after_", "on_"))} - {"on_error"}
    assert lines.seen == dict.fromkeys(
        {"model", "prompt", "approval", "criterion", "guardrail", "load", "append", *moments}, of_run
    )
    assert in_tool.pop("call_id")
    assert in_tool == {**of_run, "tool": "look"}


@pytest.mark.parametrize("isolation", ["thread", "caller"])
def test_calls_made_at_once_have_each_their_own_id(lines: Lines, isolation: Isolation) -> None:
    turn = us.ModelTurn(tuple([us.ToolCall(f"call-{sku}", "look", {"sku": sku}) for sku in "AB"]))
    tool = us.tool(isolation=isolation)(look)

    outcome = us.Agent("clerk", model=ScriptedModel([turn, says("ok")]), tools=[tool]).run("go", timeout=WAIT)

    assert [lines[f"look {sku}"] for sku in "AB"] == [
        {"run_id": outcome.run_id, "agent": "clerk", "tool": "look", "call_id": f"call-{sku}"} for sku in "AB"
    ]


def test_a_tool_in_a_worker_process_has_the_values() -> None:
    agent = us.Agent("clerk", model=ScriptedModel([calls("values_there"), says("ok")]), tools=[values_there])

    outcome = agent.run("go", conversation_id="c-7", timeout=WAIT)

    (result,) = results_of(outcome)
    assert json.loads(result.content) == {
        "run_id": outcome.run_id,
        "agent": "clerk",
        "conversation_id": "c-7",
        "tool": "values_there",
        "call_id": result.call_id,
        "actor": "",
    }


def say(word: str) -> None:
    shop.info(word)


def test_an_async_tool_and_a_carried_thread_have_the_values_of_the_call(lines: Lines) -> None:
    async def wait() -> str:
        shop.info("async")
        thread = threading.Thread(target=us.carry(say), args=("carried",))
        thread.start()
        thread.join(WAIT)
        return "ok"

    us.Agent("clerk", model=ScriptedModel([calls("wait"), says("ok")]), tools=[wait]).run("go", timeout=WAIT)

    assert lines["async"]["tool"] == lines["carried"]["tool"] == "wait"
    assert lines["async"] == lines["carried"]


def test_a_run_inside_of_a_tool_has_its_own_values_and_the_tool_has_its_own_again(lines: Lines) -> None:
    def prompt(ctx: us.RunContext) -> str:
        shop.info("inner")
        return ""

    inner = us.Agent("helper", model=ScriptedModel([says("ok")]), system_prompt=prompt)

    def ask() -> str:
        outcome = inner.run("go", timeout=WAIT)
        shop.info("outer")
        return outcome.run_id

    agent = us.Agent("clerk", model=ScriptedModel([calls("ask"), says("ok")]), tools=[ask])
    outcome = agent.run("go", conversation_id="c-7", timeout=WAIT)

    assert lines["inner"].keys() == {"run_id", "agent"}
    assert (lines["inner"]["agent"], lines["outer"]["agent"]) == ("helper", "clerk")
    assert lines["inner"]["run_id"] != lines["outer"]["run_id"] == outcome.run_id
    assert (lines["outer"]["tool"], lines["outer"]["conversation_id"]) == ("ask", "c-7")


def test_what_runs_after_a_cancellation_has_the_values_of_the_run(lines: Lines) -> None:
    gate = Gate()

    def hold(ctx: us.ToolContext) -> str:
        ctx.scope.on_cancel(lambda: shop.info("hook"))
        gate()
        shop.info("given up")
        return "late"

    agent = us.Agent("clerk", model=ScriptedModel([calls("hold"), says("ok")]), tools=[hold], callbacks=[Audit()])
    handle = agent.submit("go")
    assert gate.entered.wait(WAIT)
    handle.cancel()
    gate.open()

    of_run = {"run_id": handle.run_id, "agent": "clerk"}
    assert lines["on_error"] == of_run
    in_tool = lines["given up"]
    assert in_tool == {**of_run, "tool": "hold", "call_id": in_tool["call_id"]}
    assert lines["hook"] == in_tool


def test_a_function_of_a_cancellation_is_no_part_of_the_run(system: us.ActorSystem) -> None:
    gate, begun = Gate(), list[us.RunHandle[object]]()
    other = us.Agent("other", model=ScriptedModel([says("ok")]))

    def hold(ctx: us.ToolContext) -> str:
        ctx.scope.on_cancel(lambda: begun.append(other.submit("go", system=system)))
        gate()
        return "late"

    agent = us.Agent("clerk", model=ScriptedModel([calls("hold"), says("ok")]), tools=[hold])
    handle = agent.submit("go", system=system)
    assert gate.entered.wait(WAIT)
    handle.cancel()
    gate.open()

    eventually(lambda: bool(begun), "the function is called")
    assert begun[0].result(WAIT).text == "ok"


class Desk(us.Actor[str]):
    def on_start(self) -> None:
        shop.info("on_start")

    def on_receive(self, message: str) -> str:
        shop.info("received %s", message)
        return us.Agent("clerk", model=ScriptedModel([calls("look", sku="A"), says("ok")]), tools=[look]).run("go").text


def test_an_actor_has_its_address_and_the_runs_it_begins_have_both(lines: Lines, system: us.ActorSystem) -> None:
    assert system.spawn(Desk, name="desk").ask("hi", timeout=WAIT) == "ok"

    assert lines["on_start"] == lines["received hi"] == {"actor": "shop/desk"}
    assert (lines["look A"]["actor"], lines["look A"]["agent"]) == ("shop/desk", "clerk")


def test_conditions_of_tasks_have_the_values_of_the_workflow(lines: Lines) -> None:
    def when(results: object) -> bool:
        shop.info("when")
        return True

    writer = us.Agent("writer", model=ScriptedModel([says("ok")]))
    first = us.Task("first", writer, prompt="go", when=when)

    outcome = us.Workflow("flow", [first]).run("go", timeout=WAIT)

    assert lines["when"] == {"run_id": outcome.run_id, "agent": "flow"}


def test_outside_of_runs_the_values_are_empty_texts(lines: Lines) -> None:
    shop.info("outside")

    assert lines["outside"] == {}


def test_values_that_a_line_has_are_kept(lines: Lines) -> None:
    def take() -> str:
        shop.info("own", extra={"tool": "drill"})
        return "ok"

    us.Agent("clerk", model=ScriptedModel([calls("take"), says("ok")]), tools=[take]).run("go", timeout=WAIT)

    assert (lines["own"]["tool"], lines["own"]["agent"]) == ("drill", "clerk")


def test_the_processor_adds_what_applies_and_keeps_what_is_there() -> None:
    seen: list[dict[str, object]] = []

    def take() -> str:
        seen.append(dict(us.add_run_context(None, "info", {"event": "taken", "agent": "mine"})))
        return "ok"

    agent = us.Agent("clerk", model=ScriptedModel([calls("take"), says("ok")]), tools=[take])
    outcome = agent.run("go", timeout=WAIT)

    (event,) = seen
    assert event.pop("call_id")
    assert event == {"event": "taken", "agent": "mine", "run_id": outcome.run_id, "tool": "take"}
    assert us.add_run_context(None, "info", {"event": "outside"}) == {"event": "outside"}
