"""Memories as actors: addresses, counters, `tree()` and `health()`, a line before a memory that blocks, and the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import Fate
from understudy.actors.memory import memory_actor
from understudy.actors.memory.memories import Memories
from understudy.actors.memory.memory_actor import Append, Load
from understudy.actors.stores.store import Store
from understudy.actors.system.health import ActorFigures
from understudy.testing import FunctionModel, says

KEY = us.ConversationKey("shop", "default", "c-42")


class Held(us.InMemoryMemory):
    """A memory of a user's: it waits at a door, and fails on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Semaphore(0)
        self.door = threading.Event()
        self.door.set()
        self.fails = 0
        self.loads = 0

    def load(self, key: us.ConversationKey, /) -> tuple[us.Message, ...]:
        self.loads += 1
        self.came.release()
        assert self.door.wait(WAIT)
        if self.fails:
            self.fails -= 1
            raise OSError("the disk is full")
        return super().load(key)


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop") as system:
        yield system
        system.stop(0.0)


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.door.set()


def agent_with(memory: us.Memory, id: str = "clerk") -> us.Agent:
    return us.Agent(id, model=FunctionModel(lambda request: says("ok")), memory=memory)


def memory_of(system: us.ActorSystem, agent: str = "clerk") -> ActorFigures:
    (found,) = [actor for actor in system.health().actors if actor.address == f"shop/{agent}"]
    (memory,) = found.memories
    return memory


def test_a_memory_has_figures_before_its_first_message(system: us.ActorSystem) -> None:
    system.spawn(agent_with(us.InMemoryMemory()))

    memory = memory_of(system)

    assert (memory.address, memory.state) == ("shop/memories/InMemoryMemory", "running")
    assert (memory.handled, memory.failed, memory.expired, memory.dead, memory.depth) == (0, 0, 0, 0, 0)
    line = "    memories/InMemoryMemory: running, 0 waiting, 0 handled, 0 failed, 0 restarts"
    assert system.tree().splitlines()[-1] == line


@pytest.mark.parametrize("kind", [us.InMemoryMemory, us.WindowedMemory, Held])
def test_each_load_and_each_append_is_a_message(system: us.ActorSystem, kind: type[us.InMemoryMemory]) -> None:
    ref = system.spawn(agent_with(kind()))

    for _ in range(3):
        ref.run("go", conversation_id="c-42")

    memory = memory_of(system)
    assert (memory.handled, memory.failed, memory.busy_for) == (6, 0, None)


def test_agents_that_share_a_memory_share_its_actor_and_another_memory_has_a_number(system: us.ActorSystem) -> None:
    shared = us.InMemoryMemory()
    for id, memory in (("one", shared), ("two", shared), ("three", us.InMemoryMemory())):
        system.spawn(agent_with(memory, id))
        system.ref(id).run("go", conversation_id="c-42")

    assert [(memory_of(system, id).address, memory_of(system, id).handled) for id in ("one", "two", "three")] == [
        ("shop/memories/InMemoryMemory", 4),
        ("shop/memories/InMemoryMemory", 4),
        ("shop/memories/InMemoryMemory-2", 2),
    ]


def test_a_memory_that_fails_goes_on_with_its_object_and_so_does_the_run(system: us.ActorSystem, held: Held) -> None:
    system.spawn(agent_with(held))
    system.ref("clerk").run("first", conversation_id="c-42")
    held.fails = 1

    assert finished(system.ref("clerk").run("second", conversation_id="c-42")).text == "ok"

    memory = memory_of(system)
    assert (memory.handled, memory.failed, memory.restarts) == (4, 1, 1)
    assert held.loads == 3


def test_a_memory_that_blocks_is_seen_and_so_are_the_messages_in_its_line(system: us.ActorSystem, held: Held) -> None:
    held.door.clear()
    ref = system.spawn(agent_with(held))
    first = ref.submit("first", conversation_id="c-1")
    assert held.came.acquire(timeout=WAIT)
    second = ref.submit("second", conversation_id="c-2")
    eventually(lambda: memory_of(system).depth == 1, "the second run stands in line")

    memory = memory_of(system)
    assert memory.busy_for is not None and memory.oldest_age > 0.0
    second.cancel()
    eventually(lambda: memory_of(system).depth == 0, "it stands in line no more")
    held.door.set()
    first.result(WAIT)

    memory = memory_of(system)
    assert (memory.handled, memory.expired, memory.high_water) == (2, 1, 1)
    assert [(letter.address, letter.reason, letter.message_type) for letter in system.dead_letters()] == [
        ("shop/memories/Held", "cancelled", "Load")
    ]
    assert held.loads == 1


def test_a_message_whose_time_is_over_in_line_is_answered_while_the_memory_blocks(
    system: us.ActorSystem, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    held.door.clear()
    ref = system.spawn(agent_with(held))
    ref.submit("first", conversation_id="c-1")
    assert held.came.acquire(timeout=WAIT)
    monkeypatch.setattr(memory_actor, "DEFAULT_MEMORY_TIMEOUT", 0.05)

    second = ref.submit("second", conversation_id="c-2")

    error = second.exception(WAIT)
    assert isinstance(error, us.AgentCrashed) and "took more than" in str(error)
    eventually(lambda: memory_of(system).expired == 1, "the message has expired")
    assert held.loads == 1


def test_messages_to_a_memory_come_in_their_order(system: us.ActorSystem) -> None:
    order: list[str] = []

    class Noting(Held):
        def load(self, key: us.ConversationKey, /) -> tuple[us.Message, ...]:
            order.append(key.conversation)
            return super().load(key)

    noting = Noting()
    noting.door.clear()
    ref = system.spawn(agent_with(noting))
    handles = [ref.submit("go", conversation_id="c-0")]
    assert noting.came.acquire(timeout=WAIT)
    for number in range(1, 6):
        handles.append(ref.submit("go", conversation_id=f"c-{number}"))
        eventually(lambda: memory_of(system).depth == number, "it stands in line")  # noqa: B023
    noting.door.set()
    for handle in handles:
        handle.result(WAIT)

    assert order == [f"c-{number}" for number in range(6)]


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "of a user"])
def test_a_message_after_the_end_of_the_system_is_a_dead_letter(quick: bool, held: Held) -> None:
    events = EventStream("shop")
    memories = Memories("shop", events, Store())
    agent = agent_with(us.InMemoryMemory() if quick else held)
    actor = memories.of(agent)
    assert actor is not None
    memories.stop()

    used: list[str] = []
    with pytest.raises(us.AgentDown, match="shop/memories/.* has stopped"):
        actor.call_quickly(Append(KEY, lambda memory: used.append("used")))

    assert (used, actor.counts[Fate.DEAD]) == ([], 1)
    assert [(letter.reason, letter.message_type) for letter in events.letters.last()] == [("stopped", "Append")]
    late = memories.of(agent_with(us.WindowedMemory()))
    assert late is not None and late.closed


def test_a_failure_of_a_quick_memory_is_counted() -> None:
    def fail(memory: us.Memory) -> Sequence[us.Message]:
        raise MemoryError

    agent = agent_with(us.InMemoryMemory())
    actor = Memories("shop", EventStream("shop"), Store()).of(agent)
    assert actor is not None

    with pytest.raises(MemoryError):
        actor.call_quickly(Load(KEY, fail))

    assert (actor.counts[Fate.FAILED], actor.restarts, actor.busy_since) == (1, 1, None)
