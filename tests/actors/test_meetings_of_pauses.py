"""Runs that pause, inside of others and through a store, with budgets, artifacts and memories: each counted or kept once."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

import understudy as us
from tests.hosts.forking import in_child
from tests.support.scripts import WAIT, eventually, finished, needs_approval, paused, results_of
from tests.support.stores import DictStore
from tests.support.tools import pay
from understudy.actors.runs import record
from understudy.testing import ScriptedModel, calls, says

Systems = tuple[us.ActorSystem, us.ActorSystem]
TEN = us.Usage(6, 4)
PRICES = {"ScriptedModel": us.Price(1.0, 1.0)}
"""A token costs a millionth of a dollar."""
LONG = "abc\n" * 20_000
ASK = "__ask_user__: "


@dataclass
class Cents:
    cents: int


@us.tool(max_result=100)
def pages() -> str:
    """Return many pages."""
    return LONG


def spent(turn: us.ModelTurn) -> us.ModelTurn:
    """Return the turn with its usage."""
    return us.ModelTurn(turn.parts, TEN, turn.finish_reason, turn.raw_finish_reason)


def agent(
    id: str,
    *turns: us.ModelTurn,
    tools: Iterable[us.ToolLike] = (),
    below: Iterable[us.SubAgentLike] = (),
    budget: us.Budget | None = None,
    memory: us.Memory | None = None,
) -> us.Agent:
    model = ScriptedModel([spent(turn) for turn in turns])
    return us.Agent(id, model=model, tools=tools, sub_agents=below, budget=budget, memory=memory)


def calls_of(*agents: us.Agent) -> int:
    """Return how many calls of models the agents made."""
    made = 0
    for each in agents:
        assert isinstance(each.model, ScriptedModel)
        made += len(each.model.requests)
    return made


# --- budgets


def paying(id: str, times: int = 1) -> us.Agent:
    """Make an agent that asks for an approval `times`, one after another."""
    return agent(id, *[calls("pay", cents=number) for number in range(times)], says(f"{id} is done"), tools=[pay])


def test_what_a_child_spent_before_each_of_its_pauses_is_counted_once(systems: Systems) -> None:
    here, there = systems
    child = paying("writer", times=3)
    lead = agent("lead", calls("writer", input="go"), says("Done."), below=[child], budget=us.Budget(prices=PRICES))

    outcome: us.Outcome = lead.run("go", system=here)
    for number in range(3):
        waits = paused(outcome)
        assert waits.usage.total_tokens == 10 * (2 + number) == 10 * calls_of(lead, child)
        outcome = lead.resume(waits.token, us.Approve(), system=there)

    assert calls_of(lead, child) == 6
    assert finished(outcome).usage.total_tokens == 60
    assert outcome.cost_usd == pytest.approx(60e-6)  # pyright: ignore[reportUnknownMemberType]


def test_children_that_pause_side_by_side_and_go_on_one_by_one_are_counted_once(systems: Systems) -> None:
    here, there = systems
    one, two, three = paying("one"), paying("two"), agent("three", says("done"))
    asks = calls("one", input="go") + calls("two", input="go") + calls("three", input="go")
    lead = agent("lead", asks, says("Done."), below=[one, two, three])

    first = paused(lead.run("go", system=here))
    second = paused(lead.resume(first.token, {first.pauses[0].id: us.Approve()}, system=there))
    outcome = finished(lead.resume(second.token, us.Approve(), system=there))

    assert first.usage.total_tokens == 40
    assert second.usage.total_tokens == 50
    assert outcome.usage.total_tokens == 70 == 10 * calls_of(lead, one, two, three)


def test_a_grandchild_is_counted_at_every_level_once(systems: Systems) -> None:
    here, there = systems
    bottom = paying("bottom", times=2)
    middle = agent("middle", calls("bottom", input="go"), says("ok"), below=[bottom])
    top = agent("top", calls("middle", input="go"), says("Done."), below=[middle])

    waits = paused(top.run("go", system=here))
    again = paused(top.resume(waits.token, us.Approve(), system=there))
    outcome = finished(top.resume(again.token, us.Approve(), system=there))

    assert (waits.usage.total_tokens, again.usage.total_tokens) == (30, 40)
    assert outcome.usage.total_tokens == 70 == 10 * calls_of(top, middle, bottom)


def test_a_child_that_went_on_from_a_pause_is_held_to_the_budget_of_the_run_around_it(systems: Systems) -> None:
    here, there = systems
    child = paying("writer", times=2)
    limits = us.Budget(total_tokens=25)
    lead = agent("lead", calls("writer", input="go"), says("Done."), below=[child], budget=limits)

    waits = paused(lead.run("go", system=here))
    with pytest.raises(us.BudgetExceeded) as caught:
        lead.resume(waits.token, us.Approve(), system=there)

    assert (caught.value.what, caught.value.spent, caught.value.inherited) == ("total_tokens", 30, False)
    assert calls_of(lead, child) == 3
    again = paused(lead.resume(caught.value.token, budget=us.Budget(total_tokens=100), system=there))
    outcome = finished(lead.resume(again.token, us.Approve(), system=there))
    assert outcome.usage.total_tokens == 50 == 10 * calls_of(lead, child)
    assert [result.content for result in results_of(outcome)] == ["writer is done"]


def test_a_budget_can_be_raised_with_the_answer_and_the_child_goes_on(systems: Systems) -> None:
    here, there = systems
    child = paying("writer")
    limits = us.Budget(total_tokens=25)
    lead = agent("lead", calls("writer", input="go"), says("Done."), below=[child], budget=limits)

    waits = paused(lead.run("go", system=here))
    outcome = lead.resume(waits.token, us.Approve(), budget=us.Budget(total_tokens=100), system=there)

    assert [result.content for result in results_of(finished(outcome))] == ["writer is done"]
    assert outcome.usage.total_tokens == 40


def test_a_budget_of_one_run_is_kept_over_its_pauses(systems: Systems) -> None:
    here, there = systems
    clerk = agent("clerk", calls("pay", cents=1), says("Done."), tools=[pay])

    waits = paused(clerk.run("go", system=here, budget=us.Budget(turns=1)))
    with pytest.raises(us.BudgetExceeded) as caught:
        clerk.resume(waits.token, us.Approve(), system=there)

    assert clerk.resume(caught.value.token, budget=us.Budget(turns=2), system=there).text == "Done."


def test_a_child_that_meets_the_budget_above_leaves_the_run_a_token_also_where_errors_of_tools_end_runs(
    systems: Systems,
) -> None:
    here, there = systems
    child = agent(
        "writer", calls("look"), says("ok"), tools=[us.Tool(lambda: "seen", name="look", description="Look.")]
    )
    lead = agent(
        "lead", calls("writer", input="go"), says("Done."), below=[child], budget=us.Budget(total_tokens=20)
    ).replace(on_tool_error="raise")

    with pytest.raises(us.BudgetExceeded) as caught:
        lead.run("go", system=here)

    outcome = lead.resume(caught.value.token, budget=us.Budget(total_tokens=100), system=there)
    assert finished(outcome).usage.total_tokens == 40 == 10 * calls_of(lead, child)


# --- artifacts


def test_what_was_too_long_for_the_model_is_there_after_a_pause(systems: Systems) -> None:
    here, there = systems
    read = calls("read_artifact", id="artifact-1", offset=len(LONG) - 7)
    turns = (calls("pages"), calls("pay", cents=1), read, calls("pages"), says("Done."))
    clerk = agent("clerk", *turns, tools=[pages, pay, us.read_artifact])

    waits = paused(clerk.run("go", system=here))
    outcome = finished(clerk.resume(waits.token, us.Approve(), system=there))

    assert [artifact.text for artifact in outcome.artifacts.values()] == [LONG, LONG]
    assert list(outcome.artifacts) == ["artifact-1", "artifact-2"]
    assert results_of(outcome)[2].content.endswith("]\nbc\nabc\n")


def test_a_child_reads_what_it_was_too_long_for_before_it_paused(systems: Systems) -> None:
    here, there = systems
    read = calls("read_artifact", id="artifact-1", offset=len(LONG) - 4)
    turns = (calls("pages"), calls("pay", cents=1), read, says("ok"))
    child = agent("writer", *turns, tools=[pages, pay, us.read_artifact])
    lead = agent("lead", calls("writer", input="go"), says("Done."), below=[child])

    waits = paused(lead.run("go", system=here))
    finished(lead.resume(waits.token, us.Approve(), system=there))

    assert isinstance(child.model, ScriptedModel)
    assert child.model.requests[3].tool_results[0].content.endswith("]\nabc\n")


def test_another_process_goes_on_with_all_that_a_run_and_those_inside_have(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    read = calls("read_artifact", id="artifact-1", offset=len(LONG) - 4)
    child = agent(
        "writer", calls("pages"), calls("pay", cents=1), read, says("ok"), tools=[pages, pay, us.read_artifact]
    )
    turns = (calls("pages"), calls("writer", input="go"), says("Done."))
    lead = agent("lead", *turns, tools=[pages], below=[child], memory=us.InMemoryMemory(), budget=us.Budget(turns=7))
    with us.ActorSystem("shop", store=url) as here:
        waits = paused(lead.run("go", system=here, conversation_id="c-42"))

    def elsewhere() -> None:
        with us.ActorSystem("shop", store=url) as there:
            outcome = finished(lead.resume(waits.token, us.Approve(), system=there))
        assert isinstance(child.model, ScriptedModel)
        assert child.model.requests[3].tool_results[0].content.endswith("]\nabc\n")
        assert [artifact.text for artifact in outcome.artifacts.values()] == [LONG]
        assert outcome.usage.total_tokens == 70 == 10 * calls_of(lead, child)
        assert isinstance(lead.memory, us.Memory) and said(lead.memory) == ["go", "", "", "", "", "Done."]

    in_child(elsewhere)
    assert isinstance(lead.memory, us.Memory) and said(lead.memory) == []


# --- memory


def said(memory: us.Memory, id: str = "c-42") -> list[str]:
    return [message.text for message in memory.load(us.ConversationKey("shop", "default", id))]


def test_a_child_that_pauses_twice_leaves_one_turn_in_the_conversation_of_the_run_around_it(systems: Systems) -> None:
    here, there = systems
    memory, own = us.InMemoryMemory(), us.InMemoryMemory()
    child = paying("writer", times=2).replace(memory=own)
    lead = agent("lead", calls("writer", input="go"), says("Done."), below=[child], memory=memory)

    waits = paused(lead.run("go", system=here, conversation_id="c-42"))
    again = paused(lead.resume(waits.token, us.Approve(), system=there))
    assert said(memory) == []
    lead.resume(again.token, us.Approve(), system=there)

    assert said(memory) == ["go", "", "", "Done."]
    assert said(own) == []


def test_a_child_whose_memory_is_that_of_the_run_around_it_takes_no_part_in_the_conversation(systems: Systems) -> None:
    here, there = systems
    memory = us.InMemoryMemory()
    child = paying("writer").replace(memory=memory)
    lead = agent("lead", calls("writer", input="go"), says("Done."), below=[child], memory=memory)

    waits = paused(lead.run("go", system=here, conversation_id="c-42"))
    lead.resume(waits.token, us.Approve(), system=there, timeout=WAIT)

    assert said(memory) == ["go", "", "", "Done."]


def test_a_turn_that_paused_twice_is_stored_once_after_what_came_between(systems: Systems) -> None:
    here, there = systems
    memory = us.InMemoryMemory()
    clerk = agent("clerk", calls("pay", cents=1), says("B"), calls("pay", cents=2), says("Done."), tools=[pay])
    clerk = clerk.replace(memory=memory)

    waits = paused(clerk.run("a", system=here, conversation_id="c-42"))
    finished(clerk.run("b", system=there, conversation_id="c-42"))
    again = paused(clerk.resume(waits.token, us.Approve(), system=there))
    clerk.resume(again.token, us.Approve(), system=there)

    assert said(memory) == ["b", "B", "a", "", "", "", "", "Done."]


def test_the_turn_that_is_stored_ends_with_the_text_that_a_callback_gave(systems: Systems) -> None:
    here, there = systems
    memory = us.InMemoryMemory()

    class Nicer(us.AgentCallback):
        def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
            return us.OverrideResponse("Nicer.") if turn.text == "Rude." else us.Continue()

    clerk = agent("clerk", calls("pay", cents=1), says("Rude."), tools=[pay], memory=memory)
    clerk = clerk.replace(callbacks=[Nicer()])

    waits = paused(clerk.run("a", system=here, conversation_id="c-42"))
    outcome = finished(clerk.resume(waits.token, us.Approve(), system=there))

    assert (outcome.text, said(memory)) == ("Nicer.", ["a", "", "", "Nicer."])


def test_temporary_values_of_the_run_around_it_are_in_no_text_of_a_child() -> None:
    store = DictStore()

    def mark(ctx: us.ToolContext) -> str:
        """Mark."""
        ctx.session["temp:secret"] = "hush"
        ctx.session["word"] = "kept"
        return "marked"

    child = agent("writer", calls("mark"), calls("pay", cents=1), says("ok"), tools=[mark, pay])
    lead = agent("lead", calls("mark"), calls("writer", input="go"), says("Done."), tools=[mark], below=[child])
    with us.ActorSystem("shop", store=store) as system:
        waits = paused(lead.run("go", system=system, session={"temp:given": "hush"}))
        texts = [run.payload for run in store.runs.values()]
        outcome = finished(lead.resume(waits.token, us.Approve(), system=system))

    assert texts and not any("hush" in text for text in texts)
    assert outcome.session == {"word": "kept"}


def test_a_run_at_its_budget_is_stored_in_its_conversation_once_and_after_it_went_on(systems: Systems) -> None:
    here, there = systems
    memory = us.InMemoryMemory()
    child = agent("writer", says("ok"))
    lead = agent("lead", calls("writer", input="go"), says("Done."), below=[child], memory=memory)

    with pytest.raises(us.BudgetExceeded) as caught:
        lead.run("go", system=here, conversation_id="c-42", budget=us.Budget(turns=2))
    assert said(memory) == []
    lead.resume(caught.value.token, budget=us.Budget(turns=3), system=there)

    assert said(memory) == ["go", "", "", "Done."]


def test_time_in_line_for_a_conversation_is_not_spent_and_counts_against_a_timeout(systems: Systems) -> None:
    here, there = systems
    memory, gate = us.InMemoryMemory(), threading.Event()

    def wait() -> str:
        """Wait."""
        assert gate.wait(WAIT)
        return "waited"

    clerk = agent("clerk", calls("pay", cents=1), says("Done."), tools=[pay], memory=memory)
    other = agent("other", calls("wait"), says("ok"), tools=[wait], memory=memory)
    first = paused(clerk.run("a", system=here, conversation_id="c-42"))
    held = other.submit("b", system=there, conversation_id="c-42")
    eventually(lambda: held.status().doing == "running tool wait", "the other run holds the conversation")

    with pytest.raises(us.RunTimedOut):
        clerk.resume(first.token, us.Approve(), system=there, timeout=0.1)
    gate.set()
    held.result(WAIT)

    assert said(memory) == ["b", "", "", "ok"]
    assert calls_of(clerk) == 1
    with pytest.raises(us.TokenUsed):
        clerk.resume(first.token, us.Approve(), system=there)


def test_a_typed_answer_by_a_tool_is_a_turn_that_the_next_run_knows(systems: Systems) -> None:
    here, there = systems
    memory = us.InMemoryMemory()
    model = ScriptedModel([calls("pay", cents=1), calls("final_answer", cents=1), calls("final_answer", cents=2)])
    judge = us.Agent("judge", model=model, tools=[pay], output_type=Cents, output_mode="tool", memory=memory)

    waits = needs_approval(judge.run("a", system=here, conversation_id="c-42"))
    first = judge.resume(waits.token, us.Approve(), system=there)
    second = judge.run("b", system=there, conversation_id="c-42")

    assert (first.output, second.output) == (Cents(1), Cents(2))
    known = model.requests[2].messages
    assert [message.role for message in known] == ["user", "assistant", "user", "assistant", "user", "user"]
    assert known[4].tool_results[0].content == "Taken as the final answer."


def test_an_abort_after_a_pause_leaves_the_conversation_as_it_was(systems: Systems) -> None:
    here, there = systems
    memory = us.InMemoryMemory()
    rail = us.OutputGuardrail("never", lambda ctx, text: "never")
    clerk = agent("clerk", calls("pay", cents=1), says("Done."), tools=[pay], memory=memory)
    clerk = clerk.replace(callbacks=[rail])

    waits = paused(clerk.run("a", system=here, conversation_id="c-42"))
    with pytest.raises(us.CallbackAbort):
        clerk.resume(waits.token, us.Approve(), system=there)

    assert said(memory) == []
    assert finished(agent("other", says("B"), memory=memory).run("b", system=there, conversation_id="c-42")).text == "B"


# --- time


class Clock:
    """Stands in for the module `time` where runs begin and end."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_no_level_spends_the_seconds_for_which_a_person_is_waited_for(
    systems: Systems, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = systems
    clock = Clock()
    monkeypatch.setattr(record, "time", clock)

    def work() -> str:
        """Work."""
        clock.now += 3.0
        return "worked"

    turns = (calls("work"), calls("pay", cents=1), calls("work"), says("ok"))
    child = agent("writer", *turns, tools=[work, pay], budget=us.Budget(seconds=10))
    lead = agent("lead", calls("writer", input="go"), says("Done."), below=[child], budget=us.Budget(seconds=6))

    waits = paused(lead.run("go", system=here))
    clock.now += 10_000.0
    with pytest.raises(us.BudgetExceeded) as caught:
        lead.resume(waits.token, us.Approve(), system=there)
    clock.now += 10_000.0
    outcome = lead.resume(caught.value.token, budget=us.Budget(seconds=7), system=there)

    assert (caught.value.what, caught.value.spent, caught.value.inherited) == ("seconds", 6.0, False)
    assert finished(outcome).text == "Done."


# --- groups below


def test_a_group_below_goes_on_with_what_its_children_have_and_spent(systems: Systems) -> None:
    here, there = systems
    read = calls("read_artifact", id="artifact-1", offset=len(LONG) - 4)
    one = agent("one", calls("pages"), calls("pay", cents=1), read, says("A"), tools=[pages, pay, us.read_artifact])
    two = paying("two")
    panel = us.ParallelAgent("panel", [one, two])
    lead = agent("lead", calls("panel", input="go"), says("Done."), below=[panel])

    waits = paused(lead.run("go", system=here))
    outcome = finished(lead.resume(waits.token, us.Approve(), system=there))

    assert isinstance(one.model, ScriptedModel)
    assert one.model.requests[3].tool_results[0].content.endswith("]\nabc\n")
    assert waits.usage.total_tokens == 40
    assert outcome.usage.total_tokens == 80 == 10 * calls_of(lead, one, two)


def test_a_group_below_that_meets_the_budget_above_leaves_the_run_a_token(systems: Systems) -> None:
    here, there = systems
    one, two = agent("one", says("A")), agent("two", says("B"))
    steps = us.SequentialAgent("steps", [one, two])
    lead = agent("lead", calls("steps", input="go"), says("Done."), below=[steps]).replace(on_tool_error="raise")

    with pytest.raises(us.BudgetExceeded) as caught:
        lead.run("go", system=here, budget=us.Budget(turns=2))
    outcome = lead.resume(caught.value.token, budget=us.Budget(turns=4), system=there)

    assert finished(outcome).usage.total_tokens == 40 == 10 * calls_of(lead, one, two)
