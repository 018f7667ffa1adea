"""Faults that other agent runtimes had, each as a test named after what must not happen again."""

from __future__ import annotations

import pytest

import understudy as us
from tests.support.scripts import finished, needs_input, results_of
from understudy.testing import ScriptedModel, calls, says


def look(word: str) -> str:
    return f"{word} is in line 7"


def test_a_run_without_criteria_does_not_loop_to_its_cap() -> None:
    model = ScriptedModel([says("Done."), says("Still here.")])

    outcome = finished(us.Agent("clerk", model=model, max_iterations=5).run("go"))

    assert (outcome.text, outcome.turns) == ("Done.", 1)


@pytest.mark.parametrize(
    "call",
    [
        us.ToolCall("c", "nobody", {}),
        us.ToolCall("c", "look", {"word": 7}),
        us.ToolCall("c", "look", {}),
        us.ToolCall("c", "fails", {}),
    ],
    ids=["unknown tool", "wrong type", "missing argument", "tool that raises"],
)
def test_a_call_that_cannot_be_made_neither_kills_the_run_nor_runs_with_other_arguments(call: us.ToolCall) -> None:
    asked: list[str] = []

    def look(word: str) -> str:
        asked.append(word)
        return word

    def fails() -> str:
        raise ValueError("no")

    model = ScriptedModel([us.ModelTurn((call,)), says("ok")])
    outcome = finished(us.Agent("clerk", model=model, tools=[look, fails]).run("go"))

    (result,) = results_of(outcome)
    assert (result.is_error, result.call_id, asked) == (True, "c", [])
    assert model.requests[1].tool_results == (result,)


class Override(us.AgentCallback):
    def after_model_call(self, ctx: us.RunContext, turn: us.ModelTurn) -> us.CallbackAction:
        ctx.session["seen"] = True
        return us.OverrideResponse("Ours.")


def test_an_overridden_text_is_not_kept_in_memory_and_the_turn_not_lost() -> None:
    memory = us.InMemoryMemory()
    session = us.SessionState()
    model = ScriptedModel([says("Theirs."), says("Again.")])
    agent = us.Agent("clerk", model=model, callbacks=[Override()], memory=memory)

    first = finished(agent.run("Hello", conversation_id="c", session=session))
    agent.run("And now?", conversation_id="c")

    assert (first.text, first.messages[-1].text, dict(session)) == ("Ours.", "Ours.", {"seen": True})
    assert [message.text for message in model.requests[1].messages] == ["Hello", "Ours.", "And now?"]


def test_a_resumed_run_does_not_lose_what_was_said_before_the_question() -> None:
    model = ScriptedModel([calls("look", word="tide"), says("__ask_user__: Which one?"), says("That one.")])
    agent = us.Agent("clerk", model=model, tools=[look])

    paused = needs_input(agent.run("Look"))
    agent.resume(paused.token, "The first")

    texts = [message.text for message in model.requests[-1].messages]
    assert texts[0] == "Look"
    assert texts[-1] == "The first"
    assert [call.name for call in model.requests[-1].messages[1].tool_calls] == ["look"]
    assert model.requests[-1].messages[2].tool_results[0].content == "tide is in line 7"


def test_a_memory_does_not_keep_the_final_text_alone() -> None:
    model = ScriptedModel([calls("look", word="tide"), says("Line 7."), says("Yes.")])
    agent = us.Agent("clerk", model=model, tools=[look], memory=us.InMemoryMemory())

    agent.run("Where?", conversation_id="c")
    agent.run("Sure?", conversation_id="c")

    asked, turn, results, answer, _ = model.requests[-1].messages
    assert (asked.text, turn.tool_calls[0].name, answer.text) == ("Where?", "look", "Line 7.")
    assert results.tool_results[0].content == "tide is in line 7"


def test_a_denied_runner_is_not_reached_through_one_that_is_allowed() -> None:
    secret = us.Agent("secret", model=ScriptedModel([says("the secret")]))
    middle_model = ScriptedModel([calls("secret", input="tell"), says("could not")])
    middle = us.Agent("middle", model=middle_model, sub_agents=[secret])
    lead_model = ScriptedModel([calls("middle", input="ask"), says("ok")])
    lead = us.Agent("lead", model=lead_model, sub_agents=[us.SubAgent(middle, deny=["secret"])])

    assert lead.run("go").text == "ok"

    (refused,) = middle_model.requests[1].tool_results
    assert (refused.is_error, "DisallowedAgentCall" in refused.content) == (True, True)
