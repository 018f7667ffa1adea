"""The line of a run in rows: what is read of them is the run, with calls that were under way in doubt."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

import understudy as us
from tests.support.group_machines import ASKS
from understudy import Agent, ModelTurn, TextPart, ToolCall, ToolResult
from understudy.errors import ProtocolViolation
from understudy.orchestration import AgentRun
from understudy.orchestration.agent.steps import CallTools
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.graph.spec import GraphSpec, TaskSpec
from understudy.orchestration.group.parallel_run import ParallelRun
from understudy.orchestration.group.sequence_run import SequenceRun
from understudy.orchestration.group.spec import GroupSpec
from understudy.orchestration.journal.line_rows import (
    StoredLine,
    append_row,
    definition_row,
    fingerprint_of,
    put_in_doubt,
    stored_line,
    take_in,
)
from understudy.orchestration.journal.places import LONGEST_NAME, name_of, place_of_call
from understudy.orchestration.journal.put_together import with_changes, without_saved
from understudy.orchestration.journal.rows import DEFINITION, LINE
from understudy.orchestration.runs import events as e
from understudy.orchestration.runs.group_state import GroupLineState
from understudy.orchestration.runs.state import AgentLineState
from understudy.orchestration.saving.machines import Machine
from understudy.orchestration.saving.saved_run import SavedRun
from understudy.providers import ScriptedModel
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.messages import JsonValue, Usage
from understudy.vocabulary.runs.outcomes import Approve


def act(word: str) -> str:
    """Act."""
    return word


AGENT = Agent("clerk", model=ScriptedModel([]), tools=[act], max_iterations=100, max_turns=100)
SPEC = AGENT.run_spec


def with_spent(event: e.RunEvent, told: Spending | None) -> e.RunEvent:
    if not hasattr(event, "spent"):
        assert told is None
        return event
    spent = e.NOTHING if told is None else e.Spent(told.usage, told.cost, told.all_turns, told.tool_calls)
    return replace(event, spent=spent)  # type: ignore[type-var]


class Journal:
    """A live run, and the rows that it writes, as a store keeps them."""

    def __init__(self) -> None:
        self.account = Account("clerk", None, Spending())
        self.account.count_apart()
        self.state = AgentLineState(SPEC, account=self.account)
        definition = definition_row(SPEC)
        self.rows = {(definition.kind, definition.key): definition.body}
        self.sizes = list[int]()
        self._first = 0
        self.told = list[e.RunEvent]()
        self.tell(e.Accepted("clerk", "", "go"), e.Opened(system=""))

    @property
    def run(self) -> AgentRun:
        return self.state.running

    def tell(self, *events: e.RunEvent) -> None:
        for event in events:
            self.state.apply(event)
            self.told.append(with_spent(event, self.account.take_untold()))

    def write(self, next_event: int | None = 0) -> None:
        row = append_row(self._first, [(0.0, event) for event in self.told], next_event)
        self.rows |= {(row.kind, row.key): row.body}
        self.sizes.append(len(row.body))
        self._first += len(self.told)
        self.told.clear()

    def turn(self, *ids: str, tokens: int = 0) -> None:
        self.tell(e.TurnBegan(self.run.state.turns + 1))
        parts = tuple([ToolCall(id, "act", {"word": id * 30}) for id in ids]) or (TextPart("done"),)
        self.tell(e.TurnTaken(ModelTurn(parts, usage=Usage(tokens, 0))))
        if ids:
            self.tell(e.RoundBegan())

    def begin(self, *ids: str) -> None:
        self.tell(*[e.CallBegan(id) for id in ids])

    def result(self, id: str, content: str = "", changes: e.Changes | None = None) -> None:
        self.tell(e.ResultCame(ToolResult(id, content or f"did {id}", name="act"), changes))

    def read(self, *, repeats: bool = False) -> StoredLine:
        return put_in_doubt(stored_line(self.rows), {"act": repeats})

    def loaded(self, *, repeats: bool = False) -> AgentRun:
        return AgentRun.from_json(self.read(repeats=repeats).machine, SPEC)


@pytest.mark.parametrize("seed", range(40))
def test_a_run_that_writes_at_any_step_is_read_as_it_is(seed: int) -> None:
    chance, journal = random.Random(seed), Journal()
    for turn in range(8):
        ids = [f"{turn}/{n}" for n in range(chance.randint(0, 3))]
        journal.turn(*ids, tokens=chance.randint(0, 9))
        for id in chance.sample(ids, len(ids)):
            journal.result(id)
        if chance.random() < 0.6:
            journal.write()
            assert json.loads(journal.read().machine) == json.loads(journal.run.to_json())
        if not ids:
            break


def test_a_step_of_a_long_run_writes_no_more_than_one_of_a_short_run() -> None:
    journal = Journal()
    for turn in range(60):
        journal.turn(f"{turn:03}")
        journal.result(f"{turn:03}", "y" * 5_000)
        journal.write()

    assert max(journal.sizes[10:]) <= max(journal.sizes[1:10]) + 20  # numbers with one digit more


def at_calls(*ids: str, begun: str) -> Journal:
    """Return the journal of a run whose model asked for calls, some of which have begun."""
    journal = Journal()
    journal.turn(*ids)
    journal.begin(*begun)
    journal.write()
    return journal


def due(run: AgentRun) -> list[str]:
    step = run.next_step()
    assert isinstance(step, CallTools)
    return [call.id for call in step.calls]


def test_a_call_that_began_and_has_no_result_is_in_doubt_and_waits_for_a_decision() -> None:
    loaded = at_calls("a", "b", begun="a").loaded()

    assert [call.id for call in loaded.in_doubt] == ["a"]
    assert due(loaded) == ["b"]
    loaded.tool_results([ToolResult("b", "did b")])
    loaded.decisions({"a": Approve()})
    assert not loaded.in_doubt
    assert due(loaded) == ["a"]


def test_a_call_that_began_is_due_again_if_its_tool_may_be_repeated() -> None:
    assert due(at_calls("a", begun="a").loaded(repeats=True)) == ["a"]


def test_calls_that_began_stay_in_doubt_while_results_of_others_come() -> None:
    journal = at_calls("a", "b", "c", begun="ab")
    journal.result("a")
    journal.write(None)

    loaded = journal.loaded()

    assert [call.id for call in loaded.in_doubt] == ["b"]
    assert due(loaded) == ["c"]


def test_calls_that_began_in_one_round_are_not_in_doubt_in_the_next_one() -> None:
    journal = at_calls("a", begun="a")
    journal.result("a")
    journal.turn("a")
    journal.write()

    assert not journal.loaded().in_doubt


def test_the_line_of_a_stay_begins_with_the_state_that_the_run_had() -> None:
    before = at_calls("a", "b", begun="a").loaded()
    before.decisions({"a": Approve({"word": "mended"})})
    later = AgentLineState(SPEC, account=Account("clerk", None, Spending()))
    later.go_on_with(before)
    journal = Journal()
    journal.state, journal.told[:] = later, [e.Migrated(before.to_json(), "")]
    journal.result("b")
    journal.write()

    (only,) = [call for call in journal.loaded().state.round.pending()]  # type: ignore[union-attr]

    assert (only.id, only.arguments) == ("a", {"word": "mended"})


def test_what_is_known_of_a_call_in_doubt_is_its_result_or_makes_it_due_again() -> None:
    loaded = at_calls("a", "b", begun="ab").loaded()

    loaded.reconcile({"a": ToolResult("a", "was done"), "b": None})

    assert due(loaded) == ["b"]
    loaded.tool_results([ToolResult("b", "did b")])
    assert [result.content for result in loaded.messages[-1].tool_results] == ["was done", "did b"]


def figures(turns: int) -> e.Spent:
    return e.Spent(Usage(7 * turns, None), turns, turns)


def line_that_spent(turns: int, before: int = 0) -> StoredLine:
    """Return the line of a run that has spent `turns` in all, `before` of them in stays before."""
    run = AgentRun(SPEC, "go")
    if before:
        run.account.charge(Usage(7 * before, None), before, turns=before)
    events = [e.Migrated(run.to_json(), ""), e.Charged(figures(turns - before))]
    rows = (definition_row(SPEC), append_row(0, [(2.5, events[0]), (4.0, events[1])], 0))
    return stored_line({(row.kind, row.key): row.body for row in rows})


def test_what_a_run_has_spent_is_its_own_and_what_runs_inside_have_spent_there() -> None:
    lines = {"": line_that_spent(1), "/0": line_that_spent(20, before=10), "/0/1.c": line_that_spent(300)}
    lines["/1"] = line_that_spent(4000)

    take_in(lines)

    total = lines[""].state.account.spending
    assert (total.usage, total.cost, total.all_turns) == (Usage(7 * 4311, None), 4311, 4311)
    assert total.seconds == 1.5  # runs inside are active at the same time
    assert lines["/0"].state.account.spending.all_turns == 320
    assert json.loads(lines["/0"].machine)["state"]["all_turns"] == 320


def test_a_stay_that_spent_before_its_line_began_is_counted_from_its_beginning() -> None:
    run = AgentRun(SPEC, "go")
    run.account.charge(turns=3)
    rows = (definition_row(SPEC), append_row(0, [(0.0, e.Migrated(run.to_json(), "", e.Spent(turns=2)))], 0))

    line = stored_line({(row.kind, row.key): row.body for row in rows})

    assert (line.before.all_turns, line.state.account.spending.all_turns) == (1, 3)


def test_the_next_public_event_has_the_number_of_the_last_whole_append() -> None:
    journal = Journal()
    journal.turn("a", "b")
    journal.write(7)
    journal.result("a")
    journal.write(None)

    assert journal.read().next_event == 7


@pytest.mark.parametrize("ids", ["ab", "abc"])  # also if all calls of the round are done
def test_a_change_of_an_early_result_is_read_until_a_later_event_says_another_one(ids: str) -> None:
    journal = at_calls(*ids, begun=ids)
    one, other = e.Changes({"k": 1, "gone": 1}), e.Changes({"k": 2}, ("gone",))
    for id, changes in (("b", other), ("a", one)):
        journal.result(id, changes=changes)
        journal.write(None)

    assert journal.read().changes == e.Changes({"k": 2}, ("gone",))  # in call order
    assert [call.id for call in journal.loaded().in_doubt] == [*ids[2:]]
    journal.write(5)  # the run has not taken the results
    assert journal.read().changes == e.Changes({"k": 2}, ("gone",))
    for id in ids[2:]:
        journal.result(id)
    journal.tell(e.SessionChanged(e.Changes({"more": 3}, ("k",)), as_begun=("gone",)))
    journal.write(6)
    assert journal.read().changes == e.Changes({"more": 3}, ("k",))


def spec(size: int) -> GroupSpec:
    return GroupSpec(runner_id="panel", children=tuple([f"child {n}" for n in range(size)]), max_parallel=3)


def sequence(size: int) -> SequenceRun:
    return SequenceRun(spec(size), "Go \ud83d")  # half of a pair, as from a model that was cut off


def parallel(size: int) -> ParallelRun:
    return ParallelRun(replace(spec(size), merge="collect_all"), "Go")


def graph(size: int) -> GraphRun:
    tasks = [
        TaskSpec(
            name=f"t{n}",
            runner=f"child {n}",
            prompt="${t0}" if n == 1 else "Go",
            dependencies=(f"t{n - 1}",) if n else (),
            for_each="${t0}" if n == 1 else "",
            retries=1,
        )
        for n in range(size)
    ]
    return GraphRun(GraphSpec(runner_id="flow", children=tuple([t.runner for t in tasks]), tasks=tuple(tasks)), "Go")


def reported(run: Machine, position: int, chance: random.Random) -> e.RunEvent:
    """Return how a child ended or paused."""
    place = str(position)
    match chance.randrange(5):
        case 0:
            return e.ChildPaused(place, f"saved {place}", (ASKS,))
        case 1 if isinstance(run, GraphRun):
            return e.ChildFailed(place, "RunError", "once", may_retry=True)
        case 2:
            return e.ChildLimited(place, f"saved {place}", "MaxTurnsExceeded", "no more")
        case _:
            changes = e.Changes({"k": position, "deep": [1, {"a": None}]}, ("x",))
            return e.ChildDone(place, '["a", "b"]', usage=Usage(1, 1), changes=changes)


@pytest.mark.parametrize("make", [sequence, parallel, graph])
@pytest.mark.parametrize("seed", range(10))
def test_the_run_of_a_group_that_writes_at_any_step_is_read_as_it_is(make: Callable[[int], Machine], seed: int) -> None:
    run, chance = make(6), random.Random(seed)
    state = GroupLineState(run.spec)
    told: list[e.RunEvent] = [e.Migrated(run.to_json(), "")]
    state.go_on_with(run, Account("panel", None, run.state.spending))
    definition = definition_row(run.spec)
    rows, first = {(definition.kind, definition.key): definition.body}, 0
    for _ in range(30):
        kinds = {each.kind for each in state.due()}
        if kinds == {"ask"} and run.pauses:
            event: e.RunEvent = e.Answered({run.pauses[0].id: "the first"})
        elif kinds == {"child"}:
            position = int(chance.choice(state.due()).key)
            event = (
                reported(run, position, chance)
                if run.state.children[position].begun
                else e.ChildBegan(str(position), "")
            )
        else:
            break
        state.apply(event)
        told.append(event)
        if chance.random() < 0.6:
            row = append_row(first, [(0.0, each) for each in told], 0)
            rows[row.kind, row.key] = row.body
            first, told = first + len(told), []
            assert json.loads(stored_line(rows).machine) == json.loads(run.to_json())


def test_rows_without_a_definition_or_a_beginning_are_no_run() -> None:
    journal = at_calls("a", begun="a")
    journal.result("a")
    journal.write()

    for missing in ((DEFINITION, ""), (LINE, "000000000")):
        with pytest.raises((KeyError, ValueError, ProtocolViolation)):
            stored_line({key: body for key, body in journal.rows.items() if key != missing})
    with pytest.raises(ValueError, match="does not begin"):
        stored_line({key: body for key, body in journal.rows.items() if key[0] != LINE})


def test_settings_of_a_provider_are_in_no_row_and_their_fingerprint_is() -> None:
    agent = AGENT.replace(settings=us.Settings(extra={"api_key": "secret"}, max_tokens=7))
    row = definition_row(agent.run_spec)
    line = append_row(0, [(0.0, e.Migrated(AgentRun(agent.run_spec, "go").to_json(), ""))], 0)
    rows = {(each.kind, each.key): each.body for each in (row, line)}

    loaded = AgentRun.from_json(stored_line(rows).machine, agent.run_spec)  # else it raises SpecChanged

    assert "secret" not in row.body
    assert fingerprint_of(row.body) == agent.fingerprint() != AGENT.fingerprint()
    assert loaded.to_json() == AgentRun(agent.run_spec, "go").to_json()


def test_a_run_goes_by_the_definition_that_it_began_with() -> None:
    journal = at_calls("a", begun="a")

    assert fingerprint_of(journal.rows[DEFINITION, ""]) == AGENT.fingerprint()
    assert json.loads(journal.read().machine)["fingerprint"] == AGENT.fingerprint()


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


@pytest.mark.parametrize(
    ("is_inner", "session", "removed", "unsaved"),
    [(True, {"c": 0, "b": 2}, ("a",), ()), (False, {"c": 0, "b": 2}, (), ("a", "b"))],
)
def test_changes_are_put_into_the_saved_run(
    is_inner: bool, session: dict[str, JsonValue], removed: tuple[str, ...], unsaved: tuple[str, ...]
) -> None:
    saved = SavedRun(
        run_id="r-1",
        runner_id="clerk",
        input="go",
        machine="",
        session={"a": 0, "c": 0},
        removed=("b",) if is_inner else (),
    )

    after = with_changes(saved, e.Changes({"b": 2}, ("a",)), is_inner=is_inner)

    assert (after.session, after.removed, after.unsaved) == (session, removed, unsaved)
