"""How many runs may be under way at once, and what becomes of those that wait for a place."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished, results_of
from understudy.actors.admission import IN_LINE, Admission
from understudy.actors.runrecord import RunRecord
from understudy.actors.waiting import graph
from understudy.orchestration.port import RunOptions
from understudy.testing import FunctionModel, ScriptedModel, calls, says


class Doors:
    """A model whose calls stand before a door each, and notes which inputs came in which order."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.doors: dict[str, threading.Event] = {}
        self.lock = threading.Lock()

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        name = request.messages[-1].text
        with self.lock:
            self.came.append(name)
            door = self.doors.setdefault(name, threading.Event())
        assert door.wait(WAIT)
        return says(name)

    def open(self, name: str) -> None:
        with self.lock:
            self.doors.setdefault(name, threading.Event()).set()

    def came_are(self, *names: str) -> None:
        eventually(lambda: self.came == list(names), f"{names} and nobody else have come")


@pytest.fixture
def doors() -> Doors:
    return Doors()


@pytest.fixture
def agent(doors: Doors) -> us.Agent:
    return us.Agent("clerk", model=doors)


@pytest.fixture
def narrow() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop", max_runs=1) as system:
        yield system
        system.stop(0.0)


def test_no_more_runs_are_under_way_than_allowed_and_the_first_in_line_comes_next(
    doors: Doors, agent: us.Agent
) -> None:
    with us.ActorSystem("shop", max_runs=2) as system:
        handles = [agent.submit(name, system=system) for name in "abcd"]
        eventually(lambda: sorted(doors.came) == ["a", "b"], "two have come")
        assert [handle.status().doing for handle in handles[2:]] == [IN_LINE, IN_LINE]
        doors.open("b")
        assert finished(handles[1].result(WAIT)).text == "b"
        eventually(lambda: doors.came[2:] == ["c"], "the third has come")
        for name in "acd":
            doors.open(name)

        assert [finished(handle.result(WAIT)).text for handle in handles] == ["a", "b", "c", "d"]
        assert doors.came[2:] == ["c", "d"]


def test_a_run_in_line_holds_no_thread(doors: Doors, agent: us.Agent, narrow: us.ActorSystem) -> None:
    handles = [agent.submit("a", system=narrow)]
    doors.came_are("a")
    before = threading.active_count()
    handles += [agent.submit("b", system=narrow) for _ in range(300)]

    assert threading.active_count() <= before + 1  # another test's thread may come and go
    doors.open("a")
    doors.open("b")
    assert {finished(handle.result(WAIT)).text for handle in handles} == {"a", "b"}


def test_a_run_that_is_cancelled_in_line_never_begins_and_leaves_no_gap(
    doors: Doors, agent: us.Agent, narrow: us.ActorSystem
) -> None:
    inside, cancelled, last = [agent.submit(name, system=narrow) for name in ("in", "cancelled", "last")]
    assert cancelled.cancel()
    with pytest.raises(us.RunCancelled):
        cancelled.result(0)
    doors.open("in")
    doors.open("last")

    assert finished(last.result(WAIT)).text == "last"
    assert inside.done()
    assert doors.came == ["in", "last"]


def test_a_deadline_holds_in_line_too(doors: Doors, agent: us.Agent, narrow: us.ActorSystem) -> None:
    agent.submit("in", system=narrow)

    with pytest.raises(us.RunTimedOut, match=f"while {IN_LINE}"):
        agent.run("late", system=narrow, timeout=0.05)
    doors.open("in")
    doors.open("next")
    assert finished(agent.run("next", system=narrow, timeout=WAIT)).text == "next"
    assert doors.came == ["in", "next"]


def test_what_is_begun_inside_of_a_run_is_always_admitted(narrow: us.ActorSystem) -> None:
    inner = us.Agent("inner", model=ScriptedModel([says("deep"), says("deeper")]))

    def delegate() -> str:
        return finished(inner.run("go", timeout=WAIT)).text + finished(inner.submit("go").result(WAIT)).text

    outer = us.Agent("outer", model=ScriptedModel([calls("delegate"), says("ok")]), tools=[delegate])

    outcome = outer.run("go", system=narrow, timeout=WAIT)
    assert [result.content for result in results_of(outcome)] == ["deepdeeper"]


@pytest.mark.parametrize("ending", [says("__ask_user__: Who?"), us.ProviderError("no"), ValueError("no")])
def test_a_run_that_pauses_or_fails_gives_up_its_place(
    narrow: us.ActorSystem, ending: us.ModelTurn | Exception
) -> None:
    agent = us.Agent("clerk", model=ScriptedModel([ending, says("next")]))
    agent.submit("first", system=narrow).exception(WAIT)

    assert finished(agent.run("second", system=narrow, timeout=WAIT)).text == "next"


def test_a_paused_run_stands_in_line_again(doors: Doors, agent: us.Agent, narrow: us.ActorSystem) -> None:
    asker = us.Agent("asker", model=ScriptedModel([says("__ask_user__: Who?"), says("Ada it is")]))
    paused = asker.run("go", system=narrow)
    assert isinstance(paused, us.NeedsInput)
    agent.submit("in", system=narrow)
    doors.came_are("in")
    texts: list[str] = []

    def answer() -> None:
        texts.append(finished(asker.resume(paused.token, "Ada", system=narrow, timeout=WAIT)).text)

    thread = threading.Thread(target=answer)
    thread.start()
    eventually(lambda: IN_LINE in [run.doing for run in narrow.health().runs], "it stands in line")
    doors.open("in")
    thread.join(WAIT)

    assert texts == ["Ada it is"]


def test_the_end_of_the_system_names_the_runs_that_it_cancelled(doors: Doors, agent: us.Agent) -> None:
    system = us.ActorSystem("shop", max_runs=1)
    inside, waiting = agent.submit("in", system=system), agent.submit("waiting", system=system)
    doors.came_are("in")

    assert system.stop(0.0) == (waiting.run_id, inside.run_id)
    assert isinstance(waiting.exception(WAIT), us.RunCancelled)
    doors.open("in")
    assert doors.came == ["in"]


def test_a_run_that_ended_before_it_stood_in_line_takes_no_place(agent: us.Agent) -> None:
    with us.ActorSystem("shop") as system:
        started: list[RunRecord] = []
        admission = Admission(1, started.append)
        over = system.prepare(agent, "over", RunOptions())
        assert over.runs.cancel(over)
        admission.enter(over)
        following = system.prepare(agent, "following", RunOptions())
        admission.enter(following)

        assert following in started


@pytest.mark.parametrize("places", [0, -1, 1.5, "3"])
def test_max_runs_is_a_whole_number_of_at_least_one(places: object) -> None:
    with pytest.raises(ValueError, match="max_runs must be a whole number of at least 1"):
        us.ActorSystem("shop", max_runs=places)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_many_threads_and_few_places() -> None:
    under_way, most, lock = 0, 0, threading.Lock()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        with lock:
            under_way -= 1
        return says(request.messages[-1].text)

    agent, texts = us.Agent("clerk", model=FunctionModel(answer)), list[list[str]]()
    with us.ActorSystem("shop", max_runs=3) as system:

        def work(name: int) -> None:
            texts.append([finished(agent.run(f"{name}.{n}", system=system, timeout=WAIT)).text for n in range(20)])

        threads = [threading.Thread(target=work, args=(name,)) for name in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)

    assert sorted(text for each in texts for text in each) == sorted(f"{a}.{b}" for a in range(16) for b in range(20))
    assert most <= 3


def test_all_who_stand_in_line_hear_that_their_agent_has_stopped(doors: Doors, agent: us.Agent) -> None:
    with us.ActorSystem("shop", max_runs=1) as system:
        ref = system.spawn(agent)
        handles = [ref.submit("a") for _ in range(1_500)]  # more than calls may stand in one another
        doors.came_are("a")
        assert ref.stop(WAIT)
        doors.open("a")

        assert finished(handles[0].result(WAIT)).text == "a"
        assert {type(handle.exception(WAIT)) for handle in handles[1:]} == {us.AgentDown}
        following = us.Agent("other", model=ScriptedModel([says("next")]))
        assert finished(following.run("go", system=system, timeout=WAIT)).text == "next"


def test_a_run_that_waits_for_one_which_stands_in_line_behind_it_is_refused(narrow: us.ActorSystem) -> None:
    later: list[us.RunHandle] = []
    there = threading.Event()

    def wait_for_the_next() -> str:
        assert there.wait(WAIT)
        try:
            return finished(later[0].result(WAIT)).text
        except us.CircularAgentCall as error:
            return " -> ".join(error.path)

    turns = [calls("wait_for_the_next"), says("first")]
    first = us.Agent("first", model=ScriptedModel(turns), tools=[wait_for_the_next]).submit("go", system=narrow)
    later.append(us.Agent("second", model=ScriptedModel([says("second")])).submit("go", system=narrow))
    there.set()

    assert [result.content for result in results_of(first.result(WAIT))] == ["first -> second -> first"]
    assert finished(later[0].result(WAIT)).text == "second"


def test_a_run_in_line_may_be_waited_for_while_another_place_will_be_free(doors: Doors, agent: us.Agent) -> None:
    later: list[us.RunHandle] = []
    there = threading.Event()

    def wait_for_the_next() -> str:
        assert there.wait(WAIT)
        return finished(later[0].result(WAIT)).text

    with us.ActorSystem("shop", max_runs=2) as system:
        other = agent.submit("other", system=system)
        turns = [calls("wait_for_the_next"), says("first")]
        first = us.Agent("first", model=ScriptedModel(turns), tools=[wait_for_the_next]).submit("go", system=system)
        later.append(us.Agent("second", model=ScriptedModel([says("second")])).submit("go", system=system))
        there.set()
        doors.open("other")

        assert [result.content for result in results_of(first.result(WAIT))] == ["second"]
        assert finished(other.result(WAIT)).text == "other"
    assert len(graph) == 0
