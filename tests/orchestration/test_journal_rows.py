"""The rows of an agent's run: what is put together from them is the run, with calls that were under way in doubt."""

from __future__ import annotations

import json
import random

import pytest

from understudy import Agent, ModelTurn, TextPart, ToolCall, ToolResult
from understudy.orchestration import AgentRun
from understudy.orchestration.agent.steps import CallModel, CallTools, Done
from understudy.orchestration.journal.agent_rows import machine_of, rows_of, rows_of_result
from understudy.orchestration.journal.heads import head_of
from understudy.orchestration.journal.places import LONGEST_NAME, name_of, place_of_call
from understudy.orchestration.journal.put_together import without_saved
from understudy.orchestration.journal.rows import HEAD, MESSAGE, JournalRow, Written
from understudy.orchestration.journal.session_changes import SessionChange, change_text, changes_in, with_changes
from understudy.orchestration.saving.saved_run import SavedRun
from understudy.providers import ScriptedModel
from understudy.vocabulary.messages import JsonValue
from understudy.vocabulary.runs.outcomes import Approve


def act(word: str) -> str:
    """Act."""
    return word


AGENT = Agent("clerk", model=ScriptedModel([]), tools=[act], max_iterations=100, max_turns=100)


class Journal:
    """Keeps the rows of a run, as a store does."""

    def __init__(self, run: AgentRun) -> None:
        self.run = run
        self.rows: dict[tuple[str, str], str] = {}
        self.new: list[JournalRow] = []
        self._written = Written()

    def write(self, *begins: ToolCall) -> None:
        self.new, self._written = rows_of(self.run.state, self.run.spec, self._written, begins)
        self.rows.update({(row.kind, row.key): row.body for row in self.new})

    def loaded(self, *, repeats: bool = False) -> AgentRun:
        return AgentRun.from_json(machine_of(self.rows, {"act": repeats}), self.run.spec)


def calling(*ids: str) -> ModelTurn:
    return ModelTurn(tuple([ToolCall(id, "act", {"word": id * 300}) for id in ids]))


@pytest.mark.parametrize("seed", range(40))
def test_a_run_that_writes_at_any_step_is_put_together_as_it_is(seed: int) -> None:
    chance = random.Random(seed)
    run = AgentRun(AGENT.run_spec, "go")
    journal = Journal(run)
    while True:
        step = run.next_step()
        if isinstance(step, Done):
            break
        if isinstance(step, CallModel):
            ids = [f"{run.state.turns}/{n}" for n in range(chance.randint(0, 3))]
            run.model_response(calling(*ids) if ids else ModelTurn((TextPart("done"),)))
        else:
            assert isinstance(step, CallTools)
            some = chance.sample(step.calls, chance.randint(1, len(step.calls)))
            run.tool_results([ToolResult(call.id, f"did {call.id}") for call in some])
        if chance.random() < 0.6:
            journal.write()
            assert json.loads(journal.loaded().to_json()) == json.loads(run.to_json())


def test_a_step_of_a_long_run_writes_no_more_than_one_of_a_short_run() -> None:
    run = AgentRun(AGENT.run_spec, "go")
    journal, sizes = Journal(run), list[int]()
    for turn in range(60):
        run.next_step()
        run.model_response(calling(f"{turn:03}"))
        run.next_step()
        run.tool_results([ToolResult(f"{turn:03}", "y" * 5_000)])
        journal.write()
        sizes.append(sum([len(row.body) for row in journal.new]))

    assert max(sizes[10:]) <= max(sizes[1:10]) + 20  # numbers with one digit more


def test_a_result_that_was_written_is_named_by_its_message_and_not_repeated() -> None:
    run = AgentRun(AGENT.run_spec, "go")
    journal = Journal(run)
    run.next_step()
    run.model_response(calling("a", "b"))
    run.next_step()
    run.tool_results([ToolResult("a", "x" * 5_000)])
    journal.write()
    run.tool_results([ToolResult("b", "short")])
    journal.write()

    assert [len(row.body) < 500 for row in journal.new if row.kind == MESSAGE] == [True]
    assert journal.loaded().to_json() == run.to_json()


def at_calls(*ids: str) -> tuple[Journal, CallTools]:
    """Return the journal of a run that is about to make these calls."""
    run = AgentRun(AGENT.run_spec, "go")
    journal = Journal(run)
    run.next_step()
    run.model_response(calling(*ids))
    step = run.next_step()
    assert isinstance(step, CallTools)
    return journal, step


def test_a_call_that_began_and_has_no_result_is_in_doubt_and_waits_for_a_decision() -> None:
    journal, step = at_calls("a", "b")
    first, second = step.calls
    journal.write(first)

    loaded = journal.loaded()

    assert loaded.in_doubt == (first,)
    assert loaded.next_step() == CallTools((second,))
    loaded.tool_results([ToolResult("b", "did b")])
    loaded.decisions({"a": Approve()})
    assert not loaded.in_doubt
    assert loaded.next_step() == CallTools((first,))


def test_a_call_that_began_is_due_again_if_its_tool_may_be_repeated() -> None:
    journal, step = at_calls("a")
    journal.write(*step.calls)

    assert journal.loaded(repeats=True).next_step() == step


def test_calls_that_began_stay_in_doubt_while_results_of_others_come() -> None:
    journal, step = at_calls("a", "b", "c")
    journal.write(*step.calls[:2])
    journal.run.tool_results([ToolResult("a", "did a")])
    journal.write()

    assert [call.id for call in journal.loaded().in_doubt] == ["b"]
    assert journal.loaded().next_step() == CallTools(step.calls[2:])


def test_calls_that_began_in_one_round_are_not_in_doubt_in_the_next_one() -> None:
    journal, step = at_calls("a")
    journal.write(*step.calls)
    journal.run.tool_results([ToolResult("a", "did a")])
    journal.run.next_step()
    journal.run.model_response(calling("a"))
    journal.write()

    assert not journal.loaded().in_doubt


def closed(*ids: str) -> Journal:
    """Return the journal of a run whose calls began and are done, with the head of their beginning and what came then."""
    journal, step = at_calls(*ids)
    journal.write(*step.calls)
    journal.run.tool_results([ToolResult(id, f"did {id}", name="act") for id in ids])
    journal.run.state.seconds += 1.5
    return journal


def test_a_round_that_is_done_writes_its_message_alone_and_the_run_is_put_together_as_it_is() -> None:
    journal = closed("a", "b")
    journal.write()

    assert [row.kind for row in journal.new] == [MESSAGE]
    assert journal.loaded().to_json() == journal.run.to_json()


def test_the_message_that_closes_a_round_names_the_results_that_stand_in_rows() -> None:
    run, written, rows = with_two_calls()
    run.tool_results([written.results["a"], ToolResult("b", "did b", name="act")])

    later, _ = rows_of(run.state, run.spec, written)
    rows |= {(row.kind, row.key): row.body for row in later}

    assert [(row.kind, "did a" in row.body, "did b" in row.body) for row in later] == [(MESSAGE, False, True)]
    assert AgentRun.from_json(machine_of(rows, {}), run.spec).to_json() == run.to_json()
    assert changes_in(rows) == []


def test_the_message_that_closes_a_round_names_the_next_event_and_leaves_no_call_in_doubt() -> None:
    journal, step = at_calls("a")
    run = journal.run
    rows, written = rows_of(run.state, run.spec, Written(), step.calls, events=3)
    run.tool_results([ToolResult("a", "did a")])
    later, _ = rows_of(run.state, run.spec, written, events=5)

    head = head_of({(row.kind, row.key): row.body for row in [*rows, *later]})

    assert (head.events, head.begun) == (5, frozenset())


@pytest.mark.parametrize("field", ["iterations", "tool_calls", "rejections"])
def test_a_round_after_which_more_has_changed_writes_a_head(field: str) -> None:
    journal = closed("a")
    if field == "tool_calls":
        journal.run.account.charge(tool_calls=1)
    else:
        setattr(journal.run.state, field, getattr(journal.run.state, field) + 1)

    journal.write()

    assert {row.kind for row in journal.new} == {HEAD, MESSAGE}
    assert journal.loaded().to_json() == journal.run.to_json()


def test_a_run_goes_on_after_a_round_that_its_message_closed() -> None:
    journal = closed("a")
    journal.write()
    journal.run.next_step()
    journal.run.model_response(calling("b"))
    journal.run.next_step()
    journal.write(*calling("b").tool_calls)

    assert {row.kind for row in journal.new} == {HEAD, MESSAGE}
    assert [call.id for call in journal.loaded().in_doubt] == ["b"]


OLD_HEAD = (
    '{"events":3,"begun":["a"],"machine":{"format":1,"fingerprint":"","state":{"all_turns":1,"tool_calls":1,"start":0,'
    '"max_iterations":100,"max_turns":100,"max_continues":3,"phase":"tools","turns":1,"iterations":1,"round":{"admitted":true}}}}'
)


def test_a_head_that_does_not_count_its_messages_is_read_as_before() -> None:
    journal, step = at_calls("a")
    journal.write(*step.calls)
    journal.rows[HEAD, ""] = OLD_HEAD

    assert [call.id for call in journal.loaded().in_doubt] == ["a"]
    assert head_of(journal.rows).events == 3


def test_the_head_names_the_next_event_and_repeats_no_call_that_the_last_message_has() -> None:
    journal, step = at_calls("a" * 300)
    journal.new, _ = rows_of(journal.run.state, journal.run.spec, Written(), step.calls, events=7)
    rows = {(row.kind, row.key): row.body for row in journal.new}

    assert head_of(rows).events == 7
    assert '"word"' not in rows[HEAD, ""]


def test_arguments_that_a_person_changed_are_kept() -> None:
    journal, step = at_calls("a", "b")
    journal.write(step.calls[0])
    later = Journal(journal.loaded())
    later.run.decisions({"a": Approve({"word": "mended"})})
    later.write()

    due = later.loaded().next_step()

    assert isinstance(due, CallTools)
    assert [call.arguments["word"] for call in due.calls] == ["mended", "b" * 300]


def test_what_is_known_of_a_call_in_doubt_is_its_result_or_makes_it_due_again() -> None:
    journal, step = at_calls("a", "b")
    journal.write(*step.calls)
    loaded = journal.loaded()

    loaded.reconcile({"a": ToolResult("a", "was done"), "b": None})

    assert loaded.next_step() == CallTools((step.calls[1],))
    loaded.tool_results([ToolResult("b", "did b")])
    assert [result.content for result in loaded.messages[-1].tool_results] == ["was done", "did b"]


def test_a_run_knows_which_values_it_stored_and_which_it_has_changed_since() -> None:
    run = SavedRun(
        run_id="shop-1",
        runner_id="clerk",
        input="go",
        machine="",
        session={"stored": 1, "changed": 2},
        seen={"stored": 5, "other": 7},
        unsaved=("stored", "changed", "removed"),
    )

    known = without_saved(run, {"stored": (6, 1, False), "changed": (8, 1, False), "removed": (9, None, True)})

    assert known.unsaved == ("changed",)
    assert known.seen == {"stored": 6, "changed": 8, "removed": 9, "other": 7}


def test_rows_without_a_head_or_a_message_are_no_run() -> None:
    run = AgentRun(AGENT.run_spec, "go")
    journal = Journal(run)
    journal.write()

    for missing in ((HEAD, ""), (MESSAGE, "0")):
        with pytest.raises((KeyError, ValueError)):
            machine_of({key: body for key, body in journal.rows.items() if key != missing}, {})


LONG = "x" * 5000


@pytest.mark.parametrize(
    ("one", "other"),
    [("a/b", "a%2Fb"), ("a", "a/"), ("1.a", "a"), ("a\0", "a"), (LONG, f"{LONG}x"), (name_of(LONG), LONG)],
)
def test_no_two_calls_have_one_place(one: str, other: str) -> None:
    assert place_of_call(1, one) != place_of_call(1, other)
    assert "/" not in place_of_call(1, one)


@pytest.mark.parametrize("id", [LONG, "\0", "a\0b", "\u00e9" * LONGEST_NAME, "\ud83d"])
def test_a_name_is_short_and_can_be_kept_by_every_database(id: str) -> None:
    name = name_of(id)

    assert len(name.encode()) <= LONGEST_NAME
    assert "\0" not in name


def test_an_id_that_every_database_can_keep_is_its_own_name() -> None:
    assert [name_of(id) for id in ("call_1", "\u00e9", "x" * LONGEST_NAME)] == ["call_1", "\u00e9", "x" * LONGEST_NAME]


def with_two_calls() -> tuple[AgentRun, Written, dict[tuple[str, str], str]]:
    """Return a run with two calls under way, of which one is done and written with its change of the session."""
    run = AgentRun(AGENT.run_spec, "go")
    run.next_step()
    run.model_response(calling("a", "b"))
    step = run.next_step()
    assert isinstance(step, CallTools)
    rows, written = rows_of(run.state, run.spec, Written(), step.calls)
    early, written = rows_of_result(run.state, written, ToolResult("a", "did a", name="act"), change_text({"k": 1}, ()))
    return run, written, {(row.kind, row.key): row.body for row in [*rows, *early]}


def test_a_call_that_is_done_while_another_one_runs_has_its_result_and_its_change() -> None:
    run, _, rows = with_two_calls()

    loaded = AgentRun.from_json(machine_of(rows, {}), run.spec)

    assert [call.id for call in loaded.in_doubt] == ["b"]
    assert changes_in(rows) == [({"k": 1}, frozenset())]


def test_a_change_that_the_session_has_is_not_made_again() -> None:
    run, written, rows = with_two_calls()
    result = ToolResult("a", "did a", name="act")
    run.tool_results([result])

    for before in (written, Written()):  # of this process, and of one that goes on
        later, after = rows_of(run.state, run.spec, before)

        assert changes_in(rows | {(row.kind, row.key): row.body for row in later}) == []
        assert after.changes == frozenset()


@pytest.mark.parametrize(
    ("is_inner", "session", "removed", "unsaved"),
    [(True, {"b": 2}, ("a", "c"), ()), (False, {"b": 2}, (), ("a", "b", "c"))],
)
def test_changes_are_put_into_the_saved_run_in_order(
    is_inner: bool, session: dict[str, JsonValue], removed: tuple[str, ...], unsaved: tuple[str, ...]
) -> None:
    saved = SavedRun(
        run_id="r-1", runner_id="clerk", input="go", machine="", session={"a": 0}, removed=("b",) if is_inner else ()
    )
    changes = [SessionChange({"a": 1, "b": 2}, frozenset({"c"})), SessionChange({}, frozenset({"a"}))]

    after = with_changes(saved, changes, is_inner=is_inner)

    assert (after.session, after.removed, after.unsaved) == (session, removed, unsaved)
