"""What becomes, in a run, of calls that cannot run as the model wrote them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Annotated, Any

import pydantic
import pytest
from pydantic import Field

import understudy as us
from tests.support.process_tools import place
from tests.support.scripts import WAIT, eventually, finished, results_of
from understudy.testing import ScriptedModel, calls, says

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def look(sku: str) -> str:
    ran.append(sku)
    return f"found {sku}"


def made(
    *turns: us.ModelTurn,
    tools: Sequence[us.ToolLike] = (look,),
    on_invalid_call: us.InvalidCallRule = "result",
    max_invalid_retries: int = 3,
) -> us.Agent:
    return us.Agent(
        "clerk",
        model=ScriptedModel(turns),
        tools=tools,
        on_invalid_call=on_invalid_call,
        max_invalid_retries=max_invalid_retries,
    )


def always(resolution: Any) -> us.InvalidCallRule:
    """Make a rule that says the same every time."""

    def rule(ctx: us.RunContext, invalid: us.InvalidCall) -> us.Resolution | None:
        found: us.Resolution | None = resolution
        return found

    return rule


def model_of(agent: us.Agent) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


UNKNOWN = calls("lok", sku="A")
NOT_JSON = us.ModelTurn((us.ToolCall("", "look", bad_arguments="{sku: "),), finish_reason="tool_calls")
NOT_FITTING = calls("look", sku=7)

EVERY_KIND = [
    pytest.param(UNKNOWN, "unknown_tool", "there is no tool 'lok' (did you mean 'look'?)", id="unknown name"),
    pytest.param(NOT_JSON, "bad_json", "the arguments of 'look' must be a JSON object", id="no JSON"),
    pytest.param(NOT_FITTING, "bad_arguments", "argument 'sku': input should be a valid string, got 7", id="arguments"),
]


@pytest.mark.parametrize(("turn", "kind", "words"), EVERY_KIND)
def test_fail_ends_the_run_and_nothing_of_the_turn_runs(turn: us.ModelTurn, kind: str, words: str) -> None:
    agent = made(calls("look", sku="B") + turn, on_invalid_call="fail")

    with pytest.raises(us.ToolError) as caught:
        agent.run("go")

    assert words in str(caught.value)
    assert ran == []


@pytest.mark.parametrize(("turn", "kind", "words"), EVERY_KIND)
def test_retry_runs_nothing_of_the_turn_and_tells_the_model_why(turn: us.ModelTurn, kind: str, words: str) -> None:
    agent = made(calls("look", sku="B") + turn, says("ok"), on_invalid_call="retry")

    outcome = finished(agent.run("go"))

    good, bad = model_of(agent).requests[1].tool_results
    assert good.error_kind == "not_run"
    assert words in bad.content
    assert ran == []
    assert (outcome.turns, outcome.iterations) == (2, 0)


def test_a_function_sees_the_call_and_decides() -> None:
    seen: list[us.InvalidCall] = []

    def decide(ctx: us.RunContext, invalid: us.InvalidCall) -> us.Resolution | None:
        seen.append(invalid)
        assert (ctx.agent_id, ctx.deps) == ("clerk", "shop")
        return us.RepairCall(name="look") if invalid.call.name == "lok" else None

    agent = made(UNKNOWN + NOT_FITTING, says("ok"), on_invalid_call=decide)

    outcome = finished(agent.run("go", deps="shop"))

    assert [(bad.position, bad.kind) for bad in seen] == [(0, "unknown_tool"), (1, "bad_arguments")]
    assert all(bad.call.id for bad in seen)
    assert [r.error_kind for r in results_of(outcome)] == ["", "bad_arguments"]
    assert ran == ["A"]


def test_a_repair_with_arguments_that_do_not_fit_is_told_to_the_model() -> None:
    repair = always(us.RepairCall(arguments={"sku": 8}))
    (result,) = results_of(made(NOT_FITTING, says("ok"), on_invalid_call=repair).run("go"))

    assert result.content == "tool 'look': argument 'sku': input should be a valid string, got 8"


def test_a_repair_that_repairs_nothing_does_not_run() -> None:
    agent = made(UNKNOWN, on_invalid_call=always(us.RepairCall(name="lock")))

    with pytest.raises(us.ProtocolViolation, match="the repair of call 0 is invalid too"):
        agent.run("go")


def test_a_function_that_answers_something_else_fails_the_agent() -> None:
    with pytest.raises(us.AgentCrashed) as caught:
        made(UNKNOWN, on_invalid_call=always("retry")).run("go")

    assert "on_invalid_call must return RetryTurn, RepairCall" in str(caught.value.__cause__)


def test_a_function_that_fails_is_asked_again_and_what_it_said_before_stands() -> None:
    asked: list[int] = []

    def decide(ctx: us.RunContext, invalid: us.InvalidCall) -> us.Resolution | None:
        asked.append(invalid.position)
        if asked == [0, 1]:
            raise LookupError("once")
        return us.SkipCall("No.")

    agent = made(UNKNOWN + UNKNOWN, says("ok"), on_invalid_call=decide)

    finished(agent.run("go"))

    assert asked == [0, 1, 1]
    assert len(model_of(agent).requests) == 2


def test_the_approval_rule_is_asked_about_a_repaired_call_under_its_name_and_about_no_invalid_one() -> None:
    judged: list[us.ToolCall] = []

    def free(call: us.ToolCall, ctx: us.RunContext) -> bool:
        judged.append(call)
        return False

    @us.tool(approval=free)
    def pay(cents: int) -> str:
        return f"paid {cents}"

    def decide(ctx: us.RunContext, invalid: us.InvalidCall) -> us.Resolution | None:
        return us.RepairCall(name="pay") if invalid.kind == "unknown_tool" else None

    turn = calls("pey", cents=5) + calls("pay", cents="much")
    outcome = finished(made(turn, says("ok"), tools=[pay], on_invalid_call=decide).run("go"))

    assert [(call.name, call.arguments) for call in judged] == [("pay", {"cents": 5})]
    assert results_of(outcome)[0].content == "paid 5"


# --- checking arguments before the turn is fed


class Counted:
    """A validator that counts, and may fail or hang."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.count = 0
        self.failure: Exception | None = None
        self.gate: threading.Event | None = None

    def __call__(self, value: str) -> str:
        self.count += 1
        if self.failure is not None:
            raise self.failure
        if self.gate is not None:
            self.gate.wait(WAIT)
        return value


counted = Counted()
Sku = Annotated[str, pydantic.AfterValidator(counted)]


@pytest.fixture(autouse=True)
def a_fresh_count() -> None:
    counted.begin()


@us.tool(timeout=0.05, retries=1)
def check(sku: Sku) -> str:
    ran.append(sku)
    return f"found {sku}"


@pytest.mark.parametrize("others", [0, 1])
def test_arguments_are_validated_once(others: int) -> None:
    turn = calls("check", sku="A")
    for _ in range(others):
        turn += calls("look", sku="B")

    finished(made(turn, says("ok"), tools=[check, look]).run("go"))

    assert counted.count == 1
    assert "A" in ran


def test_attempts_do_not_share_what_an_earlier_one_may_have_changed() -> None:
    gate = threading.Event()
    seen: list[list[str]] = []

    @us.tool(timeout=0.05, retries=1, idempotent=True)
    def sort(words: list[str]) -> str:
        seen.append(list(words))
        words.clear()
        if len(seen) == 1:
            gate.wait(WAIT)
        return "sorted"

    finished(made(calls("sort", words=["b", "a"]), says("ok"), tools=[sort]).run("go"))
    gate.set()

    assert seen == [["b", "a"], ["b", "a"]]


def test_a_validator_that_fails_is_the_tools_failure_and_not_the_agents() -> None:
    counted.failure = LookupError("no such table")

    outcome = finished(made(calls("check", sku="A"), says("ok"), tools=[check]).run("go"))

    (result,) = results_of(outcome)
    assert (result.error_kind, ran) == ("raised", [])
    assert "LookupError: no such table" in result.content


def test_a_validator_that_hangs_is_given_up_and_its_run_goes_on() -> None:
    counted.gate = threading.Event()

    with us.ActorSystem("shop") as system:
        agent = made(calls("check", sku="A"), says("ok"), tools=[check])
        outcome = finished(agent.run("go", system=system, timeout=WAIT))
        hung = system.hung
        counted.gate.set()

    (result,) = results_of(outcome)
    assert result.error_kind == "bad_arguments"
    assert result.content == "checking the arguments of check did not end in time"
    assert (hung, ran) == (1, [])
    assert len(model_of(agent).requests) == 2


def test_a_default_that_hangs_is_given_up_as_a_validator_is() -> None:
    gate = threading.Event()

    @us.tool(name="check", timeout=0.05)
    def by_default(sku: str = Field(default_factory=lambda: str(gate.wait(WAIT)))) -> str:
        """Check."""
        raise NotImplementedError

    outcome = finished(made(calls("check"), says("ok"), tools=[by_default]).run("go", timeout=WAIT))
    gate.set()

    (result,) = results_of(outcome)
    assert result.content == "checking the arguments of check did not end in time"


def test_a_validator_that_comes_back_after_it_was_given_up_brings_nobody_to_be_asked_again() -> None:
    counted.gate, asked, system = threading.Event(), list[str](), us.ActorSystem("shop")

    def is_large(call: us.ToolCall, ctx: us.RunContext) -> bool:
        asked.append(call.name)
        if len(asked) == 1 and counted.gate is not None:
            counted.gate.set()
            eventually(lambda: system.hung == 0, "the work of the validator is over")
        return False

    @us.tool(approval=is_large)
    def order(sku: str) -> str:
        return f"ordered {sku}"

    with system:
        agent = made(calls("check", sku="A") + calls("order", sku="B"), says("ok"), tools=[check, order])
        outcome = finished(agent.run("go", system=system, timeout=WAIT))

    assert [result.error_kind for result in results_of(outcome)] == ["bad_arguments", ""]
    assert (asked, ran) == (["order"], [])


def test_the_arguments_of_a_tool_in_a_process_are_checked_there_and_nowhere_else() -> None:
    agent = made(
        calls("place", order={"sku": "A", "day": "someday"}), says("ok"), tools=[place], on_invalid_call="fail"
    )

    outcome = finished(agent.run("go"))

    assert [r.error_kind for r in results_of(outcome)] == ["bad_arguments"]
