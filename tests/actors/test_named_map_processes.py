"""A map with a name whose process dies, whose loop is left, or that two callers want."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from tests.support.deadly import DeadlyDatabase
from tests.support.killing import Effects, killed, worker
from tests.support.named_maps import NAME, Desk, mapped, texts
from tests.support.scripts import WAIT, eventually, finished, needs_approval, needs_input
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.store import Store
from understudy.testing import says

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs in an SQLite store have no journal on Windows")


@pytest.fixture
def system(store: str) -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop", store=store) as made:
        yield made
        made.stop(0.0)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def map_in_child(agent: us.Runner[Any], inputs: Sequence[Any], store: str, **options: Any) -> bool:
    return killed(lambda: mapped(agent, inputs, us.ActorSystem("shop", store=store), **options))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_after_a_kill_the_next_process_goes_on_with_what_is_not_done(
    kind: str, request: pytest.FixtureRequest, store: str, effects: Effects
) -> None:
    store = store if kind == "sqlite" else request.getfixturevalue("postgres_url")
    agent = worker("clerk", effects.tool(idempotent=True), ["x", "y"])
    effects.deadly = 7
    assert map_in_child(agent, list("abcdef"), store, max_parallel=2)
    before, effects.deadly = set(effects.noted), 0

    assert texts(mapped(agent, list("abcdef"), us.ActorSystem("shop", store=store))) == ["did x; did y"] * 6

    assert len(set(effects.noted)) == 12
    assert len(effects.repeated) <= 2
    assert set(effects.repeated) <= before


@pytest.mark.parametrize("before", [True, False])
def test_a_process_may_die_at_each_of_its_writes(before: bool, tmp_path: Path) -> None:
    for deadly in range(1, 100):
        effects = Effects(tmp_path / f"effects-{deadly}-{before}")
        agent, file = worker("clerk", effects.tool(idempotent=True), ["x"]), f"{tmp_path}/{deadly}-{before}.db"

        def do(agent: us.Agent = agent, file: str = file, deadly: int = deadly) -> None:
            database = DeadlyDatabase(SQLiteDatabase(file), before=before)
            system = us.ActorSystem("shop", store=Store(database))
            database.deadly = database.writes + deadly
            mapped(agent, ["a", "b"], system, max_parallel=1)

        was_killed = killed(do)
        assert texts(mapped(agent, ["a", "b"], us.ActorSystem("shop", store=f"sqlite:///{file}"))) == ["did x"] * 2
        assert len(set(effects.noted)) == 2
        assert len(effects.repeated) <= 1
        if not was_killed:
            assert deadly > 8
            assert effects.repeated == []
            break
    else:
        pytest.fail("it writes for ever")


def test_a_call_in_doubt_waits_for_a_person(store: str, effects: Effects) -> None:
    agent = worker("clerk", effects.tool(), ["x"])
    effects.deadly = 1
    assert map_in_child(agent, ["a"], store)
    effects.deadly = 0
    system = us.ActorSystem("shop", store=store)

    (answer,) = mapped(agent, ["a"], system)

    assert isinstance(answer, us.MapAnswer)
    waits = needs_approval(answer.outcome)
    assert waits.pauses[0].in_doubt == ("c0",)
    finished(agent.resume(waits.token, {"c0": us.Happened("it was done")}, system=system))
    assert texts(mapped(agent, ["a"], system)) == ["it was done"]
    assert len(effects.noted) == 1


def test_what_recover_goes_on_with_is_a_result_of_the_map(store: str, effects: Effects) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["x"])
    effects.deadly = 1
    assert map_in_child(agent, ["a"], store)
    effects.deadly = 0
    system = us.ActorSystem("shop", store=store)

    handles = system.recover(runners=[agent])
    answers = mapped(agent, ["a"], system)

    assert [finished(handle.result(WAIT)).text for handle in handles] == texts(answers) == ["did x"]
    assert len(effects.noted) == 2


def test_a_run_that_somebody_asked_a_dead_process_to_cancel_ends_and_a_new_one_begins(
    store: str, effects: Effects
) -> None:
    agent = worker("clerk", effects.tool(), ["x"])
    effects.deadly = 1
    assert map_in_child(agent, ["a"], store)
    effects.deadly = 0
    SQLiteDatabase(store.removeprefix("sqlite:///")).write(
        lambda sql: sql.execute("UPDATE understudy_runs SET cancel_requested = 1.0")
    )
    system = us.ActorSystem("shop", store=store)

    assert texts(mapped(agent, ["a"], system)) == ["did x"]

    cancelled = system.handle(effects.noted[0].partition("/")[0]).status()
    assert (cancelled.phase, cancelled.reason) == ("over", "cancelled")
    assert len(set(effects.noted)) == 2


def test_a_run_that_was_left_by_another_definition_is_no_new_run(store: str, effects: Effects) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["x"])
    effects.deadly = 1
    assert map_in_child(agent, ["a"], store)
    effects.deadly = 0
    changed, system = agent.replace(system_prompt="Be brief."), us.ActorSystem("shop", store=store)

    (failure,) = mapped(changed, ["a"], system)

    assert isinstance(failure, us.MapFailure)
    assert isinstance(failure.error, us.SpecChanged)
    for handle in system.recover(runners=[changed], adopt=True):
        finished(handle.result(WAIT))
    assert texts(mapped(changed, ["a"], system)) == ["did x"]


# --- leaving early


@pytest.mark.parametrize(("kind", "calls"), [("agent", 2), ("sub-agent", 4), ("sequence", 4)])
def test_runs_of_a_loop_that_was_left_go_on_in_the_next_one(
    kind: str, calls: int, system: us.ActorSystem, effects: Effects
) -> None:
    gate, began, is_first = threading.Event(), threading.Event(), threading.Lock()
    one = worker("one", effects.tool(), ["a", "b"])
    assert isinstance(one.model, us.FunctionModel)
    complete = one.model.complete

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 2 and is_first.acquire(blocking=False):
            began.set()
            gate.wait(3 * WAIT)
        return complete(request)

    one = one.replace(model=us.FunctionModel(next_turn))
    lead = worker("lead", effects.tool(), ["x", "one", "y"], [one])
    runner = {"agent": one, "sub-agent": lead, "sequence": us.SequentialAgent("line", [lead])}[kind]
    with closing(runner.map(["a", "b"], name=NAME, system=system)) as answers:
        next(answers)
        assert began.wait(WAIT)
    gate.set()

    assert len(texts(mapped(runner, ["a", "b"], system))) == 2
    assert len(effects.noted) == 2 * calls
    assert effects.repeated == []


def test_a_map_that_is_closed_while_it_takes_an_input_ends_without_an_error(desk: Desk, system: us.ActorSystem) -> None:
    def inputs() -> Iterator[str]:
        yield "a"
        answers.close()
        yield "b"

    answers = desk.agent.map(inputs(), name=NAME, system=system, max_parallel=1)

    assert [answer.index for answer in answers] == [0]
    assert desk.asked == ["a"]
    assert texts(mapped(desk.agent, ["a", "b"], system)) == ["A", "B"]


def test_the_first_error_leaves_the_other_runs_for_the_next_call(desk: Desk, system: us.ActorSystem) -> None:
    desk.fails = {"b": us.ProviderError("no", provider="p")}
    with pytest.raises(us.ProviderError, match="no"):
        list(desk.agent.map(["a", "b", "c"], name=NAME, system=system, max_parallel=1))
    desk.fails = {}

    assert texts(mapped(desk.agent, ["a", "b", "c"], system)) == ["A", "B", "C"]
    assert sorted(desk.asked) == ["a", "b", "b", "c"]


# --- one caller at a time


def test_a_map_that_is_under_way_here_is_refused(desk: Desk, store: str) -> None:
    systems = [us.ActorSystem("shop", store=store) for _ in range(2)]
    answers = desk.agent.map(["a", "b"], name=NAME, system=systems[0])
    next(answers)

    with pytest.raises(us.MapInUse, match="'nightly' is under way in this process"):
        mapped(desk.agent, ["a"], systems[1])
    with pytest.raises(us.MapInUse):
        systems[1].forget_map(NAME)
    assert texts(mapped(desk.agent, ["a"], systems[1], "weekly")) == ["A"]

    answers.close()
    assert texts(mapped(desk.agent, ["a", "b"], systems[1])) == ["A", "B"]


def test_a_map_that_is_under_way_in_another_process_is_refused(desk: Desk, system: us.ActorSystem, store: str) -> None:
    answers = desk.agent.map(["a", "b"], name=NAME, system=system)
    next(answers)

    def refused() -> None:
        with pytest.raises(us.MapInUse, match="is under way in process"):
            mapped(desk.agent, ["a"], us.ActorSystem("shop", store=store))
        os.kill(os.getpid(), 9)

    assert killed(refused)
    answers.close()


def test_a_forked_child_does_not_go_on_with_the_map_of_its_parent(desk: Desk, system: us.ActorSystem) -> None:
    answers = desk.agent.map(["a", "b", "c"], name=NAME, system=system, max_parallel=1)
    next(answers)

    def refused() -> None:
        with pytest.raises(us.LeaseLost, match="not this process's"):
            next(answers)
        os.kill(os.getpid(), 9)

    assert killed(refused)
    assert [answer.index for answer in answers] == [1, 2]


def test_a_map_that_was_dropped_can_be_begun_again(desk: Desk, system: us.ActorSystem) -> None:
    next(desk.agent.map(["a", "b"], name=NAME, system=system))

    def begun() -> bool:
        try:
            return texts(mapped(desk.agent, ["a", "b"], system)) == ["A", "B"]
        except us.MapInUse:
            return False

    eventually(begun, "the map that was dropped is given back")


def test_a_run_that_somebody_else_drives_is_waited_for(system: us.ActorSystem) -> None:
    gate = threading.Event()

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 1:
            return says("__ask_user__: Which?")
        gate.wait(WAIT)
        return says("at last")

    agent = us.Agent("clerk", model=us.FunctionModel(next_turn))
    (answer,) = mapped(agent, ["go"], system)
    assert isinstance(answer, us.MapAnswer)
    handle = agent.submit_resume(needs_input(answer.outcome).token, "red", system=system)
    threading.Timer(0.1, gate.set).start()

    assert texts(mapped(agent, ["go"], system)) == ["at last"]
    assert finished(handle.result(WAIT)).text == "at last"
