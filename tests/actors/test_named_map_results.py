"""The results that a map with a name keeps, how they are forgotten, and which maps can have a name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

import understudy as us
from tests.support.deadly import DeadlyDatabase
from tests.support.gates import Gate
from tests.support.killing import Effects, worker
from tests.support.named_maps import NAME, Desk, asking, mapped, texts
from tests.support.scripts import WAIT, finished
from understudy.actors.journal import heartbeat
from understudy.actors.runs.record import RunRecord
from understudy.actors.stores.maps.map_table import MapTable
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.store import Store
from understudy.actors.system.actor_system import runs_of
from understudy.actors.system.run_endings import Journaling
from understudy.testing import calls, says

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs in an SQLite store have no journal on Windows")


@pytest.fixture
def system(store: str) -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop", store=store) as made:
        yield made
        made.stop(0.0)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@dataclass
class Verdict:
    word: Literal["spam", "ham"]
    score: float


def judge(output: Any) -> us.Agent[Any]:
    answer = us.FunctionModel(lambda request: says('{"word": "spam", "score": 0.5}'))
    return us.Agent("judge", model=answer, output_type=output)


def test_a_typed_answer_comes_back_in_its_type(system: us.ActorSystem) -> None:
    for _ in range(2):
        (answer,) = mapped(judge(Verdict), ["Win!"], system)
        assert isinstance(answer, us.MapAnswer)
        assert finished(answer.outcome).output == Verdict("spam", 0.5)


def test_an_answer_that_does_not_fit_a_changed_type_is_told(system: us.ActorSystem) -> None:
    @dataclass
    class Later:
        colour: int

    mapped(judge(Verdict), ["Win!"], system)

    (failure,) = mapped(judge(Later), ["Win!"], system)

    assert isinstance(failure, us.MapFailure)
    assert "cannot be read with the present definition of 'judge'" in str(failure.error)


@pytest.mark.parametrize("kind", ["sequence", "parallel"])
def test_results_of_groups_come_back(kind: str, desk: Desk, system: us.ActorSystem) -> None:
    other = us.Agent("other", model=us.FunctionModel(lambda request: says("other")))
    make = us.SequentialAgent if kind == "sequence" else us.ParallelAgent
    group = make("group", [desk.agent, other])

    (first,), (second,) = (mapped(group, ["a"], system) for _ in range(2))

    assert isinstance(first, us.MapAnswer)
    assert isinstance(second, us.MapAnswer)
    assert first == second
    assert [finished(each).text for each in second.outcome.children if not isinstance(each, BaseException)] == [
        "A",
        "other",
    ]
    assert desk.asked == ["a"]


def test_a_result_that_cannot_be_written_is_told(system: us.ActorSystem) -> None:
    agent = us.Agent("clerk", model=us.FunctionModel(lambda request: says("\ud83d" + "\ude00")))

    (failure,) = mapped(agent, ["go"], system)

    assert isinstance(failure, us.MapFailure)
    assert "cannot be kept for its map" in str(failure.error)


def test_a_result_that_the_store_did_not_take_costs_no_finished_call(
    store: str, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = worker("clerk", effects.tool(), ["x"])
    system = us.ActorSystem("shop", store=store, store_patience=0.0)

    def full(table: MapTable, run_id: str, result: str) -> Callable[[object], object]:
        def fail(sql: object) -> object:
            raise us.StoreError("the disk is full")

        return fail

    with monkeypatch.context() as patched:
        patched.setattr(MapTable, "keeping", full)
        (failure,) = mapped(agent, ["go"], system)

    assert isinstance(failure, us.MapFailure)
    assert isinstance(failure.error, us.StoreError)
    assert texts(mapped(agent, ["go"], system)) == ["did x"]
    assert len(effects.noted) == 1


@pytest.mark.parametrize("name", [NAME, None])
def test_runs_of_a_map_go_on_when_the_store_fails_while_an_input_is_taken(
    name: str | None, system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, begin = Gate(), Journaling.begin
    agent = us.Agent("clerk", model=us.FunctionModel(gate.then(says("done"))))

    def failing(journaling: Journaling, record: RunRecord, *given: Any) -> None:
        if record.input == "b":
            assert gate.entered.wait(WAIT)
            raise us.StoreError("the disk is full")
        begin(journaling, record, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Journaling, "begin", failing)
        with pytest.raises(us.StoreError, match="the disk is full"):
            list(agent.map(["a", "b"], name=name, system=system))
    (record,) = runs_of(system).in_flight()
    gate.open()

    assert finished(record.promise.get()).text == "done"


# --- forgetting, and what is refused


def test_a_map_that_is_forgotten_begins_with_nothing(desk: Desk, system: us.ActorSystem) -> None:
    mapped(desk.agent, ["a", "b"], system)

    assert system.forget_map("weekly") == 0
    assert system.forget_map(NAME) == 2
    assert system.forget_map(NAME) == 0

    mapped(desk.agent, ["a"], system)
    assert sorted(desk.asked) == ["a", "a", "b"]


def test_the_results_of_an_erased_user_go(desk: Desk, system: us.ActorSystem) -> None:
    mapped(desk.agent, ["a"], system, user_id="ada")
    mapped(desk.agent, ["a"], system, "weekly", user_id="bob\0")

    system.erase("ada")
    system.erase("bob")

    mapped(desk.agent, ["a"], system, user_id="ada")
    mapped(desk.agent, ["a"], system, "weekly", user_id="bob\0")
    assert len(desk.asked) == 3


def test_a_map_that_is_erased_while_it_is_under_way_begins_no_further_run(desk: Desk, system: us.ActorSystem) -> None:
    answers = desk.agent.map(["a", "b"], name=NAME, system=system, max_parallel=1)
    next(answers)
    system.erase("default")

    with pytest.raises(us.LeaseLost, match="'nightly' is not this process's any more"):
        next(answers)
    assert desk.asked == ["a"]


def test_a_map_belongs_to_one_runner_and_one_user(desk: Desk, system: us.ActorSystem) -> None:
    mapped(desk.agent, ["a"], system, user_id="ada")

    with pytest.raises(ValueError, match="belongs to 'desk', not to 'clerk'"):
        mapped(asking(), ["a"], system)
    with pytest.raises(ValueError, match="belongs to another user"):
        mapped(desk.agent, ["a"], system, user_id="bob")
    assert desk.asked == ["a"]


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_name_needs_a_durable_store_and_the_journal(desk: Desk, store: str, is_durable: bool) -> None:
    made = us.ActorSystem("shop", store=store if is_durable else None, journal=not is_durable)

    with pytest.raises(ValueError, match="needs a durable store and the journal"):
        desk.agent.map(["a"], name=NAME, system=made)
    with pytest.raises(ValueError, match="forget_map needs a durable store and the journal"):
        made.forget_map(NAME)


@pytest.mark.parametrize(("name", "error"), [("", ValueError), ("a\0b", ValueError), (7, TypeError), (b"x", TypeError)])
def test_a_name_is_a_text(name: Any, error: type[Exception], desk: Desk, system: us.ActorSystem) -> None:
    with pytest.raises(error, match="the name of a map"):
        desk.agent.map(["a"], name=name, system=system)


def test_a_map_with_a_name_is_not_for_the_code_of_a_run(desk: Desk, system: us.ActorSystem) -> None:
    answers = desk.agent.map(["a"], name="outer", system=system, keep_errors=True)
    told: list[str] = []

    @us.tool
    def act() -> str:
        """Act."""
        for begin in (lambda: desk.agent.map(["a"], name=NAME), lambda: next(answers)):
            try:
                begin()
            except ValueError as error:
                told.append(str(error))
        return "did"

    agent = us.Agent("clerk", model=us.ScriptedModel([calls("act"), says("done")]), tools=[act])
    finished(agent.run("go", system=system))

    assert ["outside of runs and actors" in each for each in told] == [True, True]
    assert desk.asked == []


def test_references_and_the_budget_work_as_ever(desk: Desk, system: us.ActorSystem) -> None:
    ref = system.spawn(desk.agent)
    budget = us.Budget(turns=2)

    first = list(ref.map(["a", "b", "c"], name=NAME, budget=budget, ordered=True, keep_errors=True, max_parallel=1))
    assert isinstance(first[2], us.MapFailure)

    assert texts(list(ref.map(["a", "b", "c"], name=NAME, budget=budget, ordered=True, keep_errors=True))) == list(
        "ABC"
    )


def test_an_input_costs_the_writes_of_its_run_and_no_more(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "AGAIN", 60.0)  # a beat is a write, too

    def writes(count: int) -> int:
        database = DeadlyDatabase(SQLiteDatabase(f"{tmp_path}/{count}.db"))
        system = us.ActorSystem("shop", store=Store(database), lease=300.0)
        before = database.writes
        mapped(desk.agent, [str(number) for number in range(count)], system)
        return database.writes - before

    assert writes(40) - writes(20) == 20 * 2
