"""Tools that say how many of their calls may run at once, in real runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished, results_of
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.waiting.graph import graph as waiting_graph
from understudy.testing import ScriptedModel, calls, says


class Bench:
    """What calls do while they run: hold the gate, and note how many were there at once."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.lock = threading.Lock()
        self.running = 0
        self.most = 0
        self.began: list[int] = []

    def hold(self, number: int) -> str:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
            self.began.append(number)
        try:
            assert self.gate.wait(WAIT)
        finally:
            with self.lock:
                self.running -= 1
        return f"held {number}"


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.gate.set()


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as system:
        yield system
        system.stop(0.0)


def agent_with(tool: us.ToolLike, *turns: us.ModelTurn, id: str = "clerk") -> us.Agent:
    return us.Agent(id, model=ScriptedModel([*turns, says("ok")]), tools=[tool])


def waits_are(number: int) -> bool:
    return len(waiting_graph) == number


def several(count: int) -> us.ModelTurn:
    turn = calls("hold", number=0)
    for number in range(1, count):
        turn = turn + calls("hold", number=number)
    return turn


def test_calls_of_one_turn_take_turns(bench: Bench, system: us.ActorSystem) -> None:
    tool = us.tool(max_parallel=2)(bench.hold)
    handle = agent_with(tool, several(5)).submit("go", system=system)
    eventually(lambda: len(bench.began) == 2, "two have begun")
    bench.gate.set()

    outcome = finished(handle.result(WAIT))

    assert [result.content for result in results_of(outcome)] == [f"held {n}" for n in range(5)]
    assert bench.most == 2
    assert sorted(bench.began[:2]) == [0, 1]


def test_calls_of_many_runs_take_turns_and_those_that_wait_hold_no_thread_of_their_own(
    bench: Bench, system: us.ActorSystem
) -> None:
    tool = us.tool(max_parallel=3)(bench.hold)
    handles = [agent_with(tool, several(1), id=f"a{n}").submit("go", system=system) for n in range(12)]
    eventually(lambda: len(bench.began) == 3, "three have begun")
    bench.gate.set()

    for handle in handles:
        assert [result.content for result in results_of(handle.result(WAIT))] == ["held 0"]
    assert bench.most == 3


def test_the_time_of_a_call_begins_when_its_turn_comes(bench: Bench, system: us.ActorSystem) -> None:
    first, second = threading.Event(), threading.Event()

    @us.tool(max_parallel=1, timeout=0.4)
    def quick(number: int) -> str:
        (first if number == 0 else second).wait(0.3)  # two of these do not fit into one time limit
        return str(number)

    outcome = agent_with(quick, calls("quick", number=0) + calls("quick", number=1)).run("go", system=system)

    assert [result.content for result in results_of(outcome)] == ["0", "1"]


def test_a_call_that_stood_in_line_is_given_up_in_its_own_time(bench: Bench, system: us.ActorSystem) -> None:
    @us.tool(max_parallel=1, timeout=0.05)
    def hold_second(number: int) -> str:
        return "quick" if number == 0 else bench.hold(number)

    turn = calls("hold_second", number=0) + calls("hold_second", number=1)
    outcome = agent_with(hold_second, turn).run("go", system=system, timeout=WAIT)

    assert [result.error_kind for result in results_of(outcome)] == ["", "timed_out"]
    assert system.hung == 1
    bench.gate.set()
    eventually(lambda: system.hung == 0, "it has come back")


def test_calls_that_hang_keep_their_slots_and_others_are_told_at_once(bench: Bench, system: us.ActorSystem) -> None:
    tool = us.tool(max_parallel=2, timeout=0.05)(bench.hold)
    outcome = agent_with(tool, several(4)).run("go", system=system, timeout=WAIT)

    kinds = [result.error_kind for result in results_of(outcome)]
    assert sorted(kinds) == ["timed_out", "timed_out", "unavailable", "unavailable"]
    assert len(bench.began) == 2
    later = agent_with(tool, several(1), id="other").run("go", system=system, timeout=WAIT)
    (result,) = results_of(later)
    assert (result.error_kind, "never came back" in result.content) == ("unavailable", True)
    bench.gate.set()
    eventually(lambda: system.hung == 0, "they have come back")
    again = agent_with(tool, several(1), id="again").run("go", system=system, timeout=WAIT)
    assert [result.content for result in results_of(again)] == ["held 0"]


@pytest.mark.parametrize("several_calls", [1, 3])
def test_a_run_that_is_cancelled_frees_the_line_and_keeps_the_slots_of_what_hangs(
    bench: Bench, system: us.ActorSystem, several_calls: int
) -> None:
    tool = us.tool(max_parallel=1, timeout=None)(bench.hold)
    handle = agent_with(tool, several(several_calls)).submit("go", system=system)
    eventually(lambda: bench.began == [0], "one has begun")
    waiting = agent_with(tool, several(1), id="waiting").submit("go", system=system)
    assert handle.cancel()

    (result,) = results_of(waiting.result(WAIT))
    assert result.error_kind == "unavailable"
    bench.gate.set()
    eventually(lambda: system.hung == 0, "it has come back")
    again = agent_with(tool, several(1), id="again").run("go", system=system, timeout=WAIT)
    assert [result.content for result in results_of(again)] == ["held 0"]
    assert bench.began == [0, 0]  # the calls that stood in line never ran


def test_a_call_that_waits_for_a_slot_that_its_own_caller_holds_is_refused(system: us.ActorSystem) -> None:
    @us.tool(max_parallel=1, timeout=WAIT)
    def narrow(deep: bool) -> str:
        if not deep:
            return "bottom"
        try:
            return finished(inner.run("go", timeout=WAIT)).text
        except us.CircularAgentCall as error:
            return " -> ".join(error.path)

    inner = us.Agent("inner", model=ScriptedModel([calls("narrow", deep=False), says("ok")]), tools=[narrow])
    outer = us.Agent("outer", model=ScriptedModel([calls("narrow", deep=True), says("ok")]), tools=[narrow])

    outcome = outer.run("go", system=system, timeout=WAIT)
    assert [result.content for result in results_of(outcome)] == ["inner -> outer -> inner"]


def test_a_slot_that_someone_else_holds_too_is_waited_for(bench: Bench, system: us.ActorSystem) -> None:
    @us.tool(max_parallel=2, timeout=WAIT)
    def narrow(what: str) -> str:
        if what == "hold":
            return bench.hold(0)
        return finished(inner.run("go", timeout=WAIT)).text if what == "delegate" else "bottom"

    inner = us.Agent("inner", model=ScriptedModel([calls("narrow", what="end"), says("inner ok")]), tools=[narrow])
    holder = agent_with(narrow, calls("narrow", what="hold"), id="holder").submit("go", system=system)
    eventually(lambda: bench.began == [0], "the other slot is taken")
    outer = agent_with(narrow, calls("narrow", what="delegate"), id="outer").submit("go", system=system)
    eventually(lambda: any(run.agent_id == "inner" for run in system.health().runs), "the inner run is under way")
    bench.gate.set()

    assert [result.content for result in results_of(outer.result(WAIT))] == ["inner ok"]
    assert finished(holder.result(WAIT)).text == "ok"


def test_a_call_that_may_be_repeated_takes_another_slot(bench: Bench, system: us.ActorSystem) -> None:
    began: list[int] = []

    @us.tool(max_parallel=2, timeout=0.05, retries=1, idempotent=True)
    def flaky() -> str:
        began.append(1)
        if len(began) == 1:
            assert bench.gate.wait(WAIT)
        return f"attempt {len(began)}"

    outcome = agent_with(flaky, calls("flaky")).run("go", system=system, timeout=WAIT)

    assert [result.content for result in results_of(outcome)] == ["attempt 2"]


@pytest.mark.parametrize(("given", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_max_parallel_is_a_whole_number_of_at_least_one(given: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="tool 'hold': max_parallel must be"):
        us.tool(max_parallel=given)(Bench().hold)  # type: ignore[call-overload]  # pyright: ignore


def test_who_was_before_it_in_line_and_comes_to_wait_for_it_closes_a_circle(system: us.ActorSystem) -> None:
    gate, begun = threading.Event(), list[str]()
    handles: dict[str, us.RunHandle] = {}

    @us.tool(max_parallel=1, timeout=WAIT)
    def narrow(name: str) -> str:
        begun.append(name)
        if name == "holder":
            assert gate.wait(WAIT)
        if name == "ahead":
            try:
                handles["behind"].result(WAIT)
            except us.CircularAgentCall as error:
                return " -> ".join(error.path)
        return name

    def submit(name: str) -> None:
        handles[name] = agent_with(narrow, calls("narrow", name=name), id=name).submit("go", system=system)

    submit("holder")
    eventually(lambda: begun == ["holder"], "the slot is held")
    for name in ("ahead", "behind"):
        submit(name)
        eventually(partial(waits_are, len(handles) - 1), f"{name} stands in line")
    gate.set()

    assert [result.content for result in results_of(handles["ahead"].result(WAIT))] == ["ahead -> behind -> ahead"]
    assert [result.content for result in results_of(handles["behind"].result(WAIT))] == ["behind"]


class Stage:
    """Runs whose tool has slots: each call says that it is there, waits for its cue, and then maybe for another run."""

    def __init__(self, system: us.ActorSystem, max_parallel: int) -> None:
        self._system = system
        self.tool = us.tool(max_parallel=max_parallel, timeout=None)(self.narrow)
        self.on_stage: list[str] = []
        self.cues: dict[str, threading.Event] = {}
        self.partners: dict[str, str] = {}
        """Who waits for whom."""
        self.handles: dict[str, us.RunHandle] = {}

    def narrow(self, name: str) -> str:
        self.on_stage.append(name)
        assert self.cues[name].wait(WAIT)
        return self.meet(name)

    def meet(self, name: str) -> str:
        partner = self.partners.get(name)
        try:
            return name if partner is None else f"{name} after {self.handles[partner].result(WAIT).text}"
        except us.CircularAgentCall as error:
            return " -> ".join(error.path)

    def enter(self, *names: str) -> None:
        """Begin runs, one after another; each is on the stage or in line when the next one comes."""
        for name in names:
            self.cues[name] = threading.Event()
            waits = len(waiting_graph)
            turn = calls("narrow", name=name)
            agent = us.Agent(name, model=ScriptedModel([turn, says(name)]), tools=[self.tool])
            self.handles[name] = agent.submit("go", system=self._system)
            eventually(lambda: name in self.on_stage or len(waiting_graph) > waits, f"{name} is there")  # noqa: B023

    def cue(self, name: str, waits_for: str | None = None) -> None:
        """Have a call on the stage go on; with `waits_for`, until it waits or is refused."""
        eventually(lambda: name in self.on_stage, f"{name} is on stage")
        waits = len(waiting_graph)
        if waits_for is not None:
            self.partners[name] = waits_for
        self.cues[name].set()
        if waits_for is not None:
            eventually(lambda: len(waiting_graph) > waits or self.handles[name].done(), f"{name} waits or not")

    def said(self, name: str) -> str:
        (result,) = results_of(self.handles[name].result(WAIT))
        return result.content


def test_calls_that_got_their_slots_in_line_close_a_circle_with_who_was_behind_them(system: us.ActorSystem) -> None:
    stage = Stage(system, 2)
    stage.enter("x", "y", "p", "q", "r")
    stage.cue("x")
    stage.cue("y")
    stage.cue("p", waits_for="r")

    stage.cue("q", waits_for="r")

    assert stage.said("q") == "q -> r -> q"
    stage.cue("r")
    assert stage.said("p") == "p after r"


def test_a_slot_that_went_to_somebody_who_waits_for_nobody_ends_the_wait(system: us.ActorSystem) -> None:
    stage = Stage(system, 2)
    stage.enter("x", "y", "z", "r")
    stage.cue("y")
    eventually(lambda: "z" in stage.on_stage, "z has the slot of y")

    stage.cue("x", waits_for="r")
    stage.cue("z")
    stage.cue("r")

    assert stage.said("x") == "x after r"


def test_a_call_gives_its_slot_back_whatever_other_calls_of_its_run_wait_for(system: us.ActorSystem) -> None:
    stage = Stage(system, 1)
    stage.enter("holder")
    turn = calls("narrow", name="ahead") + calls("meet", name="beside")
    stage.cues["ahead"] = threading.Event()
    stage.partners["beside"] = "behind"
    gate = threading.Event()

    def meet(name: str) -> str:
        assert gate.wait(WAIT)
        return stage.meet(name)

    tools: list[us.ToolLike] = [stage.tool, meet]
    agent = us.Agent("ahead", model=ScriptedModel([turn, says("ahead")]), tools=tools)
    ahead = agent.submit("go", system=system)
    eventually(partial(waits_are, 1), "its first call stands in line")
    stage.enter("behind")
    gate.set()
    eventually(partial(waits_are, 3), "its second call waits for who stands behind the first one")
    for name in ("holder", "ahead", "behind"):
        stage.cue(name)

    assert [result.content for result in results_of(ahead.result(WAIT))] == ["ahead", "beside after behind"]


def test_a_call_that_was_given_up_and_waits_for_who_wants_its_slot_closes_a_circle(system: us.ActorSystem) -> None:
    stage = Stage(system, 2)
    stage.enter("x", "y", "r")
    stage.cue("x", waits_for="r")
    stage.handles["x"].cancel()

    stage.cue("y", waits_for="r")

    assert stage.said("y") == "y -> r -> y"
    stage.cue("r")
    assert stage.said("r") == "r"


def test_a_run_that_ends_in_the_moment_of_its_turn_gives_the_slot_back(
    bench: Bench, system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = us.tool(max_parallel=1)(bench.hold)
    begin_step = AgentRunRecord.begin_step

    def cancelled_meanwhile(record: AgentRunRecord, epoch: int, doing: str, *rest: Any) -> None:
        if doing == "running tool hold":
            record.host.endings.cancel(record)
        begin_step(record, epoch, doing, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(AgentRunRecord, "begin_step", cancelled_meanwhile)
        handle = agent_with(tool, several(1)).submit("go", system=system)
        assert isinstance(handle.exception(WAIT), us.RunCancelled)
        eventually(lambda: system.hung == 0, "its work has come back")
    bench.gate.set()

    again = agent_with(tool, several(1), id="again").run("go", system=system, timeout=WAIT)
    assert [result.content for result in results_of(again)] == ["held 0"]
    assert bench.began == [0]  # the first one never ran


@pytest.mark.parametrize(("hanging", "well"), [(1, True), (2, False)])
def test_a_system_is_not_well_while_calls_that_hang_hold_all_seats_of_a_tool(
    hanging: int, well: bool, bench: Bench, system: us.ActorSystem
) -> None:
    tool = us.tool(max_parallel=2, timeout=0.05)(bench.hold)
    agent = agent_with(tool, several(hanging))
    agent.run("go", system=system, timeout=WAIT)

    health = system.health()
    (executor,) = health.actors[0].tools
    assert (executor.seats, executor.hung, health.ok, "shop/tools/hold" in health.advice) == (
        2,
        hanging,
        well,
        not well,
    )

    bench.gate.set()
    eventually(lambda: system.health().ok, "they have come back")
