"""Memories that are given as a class or a function: who makes them, when, how often, and what they may not be."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import pytest

import understudy as us
from tests.support.scripts import finished
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.memory.memories import Memories
from understudy.actors.stores.store import Store
from understudy.testing import FunctionModel, ScriptedModel, says

made: list[Diary] = []
"""What the class below has made, in a test."""


class Diary(us.InMemoryMemory):
    """A memory of a user's, which fails on demand."""

    failures = 0

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.current_thread()
        made.append(self)

    def load(self, key: us.ConversationKey, /) -> tuple[us.Message, ...]:
        if Diary.failures:
            Diary.failures -= 1
            raise OSError("the connection is gone")
        return super().load(key)


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()
    Diary.failures = 0


def agent_with(memory: us.Memory | Callable[[], us.Memory], id: str = "clerk") -> us.Agent:
    return us.Agent(id, model=FunctionModel(lambda request: says(str(len(request.messages)))), memory=memory)


def make_diary() -> us.Memory:
    return Diary()


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (Diary, "Diary"),
        (make_diary, "make_diary"),
        (lambda: Diary(), "memory"),
        (partial(Diary), "partial"),
    ],
)
def test_a_memory_is_made_for_the_first_message_and_on_a_thread_of_the_runtime(
    given: Callable[[], us.Memory], address: str
) -> None:
    with us.ActorSystem("shop") as system:
        clerk = system.spawn(agent_with(given))
        ((memory,),) = [actor.memories for actor in system.health().actors]
        assert (memory.address, made) == (f"shop/memories/{address}", [])

        assert [finished(clerk.run("go", conversation_id="c-42")).text for _ in range(2)] == ["1", "3"]

    (diary,) = made
    assert diary.thread is not threading.current_thread()


def test_agents_that_are_given_one_class_or_one_method_share_a_memory() -> None:
    class Desk:
        def memory(self) -> us.Memory:
            return Diary()

    desk = Desk()
    with us.ActorSystem("shop") as system:
        for given in (Diary, desk.memory):
            one, two = agent_with(given, "one"), agent_with(Diary if given is Diary else desk.memory, "two")
            one.run("go", conversation_id="c-42", system=system)
            assert finished(two.run("go", conversation_id="c-42", system=system)).text == "3"
            copy = one.replace(id="copy")
            assert finished(copy.run("go", conversation_id="c-42", system=system)).text == "5"
    assert len(made) == 2


def test_each_system_makes_its_own() -> None:
    agent = agent_with(Diary)
    for name in ("shop", "bank"):
        with us.ActorSystem(name) as system:
            assert finished(agent.run("go", conversation_id="c-42", system=system)).text == "1"
    assert len(made) == 2


def test_a_restart_makes_a_new_one() -> None:
    with us.ActorSystem("shop") as system:
        clerk = system.spawn(agent_with(Diary))
        clerk.run("go", conversation_id="c-42")
        Diary.failures = 1

        assert finished(clerk.run("go", conversation_id="c-42")).text == "1"  # the new one knows nothing

        ((memory,),) = [actor.memories for actor in system.health().actors]
        assert (len(made), memory.restarts) == (2, 1)


def test_a_memory_of_this_package_may_be_given_as_a_class_and_never_blocks() -> None:
    with us.ActorSystem("shop") as system:
        clerk = system.spawn(agent_with(us.InMemoryMemory))
        assert [finished(clerk.run("go", conversation_id="c-42")).text for _ in range(2)] == ["1", "3"]
        ((memory,),) = [actor.memories for actor in system.health().actors]
        assert (memory.address, memory.seats) == ("shop/memories/InMemoryMemory", None)


def nothing() -> us.Memory:
    return None  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def a_class() -> us.Memory:
    return Diary  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


async def later() -> us.Memory:
    return Diary()


def not_awaited() -> us.Memory:
    return later()  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


class TakesLess(us.InMemoryMemory):
    def append(self, key: us.ConversationKey, messages: Sequence[us.Message]) -> None: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (nothing, "nothing, given as memory, must make an object .* got None"),
        (a_class, "must make an object .* got the class Diary and no object of it"),
        (not_awaited, "must make an object .* got a coroutine; write a plain function"),
        (TakesLess, "made a TakesLess, which has append.*expected append"),
    ],
)
def test_a_function_that_makes_no_memory_ends_the_run_at_once(given: Callable[[], us.Memory], message: str) -> None:
    failed: list[us.ActorFailed] = []
    with us.ActorSystem("shop") as system:
        system.subscribe(failed.append, us.ActorFailed)
        with pytest.raises(us.AgentCrashed, match=message) as caught:
            agent_with(given).run("go", conversation_id="c-42", system=system)
    assert len(caught.value.causes) == 1
    assert [event.message_type for event in failed] == [""]


def test_a_memory_whose_start_fails_is_tried_again_and_the_next_run_too() -> None:
    failures = [OSError("refused")] * 4

    def connect() -> us.Memory:
        if failures:
            raise failures.pop()
        return Diary()

    with us.ActorSystem("shop") as system:
        clerk = system.spawn(agent_with(connect))
        with pytest.raises(us.AgentCrashed, match="failed 3 times in run .* OSError: refused"):
            clerk.run("go", conversation_id="c-42")
        assert finished(clerk.run("go", conversation_id="c-42")).text == "1"
        (agent,) = system.health().actors
        assert (agent.restarts, agent.memories[0].restarts) == (0, 4)


class Counter:
    """No memory."""


def made_of(key: str) -> us.Memory:
    return Diary()


class NeedsAPlace(us.InMemoryMemory):
    def __init__(self, place: str) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Counter, "must have load.*, append.* and clear.*; <class .*Counter'> has no load"),
        (NeedsAPlace, r"NeedsAPlace'> takes \(place: 'str'\).*; a memory is made without arguments"),
        (made_of, r"takes \(key: 'str'\).*; a memory is made without arguments"),
        (later, "is async def; a function that makes a memory must be a plain one"),
        ("memory", "'memory' has no load"),
    ],
)
def test_what_cannot_make_a_memory_is_refused_when_the_agent_is_made(given: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        us.Agent("clerk", model=ScriptedModel([]), memory=cast(us.Memory, given))


def test_a_made_memory_goes_with_the_last_agent_that_has_it() -> None:
    memories, agent = Memories("shop", EventStream("shop"), Store()), agent_with(Diary)
    first = memories.of(agent)
    assert first is not None and memories.of(agent.replace(id="other")) is first

    address = first.address
    del first, agent
    gc.collect()

    second = memories.of(agent_with(Diary))
    assert second is not None and second.address == address


def test_a_forked_child_makes_a_memory_of_its_own() -> None:
    with us.ActorSystem("shop") as system:
        agent = agent_with(Diary)
        agent.run("go", conversation_id="c-42", system=system)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                told = finished(agent.run("go", conversation_id="c-42", system=system)).text
                status = 0 if (told, len(made)) == ("1", 2) else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_spec_takes_the_class_of_a_memory() -> None:
    spec = "agents:\n  - id: clerk\n    model: rehearsal\n    memory: {name: diary}\n"
    loaded = us.load_spec_text(spec, objects={"diary": Diary})
    clerk = loaded.agents["clerk"]
    assert clerk.memory is Diary
    with pytest.raises(us.SpecError, match=r"'diary' must be an object with load\(\), append\(\) and clear\(\)"):
        us.load_spec_text(spec, objects={"diary": NeedsAPlace})
