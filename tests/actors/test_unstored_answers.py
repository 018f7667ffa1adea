"""Runs that have their answer and cannot store it: the error has a token, and the model is not called again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

import understudy as us
from tests.support.scripts import WAIT, finished, incomplete, needs_input
from tests.support.stores import LeasedDictStore
from understudy.actors.memory.persistent import StoredMemory
from understudy.testing import ScriptedModel, calls, says

Another = Callable[[], us.ActorSystem]
Runner: TypeAlias = "us.Agent | us.SequentialAgent | us.ParallelAgent | us.Workflow"


class Flaky:
    """A memory whose `append` raises what `faults` has, one after the other."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.stored: list[str] = []

    def load(self, key: us.ConversationKey, /) -> Sequence[us.Message]:
        return ()

    def append(self, key: us.ConversationKey, messages: Sequence[us.Message], run_id: str, /) -> None:
        if self.faults:
            raise self.faults.pop()
        self.stored.append(messages[-1].text)

    def clear(self, key: us.ConversationKey, /) -> None:
        raise NotImplementedError


@dataclass
class Book:
    """A memory that fails to store a turn, and then stores it."""

    memory: us.Memory
    stored: list[str]


def persistent(monkeypatch: pytest.MonkeyPatch) -> Book:
    """Return a memory in a store that fails as often as a run tries."""
    faults, stored, append = [us.StoreError("the disk is full")] * 3, list[str](), StoredMemory.append

    def fails(
        self: StoredMemory,
        key: us.ConversationKey,
        messages: Sequence[us.Message],
        run_id: str = "",
        /,
        *,
        fence: Any = None,
    ) -> None:
        if faults:
            raise faults.pop()
        append(self, key, messages, run_id, fence=fence)
        stored.append(messages[-1].text)

    monkeypatch.setattr(StoredMemory, "append", fails)
    return Book(us.PersistentMemory(), stored)


def of_user() -> Book:
    """Return a memory that fails as often as a run tries."""
    memory = Flaky(*[OSError("the disk is full")] * 3)
    return Book(memory, memory.stored)


@pytest.fixture(params=["persistent", "of a user"])
def book(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Book:
    return persistent(monkeypatch) if request.param == "persistent" else of_user()


def look() -> str:
    return "seven"


def clerk(memory: us.Memory, *turns: us.ModelTurn) -> us.Agent:
    """Make an agent whose model fails if it is asked once more."""
    return us.Agent("clerk", model=ScriptedModel([*turns, says("Done.")]), tools=[look], memory=memory)


def error_of(runner: Runner, system: us.ActorSystem) -> us.UnderstudyError:
    error = runner.submit("go", system=system, conversation_id="c").exception(WAIT)
    assert isinstance(error, us.StoreError | us.AgentCrashed | us.SeveralErrors)
    return error


def alone(agent: us.Agent) -> Runner:
    return agent


def in_a_sequence(agent: us.Agent) -> Runner:
    return us.SequentialAgent("s", [agent])


def in_two_groups(agent: us.Agent) -> Runner:
    return us.SequentialAgent("s", [us.ParallelAgent("p", [agent])])


def where_errors_are_collected(agent: us.Agent) -> Runner:
    return us.ParallelAgent("p", [agent], on_error="collect")


@pytest.mark.parametrize("around", [alone, in_a_sequence, in_two_groups, where_errors_are_collected])
def test_an_answer_that_cannot_be_stored_is_stored_by_resume(
    book: Book, another: Another, around: Callable[[us.Agent], Runner]
) -> None:
    runner = around(clerk(book.memory, calls("look")))
    error = error_of(runner, another())

    outcome = finished(runner.resume(error.token, system=another()))

    assert (outcome.text, outcome.turns, book.stored) == ("Done.", 2, ["Done."])


def test_the_error_has_the_answer_too(book: Book, system: us.ActorSystem) -> None:
    error = error_of(clerk(book.memory), system)

    assert error.messages[-1].text == "Done."


def test_a_task_whose_answer_cannot_be_stored_goes_on_inside(book: Book, another: Another) -> None:
    flow = us.Workflow("w", [us.Task("t", clerk(book.memory, calls("look")))])
    stopped = incomplete(flow.run("go", system=another(), conversation_id="c"))

    outcome = finished(flow.resume(stopped.token, system=another()))

    assert (outcome.text, book.stored) == ("Done.", ["Done."])


def test_a_typed_answer_is_the_same_when_it_is_stored_later(book: Book, another: Another) -> None:
    agent = us.Agent(
        "clerk", model=ScriptedModel([says("7")]), output_type=int, output_mode="native", memory=book.memory
    )
    error = agent.submit("go", system=another(), conversation_id="c").exception(WAIT)
    assert isinstance(error, us.UnderstudyError)

    assert finished(agent.resume(error.token, system=another())).output == 7


# --- turn by turn


@pytest.fixture
def leases() -> LeasedDictStore:
    return LeasedDictStore()


@pytest.mark.parametrize("store", [True, False], ids=["store", "memory"])
def test_the_last_turn_is_stored_by_the_next_call(book: Book, leases: LeasedDictStore, store: bool) -> None:
    agent = clerk(book.memory, calls("look"))
    with us.ActorSystem("shop", store=leases if store else None) as system:
        first = agent.run_turn("go", conversation_id="c", system=system)
        assert isinstance(first, us.MoreTurns)
        with pytest.raises((us.StoreError, us.AgentCrashed)) as caught:
            agent.run_turn(token=first.token, system=system)
        with pytest.raises(us.TokenUsed) as used:
            agent.run_turn(token=first.token, system=system)

        last = agent.run_turn(token=caught.value.token, system=system)

    assert isinstance(last, us.Complete)
    assert used.value.next == caught.value.token
    assert (last.text, last.turns, book.stored) == ("Done.", 2, ["Done."])


def test_a_first_turn_that_is_the_last_is_stored_by_the_next_call(book: Book, system: us.ActorSystem) -> None:
    agent = clerk(book.memory)
    with pytest.raises((us.StoreError, us.AgentCrashed)) as caught:
        agent.run_turn("go", conversation_id="c", system=system)

    last = agent.run_turn(token=caught.value.token, system=system)

    assert isinstance(last, us.Complete)
    assert (last.text, book.stored) == ("Done.", ["Done."])


# --- and what is not stored at all


def test_an_answer_and_its_token_that_a_full_disk_takes_neither_of_are_in_the_error(
    book: Book, leases: LeasedDictStore
) -> None:
    def refuse(method: str) -> None:
        if method == "put":
            raise OSError("the disk is full")

    leases.on_call = refuse
    with us.ActorSystem("shop", store=leases) as system:
        error = error_of(clerk(book.memory), system)

    assert (error.token, error.messages[-1].text) == ("", "Done.")
    assert any("It has no token" in note for note in error.__notes__)


def test_a_run_whose_conversation_cannot_be_loaded_has_no_token(another: Another) -> None:
    class Broken(Flaky):
        def load(self, key: us.ConversationKey, /) -> Sequence[us.Message]:
            raise OSError("the disk is full")

    assert error_of(clerk(Broken()), another()).token == ""


def test_a_run_that_was_resumed_stores_its_answer_with_the_next_token(book: Book, another: Another) -> None:
    agent = clerk(book.memory, says("__ask_user__: Which?"))
    token = needs_input(agent.run("go", conversation_id="c", system=another())).token
    error = agent.submit_resume(token, "This", system=another()).exception(WAIT)
    assert isinstance(error, us.UnderstudyError)

    assert finished(agent.resume(error.token, system=another())).text == "Done."
    assert book.stored == ["Done."]
