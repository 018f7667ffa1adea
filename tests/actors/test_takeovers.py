"""A system that looks after its neighbours: it goes on with the runs of processes that are gone, without being called."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.killing import Effects, killed, worker
from tests.support.scripts import WAIT, eventually, finished, needs_approval
from understudy.actors.journal.neighbours import Neighbours
from understudy.actors.journal.run_owners import RunOwner, RunOwners
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.process_locks import NOBODY
from understudy.actors.stores.runs import Claim, RunTable, StoredRun
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.system.recovery import parked_runs, recovery, takeovers
from understudy.testing import says

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")


@pytest.fixture(params=["sqlite", "postgres"])
def either_store(request: pytest.FixtureRequest) -> str:
    name = "store" if request.param == "sqlite" else "postgres_url"
    found: str = request.getfixturevalue(name)
    return found


class Looks:
    """Counts the looks of all systems, and fails some."""

    def __init__(self) -> None:
        self.by_app = Counter[str]()
        self.failing = 0

    @property
    def count(self) -> int:
        return self.by_app.total()

    def going(self, owners: RunOwners, app: str) -> list[RunOwner]:
        self.by_app[app] += 1
        if self.failing:
            self.failing -= 1
            raise us.StoreError("the disk is full")
        return _going(owners, app)

    def wait_for(self, more: int) -> None:
        until = self.count + more
        eventually(lambda: self.count >= until, "so many looks")


_going = RunOwners.going


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    found = Looks()

    def going(owners: RunOwners, app: str) -> list[RunOwner]:
        return found.going(owners, app)

    monkeypatch.setattr("understudy.actors.system.recovery.takeovers.LOOK", 0.01)
    monkeypatch.setattr(parked_runs, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(RunOwners, "going", going)
    return found


@contextmanager
def watching(store: str, *runners: us.Runner[Any], **options: Any) -> Generator[us.ActorSystem]:
    with us.ActorSystem("shop", store=store, recover="always", runners=runners, **options) as system:
        yield system


def leave_run(agent: us.Agent, store: str, effects: Effects) -> None:
    effects.deadly = len(effects.noted) + 1
    assert killed(lambda: agent.run("go", system=us.ActorSystem("shop", store=store)))
    effects.deadly = 0


def clerk_of(effects: Effects) -> us.Agent:
    """Return an agent with an effect; in a process that dies of one, its runs wait for that."""

    @us.tool(idempotent=True)
    def act(ctx: us.ToolContext, word: str) -> str:
        """Act."""
        effects.note(ctx.call_key)
        if effects.deadly:
            threading.Event().wait(WAIT)
        return word

    return worker("clerk", act, ["a"])


def leave_runs(agent: us.Agent, store: str, effects: Effects, count: int) -> list[StoredRun]:
    """Have a process begin so many runs, each of which has an effect, and die of the last one; returns them."""

    def begin() -> None:
        system = us.ActorSystem("shop", store=store)
        for handle in [agent.submit("go", system=system) for _ in range(count)]:
            handle.result(WAIT)

    effects.deadly = len(effects.noted) + count
    assert killed(begin)
    effects.deadly = 0
    return left_in(store)


def left_in(store: str) -> list[StoredRun]:
    runs = open_store(store).runs
    assert runs is not None
    return runs.left("shop")


class Claims:
    """Counts the claims of runs.

    Attributes:
        asked: how many runs each claim was for.
        after: called after each claim.
    """

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.after: Callable[[RunTable], object] = lambda _: None

    def claim(self, table: RunTable, left: Sequence[StoredRun], owner: str, *others: Any) -> dict[int, Claim]:
        found = _claim(table, left, owner, *others)
        self.asked.append(len(left))
        self.after(table)
        return found


_claim = RunTable.claim


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch, looks: Looks) -> Claims:
    found = Claims()

    def claim(table: RunTable, left: Sequence[StoredRun], owner: str, *others: Any) -> dict[int, Claim]:
        return found.claim(table, left, owner, *others)

    monkeypatch.setattr(RunTable, "claim", claim)
    monkeypatch.setattr(recovery, "AT_ONCE", 2)
    return found


def is_all_over(store: str) -> bool:
    return not left_in(store)


def test_a_run_whose_process_is_killed_goes_on_in_a_neighbour(either_store: str, effects: Effects) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a", "b"])
    with watching(either_store) as system:
        system.spawn(agent)
        leave_run(agent, either_store, effects)
        system.start()  # it rests after the fork

        eventually(lambda: is_all_over(either_store), "the run has ended")

    assert len(set(effects.noted)) == 2


def test_of_several_neighbours_one_goes_on_with_a_run(either_store: str, effects: Effects) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    for _ in range(3):
        leave_run(agent, either_store, effects)

    with watching(either_store, agent), watching(either_store, agent), watching(either_store, agent):
        eventually(lambda: is_all_over(either_store), "the runs have ended")

    assert (len(effects.noted), len(set(effects.noted))) == (6, 3)


def test_the_runs_of_a_killed_process_are_claimed_by_few_statements(
    either_store: str, effects: Effects, claims: Claims
) -> None:
    agent = clerk_of(effects)
    leave_runs(agent, either_store, effects, 5)

    with watching(either_store, agent):
        eventually(lambda: is_all_over(either_store), "the runs have ended")

    assert claims.asked == [2, 2, 1]
    assert (len(effects.noted), len(set(effects.noted))) == (10, 5)


def test_runs_that_were_taken_over_before_are_claimed_alone_after_all_others(
    store: str, effects: Effects, claims: Claims, caplog: pytest.LogCaptureFixture
) -> None:
    agent = clerk_of(effects)
    runs, database = leave_runs(agent, store, effects, 4), open_store(store).database
    assert database is not None
    tired = "UPDATE understudy_runs SET takeovers = 2 WHERE run <= :run"
    database.write(lambda sql: sql.execute(tired, {"run": runs[1].run}))

    with watching(store, agent):
        eventually(lambda: is_all_over(store), "the runs have ended")

    gone_on = [
        record.__dict__["run_id"] for record in caplog.records if record.__dict__.get("event") == "run_recovered"
    ]
    assert claims.asked == [2, 1, 1]
    assert gone_on == [run.run_id for run in (*runs[2:], *runs[:2])]


def test_what_another_process_claims_between_two_claims_is_its(store: str, effects: Effects, claims: Claims) -> None:
    agent = clerk_of(effects)
    runs = leave_runs(agent, store, effects, 5)
    living = f"{os.getpid()}-another-folder"

    def another_claims(table: RunTable) -> None:
        if len(claims.asked) == 1:
            assert len(_claim(table, runs[1:4], living)) == 2

    claims.after = another_claims
    with watching(store, agent) as system:
        eventually(lambda: len(left_in(store)) == 2, "all others have ended")
        parked = system.health().parked

    assert claims.asked == [2, 2, 1]
    assert ({run.owner for run in left_in(store)}, parked) == ({living}, ())
    assert len(effects.repeated) == 3


def test_runs_are_claimed_when_their_dependencies_are_made(
    store: str, effects: Effects, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = clerk_of(effects)
    before, seen = leave_runs(agent, store, effects, 3), list[list[str]]()
    monkeypatch.setattr(recovery, "SHARE", 0.0)  # they take longer

    def deps(run: us.LeftRun) -> None:
        seen.append([each.run_id for each in before if each in left_in(store)])

    with watching(store, agent, deps=deps):
        eventually(lambda: is_all_over(store), "the runs have ended")

    assert claims.asked == [1, 1, 1]
    assert seen == [[run.run_id for run in before[at:]] for at in range(3)]


@pytest.mark.parametrize(
    ("spoilt", "mended", "why"),
    [
        ("'!' || body", "SUBSTR(body, 2)", "invalid literal"),
        ("REPLACE(body, 'TurnTaken', 'Dreamt')", "REPLACE(body, 'Dreamt', 'TurnTaken')", "a newer one wrote the line"),
    ],
)
def test_a_run_that_cannot_go_on_after_its_claim_is_left_to_everybody(
    spoilt: str, mended: str, why: str, either_store: str, effects: Effects, claims: Claims
) -> None:
    agent = clerk_of(effects)
    (run,) = leave_runs(agent, either_store, effects, 1)
    database = open_store(either_store).database
    assert database is not None
    line = "UPDATE understudy_run_rows SET body = {} WHERE kind = 'line'"
    database.write(lambda sql: sql.execute(line.format(spoilt)))

    with watching(either_store, agent) as system:
        eventually(lambda: len(system.health().parked) == 1, "the run is parked")
        assert why in system.health().parked[0].why

    (now,) = left_in(either_store)
    assert claims.asked == [1]
    assert now == run._replace(owner=NOBODY, epoch=now.epoch)
    database.write(lambda sql: sql.execute(line.format(mended)))
    with watching(either_store, agent):
        eventually(lambda: is_all_over(either_store), "the run has ended")


def test_a_system_that_stops_leaves_what_it_has_claimed_to_everybody(
    store: str, effects: Effects, claims: Claims
) -> None:
    agent = clerk_of(effects)
    before = leave_runs(agent, store, effects, 3)

    with watching(store, agent) as system:
        claims.after = lambda _: system.stop()
        eventually(lambda: [run.owner for run in left_in(store)] == [NOBODY, NOBODY, before[2].owner], "two came back")

    assert [run.takeovers for run in left_in(store)] == [0, 0, 0]
    assert effects.repeated == []


def test_runs_that_do_not_go_on_soon_after_their_claim_are_left_to_everybody(
    store: str, effects: Effects, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = clerk_of(effects)
    leave_runs(agent, store, effects, 3)
    monkeypatch.setattr(recovery, "AT_ONCE", 64)
    monkeypatch.setattr(takeovers, "HOLD", 0.0)

    with watching(store, agent):
        eventually(lambda: is_all_over(store), "the runs have ended")

    assert claims.asked == [3, 2, 1]
    assert len(effects.repeated) == 3


def test_a_run_whose_process_lives_is_left_to_it(either_store: str, looks: Looks) -> None:
    gate, asked = Gate(), threading.Event()
    agent = us.Agent("clerk", model=us.FunctionModel(gate.then(says("done"))))
    handle = agent.submit("go", system=us.ActorSystem("shop", store=either_store))
    assert gate.entered.wait(WAIT)

    def deps(run: us.LeftRun) -> None:
        asked.set()

    with watching(either_store, agent, deps=deps):
        looks.wait_for(3)
        gate.open()

        assert finished(handle.result(WAIT)).text == "done"
    assert not asked.is_set()


def test_a_run_that_a_stopped_system_left_goes_on_in_another_system_of_the_process(store: str) -> None:
    gate = Gate()
    models = iter([us.FunctionModel(gate.then(says("late"))), us.FunctionModel(lambda _: says("done"))])
    before, after = (us.Agent("clerk", model=next(models)) for _ in range(2))
    system = us.ActorSystem("shop", store=store)
    handle = before.submit("go", system=system)
    assert gate.entered.wait(WAIT)
    with watching(store, after):
        system.stop(0.0)

        eventually(lambda: is_all_over(store), "the run has ended")
    gate.open()

    assert isinstance(handle.exception(WAIT), us.RunCancelled)


def test_a_run_whose_store_failed_goes_on_in_its_own_process(
    store: str, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    commit, fails = RunTable.commit, [True]

    def fails_once(*given: Any) -> bool:
        if fails:
            fails.pop()
            raise us.StoreError("the disk is full")
        return commit(*given)

    monkeypatch.setattr(RunTable, "commit", fails_once)
    with watching(store, agent, store_patience=0.0) as system:
        with pytest.raises(us.StoreError, match="is left for"):
            agent.run("go", system=system)

        eventually(lambda: is_all_over(store), "the run has ended")

    assert len(set(effects.noted)) == 1


def test_a_run_of_an_unknown_agent_is_logged_once_and_goes_on_when_its_agent_is_spawned(
    store: str, effects: Effects, looks: Looks, caplog: pytest.LogCaptureFixture
) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_run(agent, store, effects)
    with watching(store) as system:
        system.spawn(worker("cashier", effects.tool(), []))
        looks.wait_for(5)
        (parked,) = system.health().parked

        assert (parked.runner_id, parked.takeovers, parked.user_id) == ("clerk", 0, None)
        assert "no runner 'clerk' is known here" in parked.why
        system.spawn(agent)
        eventually(lambda: is_all_over(store), "the run has ended")
        eventually(lambda: not system.health().parked, "nothing is parked")

    assert caplog.text.count("is left as it is") == 1


def test_a_run_that_another_process_has_ended_is_parked_no_longer(store: str, effects: Effects, looks: Looks) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_run(agent, store, effects)
    with watching(store, worker("cashier", effects.tool(), [])) as system:
        eventually(lambda: len(system.health().parked) == 1, "the run is parked")

        (handle,) = us.ActorSystem("shop", store=store).recover(runners=[agent])
        finished(handle.result(WAIT))

        eventually(lambda: not system.health().parked, "nothing is parked")


def test_runs_that_are_all_parked_are_not_read_again_before_their_pauses_are_over(
    store: str, effects: Effects, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, left = list[str](), RunTable.left

    def counted(table: RunTable, app: str, owner: str = "") -> list[StoredRun]:
        reads.append(owner)
        return left(table, app, owner)

    monkeypatch.setattr(parked_runs, "FIRST_PAUSE", 3600.0)
    leave_run(worker("clerk", effects.tool(), ["a"]), store, effects)
    monkeypatch.setattr(RunTable, "left", counted)
    with watching(store, worker("cashier", effects.tool(), [])) as system:
        eventually(lambda: len(system.health().parked) == 1, "the run is parked")
        looks.wait_for(3)

    assert len(reads) == 1


def test_leases_begin_anew_after_a_failure_of_the_store(
    store: str, effects: Effects, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    anew = threading.Event()

    def begin_anew(neighbours: Neighbours) -> None:
        anew.set()

    monkeypatch.setattr(Neighbours, "begin_anew", begin_anew)
    with watching(store, worker("clerk", effects.tool(), [])):
        looks.wait_for(1)
        assert not anew.is_set()
        looks.failing = 1
        assert anew.wait(WAIT)


def changed(agent: us.Agent, store: str) -> us.Agent:
    return us.Agent(agent.id, model=us.FunctionModel(lambda _: says("done")), system_prompt="Be brief.")


def tired(agent: us.Agent, store: str) -> us.Agent:
    SQLiteDatabase(store.removeprefix("sqlite:///")).write(
        lambda sql: sql.execute("UPDATE understudy_runs SET takeovers = 50")
    )
    return agent


def unknown(agent: us.Agent, store: str) -> us.Agent:
    return worker("cashier", Effects(Path("unused")).tool(), [])


@pytest.mark.parametrize("by_hand", [True, False])
@pytest.mark.parametrize(
    ("known", "why"),
    [
        (changed, "another definition"),
        (tired, "50 processes have died while they drove it"),
        (unknown, "no runner 'clerk' is known here"),
    ],
)
def test_health_lists_the_runs_with_which_no_process_can_go_on(
    known: Callable[[us.Agent, str], us.Agent], why: str, *, by_hand: bool, store: str, effects: Effects, looks: Looks
) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a", "b"])
    leave_run(agent, store, effects)
    leave_run(agent, store, effects)
    runner = known(agent, store)
    before = left_in(store)
    if by_hand:
        system = us.ActorSystem("shop", store=store)
        assert system.recover(runners=[runner]) == []
        parked = system.health().parked
    else:
        with watching(store, runner) as system:
            eventually(lambda: len(system.health().parked) == 2, "both runs are parked")
            parked = system.health().parked

    assert [why in each.why for each in parked] == [True, True]
    assert {each.runner_id for each in parked} == {"clerk"}
    assert len({each.run_id for each in parked}) == 2
    assert left_in(store) == before


def test_recover_by_hand_uses_what_the_constructor_was_given(store: str, effects: Effects, looks: Looks) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_run(agent, store, effects)
    asked: list[int] = []

    def deps(run: us.LeftRun) -> None:
        asked.append(threading.get_ident())
        if len(asked) == 1 or threading.get_ident() != here:
            raise LookupError("no shop")

    here = threading.get_ident()
    with watching(store, agent, deps=deps) as system:
        eventually(lambda: bool(asked), "the thread has looked")

        (handle,) = system.recover()

        assert finished(handle.result(WAIT)).text == "did a"
        eventually(lambda: not system.health().parked, "nothing is parked")


def test_a_system_without_the_agent_keeps_the_reason_that_one_with_the_agent_gave(store: str, effects: Effects) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a", "b"])
    leave_run(agent, store, effects)
    with us.ActorSystem("shop", store=store) as system:
        assert system.recover(runners=[changed(agent, store)]) == []
        before = system.health().parked

        assert system.recover() == []

        assert system.health().parked == before
        assert "another definition" in before[0].why


def test_a_run_that_is_over_is_parked_no_longer_after_recover(store: str, effects: Effects) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a", "b"])
    leave_run(agent, store, effects)
    with us.ActorSystem("shop", store=store) as system:
        assert system.recover() == []
        (handle,) = us.ActorSystem("shop", store=store).recover(runners=[agent])
        finished(handle.result(WAIT))

        assert system.recover() == []

        assert system.health().parked == ()


def renamed(run: us.ChangedRun) -> str:
    """Call the tool `act` by its new name."""
    return run.state.replace('"name": "act"', '"name": "do"').replace('"name":"act"', '"name":"do"')


def unchanged(run: us.ChangedRun) -> str:
    """Adopt the run."""
    return run.state


@pytest.mark.parametrize("options", [{"adopt": True}, {"migrate": unchanged}])
def test_a_neighbour_goes_on_with_a_run_of_another_definition_if_it_may(
    options: dict[str, Any], store: str, effects: Effects
) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a", "b"])
    leave_run(agent, store, effects)

    with watching(store, agent.replace(system_prompt="Be brief."), **options):
        eventually(lambda: is_all_over(store), "the run has ended")

    assert (len(effects.noted), len(set(effects.noted))) == (3, 2)


def test_a_neighbour_goes_on_with_the_state_that_migrate_returns(store: str, effects: Effects) -> None:
    leave_run(worker("clerk", effects.tool(), ["a", "b"]), store, effects)
    after = worker("clerk", effects.tool("do", idempotent=True), ["a", "b"])

    with watching(store, after, migrate=renamed):
        eventually(lambda: is_all_over(store), "the run has ended")

    assert (len(effects.noted), len(set(effects.noted))) == (3, 2)


@pytest.mark.parametrize("answer", [None, 7, SystemExit()])
def test_a_run_that_migrate_does_not_answer_for_is_parked_and_tried_again(
    answer: Any, store: str, effects: Effects, looks: Looks, caplog: pytest.LogCaptureFixture
) -> None:
    leave_run(worker("clerk", effects.tool(), ["a"]), store, effects)
    after, asked = worker("clerk", effects.tool("do", idempotent=True), ["a"]), list[str]()

    def migrate(run: us.ChangedRun) -> Any:
        asked.append(run.run_id)
        if len(asked) > 2:
            return renamed(run)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    with watching(store, after, migrate=migrate):
        eventually(lambda: is_all_over(store), "the run has ended")

    assert len(set(effects.noted)) == 1
    assert caplog.text.count("is left as it is") == 1


def test_dependencies_that_fail_are_asked_for_again_and_logged_once(
    store: str, effects: Effects, looks: Looks, caplog: pytest.LogCaptureFixture
) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_run(agent, store, effects)
    answers: list[BaseException] = [LookupError("no shop 1"), LookupError("no shop 2"), LookupError("no shop 3")]

    def deps(run: us.LeftRun) -> None:
        if answers:
            raise answers.pop(0)

    with watching(store, agent, deps=deps):
        eventually(lambda: is_all_over(store), "the run has ended")

    assert caplog.text.count("is left as it is") == 1


def test_an_exit_in_the_dependencies_of_one_run_keeps_no_other_run(store: str, effects: Effects, looks: Looks) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_run(agent, store, effects)
    leave_run(agent, store, effects)
    asked: list[str] = []

    def deps(run: us.LeftRun) -> None:
        asked.append(run.run_id)
        if run.run_id == asked[0]:
            raise SystemExit

    with watching(store, agent, deps=deps) as system:
        eventually(lambda: len(set(effects.noted)) == 2 and len(effects.noted) == 3, "the other run went on")
        looks.wait_for(2)

        assert [each.run_id for each in system.health().parked] == [asked[0]]


def test_a_store_that_fails_for_a_while_is_logged_once_and_looked_into_again(
    store: str, effects: Effects, looks: Looks, caplog: pytest.LogCaptureFixture
) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_run(agent, store, effects)
    looks.failing = 4

    with watching(store, agent):
        eventually(lambda: is_all_over(store), "the run has ended")

    assert caplog.text.count("no run of another process can be taken over") == 1


def test_a_system_that_has_stopped_takes_nothing_over(store: str, effects: Effects, looks: Looks) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    with watching(store, agent):
        looks.wait_for(1)
    leave_run(agent, store, effects)
    before = looks.count

    assert not [each for each in threading.enumerate() if each.name == "understudy-takeovers"]
    assert looks.count == before
    assert not is_all_over(store)


def threads_that_look() -> int:
    return len([each for each in threading.enumerate() if each.name == "understudy-takeovers"])


def enters(system: us.ActorSystem, store: str) -> None:
    system.__enter__()


def starts(system: us.ActorSystem, store: str) -> None:
    system.start()
    system.start()


def runs(system: us.ActorSystem, store: str) -> None:
    system.ref("clerk").submit("go").result(WAIT)


def resumes(system: us.ActorSystem, store: str) -> None:
    asking = worker("asking", Effects(Path("unused")).tool().replace(approval=True), ["a"])
    waits = needs_approval(asking.run("go", system=us.ActorSystem("shop", store=store)))
    asking.resume(waits.token, us.Reject("no"), system=system)


def recovers(system: us.ActorSystem, store: str) -> None:
    assert len(system.recover()) == 1


@pytest.mark.parametrize("begins", [enters, starts, runs, resumes, recovers])
def test_a_system_looks_from_its_start_or_first_run_on_and_not_when_it_is_made(
    begins: Callable[[us.ActorSystem, str], None], store: str, effects: Effects, looks: Looks
) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    leave_run(agent, store, effects)
    system = us.ActorSystem("shop", store=store, recover="always", runners=[agent])
    system.spawn(agent)

    assert system.recover(run_ids=[]) == []
    assert system.health().not_recovering.startswith("it has not begun in this process; expected a run here, ")
    assert threads_that_look() == 0
    begins(system, store)
    assert system.health().not_recovering == ""
    assert threads_that_look() == 1
    eventually(lambda: is_all_over(store), "the run has ended")
    system.stop()
    assert system.health().not_recovering == ""


def test_a_stopped_system_is_not_started_and_one_that_does_not_recover_needs_no_start(store: str) -> None:
    system, other = us.ActorSystem("shop", store=store, recover="always"), us.ActorSystem("other")
    other.start()
    system.stop()

    for refused in (system.start, system.__enter__):
        with pytest.raises(us.AgentDown, match="system 'shop' has stopped"):
            refused()
    assert (threads_that_look(), other.health().not_recovering) == (0, "")


@pytest.mark.parametrize("begins", [starts, runs])
def test_after_a_fork_a_system_rests_in_the_parent_until_its_next_run_or_start(
    begins: Callable[[us.ActorSystem, str], None],
    store: str,
    effects: Effects,
    looks: Looks,
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    with watching(store, agent) as system, us.ActorSystem("other", store=store, recover="always") as other:
        system.spawn(agent)
        other.spawn(agent)
        leave_run(agent, store, effects)
        before = looks.by_app["shop"]
        other.start()
        until = looks.by_app["other"] + 5
        eventually(lambda: looks.by_app["other"] >= until, "so many looks of the other one")

        assert looks.by_app["shop"] <= before + 1  # one that was under way
        assert not is_all_over(store)
        assert system.health().not_recovering.startswith("it rests after a fork; expected a run here, ")
        assert killed(lambda: None) is False
        assert caplog.text.count("system shop takes over no run of another process: it rests after a fork") == 1
        begins(system, store)
        eventually(lambda: is_all_over(store), "the run has ended")

        assert (system.health().not_recovering, threads_that_look()) == ("", 2)


@pytest.mark.parametrize("begins", [starts, runs])
def test_a_forked_child_looks_after_its_neighbours_from_its_start_or_first_run_on(
    begins: Callable[[us.ActorSystem, str], None], store: str, effects: Effects, tmp_path: Path
) -> None:
    agent, told = worker("clerk", effects.tool(idempotent=True), ["a"]), tmp_path / "told"

    def child() -> None:
        before = threads_that_look()
        begins(system, store)
        told.write_text(f"{before} {threads_that_look()}")

    with watching(store, agent) as system:
        system.spawn(agent)
        killed(child)

    assert told.read_text() == "0 1"


def test_the_log_says_once_in_each_process_that_no_look_has_begun(
    store: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    line, told = "takes over no run of another process: it has not begun in this process", tmp_path / "told"
    monkeypatch.setattr("understudy.actors.system.recovery.takeovers.TELL", 0.01)

    with us.ActorSystem("begun", store=store, recover="always"), us.ActorSystem("none", store=store):
        system = us.ActorSystem("shop", store=store, recover="always")
        eventually(lambda: f"system shop {line}" in caplog.text, "the line")

        def child() -> None:
            caplog.clear()
            eventually(lambda: f"system shop {line}" in caplog.text, "the line")
            told.write_text("told")

        killed(child)

    assert caplog.text.count(line) == 1
    assert told.read_text() == "told"
    system.stop()


def no_deps(run: us.LeftRun) -> None:
    """Make nothing."""


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"recover": "sometimes"}, ValueError, "recover must be 'always', or None"),
        ({"recover": True}, ValueError, "recover must be 'always', or None"),
        ({"recover": "always", "deps": 3}, TypeError, "deps must be a plain function of a run"),
        ({"recover": "always", "runners": [3]}, TypeError, "runners must be agents, groups or workflows"),
        ({"recover": "always", "runners": 3}, TypeError, "runners must be a list"),
        (
            {
                "recover": "always",
                "runners": [
                    us.Agent("clerk", model=us.ScriptedModel([])),
                    us.Agent("clerk", model=us.ScriptedModel([])),
                ],
            },
            ValueError,
            "two different runners have the id 'clerk'",
        ),
        ({"lease": 1e300}, ValueError, "lease must be at most 86400 seconds"),
        ({"deps": no_deps}, ValueError, "deps= is for recover='always'"),
        ({"adopt": True}, ValueError, "adopt= is for recover='always'"),
        ({"migrate": renamed}, ValueError, "migrate= is for recover='always'"),
        ({"recover": "always", "adopt": 1}, TypeError, "ActorSystem: adopt must be"),
        ({"recover": "always", "migrate": 3}, TypeError, "migrate must be a plain function of a changed run"),
        ({"recover": "always", "adopt": True, "migrate": renamed}, ValueError, "adopt=True or migrate=, not both"),
        ({"recover": "always", "journal": False}, ValueError, "recover needs a durable store and the journal"),
        ({"recover": "always", "store": None}, ValueError, "recover needs a durable store and the journal"),
    ],
)
def test_a_system_that_could_not_recover_is_refused_when_it_is_made(
    options: dict[str, Any], error: type[Exception], words: str, store: str
) -> None:
    given: dict[str, Any] = {"store": store, **options}

    with pytest.raises(error, match=words):
        us.ActorSystem("shop", **given)
