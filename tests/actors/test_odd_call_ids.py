"""Ids of calls, which the model chooses: whatever is in one, the run is written, and another process goes on with it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

import understudy as us
from tests.support.killing import Effects, killed
from tests.support.scripts import WAIT, contents_of, finished
from tests.support.shelf import Shelf, take
from understudy.testing import says

LONG = "".join([f"{number * 40_503 % 65_536:04x}" for number in range(5000)])  # some models put a signature into ids
ODD = {"NUL": "\0", "long": LONG, "slashes": "/%/"}


def caller(id: str, tool: us.Tool[..., object], asked: list[us.ToolCall], *sub_agents: us.Agent) -> us.Agent:
    """Return an agent that makes all calls in one turn, one after another, and says what it was told."""

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        told = request.messages[-1].tool_results
        return says("; ".join([result.content for result in told])) if told else us.ModelTurn(tuple(asked))

    model = us.FunctionModel(next_turn)
    return us.Agent(id, model=model, tools=[tool], sub_agents=sub_agents, max_parallel_calls=1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_killed_run_goes_on_whatever_the_ids_of_its_calls_are(odd: str, url: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path / "effects", deadly=3)

    @us.tool(idempotent=True, max_result=100)
    def act(ctx: us.ToolContext, word: str) -> str:
        """Act."""
        ctx.session[f"app:{word}"] = True
        effects.note(word)
        return word * 200

    inner = [us.ToolCall(f"{word}{odd}", "act", {"word": word}) for word in "bc"]
    outer = [us.ToolCall(f"a{odd}", "act", {"word": "a"}), us.ToolCall(f"x{odd}", "clerk", {"input": "go"})]
    lead = caller("lead", act, outer, caller("clerk", act, inner))
    assert killed(lambda: lead.run("go", system=us.ActorSystem("shop", store=url)))
    effects.deadly = 0

    with us.ActorSystem("shop", store=url) as system:
        (handle,) = system.recover(runners=[lead])
        outcome = finished(handle.result(timeout=WAIT))

    assert Counter(effects.noted) == {"a": 1, "b": 1, "c": 2}
    assert outcome.session == {"app:a": True, "app:b": True, "app:c": True}
    assert [call.id for message in outcome.messages for call in message.tool_calls] == [call.id for call in outer]
    assert [artifact.call_id for artifact in outcome.artifacts.values()] == [f"a{odd}"]


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_what_a_tool_did_is_committed_with_its_result_whatever_the_id_of_its_call_is(odd: str, url: str) -> None:
    shelf = Shelf(url)

    @us.tool(transactional=True)
    def book(ctx: us.ToolContext) -> str:
        """Take a bell."""
        with ctx.transaction() as sql:
            take(sql)
        ctx.session["app:booked"] = True
        return "booked"

    with shelf.system() as system:
        outcome = finished(caller("clerk", book, [us.ToolCall(f"a{odd}", "book", {})]).run("go", system=system))

    assert contents_of(outcome) == ["booked"]
    assert (shelf.units, outcome.session) == (6, {"app:booked": True})
