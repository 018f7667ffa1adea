"""What a stored run is told to have done: its calls, those in doubt among them, and its pauses, without its definition."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from understudy import Agent, ModelTurn, ToolCall, ToolResult
from understudy.orchestration import AgentRun
from understudy.orchestration.journal.line_rows import Rows, append_row, definition_row
from understudy.orchestration.journal.places import place_of_call
from understudy.orchestration.journal.rows import RUN
from understudy.orchestration.journal.told_runs import pauses_in, told_of_rows, told_of_saved
from understudy.orchestration.runs.events import CallBegan, Migrated
from understudy.orchestration.saving.saved_run import SavedRun
from understudy.providers import ScriptedModel
from understudy.testing import says


def act(word: str) -> str:
    """Act."""
    return word


AGENT = Agent("clerk", model=ScriptedModel([]), tools=[act])
CALLS = tuple([ToolCall(id, "act", {"word": id}) for id in ("a", "b", "c")])


def at_second_round() -> AgentRun:
    """Return a run that has made one call, and whose model asks for three more, of which the first is done."""
    run = AgentRun(AGENT.run_spec, "go")
    run.next_step()
    run.model_response(ModelTurn((ToolCall("first", "act", {"word": "x"}),)))
    run.next_step()
    run.tool_results([ToolResult("first", "did x")])
    run.next_step()
    run.model_response(ModelTurn(CALLS))
    run.next_step()
    run.tool_results([ToolResult("a", "did a")])
    return run


def saved(run: AgentRun) -> SavedRun:
    return SavedRun(run_id="shop-1", runner_id="clerk", input="go", machine=run.to_json())


def rows_with_b_begun() -> Rows:
    run = at_second_round()
    line = append_row(0, [(0.0, Migrated(run.to_json(), "")), (0.0, CallBegan("b"))], 0)
    return {(row.kind, row.key): row.body for row in (definition_row(run.spec), line)} | {
        (RUN, ""): saved(run).to_json()
    }


def standings(runs: dict[str, Rows], *, driven: bool) -> list[tuple[str, str]]:
    told, *_ = told_of_rows(runs, driven=driven)
    return [(each.call.id, each.standing) for each in told.calls]


@pytest.mark.parametrize(("driven", "standing"), [(False, "in doubt"), (True, "under way")])
def test_a_call_that_began_is_in_doubt_unless_its_process_lives(driven: bool, standing: str) -> None:
    told = standings({"": rows_with_b_begun()}, driven=driven)

    assert told == [("first", "finished"), ("a", "finished"), ("b", standing), ("c", "open")]


def test_the_call_of_a_sub_agent_is_not_in_doubt_for_its_run_goes_on_inside() -> None:
    inner = rows_with_b_begun()

    outer, inside = told_of_rows({"": rows_with_b_begun(), f"/{place_of_call(2, 'b')}": inner}, driven=False)

    assert [each.standing for each in outer.calls] == ["finished", "finished", "open", "open"]
    assert (outer.path, inside.path) == (("clerk",), ("clerk", "clerk"))
    assert inside.calls[2].standing == "in doubt"


def test_a_run_that_waits_tells_its_calls_with_their_results() -> None:
    (told,) = told_of_saved(saved(at_second_round()))

    assert [(each.call.id, each.result and each.result.content) for each in told.calls] == [
        ("first", "did x"),
        ("a", "did a"),
        ("b", None),
        ("c", None),
    ]
    assert (told.run_id, told.turns) == ("shop-1", 2)


def test_a_call_without_a_result_has_the_key_that_its_tool_sees() -> None:
    (of_rows,), (of_saved,) = (
        told_of_rows({"": rows_with_b_begun()}, driven=False),
        told_of_saved(saved(at_second_round())),
    )

    for told in (of_rows, of_saved):
        assert [each.key for each in told.calls] == ["", "", "shop-1/2.b", "shop-1/2.c"]


def test_after_an_error_a_run_waits_for_no_person() -> None:
    run = AgentRun(AGENT.run_spec, "go")
    run.next_step()
    run.model_response(says("__ask_user__: Which?"))

    assert [pause.question for pause in pauses_in(saved(run))] == ["Which?"]
    assert pauses_in(replace(saved(run), by_error=True)) == ()


def test_a_run_without_rows_has_done_nothing() -> None:
    assert told_of_rows({"": {}}, driven=False) == []


@pytest.mark.parametrize("machine", ["", "[]", "{}", json.dumps({"state": 1}), json.dumps({"state": {"messages": 1}})])
def test_what_is_no_run_is_an_error(machine: str) -> None:
    broken = SavedRun(run_id="shop-1", runner_id="clerk", input="go", machine=machine)

    for read in (told_of_saved, pauses_in):
        with pytest.raises(ValueError, match="not a saved run"):
            read(broken)
