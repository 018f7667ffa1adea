"""A memory that fails or hangs: its own restarts, the attempts of runs at a step, and the callers that it keeps out."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.memory import conversations, memory_actor
from understudy.actors.memory.memory_actor import Load, MemoryRestarts
from understudy.actors.runs import watchdog
from understudy.actors.system.health import ActorFigures
from understudy.orchestration.supervision.restarts import DEFAULT_FAILED_RUNS
from understudy.testing import FunctionModel, says
from understudy.vocabulary.context.ancestry import Link

ADDRESS = "shop/memories/Fragile"


class Fragile(us.InMemoryMemory):
    """A memory of a user's: it fails or waits on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        self.calls = 0
        self.came = threading.Semaphore(0)
        self.door = threading.Event()
        self.door.set()

    def load(self, key: us.ConversationKey, /) -> tuple[us.Message, ...]:
        self._pass()
        return super().load(key)

    def append(self, key: us.ConversationKey, messages: Sequence[us.Message], run_id: str = "", /) -> None:
        self._pass()
        super().append(key, messages, run_id)

    def _pass(self) -> None:
        self.calls += 1
        self.came.release()
        assert self.door.wait(WAIT)
        if self.failures:
            self.failures -= 1
            raise OSError("the disk is full")


@pytest.fixture
def memory() -> Iterator[Fragile]:
    memory = Fragile()
    yield memory
    memory.door.set()


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as system:
        yield system
        system.stop(0.0)


@pytest.fixture
def clerk(system: us.ActorSystem, memory: Fragile) -> us.AgentRef[str]:
    return system.spawn(us.Agent("clerk", model=FunctionModel(lambda request: says("ok")), memory=memory))


def figures_of(system: us.ActorSystem) -> tuple[ActorFigures, ActorFigures]:
    """Return the figures of the agent and of its memory."""
    (agent,) = system.health().actors
    (memory,) = agent.memories
    return agent, memory


# --- restarts


def test_a_memory_that_fails_is_restarted_and_its_agent_is_not(
    system: us.ActorSystem, clerk: us.AgentRef[str], memory: Fragile
) -> None:
    told: list[us.SystemEvent] = []
    system.subscribe(told.append, us.ActorFailed, us.ActorRestarted, us.RunCrashed)
    memory.failures = 1

    assert finished(clerk.run("go", conversation_id="c-42")).text == "ok"

    agent, figures = figures_of(system)
    assert (agent.restarts, agent.failed, figures.restarts, figures.failed) == (0, 0, 1, 1)
    eventually(lambda: len(told) == 2, "failure and restart are told")
    assert [(type(event), event.address) for event in told] == [
        (us.ActorFailed, ADDRESS),
        (us.ActorRestarted, ADDRESS),
    ]
    assert system.tree().count(" 1 restarts") == 1


class Named:
    """An actor that is restarted."""

    address = ADDRESS
    restarts = 0


def failed_in(restarts: MemoryRestarts, conversation: str) -> None:
    def use(memory: us.Memory) -> None:
        """Stand for the use that failed."""

    key = us.ConversationKey("shop", "default", conversation)
    restarts.failed(OSError("no"), Load(key, use), key, Link(us.Agent("clerk", model="rehearsal"), "r-1"), again=True)


def test_a_conversation_that_fails_in_many_runs_takes_the_memory_from_no_other() -> None:
    actor = Named()
    restarts = MemoryRestarts(actor, EventStream("shop"))

    for _ in range(2 * DEFAULT_FAILED_RUNS):
        failed_in(restarts, "c-42")

    assert (restarts.given_up, actor.restarts) == (False, 2 * DEFAULT_FAILED_RUNS)


def test_a_memory_that_fails_in_many_conversations_is_given_up_until_it_works() -> None:
    actor, events = Named(), EventStream("shop")
    restarts = MemoryRestarts(actor, events)
    for number in range(DEFAULT_FAILED_RUNS - 1):
        failed_in(restarts, f"c-{number}")
    assert not restarts.given_up

    failed_in(restarts, "c-last")
    failed_in(restarts, "c-later")
    assert (restarts.given_up, actor.restarts) == (True, DEFAULT_FAILED_RUNS - 1)

    restarts.worked()
    assert (restarts.given_up, actor.restarts) == (False, DEFAULT_FAILED_RUNS)


def test_a_memory_that_is_given_up_is_tried_once_by_each_run(
    system: us.ActorSystem, clerk: us.AgentRef[str], memory: Fragile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "ATTEMPTS", 1)
    memory.failures = DEFAULT_FAILED_RUNS
    for number in range(DEFAULT_FAILED_RUNS):
        with pytest.raises(us.AgentCrashed):
            clerk.run("go", conversation_id=f"c-{number}")
    monkeypatch.undo()
    health = system.health()
    assert (health.ok, health.advice) == (False, f"given up after too many failures: {ADDRESS}")
    assert figures_of(system)[1].state == "down"

    memory.failures = 1
    with pytest.raises(us.AgentCrashed, match="failed once in run .* OSError: the disk is full"):
        clerk.run("go", conversation_id="c-42")
    assert finished(clerk.run("go", conversation_id="c-42")).text == "ok"

    assert system.health().ok
    assert figures_of(system)[1].state == "running"


# --- attempts of a run


def test_no_step_is_done_again_for_which_the_run_has_no_time(
    clerk: us.AgentRef[str], memory: Fragile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "PAUSE", 10 * WAIT)
    memory.failures = 1
    with pytest.raises(us.AgentCrashed) as caught:
        clerk.run("go", conversation_id="c-42", timeout=WAIT)
    assert (len(caught.value.causes), memory.calls) == (1, 1)


def test_each_attempt_after_the_first_takes_one_of_the_runs_retries(
    clerk: us.AgentRef[str], memory: Fragile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "RETRIES", 1)
    memory.failures = 2
    with pytest.raises(us.AgentCrashed, match="failed 2 times"):
        clerk.run("go", conversation_id="c-42")
    assert memory.calls == 2


def test_a_run_that_is_cancelled_between_two_attempts_makes_no_other(
    system: us.ActorSystem, clerk: us.AgentRef[str], memory: Fragile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "PAUSE", 10 * WAIT)
    memory.failures = 1
    handle = clerk.submit("go", conversation_id="c-42")
    eventually(lambda: figures_of(system)[1].restarts == 1, "the first attempt has failed")

    assert handle.cancel()

    assert isinstance(handle.exception(WAIT), us.RunCancelled)
    eventually(lambda: system.hung == 0, "its work has come back")
    assert memory.calls == 1


def test_an_agent_that_is_restarted_on_an_error_does_not_multiply_the_attempts(memory: Fragile) -> None:
    memory.failures = 10
    model = FunctionModel(lambda request: says("ok"))
    agent = us.Agent("clerk", model=model, memory=memory, restart_on=[OSError])
    with us.ActorSystem("shop") as system, pytest.raises(us.AgentCrashed):
        agent.run("go", conversation_id="c-42", system=system)
    assert memory.calls == conversations.ATTEMPTS


# --- a memory that hangs


def test_a_memory_that_hangs_is_shown_and_refuses_others_at_once(
    system: us.ActorSystem, clerk: us.AgentRef[str], memory: Fragile, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.door.clear()
    monkeypatch.setattr(memory_actor, "DEFAULT_MEMORY_TIMEOUT", 0.05)
    with pytest.raises(us.AgentCrashed, match="took more than"):
        clerk.run("go", conversation_id="c-1")
    monkeypatch.undo()

    with pytest.raises(us.AgentDown, match=f"{ADDRESS} is held by a call that did not come back in time"):
        clerk.run("go", conversation_id="c-2")

    assert (figures_of(system)[1].hung, figures_of(system)[1].failed) == (1, 1)
    assert ", 1 hung" in system.tree()
    health = system.health()
    assert not health.ok and ADDRESS in health.advice
    memory.door.set()
    eventually(lambda: system.health().ok, "the call has come back")
    assert finished(clerk.run("go", conversation_id="c-2")).text == "ok"
    assert figures_of(system)[1].hung == 0


def test_those_in_line_are_refused_when_the_call_before_them_hangs(
    system: us.ActorSystem, clerk: us.AgentRef[str], memory: Fragile, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.door.clear()
    monkeypatch.setattr(memory_actor, "DEFAULT_MEMORY_TIMEOUT", 0.3)
    first = clerk.submit("go", conversation_id="c-1")
    assert memory.came.acquire(timeout=WAIT)
    monkeypatch.undo()
    second = clerk.submit("go", conversation_id="c-2")

    error = second.exception(WAIT)
    assert isinstance(error, us.AgentDown) and "did not come back in time" in str(error)
    assert isinstance(first.exception(WAIT), us.AgentCrashed)
    assert memory.calls == 1


def test_a_run_that_ends_does_not_keep_its_memory_from_others_while_the_call_has_time(
    system: us.ActorSystem, clerk: us.AgentRef[str], memory: Fragile
) -> None:
    memory.door.clear()
    first = clerk.submit("go", conversation_id="c-1")
    assert memory.came.acquire(timeout=WAIT)
    first.cancel()
    second = clerk.submit("go", conversation_id="c-2")
    eventually(lambda: figures_of(system)[1].depth == 1, "the second run stands in line")

    memory.door.set()

    assert finished(second.result(WAIT)).text == "ok"
