"""A store that fails under an accepted run: the run waits, or is left for another process, and never ends by that."""

from __future__ import annotations

import copy
import pickle
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.killing import Effects
from tests.support.scripts import WAIT, eventually, finished, needs_approval
from understudy.actors.pauses import error_tokens
from understudy.actors.stores.database import Sql
from understudy.actors.stores.runs import RunTable
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.store import Store
from understudy.actors.system import run_endings
from understudy.actors.threads.promise import Promise
from understudy.testing import calls, says

T = TypeVar("T")

MANY = 1_000
NUMBERS = count()


class Shaky(SQLiteDatabase):
    """A database some of whose transactions fail, but for the beats of its processes.

    Attributes:
        works: how many transactions are done before those that fail.
        fails: how many fail then.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(str(file))
        self._guard = threading.Lock()
        self.works, self.fails = MANY, 0
        self.hangs: Gate | None = None
        """Holds each transaction, once it is set."""

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> T:
        self._count()
        return super().write(work, durable=durable)

    def read(self, work: Callable[[Sql], T]) -> T:
        self._count()
        return super().read(work)

    def _count(self) -> None:
        if threading.current_thread().name == "understudy-heartbeat":
            return
        if self.hangs is not None:
            self.hangs()
        with self._guard:
            if self.works:
                self.works -= 1
            elif self.fails:
                self.fails -= 1
                raise us.StoreError("the disk is away", store="shaky")

    def fail(self, after: int, times: int = MANY) -> None:
        """Fail so many times after so many transactions."""
        with self._guard:
            self.works, self.fails = after, times

    def work(self) -> bool:
        """Work from now on; return whether a transaction has failed."""
        with self._guard:
            has_failed = not self.works and self.fails < MANY
            self.works, self.fails = MANY, 0
        return has_failed


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Shaky]:
    made = Shaky(tmp_path / "runs.db")
    yield made
    made.work()


@contextmanager
def system_on(database: Shaky, patience: float = 0.0, **options: Any) -> Generator[us.ActorSystem]:
    system = us.ActorSystem("shop", store=Store(database), store_patience=patience, **options)
    try:
        yield system
    finally:
        system.stop(0.0)


@us.tool(approval=True)
def pay(ctx: us.ToolContext) -> str:
    """Pay."""
    return "paid"


class Shapes:
    """Runs of many kinds, each of which makes one call that has an effect."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.heard: list[str] = []

    def clerk(self, *, asks: bool = False, memory: bool = False, told: bool = False) -> us.Agent:
        def act(ctx: us.ToolContext) -> str:
            self.effects.note(ctx.call_key)
            ctx.session["user:shelf"] = "B-7"
            return "acted"

        def answer(request: us.ModelRequest) -> us.ModelTurn:
            done = sum([len(message.tool_results) for message in request.messages])
            if not done:
                return calls("act")
            return calls("pay") if asks and done == 1 else says("done")

        return us.Agent(
            "clerk",
            model=us.FunctionModel(answer),
            tools=[us.tool(idempotent=True)(act), pay],
            memory=us.PersistentMemory() if memory else None,
            callbacks=[Told(self.heard)] if told else (),
        )

    def all(self) -> dict[str, us.Agent | us.SequentialAgent | us.Workflow]:
        clerk = self.clerk()
        return {
            "alone": clerk,
            "asks": self.clerk(asks=True),
            "remembers": self.clerk(memory=True),
            "asks and remembers": self.clerk(asks=True, memory=True),
            "has callbacks": self.clerk(told=True),
            "in a sequence": us.SequentialAgent("s", [us.ParallelAgent("p", [clerk], on_error="collect")]),
            "in a task": us.Workflow("w", [us.Task("t", self.clerk(asks=True), retries=2)]),
            "below": us.Agent("lead", model=us.FunctionModel(_delegates), sub_agents=[clerk]),
        }


def _delegates(request: us.ModelRequest) -> us.ModelTurn:
    return says("done") if request.messages[-1].tool_results else calls("clerk", input="go")


class Told(us.AgentCallback):
    """Notes which errors it is told of, and gives a text in place of them."""

    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def on_error(self, ctx: us.RunContext, error: BaseException) -> us.OverrideResponse:
        self._heard.append(type(error).__name__)
        return us.OverrideResponse("sorry")


SHAPES = ["alone", "asks", "remembers", "asks and remembers", "has callbacks", "in a sequence", "in a task", "below"]


@pytest.fixture
def shapes(effects: Effects) -> Shapes:
    return Shapes(effects)


def begin(runner: Any, system: us.ActorSystem, **options: Any) -> us.RunHandle[object]:
    handle: us.RunHandle[object] = runner.submit(
        "go", system=system, user_id="ada", conversation_id=f"c-{next(NUMBERS)}", **options
    )
    return handle


def end_of(runner: Any, system: us.ActorSystem, handle: us.RunHandle[object]) -> str:
    """Return how a run ended, once it has been paid for."""
    outcome = handle.result(timeout=WAIT)
    if isinstance(outcome, us.NeedsApproval):
        assert [waits.token for waits in system.pending()] == [outcome.token]
        outcome = runner.resume(outcome.token, us.Approve(), system=system)
    return finished(outcome).text


# --- for good, at each transaction


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_that_cannot_reach_its_store_is_left_and_goes_on_later(
    shape: str, shapes: Shapes, database: Shaky
) -> None:
    runner, accepted, step, has_failed = shapes.all()[shape], 0, -1, True
    while has_failed:
        step += 1
        begun = len(set(shapes.effects.noted))
        with system_on(database) as system:
            database.fail(step)
            try:
                handle = begin(runner, system)
                error = handle.exception(WAIT)
                outcome = None if error else handle.result()
            except us.StoreError as refused:  # before it was accepted: nothing runs
                assert refused.run_id == ""
                database.work()
                continue
            has_failed = database.work()
            if error is not None:
                assert isinstance(error, us.StoreError)
                assert (error.run_id, error.token) == (handle.run_id, "")
                assert "goes on" in str(error)
                (handle,) = system.recover(runners=[runner])
                accepted += 1
                assert end_of(runner, system, handle) == "done"
            elif isinstance(outcome, us.NeedsApproval):
                assert end_of(runner, system, handle) == "done"
            assert system.recover(runners=[runner]) == []
            assert system.pending() == []
        assert len(set(shapes.effects.noted)) == begun + 1
    assert accepted >= 3
    assert "StoreError" not in shapes.heard  # a run that was not accepted is cancelled


def test_a_pause_outlives_two_processes_that_lose_the_store_while_they_tell_it(shapes: Shapes, database: Shaky) -> None:
    clerk, lost = shapes.clerk(asks=True), 0
    for first in range(1, 9):
        for second in range(1, 9):
            with system_on(database) as system:
                database.fail(first)
                handle = begin(clerk, system)
                left = handle.exception(WAIT)
                database.work()
                stored = [each.token for each in system.pending()]
                if left is not None:
                    lost += 1
                    database.fail(second)
                    for again in recovered(system, clerk):
                        again.exception(WAIT)
                    database.work()
                for again in system.recover(runners=[clerk]):
                    needs_approval(again.result(timeout=WAIT))
                (waits,) = system.pending()
                assert stored in ([], [waits.token])
                assert finished(clerk.resume(waits.token, us.Approve(), system=system)).text == "done"
    assert lost > 30


def recovered(system: us.ActorSystem, runner: us.Agent) -> list[us.RunHandle[object]]:
    try:
        return system.recover(runners=[runner])
    except us.StoreError:
        return []


# --- for a while


@pytest.mark.parametrize("shape", SHAPES)
def test_a_store_that_comes_back_costs_a_run_nothing(
    shape: str, shapes: Shapes, database: Shaky, caplog: pytest.LogCaptureFixture
) -> None:
    runner, step, has_failed = shapes.all()[shape], 0, True
    with system_on(database, patience=WAIT) as system:
        while has_failed:
            step += 1
            begun = len(shapes.effects.noted)
            database.fail(step, times=2)
            try:
                handle = begin(runner, system)
                outcome = handle.result(timeout=WAIT)
            finally:
                has_failed = database.works == 0
            database.work()
            if isinstance(outcome, us.NeedsApproval):
                outcome = runner.resume(outcome.token, us.Approve(), system=system)
            assert finished(outcome).status == "complete"
            assert len(shapes.effects.noted) == begun + 1
            assert system.recover(runners=[runner]) == []
        assert system.health().waits_for_store is None
    events = [str(getattr(record, "event", "")) for record in caplog.records]
    assert events.count("store_failed") == events.count("store_returned") > 0
    assert "session_not_saved" not in events


# --- what comes first


@pytest.fixture
def waiting(database: Shaky, shapes: Shapes) -> Iterator[tuple[us.ActorSystem, Callable[..., us.RunHandle[object]]]]:
    """A system, and what begins a run there that waits for the store."""
    with system_on(database, patience=60.0) as system:

        def waits(**options: Any) -> us.RunHandle[object]:
            database.fail(2)
            handle = begin(shapes.clerk(), system, **options)
            eventually(lambda: handle.status().doing == "waiting for the store", "the run waits")
            return handle

        yield system, waits


Waiting = tuple[us.ActorSystem, Callable[..., us.RunHandle[object]]]


def test_a_cancel_ends_the_wait(waiting: Waiting, database: Shaky) -> None:
    system, begin_waiting = waiting
    handle = begin_waiting()

    handle.cancel()

    assert isinstance(handle.exception(WAIT), us.RunCancelled)
    database.work()
    eventually(
        lambda: system.handle(handle.run_id).status().phase == "over", "its end is written when the store is back"
    )


def test_a_deadline_ends_the_wait(waiting: Waiting, database: Shaky) -> None:
    system, begin_waiting = waiting
    handle = begin_waiting(timeout=1.0)

    assert isinstance(handle.exception(WAIT), us.RunTimedOut)
    database.work()
    eventually(
        lambda: system.handle(handle.run_id).status().phase == "over", "its end is written when the store is back"
    )


def test_a_stop_ends_the_wait_and_leaves_the_run(waiting: Waiting, database: Shaky, shapes: Shapes) -> None:
    system, begin_waiting = waiting
    handle = begin_waiting()

    system.stop(WAIT)

    assert isinstance(handle.exception(WAIT), us.StoreError)
    database.work()
    with system_on(database) as other:
        (goes_on,) = other.recover(runners=[shapes.clerk()])
        assert finished(goes_on.result(timeout=WAIT)).text == "done"


def test_health_says_for_how_long_runs_have_been_waiting(waiting: Waiting, database: Shaky) -> None:
    system, begin_waiting = waiting
    handle = begin_waiting()

    health = system.health()

    assert health.waits_for_store is not None
    assert not health.ok
    assert "see to the store" in health.advice
    handle.cancel()
    database.work()
    eventually(lambda: system.health().waits_for_store is None, "nobody waits")


def test_a_run_that_was_left_goes_on_here_when_the_store_is_back(shapes: Shapes, database: Shaky) -> None:
    clerk = shapes.clerk(memory=True)
    with system_on(database, recover="always", runners=[clerk]) as system:
        database.fail(3)
        handle = begin(clerk, system)
        assert isinstance(handle.exception(WAIT), us.StoreError)
        database.work()

        eventually(lambda: system.handle(handle.run_id).status().phase == "over", "the run has ended")
        assert system.handle(handle.run_id).status().reason == "complete"


# --- what can never be kept


def test_an_id_that_no_store_can_keep_ends_the_run_at_once(database: Shaky, shapes: Shapes) -> None:
    with system_on(database, patience=60.0) as system:
        handle = shapes.clerk(memory=True).submit("go", system=system, conversation_id="c\0")

        error = handle.exception(WAIT)

        assert isinstance(error, us.StoreError)
        assert error.run_id == ""
        assert system.handle(handle.run_id).status().phase == "over"


# --- the option and the error


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (-1, ValueError),
        (float("inf"), ValueError),
        (float("nan"), ValueError),
        ("5", TypeError),
        (True, TypeError),
        (None, TypeError),
    ],
)
def test_the_patience_is_a_number_of_seconds(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="store_patience must be"):
        us.ActorSystem("shop", store_patience=given)


def test_the_error_keeps_the_id_of_the_run_where_it_goes() -> None:
    error = us.StoreError("away", store="shaky", run_id="shop-1")

    for each in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(each), each.store, each.run_id) == ("away", "shaky", "shop-1")
    assert us.StoreError("away").run_id == ""


# --- with a stop, a cancel, a deadline


def test_a_run_whose_end_hangs_in_its_store_is_left_by_a_stop(database: Shaky) -> None:
    model, hangs = Gate(), Gate()
    clerk = us.Agent("clerk", model=us.FunctionModel(model.then(says("done"))))
    with system_on(database) as system:
        handle = clerk.submit("go", system=system)
        assert model.entered.wait(WAIT)
        database.hangs = hangs
        model.open()
        assert hangs.entered.wait(WAIT)
        database.hangs = None  # no other transaction hangs, so that an end in its place would be written
        system.stop(0.0)
        error = handle.exception(WAIT)
        hangs.open()

    assert isinstance(error, us.RunCancelled)
    with system_on(database) as later:
        ended = later.handle(handle.run_id).status()
        left = later.recover(runners=[clerk])
        assert [finished(each.result(WAIT)).text for each in left] == ["done"] or ended.reason == "complete"


def test_a_stop_waits_once_for_all_runs_whose_pauses_hang(database: Shaky, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = list[float]()
    wait: Callable[..., bool] = vars(Promise)["wait"]

    def noted(promise: Promise[Any], timeout: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread():
            waited.append(timeout or 0.0)
        return wait(promise, timeout)

    gates = [Gate() for _ in range(5)]
    hangs = Gate()
    with system_on(database) as system:
        for number, gate in enumerate(gates):
            agent = us.Agent(f"a{number}", model=us.FunctionModel(gate.then(calls("pay"))), tools=[pay])
            agent.submit("go", system=system)
        assert all(gate.entered.wait(WAIT) for gate in gates)
        database.hangs = hangs
        for gate in gates:
            gate.open()
        assert hangs.entered.wait(WAIT)
        monkeypatch.setattr(Promise, "wait", noted)
        system.stop(0.0)
        monkeypatch.undo()
        database.hangs = None
        hangs.open()

    assert sum(waited) < 2 * error_tokens.AT_LEAST


@pytest.mark.parametrize("by", ["cancel", "deadline"])
def test_a_run_that_was_ended_in_an_outage_stays_over_however_long_that_lasts(
    database: Shaky, tmp_path: Path, by: str
) -> None:
    shapes, gate = Shapes(Effects(tmp_path / "effects")), Gate()
    clerk = shapes.clerk().replace(model=us.FunctionModel(gate.then(calls("act"))))
    with system_on(database, recover="always", runners=[clerk]) as system:
        handle = clerk.submit("go", system=system, timeout=0.2 if by == "deadline" else None)
        assert gate.entered.wait(WAIT)
        database.fail(after=0)
        if by == "cancel":
            handle.cancel()
        assert isinstance(handle.exception(WAIT), us.RunCancelled | us.RunTimedOut)
        eventually(lambda: database.fails < MANY - 3, "its end was tried again, beyond the patience")
        database.work()
        eventually(lambda: system.handle(handle.run_id).status().phase == "over", "its end is in the store")
        gate.open()

        reason = system.handle(handle.run_id).status().reason
        assert (reason == "cancelled") is (by == "cancel")
    assert shapes.effects.noted == []


@pytest.mark.parametrize("by", ["cancel", "deadline"])
def test_a_cancel_and_a_deadline_do_not_wait_for_a_store_that_hangs(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_tokens, "HANGS", 0.1)
    gate = Gate()
    clerk = us.Agent("clerk", model=us.FunctionModel(gate.then(says("done"))))
    database = SQLiteDatabase(str(tmp_path / "shop.db"))
    with us.ActorSystem("shop", store=Store(database)) as system:
        handle = clerk.submit("go", system=system, timeout=1.0 if by == "deadline" else None)
        assert gate.entered.wait(WAIT)
        with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waits = threading.Thread(target=lambda: system.erase("nobody"))  # a write that hangs
            waits.start()
            eventually(lambda: (database.figures().busy_for or 0.0) > 0.1, "the store hangs")
            began = time.monotonic()
            if by == "cancel":
                handle.cancel()
            error = handle.exception(WAIT)
            took = time.monotonic() - began
            other.execute("ROLLBACK")
        waits.join(WAIT)
        gate.open()

        assert isinstance(error, us.RunCancelled if by == "cancel" else us.RunTimedOut)
        assert error.token == ""
        assert took < error_tokens.PATIENCE
        eventually(lambda: system.handle(handle.run_id).status().phase == "over", "its end is in the store")
        assert system.pending() == []


@pytest.mark.parametrize("turn", [says("done"), says("__ask_user__: Which?")], ids=["end", "pause"])
def test_a_cancel_that_comes_while_the_end_is_being_written_tells_no_other_end(
    turn: us.ModelTurn, database: Shaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_endings, "AT_HAND", WAIT)
    writes, end_in = Gate(), RunTable.end_in

    def held(*given: Any, **named: Any) -> bool:
        writes()
        return end_in(*given, **named)

    monkeypatch.setattr(RunTable, "end_in", held)
    clerk = us.Agent("clerk", model=us.ScriptedModel([turn]))
    with system_on(database, patience=WAIT) as system:
        handle = clerk.submit("go", system=system)
        assert writes.entered.wait(WAIT)
        cancels = threading.Thread(target=handle.cancel)
        cancels.start()
        writes.open()
        cancels.join(WAIT)

        outcome = handle.result(WAIT)
        last = list(system.handle(handle.run_id).events())[-1]

    assert isinstance(last, us.RunFinished)
    assert last.outcome.status == outcome.status
    assert (last.seq, last.time) == [(each.seq, each.time) for each in handle.events()][-1]


def test_recover_finds_what_another_system_of_this_process_left(postgres_url: str) -> None:
    gate = Gate()
    clerk = us.Agent("clerk", model=us.FunctionModel(gate.then(says("done"))))
    first = us.ActorSystem("shop", store=postgres_url)
    handle = clerk.submit("go", system=first)
    assert gate.entered.wait(WAIT)
    first.stop(0.0)
    gate.open()

    with us.ActorSystem("shop", store=postgres_url) as second:
        (left,) = second.recover(runners=[clerk])
        assert (left.run_id, finished(left.result(WAIT)).text) == (handle.run_id, "done")
