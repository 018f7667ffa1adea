"""A conversation is granted to one root run at a time: who waits, who shares, who is refused, and what came between."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import understudy as us
from tests.support.doors import QUESTION, Doors
from tests.support.events import numbers
from tests.support.scripts import WAIT, contents_of, eventually, finished, needs_input, results_of
from tests.support.stores import DictStore
from understudy.actors.memory.conversations import Conversations
from understudy.testing import FunctionModel, ScriptedModel, calls, says

WAITING = "waiting for conversation c-42"
pytestmark = pytest.mark.usefixtures("empty_graph")


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as system:
        yield system
        system.stop(0.0)


@pytest.fixture
def doors() -> Doors:
    return Doors()


@pytest.fixture
def agent(doors: Doors) -> us.Agent:
    return us.Agent("clerk", model=doors, memory=us.InMemoryMemory())


class Slow:
    """A memory of a user's: not known to be quick, and not safe to be used by two at once."""

    def __init__(self) -> None:
        self._kept = us.InMemoryMemory()
        self._busy = threading.Lock()

    def load(self, key: us.ConversationKey) -> tuple[us.Message, ...]:
        with self._alone():
            return self._kept.load(key)

    def append(self, key: us.ConversationKey, messages: Sequence[us.Message], run_id: str) -> None:
        with self._alone():
            self._kept.append(key, messages, run_id)

    def clear(self, key: us.ConversationKey) -> None:
        self._kept.clear(key)

    @contextmanager
    def _alone(self) -> Generator[None]:
        assert self._busy.acquire(blocking=False), "used by two at once"
        try:
            yield
        finally:
            self._busy.release()


def texts(agent: us.Agent, app: str = "shop", conversation: str = "c-42") -> list[str]:
    assert isinstance(agent.memory, us.Memory)
    return [message.text for message in agent.memory.load(us.ConversationKey(app, "default", conversation))]


def lines(system: us.ActorSystem) -> int:
    """Return of how many conversations the system knows anything."""
    conversations = system._runs.conversations  # pyright: ignore[reportPrivateUsage]
    assert isinstance(conversations, Conversations)
    return len(conversations._lines)  # pyright: ignore[reportPrivateUsage]


# --- standing in line


def test_runs_of_one_conversation_come_one_after_another_in_their_order(
    doors: Doors, agent: us.Agent, system: us.ActorSystem
) -> None:
    handles = [agent.submit(name, conversation_id="c-42", system=system) for name in "abc"]
    doors.came_are("a")
    assert [handle.status().doing for handle in handles[1:]] == [WAITING] * 2
    assert [run.run_id for run in system.health().runs] == [handle.run_id for handle in handles]  # all in flight
    doors.open("b", "c")
    assert not handles[1].done()
    doors.open("a")

    assert [finished(handle.result(WAIT)).text for handle in handles] == ["a", "b", "c"]
    assert doors.came == ["a", "b", "c"]
    assert texts(agent) == ["a", "a", "b", "b", "c", "c"]


@pytest.mark.filterwarnings("ignore::understudy.MemoryNotUsed")
def test_nobody_else_waits(doors: Doors, agent: us.Agent, system: us.ActorSystem) -> None:
    forgetful = agent.replace(memory=None)
    agent.submit("in", conversation_id="c-42", system=system)
    doors.came_are("in")
    others = [
        agent.submit("other conversation", conversation_id="c-1", system=system),
        agent.submit("other user", conversation_id="c-42", user_id="bob", system=system),
        agent.submit("no conversation", system=system),
        agent.submit("own history", conversation_id="c-42", history=[], system=system),
        forgetful.submit("no memory", conversation_id="c-42", system=system),
    ]
    names = ["other conversation", "other user", "no conversation", "own history", "no memory"]
    doors.open(*names)

    assert [finished(handle.result(WAIT)).text for handle in others] == names


def test_agents_with_different_memories_do_not_talk_at_the_same_time_in_one_conversation(
    doors: Doors, agent: us.Agent, system: us.ActorSystem
) -> None:
    other = us.Agent("other", model=doors, memory=us.InMemoryMemory())
    agent.submit("a", conversation_id="c-42", system=system)
    doors.came_are("a")
    second = other.submit("b", conversation_id="c-42", system=system)

    assert second.status().doing == WAITING
    doors.open("a", "b")
    assert finished(second.result(WAIT)).text == "b"


def test_a_run_that_waits_for_its_conversation_has_a_place_already_and_none_waits_for_one_with_a_conversation(
    doors: Doors,
) -> None:
    inner = us.Agent("inner", model=ScriptedModel([says("deep")]), memory=us.InMemoryMemory())
    with us.ActorSystem("shop", max_runs=1) as narrow:

        def delegate() -> str:
            waiting.append(inner.submit("first", conversation_id="c-42", system=narrow))
            return finished(inner.run("go", conversation_id="c-1", timeout=WAIT)).text

        waiting: list[us.RunHandle[str]] = []
        inner = inner.replace(model=FunctionModel(lambda request: says(request.text)))
        outer = us.Agent("outer", model=ScriptedModel([calls("delegate"), says("ok")]), tools=[delegate])
        handle = outer.submit("go", system=narrow)
        behind = inner.submit("behind", conversation_id="c-1", system=narrow)

        assert contents_of(handle.result(WAIT)) == ["go"]
        assert finished(behind.result(WAIT)).text == "behind"


# --- giving it back


@pytest.mark.parametrize("ending", [says(QUESTION), us.ProviderError("no"), ValueError("no"), calls("nothing")])
def test_a_run_that_pauses_or_fails_gives_its_conversation_back(
    system: us.ActorSystem, ending: us.ModelTurn | Exception
) -> None:
    model = ScriptedModel([ending, says("next")])
    agent = us.Agent("clerk", model=model, memory=us.InMemoryMemory(), max_iterations=0)
    agent.submit("first", conversation_id="c-42", system=system).exception(WAIT)

    assert finished(agent.run("second", conversation_id="c-42", system=system, timeout=WAIT)).text == "next"
    assert texts(agent) == ["second", "next"]


@pytest.mark.parametrize("timeout", [None, 0.05])
def test_a_run_that_is_ended_from_outside_gives_its_conversation_back(
    doors: Doors, agent: us.Agent, system: us.ActorSystem, timeout: float | None
) -> None:
    first = agent.submit("hangs", conversation_id="c-42", system=system, timeout=timeout)
    second = agent.submit("second", conversation_id="c-42", system=system)
    doors.came_are("hangs")
    doors.open("second")
    if timeout is None:
        assert first.cancel()

    assert finished(second.result(WAIT)).text == "second"
    assert texts(agent) == ["second", "second"]
    doors.open("hangs")


def test_nothing_is_kept_of_a_conversation_that_no_run_is_in(
    doors: Doors, agent: us.Agent, system: us.ActorSystem
) -> None:
    doors.open("a", "ask")
    for number in range(20):
        agent.run("a", conversation_id=f"c-{number}", system=system)
    eventually(lambda: lines(system) == 0, "all are forgotten")

    paused = agent.run("ask", conversation_id="c-42", system=system)
    assert isinstance(paused, us.NeedsInput)
    assert lines(system) == 1  # what comes between is counted


# --- a root run and what it begins


def test_what_a_run_begins_shares_its_conversation(system: us.ActorSystem) -> None:
    memory = us.InMemoryMemory()
    inner = us.Agent("inner", model=FunctionModel(lambda request: says(f"deep {request.text}")), memory=memory)

    def delegate(how: str) -> str:
        if how == "run":
            return finished(inner.run(how, conversation_id="c-42", timeout=WAIT)).text
        return finished(inner.submit(how, conversation_id="c-42", timeout=WAIT).result(WAIT)).text

    model = ScriptedModel([calls("delegate", how="run") + calls("delegate", how="submit"), says("ok")])
    outer = us.Agent("outer", model=model, tools=[delegate], memory=memory)
    outcome = outer.run("go", conversation_id="c-42", system=system, timeout=WAIT)

    assert contents_of(outcome) == ["deep run", "deep submit"]
    stored = texts(outer)
    assert stored[-4:] == ["go", "", "", "ok"]  # its own turn is whole, after those that were done before it
    assert sorted(stored[:4]) == ["deep run", "deep submit", "run", "submit"]


def test_what_a_run_without_a_conversation_begins_shares_one(doors: Doors, system: us.ActorSystem) -> None:
    inner = us.Agent("inner", model=doors, memory=us.InMemoryMemory())

    def delegate() -> str:
        handles = [inner.submit(name, conversation_id="c-42") for name in "ab"]
        return "".join(finished(handle.result(WAIT)).text for handle in handles)

    outer = us.Agent("outer", model=ScriptedModel([calls("delegate"), says("ok")]), tools=[delegate])
    handle = outer.submit("go", system=system)
    eventually(lambda: sorted(doors.came) == ["a", "b"], "both are there at once")
    stranger = inner.submit("stranger", conversation_id="c-42", system=system)
    assert stranger.status().doing == WAITING
    doors.open("a")
    assert stranger.status().doing == WAITING
    doors.open("b", "stranger")

    assert contents_of(handle.result(WAIT)) == ["ab"]
    assert finished(stranger.result(WAIT)).text == "stranger"


def test_what_outlives_the_run_that_began_it_keeps_the_conversation(doors: Doors, system: us.ActorSystem) -> None:
    memory, begun = us.InMemoryMemory(), list[us.RunHandle[str]]()
    inner = us.Agent("inner", model=doors, memory=memory)

    def begin() -> None:
        begun.append(inner.submit("inner", conversation_id="c-42"))

    outer = us.Agent("outer", model=ScriptedModel([calls("begin"), says("ok")]), tools=[begin], memory=memory)
    outer.run("go", conversation_id="c-42", system=system)
    stranger = inner.submit("stranger", conversation_id="c-42", system=system)

    doors.came_are("inner")
    assert stranger.status().doing == WAITING
    doors.open("inner", "stranger")
    assert finished(begun[0].result(WAIT)).text == "inner"
    assert finished(stranger.result(WAIT)).text == "stranger"


def test_runs_that_one_root_begins_stand_in_line_together(doors: Doors, system: us.ActorSystem) -> None:
    inner = us.Agent("inner", model=doors, memory=us.InMemoryMemory())
    inner.submit("first", conversation_id="c-42", system=system)
    doors.came_are("first")

    def delegate() -> str:
        handles = [inner.submit(name, conversation_id="c-42") for name in "ab"]
        return "".join(finished(handle.result(WAIT)).text for handle in handles)

    outer = us.Agent("outer", model=ScriptedModel([calls("delegate"), says("ok")]), tools=[delegate])
    handle = outer.submit("go", system=system)
    eventually(lambda: [run.doing for run in system.health().runs].count(WAITING) == 2, "both stand in line")
    doors.open("first")
    eventually(lambda: sorted(doors.came[1:]) == ["a", "b"], "both are there at once")
    doors.open("a", "b")

    assert contents_of(handle.result(WAIT)) == ["ab"]


def test_runs_that_an_actor_begins_are_not_of_one_root(doors: Doors, agent: us.Agent, system: us.ActorSystem) -> None:
    handles: list[us.RunHandle[str]] = []

    class Desk(us.Actor[str]):
        def on_receive(self, message: str) -> None:
            handles.append(agent.submit(message, conversation_id="c-42"))

    desk = system.spawn(Desk)
    desk.tell("a")
    desk.tell("b")
    doors.came_are("a")
    eventually(lambda: len(handles) == 2, "both were begun")

    assert handles[1].status().doing == WAITING
    doors.open("a", "b")
    assert finished(handles[1].result(WAIT)).text == "b"


def test_a_group_has_its_conversation_from_its_first_step_to_its_last(doors: Doors, system: us.ActorSystem) -> None:
    memory = us.InMemoryMemory()
    first = us.Agent("first", model=doors, memory=memory)
    second = us.Agent("second", model=FunctionModel(lambda request: says(str(len(request.messages)))), memory=memory)
    group = us.SequentialAgent("outer", [us.SequentialAgent("inner", [first]), second])
    handle = group.submit("go", conversation_id="c-42", system=system)
    doors.came_are("go")
    behind = first.submit("behind", conversation_id="c-42", system=system)
    assert behind.status().doing == WAITING
    doors.open("go", "behind")

    assert handle.result(WAIT).text == "3"  # what the first step stored, and its own input
    assert behind.result(WAIT).text == "behind"
    assert texts(first) == ["go", "go", "go", "3", "behind", "behind"]


def test_a_group_waits_for_its_conversation_and_gives_it_back_when_it_pauses(
    doors: Doors, agent: us.Agent, system: us.ActorSystem
) -> None:
    doors.open("ask", "after")
    agent.submit("in", conversation_id="c-42", system=system)
    doors.came_are("in")
    handle = us.SequentialAgent("group", [agent]).submit("ask", conversation_id="c-42", system=system)
    assert handle.status().doing == WAITING
    doors.open("in")

    assert isinstance(handle.result(WAIT), us.NeedsInput)
    assert finished(agent.run("after", conversation_id="c-42", system=system, timeout=WAIT)).text == "after"


def test_a_group_without_a_memory_inside_does_not_wait(doors: Doors, agent: us.Agent, system: us.ActorSystem) -> None:
    agent.submit("in", conversation_id="c-42", system=system)
    doors.came_are("in")
    group = us.ParallelAgent("group", [talker(None)])

    assert group.run("go", conversation_id="c-42", system=system, timeout=WAIT).text == "re: go"


# --- circles


def circle(
    system: us.ActorSystem, reach: Callable[[us.Agent, str], str]
) -> tuple[list[us.Outcome], list[us.CircularAgentCall]]:
    """Have two root runs reach for each other's conversation, each through an agent of its own."""
    both, caught = threading.Barrier(2), list[us.CircularAgentCall]()

    def root(mine: str, other: str) -> us.Agent:
        def cross() -> str:
            both.wait(WAIT)
            try:
                return reach(deep, other)
            except us.CircularAgentCall as error:
                caught.append(error)
                raise

        deep = us.Agent(f"deep {mine}", model=FunctionModel(lambda r: says("deep")), memory=us.InMemoryMemory())
        model = ScriptedModel([calls("cross"), says("ok")])
        return us.Agent(mine, model=model, tools=[cross], memory=us.InMemoryMemory())

    handles = [
        root(mine, other).submit("go", conversation_id=mine, system=system) for mine, other in (("a", "b"), ("b", "a"))
    ]
    return [handle.result(WAIT) for handle in handles], caught


def by_run(agent: us.Agent, conversation: str) -> str:
    return finished(agent.run("go", conversation_id=conversation)).text


def by_handle(agent: us.Agent, conversation: str) -> str:
    return finished(agent.submit("go", conversation_id=conversation).result(WAIT)).text


@pytest.mark.parametrize("reach", [by_run, by_handle])
def test_two_roots_that_reach_for_each_others_conversation_do_not_wait_for_ever(
    system: us.ActorSystem, reach: Callable[[us.Agent, str], str]
) -> None:
    refused: list[us.CircleRefused] = []
    system.subscribe(refused.append, us.CircleRefused)
    outcomes, caught = circle(system, reach)

    assert len(caught) == 1
    path = caught[0].path
    assert path[0] == path[-1]
    assert set(path) <= {"a", "b", "deep a", "deep b", "conversation a", "conversation b"}
    assert {"conversation a", "conversation b"} <= set(path)
    contents = sorted(results_of(outcome)[0].content for outcome in outcomes)
    assert contents[1] == "deep"  # the other one had its turn, once the refused one had ended
    assert "CircularAgentCall" in contents[0]
    eventually(lambda: len(refused) == 1, "it was told")


def test_to_wait_for_a_conversation_that_is_free_one_day_is_no_circle(system: us.ActorSystem, doors: Doors) -> None:
    holder = us.Agent("holder", model=doors, memory=us.InMemoryMemory())
    holder.submit("hold", conversation_id="b", system=system)
    doors.came_are("hold")

    def cross() -> str:
        return finished(holder.run("inner", conversation_id="b")).text

    model = ScriptedModel([calls("cross"), says("ok")])
    outer = us.Agent("outer", model=model, tools=[cross], memory=us.InMemoryMemory())
    handle = outer.submit("go", conversation_id="a", system=system)
    eventually(lambda: "waiting for conversation b" in [r.doing for r in system.health().runs], "it stands in line")
    doors.open("hold", "inner")

    assert contents_of(handle.result(WAIT)) == ["inner"]


class Waiter:
    """A tool that waits for the run behind its own in line, once there is one."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.behind: us.RunHandle[str] | None = None
        self.paths: list[tuple[str, ...]] = []

    def tool(self) -> us.Tool[[], str]:
        def wait() -> str:
            assert self.ready.wait(WAIT)
            assert self.behind is not None
            try:
                return finished(self.behind.result(WAIT)).text
            except us.CircularAgentCall as error:
                self.paths.append(error.path)
                raise

        return us.tool(name="wait")(wait)


def test_a_run_that_waits_for_a_run_behind_it_in_line_is_refused(system: us.ActorSystem) -> None:
    memory, waiter = us.InMemoryMemory(), Waiter()
    model = ScriptedModel([calls("wait"), says("ok")])
    first = us.Agent("first", model=model, tools=[waiter.tool()], memory=memory)
    handle = first.submit("go", conversation_id="c-42", system=system)
    waiter.behind = talker(memory).submit("last", conversation_id="c-42", system=system)
    waiter.ready.set()

    assert finished(handle.result(WAIT)).text == "ok"
    assert waiter.paths == [("first", "talker", "conversation c-42", "first")]
    assert finished(waiter.behind.result(WAIT)).text == "re: last"


def test_who_was_granted_a_conversation_is_refused_as_who_had_it_first(doors: Doors, system: us.ActorSystem) -> None:
    memory, waiter = us.InMemoryMemory(), Waiter()
    before = us.Agent("before", model=doors, memory=memory)
    model = ScriptedModel([calls("wait"), says("ok")])
    granted = us.Agent("granted", model=model, tools=[waiter.tool()], memory=memory)
    first = before.submit("first", conversation_id="c-42", system=system)
    second = granted.submit("go", conversation_id="c-42", system=system)
    waiter.behind = talker(memory).submit("last", conversation_id="c-42", system=system)
    doors.open("first")
    first.result(WAIT)
    waiter.ready.set()

    assert finished(second.result(WAIT)).text == "ok"
    assert waiter.paths == [("granted", "talker", "conversation c-42", "granted")]
    assert finished(waiter.behind.result(WAIT)).text == "re: last"


def test_who_came_to_share_a_conversation_is_refused_as_who_had_it_first(system: us.ActorSystem) -> None:
    memory, waiter = us.InMemoryMemory(), Waiter()
    inner_model = ScriptedModel([calls("wait"), says("inner")])
    inner = us.Agent("inner", model=inner_model, tools=[waiter.tool()], memory=memory)
    begun, stands = list[us.RunHandle[str]](), threading.Event()

    def begin() -> None:
        assert stands.wait(WAIT)
        begun.append(inner.submit("go", conversation_id="c-42"))

    outer = us.Agent("outer", model=ScriptedModel([calls("begin"), says("ok")]), tools=[begin], memory=memory)
    root = outer.submit("go", conversation_id="c-42", system=system)
    waiter.behind = talker(memory).submit("last", conversation_id="c-42", system=system)
    stands.set()
    root.result(WAIT)  # what it began goes on, and has the conversation
    waiter.ready.set()

    assert finished(begun[0].result(WAIT)).text == "inner"
    assert waiter.paths == [("inner", "talker", "conversation c-42", "inner")]
    assert finished(waiter.behind.result(WAIT)).text == "re: last"


# --- what came between


def diverged(handle: us.RunHandle[object]) -> list[int]:
    return [event.messages for event in handle.events() if isinstance(event, us.ConversationDiverged)]


def resume(agent: us.Agent, outcome: us.Outcome[object], system: us.ActorSystem) -> us.RunHandle[object]:
    """Go on with a run that asked something."""
    return agent.submit_resume(needs_input(outcome).token, "Ada", system=system)


def asker(memory: us.Memory | None, questions: int = 1) -> us.Agent:
    turns = [says(QUESTION)] * questions + [says("done")]
    return us.Agent("asker", model=ScriptedModel(turns), memory=memory)


def talker(memory: us.Memory | None) -> us.Agent:
    return us.Agent("talker", model=FunctionModel(lambda request: says(f"re: {request.text}")), memory=memory)


@pytest.mark.parametrize("kind", [us.InMemoryMemory, lambda: us.WindowedMemory(turns=1), Slow])
def test_a_run_that_comes_back_says_how_much_came_between_and_stands_at_the_end(
    system: us.ActorSystem, kind: Callable[[], us.Memory]
) -> None:
    memory = kind()
    paused, other = asker(memory), talker(memory)
    outcome = paused.run("go", conversation_id="c-42", system=system)
    for text in ("one", "two", "three"):
        other.run(text, conversation_id="c-42", system=system)
    handle = resume(paused, outcome, system)

    assert diverged(handle) == [6]
    assert texts(paused)[-4:] == ["go", QUESTION, "Ada", "done"]
    first, *_ = seqs = numbers(handle.events())
    assert seqs == list(range(first, first + len(seqs)))
    assert [type(event) for event in handle.events()][-2:] == [us.ConversationDiverged, us.RunFinished]


def test_what_came_between_is_counted_over_all_pauses_and_told_once(system: us.ActorSystem) -> None:
    memory = us.InMemoryMemory()
    paused, other = asker(memory, questions=3), talker(memory)
    outcome: us.Outcome[object] = paused.run("go", conversation_id="c-42", system=system)
    told: list[list[int]] = []
    for texts_between in (["one"], [], ["two", "three"]):
        for text in texts_between:
            other.run(text, conversation_id="c-42", system=system)
        handle = resume(paused, outcome, system)
        outcome = handle.result(WAIT)
        told.append(diverged(handle))

    assert told == [[], [], [6]]


def test_what_came_between_is_counted_over_pauses_in_a_store_and_inside_of_a_sub_agent(tmp_path: Path) -> None:
    memory, url = us.InMemoryMemory(), f"sqlite:///{tmp_path}/shop.db"
    below, other = asker(None, questions=2), talker(memory)
    model = ScriptedModel([calls("asker", input="go"), says("done")])
    lead = us.Agent("lead", model=model, sub_agents=[below], memory=memory)
    with us.ActorSystem("shop", store=url) as first:
        outcome: us.Outcome[object] = lead.run("go", conversation_id="c-42", system=first)
        other.run("one", conversation_id="c-42", system=first)
    told: list[list[int]] = []
    for text in ("two", "three"):
        with us.ActorSystem("shop", store=url) as system:
            handle = resume(lead, outcome, system)
            outcome = handle.result(WAIT)
            told.append(diverged(handle))
            other.run(text, conversation_id="c-42", system=system)

    assert told == [[], [4]]


def test_a_conversation_in_which_nothing_came_between_has_not_diverged(system: us.ActorSystem) -> None:
    memory = us.InMemoryMemory()
    paused, other = asker(memory), talker(memory)
    other.run("before", conversation_id="c-42", system=system)
    outcome = paused.run("go", conversation_id="c-42", system=system)
    other.run("elsewhere", conversation_id="c-1", system=system)
    other.run("by somebody else", conversation_id="c-42", user_id="bob", system=system)

    assert diverged(resume(paused, outcome, system)) == []
    assert diverged(talker(memory).submit("after", conversation_id="c-42", system=system)) == []


def test_a_run_that_is_cancelled_after_its_pause_says_nothing_and_leaves_the_conversation_as_it_is(
    doors: Doors, system: us.ActorSystem
) -> None:
    agent = us.Agent("clerk", model=doors, memory=us.InMemoryMemory())
    doors.open("ask", "other")
    outcome = agent.run("ask", conversation_id="c-42", system=system)
    agent.run("other", conversation_id="c-42", system=system)
    handle = resume(agent, outcome, system)
    doors.came_are("ask", "other", "Ada")
    assert handle.cancel()

    assert diverged(handle) == []
    assert texts(agent) == ["other", "other"]
    doors.open("Ada")


# --- runs that a store keeps meanwhile


@pytest.fixture
def stored() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop", store=DictStore()) as system:
        yield system
        system.stop(0.0)


@pytest.mark.parametrize("kind", [us.InMemoryMemory, lambda: us.WindowedMemory(turns=4), Slow])
def test_a_run_that_was_kept_in_a_store_says_how_much_came_between(
    stored: us.ActorSystem, kind: Callable[[], us.Memory]
) -> None:
    memory = kind()
    paused, other = asker(memory, questions=2), talker(memory)
    other.run("before", conversation_id="c-42", system=stored)
    outcome: us.Outcome[object] = paused.run("go", conversation_id="c-42", system=stored)
    assert lines(stored) == 0
    other.run("one", conversation_id="c-42", system=stored)
    handle = resume(paused, outcome, stored)
    outcome = handle.result(WAIT)
    assert diverged(handle) == []
    other.run("two", conversation_id="c-42", system=stored)
    handle = resume(paused, outcome, stored)

    assert handle.result(WAIT).text == "done"
    assert diverged(handle) == [4]
    assert texts(paused)[-6:] == ["go", QUESTION, "Ada", QUESTION, "Ada", "done"]


def test_a_run_with_a_history_of_its_own_leaves_the_memory_alone_after_a_store_too(stored: us.ActorSystem) -> None:
    agent = asker(us.InMemoryMemory())
    outcome = agent.run("go", conversation_id="c-42", history=[], system=stored)
    handle = resume(agent, outcome, stored)

    assert handle.result(WAIT).text == "done"
    assert texts(agent) == []


# --- laws


class Witness:
    """A model that now and then asks, fails or takes a tool, and notes what each run had seen of its conversation."""

    def __init__(self) -> None:
        self.seen: dict[str, list[str]] = {}

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        texts = [message.text for message in request.messages]
        if request.turn > 1:
            return says("done")
        name = texts[-1]
        self.seen[name] = texts[:-1]
        match random.Random(name).randrange(8):
            case 0:
                return says(QUESTION)
            case 1:
                raise us.ProviderError("no")
            case 2 | 3:
                return calls("look")
            case _:
                return says("done")


@pytest.mark.parametrize("kind", [us.InMemoryMemory, Slow])
def test_whatever_many_threads_do_a_conversation_is_whole_turns_one_after_another(kind: type[us.Memory]) -> None:
    witness, memory = Witness(), kind()
    agent = us.Agent("clerk", model=witness, tools=[us.tool(name="look")(lambda: "seen")], memory=memory)
    turns: dict[str, list[str]] = {}
    conversations = [f"c-{number}" for number in range(4)]

    def work(thread: int) -> None:
        chance = random.Random(thread)
        for number in range(25):
            name, conversation = f"{thread}.{number}", chance.choice(conversations)
            handle = agent.submit(name, conversation_id=conversation, system=system)
            if chance.random() < 0.2 and kind is us.InMemoryMemory:  # a slow one may be at storing in this very moment
                handle.cancel()
            if handle.exception(WAIT) is not None:
                continue
            outcome = handle.result()
            while isinstance(outcome, us.NeedsInput):
                outcome = agent.resume(outcome.token, "Ada", system=system, timeout=WAIT)
            turns[name] = [message.text for message in finished(outcome).messages]

    with us.ActorSystem("shop") as system, ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
        eventually(lambda: system.hung == 0, "no work is left")

    said: list[str] = []
    for conversation in conversations:
        stored = texts(agent, conversation=conversation)
        position = 0
        while position < len(stored):  # each turn begins with its name, and stands there whole
            name = stored[position]
            assert stored[position : position + len(turns[name])] == turns[name]
            position += len(turns[name])
            said.append(name)
            seen = witness.seen[name]
            assert seen == stored[: len(seen)]
            assert len(seen) in starts_of(stored, turns)
    assert sorted(said) == sorted(turns)  # those that are complete, each once, and no others


def starts_of(stored: list[str], turns: dict[str, list[str]]) -> set[int]:
    """Return where turns begin in a conversation, and where the next one would."""
    starts, position = {0}, 0
    while position < len(stored):
        position += len(turns[stored[position]])
        starts.add(position)
    return starts
