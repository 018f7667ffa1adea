"""An orderly stop loses nothing: runs under way end, with the runs inside of them, or they are left and go on later."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import understudy as us
from tests.hosts.processes import output_of
from tests.support.gates import Gate
from tests.support.killing import Effects, Runner
from tests.support.scripts import WAIT, eventually, finished
from tests.support.stores import DictStore
from understudy.actors.runs.record import RunRecord
from understudy.actors.stores.runs import RunTable
from understudy.actors.system.actor_system import runs_of
from understudy.actors.system.run_endings import Journaling
from understudy.actors.waiting.graph import graph
from understudy.testing import calls, says

WORDS = ["p", "q"]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a store of a busy machine."""
    monkeypatch.setattr("understudy.actors.pauses.error_tokens.AT_LEAST", WAIT)
    monkeypatch.setattr("understudy.actors.pauses.error_tokens.PATIENCE", WAIT)


class Stage:
    """Runners whose models all come here before they answer; one of their calls is held.

    Args:
        effects: where their tool notes what it did.
        held: the number of the model call that waits for the gate, counted from 0.
    """

    def __init__(self, effects: Effects, held: int = 0) -> None:
        self.gate = Gate()
        self._held = held
        self._calls = 0
        self._lock = threading.Lock()
        self._tool = effects.tool()

    def enter(self) -> None:
        with self._lock:
            self._calls += 1
            is_held = self._calls == self._held + 1
        if is_held:
            self.gate()

    def agent(
        self,
        id: str,
        words: Sequence[str],
        sub_agents: Sequence[us.Agent] = (),
        callbacks: Sequence[us.AgentCallback] = (),
    ) -> us.Agent:
        """Return an agent that has an effect for each word, or calls the sub-agent or the tool of this name."""
        below = {each.id for each in sub_agents}

        def next_turn(request: us.ModelRequest) -> us.ModelTurn:
            self.enter()
            done = [result for message in request.messages for result in message.tool_results]
            if len(done) < len(words):
                word = words[len(done)]
                return calls(word, input="go") if word in below else calls("act", word=word)
            return says(f"{id}: {', '.join([each.content for each in done])}")

        return us.Agent(
            id, model=us.FunctionModel(next_turn), tools=[self._tool], sub_agents=sub_agents, callbacks=callbacks
        )

    def sequence(self) -> Runner:
        return us.SequentialAgent("seq", [self.agent("one", "a"), self.agent("two", "b"), self.lead()])

    def parallel(self) -> Runner:
        agents = [self.agent("one", "a"), self.lead(), self.agent("two", "b")]
        return us.ParallelAgent("par", agents, max_parallel=1)

    def lead(self) -> us.Agent:
        low = self.agent("low", "x")
        return self.agent("top", ["y", "mid", "z"], [self.agent("mid", ["low", "v"], [low])])

    def workflow(self) -> Runner:
        return us.Workflow(
            "flow",
            max_parallel=1,  # a call that is under way when the system stops may be in doubt
            tasks=[
                us.Task("first", self.agent("one", "a"), prompt="go"),
                us.Task("each", self.agent("two", "b"), prompt="${item}", for_each="${words}", dependencies=["first"]),
                us.Task("never", self.agent("no", "n"), prompt="go", dependencies=["each"], when=lambda _: False),
                us.Task("then", self.lead(), prompt="go", dependencies=["each"], when=lambda _: True),
            ],
        )


Shape: TypeAlias = Callable[[Stage], Runner]
SHAPES: dict[str, tuple[Shape, int]] = {
    "agent": (lambda stage: stage.agent("one", ["a", "b"]), 2),
    "sub-agents": (Stage.lead, 4),
    "sequence": (Stage.sequence, 6),
    "parallel group": (Stage.parallel, 6),
    "workflow": (Stage.workflow, 7),
}
"""A runner of each kind whose inner runs belong to its journal, and how many effects its run has."""


def in_tool(stage: Stage) -> Runner:
    """Return an agent whose tools begin runs, spawn actors, and map."""
    inner = stage.agent("inner", "a")

    def delegate() -> str:
        """Ask another agent."""
        us.current_system().spawn(us.Actor[object], name="helper")
        texts = [finished(inner.run("go")).text, finished(inner.submit("go").result(WAIT)).text]
        for answer in inner.map(["go"]):
            assert isinstance(answer, us.MapAnswer)
            texts.append(answer.outcome.text)
        return "; ".join(texts)

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        stage.enter()
        last = request.messages[-1]
        return says(last.tool_results[0].content) if last.tool_results else calls("delegate")

    return us.Agent("outer", model=us.FunctionModel(next_turn), tools=[delegate])


def in_callback(stage: Stage) -> Runner:
    """Return an agent whose callback begins a run."""
    inner = stage.agent("inner", "a")

    class Reviews(us.AgentCallback):
        def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> None:
            finished(inner.run("go"))

    return stage.agent("outer", "b", callbacks=[Reviews()])


def in_actor(stage: Stage) -> Runner:
    """Return an agent whose tool asks an actor that begins a run."""
    inner = stage.agent("inner", "a")

    class Desk(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            return finished(inner.run(message)).text

    def ask_desk() -> str:
        """Ask the actor."""
        return str(us.current_system().spawn(Desk, name="desk").ask("go", timeout=WAIT))

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        stage.enter()
        last = request.messages[-1]
        return says(last.tool_results[0].content) if last.tool_results else calls("ask_desk")

    return us.Agent("outer", model=us.FunctionModel(next_turn), tools=[ask_desk])


LET_END = SHAPES | {
    "runs in a tool": (in_tool, 3),
    "run in a callback": (in_callback, 2),
    "run in an actor": (in_actor, 1),
}


def submit(runner: Any, system: us.ActorSystem) -> us.RunHandle[Any]:
    if isinstance(runner, us.Workflow):
        return runner.submit(parameters={"words": WORDS}, system=system)
    handle: us.RunHandle[Any] = runner.submit("go", system=system)
    return handle


def check(outcome: us.Outcome[Any], effects: Effects, wanted: int) -> None:
    assert "stopped" not in finished(outcome).text
    assert (len(effects.noted), effects.repeated) == (wanted, [])


GRACE: dict[str, Callable[[us.ActorSystem], object]] = {
    "stop": lambda system: system.stop(WAIT),
    "end of the block": lambda system: system.__exit__(None, None, None),
}


@pytest.mark.parametrize("has_store", [False, True], ids=["memory", "store"])
@pytest.mark.parametrize("stop", GRACE.values(), ids=GRACE)
@pytest.mark.parametrize("shape", LET_END.values(), ids=LET_END)
def test_a_system_that_stops_lets_runs_end_with_the_runs_inside_of_them(
    shape: tuple[Shape, int], stop: Callable[[us.ActorSystem], object], has_store: bool, store: str, effects: Effects
) -> None:
    make, wanted = shape
    stage = Stage(effects)
    runner = make(stage)
    system = us.ActorSystem("shop", store=store if has_store else None)
    handle = submit(runner, system)
    assert stage.gate.entered.wait(WAIT)
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(stop, system)
        eventually(lambda: runs_of(system).is_stopping, "the system stops")
        with pytest.raises(us.AgentDown, match="'shop' has stopped"):
            submit(runner, system)
        assert system.stop(WAIT) == ()  # the first call stops it
        stage.gate.open()
        stopping.result(WAIT)

    check(handle.result(0.0), effects, wanted)
    if has_store:
        assert us.ActorSystem("shop", store=store).recover(runners=[runner]) == []


def stop_at_once(system: us.ActorSystem) -> None:
    system.stop(0.0)


def leave_by_interrupt(system: us.ActorSystem) -> None:
    with pytest.raises(KeyboardInterrupt), system:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("stop", "by_token"), [(stop_at_once, True), (leave_by_interrupt, False)], ids=["token", "recover"]
)
@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_run_that_is_not_over_in_time_is_left_and_goes_on_wherever_it_stood(
    shape: tuple[Shape, int], stop: Callable[[us.ActorSystem], object], by_token: bool, tmp_path: Path
) -> None:
    make, wanted = shape

    def is_held(number: int) -> bool:
        """Stop the system while this call of a model is under way, and go on with the run; False if the run is over before."""
        store, effects = f"sqlite:///{tmp_path}/{number}.db", Effects(tmp_path / f"effects-{number}")
        stage = Stage(effects, number)
        runner = make(stage)
        system = us.ActorSystem("shop", store=store)
        handle = submit(runner, system)
        eventually(lambda: stage.gate.entered.is_set() or handle.done(), "a call of a model is held")
        if handle.done():
            check(handle.result(0.0), effects, wanted)
            return False
        stop(system)
        error = handle.exception(0.0)
        stage.gate.open()
        assert isinstance(error, us.RunCancelled)
        assert str(error).endswith("system 'shop' stopped")
        with us.ActorSystem("shop", store=store) as after:
            if by_token:
                outcome = runner.resume(error.token, system=after)
            else:
                (again,) = after.recover(runners=[runner])
                outcome = again.result(WAIT)
        check(outcome, effects, wanted)
        return True

    assert next(number for number in count() if not is_held(number)) > wanted


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_without_a_store_a_run_that_is_not_over_in_time_says_that_a_store_would_have_kept_it(
    shape: tuple[Shape, int], effects: Effects
) -> None:
    stage = Stage(effects)
    system = us.ActorSystem("shop")
    handle = submit(shape[0](stage), system)
    assert stage.gate.entered.wait(WAIT)

    system.stop(0.0)
    error = handle.exception(0.0)
    stage.gate.open()

    assert isinstance(error, us.RunCancelled)
    assert str(error).endswith("system 'shop' stopped, and has no store, which would have kept the run")
    assert error.token == ""


@pytest.mark.parametrize("has_time", [False, True], ids=["left", "let end"])
def test_a_run_that_waits_for_a_place_is_part_of_what_is_under_way(
    has_time: bool, store: str, effects: Effects
) -> None:
    stage = Stage(effects)
    runner = stage.sequence()
    system = us.ActorSystem("shop", store=store, max_runs=1)
    handles = [submit(runner, system) for _ in range(2)]
    assert stage.gate.entered.wait(WAIT)
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(system.stop, WAIT if has_time else 0.0)
        if not has_time:
            stopping.result(WAIT)
        eventually(lambda: runs_of(system).is_stopping, "the system stops")
        stage.gate.open()
        stopping.result(WAIT)

    if not has_time:
        assert all(isinstance(handle.exception(0.0), us.RunCancelled) for handle in handles)
        handles = us.ActorSystem("shop", store=store).recover(runners=[runner])
    assert [handle.result(WAIT).status for handle in handles] == ["complete", "complete"]
    assert (len(effects.noted), effects.repeated) == (12, [])


@pytest.mark.parametrize("has_time", [False, True], ids=["left", "let end"])
def test_the_runs_of_a_map_whose_next_input_is_refused_are_not_cancelled(
    has_time: bool, store: str, effects: Effects
) -> None:
    stage = Stage(effects)
    runner = stage.sequence()
    system = us.ActorSystem("shop", store=store)
    refused = threading.Event()

    def inputs() -> Any:
        yield "go"
        assert stage.gate.entered.wait(WAIT)
        eventually(lambda: runs_of(system).is_stopping, "the system stops")
        yield "refused"

    def iterate() -> None:
        with pytest.raises(us.AgentDown, match="'shop' has stopped"):
            list(runner.map(inputs(), system=system))
        refused.set()

    with ThreadPoolExecutor(2) as pool:
        mapping = pool.submit(iterate)
        assert stage.gate.entered.wait(WAIT)
        (run_id,) = [record.run_id for record in runs_of(system).in_flight() if not record.is_inner]
        stopping = pool.submit(system.stop, WAIT if has_time else 0.0)
        assert refused.wait(WAIT)
        if not has_time:
            stopping.result(WAIT)
        stage.gate.open()
        assert stopping.result(WAIT) == () or not has_time
        mapping.result(WAIT)

    left = us.ActorSystem("shop", store=store).recover(runners=[runner])
    assert [handle.run_id for handle in left] == ([] if has_time else [run_id])
    assert all(finished(handle.result(WAIT)) for handle in left)
    assert (len(effects.noted), effects.repeated) == (6, [])


@pytest.mark.usefixtures("patient")
def test_a_turn_that_the_stop_of_its_system_cuts_off_goes_on_with_the_token_of_its_error(
    store: str, effects: Effects
) -> None:
    stage = Stage(effects, 1)
    agent = stage.agent("one", ["a", "b"])
    system = us.ActorSystem("shop", store=store)
    first = agent.run_turn("go", system=system)
    assert isinstance(first, us.MoreTurns)
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(agent.run_turn, token=first.token, system=system)
        assert stage.gate.entered.wait(WAIT)
        system.stop(0.0)
        error = turn.exception(WAIT)
    stage.gate.open()
    assert isinstance(error, us.RunCancelled)
    with us.ActorSystem("shop", store=store) as after:
        with pytest.raises(us.TokenUsed) as used:
            agent.run_turn(token=first.token, system=after)
        assert used.value.next == error.token
        step = agent.run_turn(token=error.token, system=after)
        while isinstance(step, us.MoreTurns):
            step = agent.run_turn(token=step.token, system=after)

    check(step, effects, 2)


def test_a_system_stops_although_its_store_hangs(store: str, effects: Effects) -> None:
    stage = Stage(effects, 2)
    runner = stage.sequence()
    system = us.ActorSystem("shop", store=store)
    handles = [submit(runner, system) for _ in range(3)]
    assert stage.gate.entered.wait(WAIT)
    eventually(lambda: sum(handle.done() for handle in handles) == 2, "the others are over")
    other = sqlite3.connect(store.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")

    system.stop(0.0)
    hangs = other.in_transaction
    error = next(found for handle in handles if (found := handle.exception(0.0)) is not None)
    other.close()
    stage.gate.open()

    assert hangs
    assert isinstance(error, us.RunCancelled)
    left = r"It has no token: the store did not answer within \d(\.\d+)? s; the run is left for system\.recover\(\)"
    assert any(re.fullmatch(left, note) for note in error.__notes__)
    (again,) = us.ActorSystem("shop", store=store).recover(runners=[runner])
    check(again.result(WAIT), effects, 18)


def test_a_store_that_hangs_is_waited_for_once_when_a_system_stops() -> None:
    gate, hangs = Gate(), Gate()
    store = DictStore()
    store.on_call = lambda name: hangs() if name == "put" else None
    agent = us.Agent("clerk", model=us.FunctionModel(gate.then(says("late"))))
    system = us.ActorSystem("shop", store=store)
    handles = [agent.submit("go", system=system) for _ in range(20)]
    eventually(
        lambda: all(handle.status().turns == 0 and gate.entered.is_set() for handle in handles), "all have begun"
    )

    assert len(system.stop(0.0)) == 20
    gate.open()
    hangs.open()

    assert [getattr(handle.exception(0.0), "token", None) for handle in handles] == [""] * 20


# --- at the moment of the stop


@pytest.mark.usefixtures("patient")
def test_a_run_whose_end_is_being_noted_ends(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, end = Gate(), RunTable.end

    def held(*given: Any, **named: Any) -> bool:
        gate()
        return end(*given, **named)

    monkeypatch.setattr(RunTable, "end", held)
    agent = us.Agent("clerk", model=us.FunctionModel(lambda _: says("done")))
    system = us.ActorSystem("shop", store=store)
    handle = agent.submit("go", system=system)
    assert gate.entered.wait(WAIT)
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(system.stop, 0.0)
        eventually(lambda: runs_of(system).is_stopping, "the system stops")
        gate.open()

        assert stopping.result(WAIT) == ()
    assert finished(handle.result(0.0)).text == "done"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("answer", [says("done"), us.AuthenticationError("no key"), calls("ask_user", question="Who?")])
def test_a_run_that_comes_to_its_end_after_it_was_left_goes_on_later(
    answer: us.ModelTurn | Exception, store: str
) -> None:
    first, second = Gate(), Gate()

    def agent(id: str, gate: Gate, then: us.ModelTurn | Exception) -> us.Agent:
        def next_turn(request: us.ModelRequest) -> us.ModelTurn:
            was_held = gate.entered.is_set()
            gate()
            if isinstance(then, Exception) and not was_held:
                raise then
            return says("done") if was_held or isinstance(then, Exception) else then

        return us.Agent(id, model=us.FunctionModel(next_turn), tools=[us.ask_user])

    early, late = agent("early", first, answer), agent("late", second, says("done"))
    system = us.ActorSystem("shop", store=store)
    handles = [each.submit("go", system=system) for each in (early, late)]
    assert first.entered.wait(WAIT) and second.entered.wait(WAIT)
    record = runs_of(system).find(handles[0].run_id)
    assert record is not None
    work = record.in_hand
    assert work is not None

    def let_it_end(_: object) -> None:
        """Let the other run come to its end, on the thread that stops the system, before that cancels it."""
        first.open()
        eventually(lambda: work.returned, "the work has done what it can")

    handles[1].add_done_callback(let_it_end)
    system.stop(0.0)
    second.open()

    assert all(isinstance(handle.exception(0.0), us.RunCancelled) for handle in handles)
    with us.ActorSystem("shop", store=store) as after:
        left = {handle.run_id: handle.result(WAIT) for handle in after.recover(runners=[early, late])}
    assert set(left) == {handle.run_id for handle in handles}
    assert {outcome.status for outcome in left.values()} <= {"complete", "needs_input"}


@pytest.mark.usefixtures("patient")
def test_a_run_that_a_tool_begins_while_others_are_cancelled_does_not_end_before_the_run_around_it(store: str) -> None:
    begin, model, other = Gate(), Gate(), Gate()
    inner = us.Agent("inner", model=us.FunctionModel(model.then(says("late"))))

    def delegate() -> str:
        """Ask another agent."""
        begin()
        return finished(inner.run("go")).text

    turns: list[int] = []

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        turns.append(request.turn)
        return calls("delegate")

    outer = us.Agent("outer", model=us.FunctionModel(next_turn), tools=[delegate])
    system = us.ActorSystem("shop", store=store)
    handle = outer.submit("go", system=system)
    assert begin.entered.wait(WAIT)
    last = us.Agent("last", model=us.FunctionModel(other.then(says("late")))).submit("go", system=system)
    assert other.entered.wait(WAIT)

    def let_it_begin(_: object) -> None:
        begin.open()
        assert model.entered.wait(WAIT)

    last.add_done_callback(
        let_it_begin
    )  # called on the thread that stops the system, before that comes to the other run
    system.stop(0.0)
    for gate in (model, other):
        gate.open()

    assert model.entered.is_set()
    assert isinstance(handle.exception(0.0), us.RunCancelled)
    assert system.in_flight == 0
    assert turns == [1]


def test_a_run_that_waits_for_a_later_one_hears_nothing_of_the_stop(store: str) -> None:
    gate, waits = Gate(), threading.Event()
    later: list[us.RunHandle[str]] = []
    turns: list[int] = []

    def wait() -> str:
        """Wait for the other run."""
        waits.set()
        eventually(lambda: bool(later), "the other run has begun")
        return finished(later[0].result(WAIT)).text

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        turns.append(request.turn)
        return calls("wait")

    system = us.ActorSystem("shop", store=store)
    first = us.Agent("first", model=us.FunctionModel(next_turn), tools=[wait]).submit("go", system=system)
    assert waits.wait(WAIT)
    later.append(us.Agent("later", model=us.FunctionModel(gate.then(says("late")))).submit("go", system=system))
    assert gate.entered.wait(WAIT)
    eventually(lambda: len(graph) > 0, "the first run waits for the later one")
    # It delays whoever ends the later run for as long as the first one can go on.
    later[0].add_done_callback(lambda _: eventually(first.done, "the first run is over"))

    system.stop(0.0)
    gate.open()

    assert isinstance(first.exception(0.0), us.RunCancelled)
    assert turns == [1]


@pytest.mark.usefixtures("patient")
def test_a_run_that_another_one_of_its_whole_had_cancelled_is_left_too(store: str) -> None:
    gates = [Gate(), Gate()]
    agents = [us.Agent(f"a{at}", model=us.FunctionModel(gate.then(says("done")))) for at, gate in enumerate(gates)]
    system = us.ActorSystem("shop", store=store)
    whole = us.collect([agent.submit("go", system=system) for agent in agents])
    assert all(gate.entered.wait(WAIT) for gate in gates)

    system.stop(0.0)
    for gate in gates:
        gate.open()

    assert isinstance(whole.exception(WAIT), us.RunCancelled)
    left = us.ActorSystem("shop", store=store).recover(runners=agents)
    assert [finished(handle.result(WAIT)).text for handle in left] == ["done", "done"]


def test_a_run_that_is_accepted_while_its_system_stops_is_left(
    store: str, monkeypatch: pytest.MonkeyPatch, patient: None
) -> None:
    """Its row is written when all runs have been cancelled and its actor has stopped."""
    gate, begin = Gate(), Journaling.begin

    def slowly(journaling: Journaling, record: RunRecord, *also: Any) -> None:
        begin(journaling, record, *also)
        gate()

    clerk = us.Agent("clerk", model=us.FunctionModel(lambda request: says("Done.")))
    system = us.ActorSystem("shop", store=store)
    monkeypatch.setattr(Journaling, "begin", slowly)
    with ThreadPoolExecutor(1) as caller:
        submitted = caller.submit(clerk.submit, "go", system=system)
        assert gate.entered.wait(WAIT)
        system.stop(0.1)
        gate.open()
        error = submitted.result(WAIT).exception(WAIT)

    assert isinstance(error, us.RunCancelled)
    with us.ActorSystem("shop", store=store) as later:
        (handle,) = later.recover(runners=[clerk])
        assert finished(handle.result(WAIT)).text == "Done."


# --- Ctrl-C


LISTENS = """
import os, signal, threading
import understudy as us
from understudy.testing import calls, says

@us.tool(timeout=None)
def listen(ctx: us.ToolContext) -> str:
    try:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        ctx.scope.sleep(30)
    finally:
        leaving.wait(10)
        os.write(1, b"cleaned up\\n")
    return ""

@us.tool(timeout=None)
def ask() -> str:
    return clerk.run("go").text

leaving = threading.Event()
signal.signal(signal.SIGINT, signal.default_int_handler)
clerk = us.Agent("clerk", model=us.FunctionModel(lambda _: calls("listen")), tools=[listen])
lead = us.Agent("lead", model=us.FunctionModel(lambda _: calls("ask")), tools=[ask])
try:
    RUNNER.run("go")
except KeyboardInterrupt:
    os.write(1, b"interrupted\\n")
    leaving.set()
"""


@pytest.mark.parametrize(
    "runner", ["clerk", "lead", "us.SequentialAgent('seq', [clerk])", "us.SequentialAgent('seq', [lead])"]
)
def test_after_a_ctrl_c_a_tool_that_listens_cleans_up_before_the_process_ends(runner: str) -> None:
    printed = output_of("-c", LISTENS.replace("RUNNER", runner))

    assert printed == "interrupted\ncleaned up\n"
