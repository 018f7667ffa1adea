"""Executors and memories as Pykka's own code sees them: they can be stopped, and refuse messages by a reference."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import pykka
import pytest

import understudy as us
from tests.support.scripts import WAIT, results_of
from understudy.actors.actor.actor_cell import ActorCell
from understudy.actors.cells.dead_letters import DeadLetters
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.cells.mailbox import Fate
from understudy.actors.cells.pykka_cell import PykkaCell
from understudy.actors.cells.seated_cell import Entered, SeatedCell
from understudy.actors.memory.memory_actor import Append, Load, MemoryActor, MemoryOrigin
from understudy.actors.stores.store import Store
from understudy.actors.system.actor_system import runs_of
from understudy.actors.threads.promise import Promise
from understudy.actors.tools.executor import Executor
from understudy.testing import ScriptedModel, calls, says
from understudy.vocabulary.actors.system_events import LostBecause


class Notes(us.InMemoryMemory):
    """A memory of a user's."""


class Kind(NamedTuple):
    """An actor with seats, and what it says that it takes."""

    cell: SeatedCell[Any]
    letters: DeadLetters
    takes: str


@pytest.fixture(params=["executor", "memory", "quick memory"])
def kind(request: pytest.FixtureRequest) -> Kind:
    events = EventStream("shop")
    if request.param == "executor":
        cell: SeatedCell[Any] = Executor("shop/tools/cut", 1, events)
        return Kind(cell, events.letters, "shop/tools/cut takes calls of tools from runs of agents")
    given = us.InMemoryMemory() if request.param == "quick memory" else Notes()
    cell = MemoryActor("shop/memories/M", MemoryOrigin(given, Store()), "memory of clerk", events)
    return Kind(cell, events.letters, "shop/memories/M takes loads and appends from runs of agents")


class Sent(NamedTuple):
    """What Pykka's references put into an inbox."""

    message: object
    reply_to: pykka.Future[Any] | None


def letters_of(kind: Kind) -> list[tuple[str, LostBecause, str]]:
    return [(letter.address, letter.reason, letter.message_type) for letter in kind.letters.last()]


def message_of() -> Load[None]:
    def use(memory: us.Memory) -> None:
        """Do nothing."""

    return Load(us.ConversationKey("shop", "default", "c-42"), use)


def test_it_has_all_that_pykkas_constructor_sets(kind: Kind) -> None:
    cell = kind.cell
    assert isinstance(cell, PykkaCell) and isinstance(cell, pykka.Actor)
    assert (cell.actor_urn, cell.actor_inbox, cell.actor_stopped.is_set()) == (cell.address, cell, False)
    ref = pykka.ActorRef(cell)
    assert (ref.actor_urn, ref.actor_class, ref.is_alive()) == (cell.address, type(cell), True)


def test_what_it_is_asked_by_a_reference_is_answered_with_what_it_takes(kind: Kind) -> None:
    ref = pykka.ActorRef(kind.cell)
    futures = [ref.ask(message, block=False) for message in ("hello", message_of(), Append)]

    assert all(isinstance(future, Promise) for future in futures)
    for future in futures:
        with pytest.raises(TypeError, match=f"{kind.takes}, and no messages by a reference, got "):
            pykka.get_all([future], timeout=WAIT)
    assert kind.cell.counts[Fate.DEAD] == 3
    assert (kind.cell.depth, kind.cell.busy_since) == (0, None)


def test_what_it_is_told_by_a_reference_is_a_dead_letter(kind: Kind) -> None:
    pykka.ActorRef(kind.cell).tell("hello")

    assert letters_of(kind) == [(kind.cell.address, "not_accepted", "str")]


def test_a_proxys_call_is_refused(kind: Kind) -> None:
    with pytest.raises(TypeError, match=kind.takes):
        pykka.ActorRef(kind.cell).proxy().give_up_hung().get(timeout=WAIT)


@pytest.mark.parametrize("block", [True, False])
def test_a_reference_stops_it(kind: Kind, block: bool) -> None:
    ref = pykka.ActorRef(kind.cell)

    if block:
        assert ref.stop(timeout=WAIT)
    else:
        assert pykka.get_all([ref.stop(block=False)], timeout=WAIT) == [True]

    assert (ref.is_alive(), kind.cell.closed, kind.cell.state) == (False, True, "stopped")
    with pytest.raises(pykka.ActorDeadError):
        ref.ask("hello")
    assert not kind.cell.take_turn(message_of())


def test_a_stop_loses_what_waits_and_lets_the_turn_in_hand_end() -> None:
    events, lost, begun = EventStream("shop"), list[LostBecause](), list[str]()
    cell = MemoryActor("shop/memories/M", MemoryOrigin(Notes(), Store()), "memory of clerk", events)
    first, second = message_of(), message_of()
    assert cell.take_turn(first)
    assert cell.enter(second, lambda: begun.append("second"), lost.append) is Entered.LATER

    pykka.ActorRef(cell).stop(timeout=WAIT)

    assert lost == ["stopped"]
    cell.leave(first)
    assert (begun, cell.counts[Fate.HANDLED], cell.counts[Fate.DEAD]) == ([], 1, 1)


def test_a_message_that_comes_after_the_stop_fails_its_future(kind: Kind) -> None:
    reply: Promise[object] = Promise()
    kind.cell.stop()

    kind.cell.put(Sent("hello", reply))

    assert isinstance(reply.error(), us.AgentDown) and isinstance(reply.error(), pykka.ActorDeadError)
    assert letters_of(kind) == [(kind.cell.address, "stopped", "str")]


def test_it_gives_its_messages_to_no_loop_of_pykkas(kind: Kind) -> None:
    assert kind.cell.empty()
    with pytest.raises(TypeError):
        kind.cell.get()
    with pytest.raises(TypeError):
        kind.cell._create_actor_inbox()  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(TypeError):
        kind.cell.actor_stopped.set()


def test_a_tool_whose_actor_is_stopped_by_a_reference_is_not_available_and_the_run_goes_on() -> None:
    def cut() -> str:
        return "cut"

    agent = us.Agent("clerk", model=ScriptedModel([calls("cut"), says("ok")]), tools=[cut])
    with us.ActorSystem("shop") as system:
        ref = system.spawn(agent)
        cell = cast(ActorCell, ref._cell)  # pyright: ignore[reportPrivateUsage]
        (executor,) = runs_of(system).executors.of_all(agent.tools, cell)
        pykka.ActorRef(executor).stop(timeout=WAIT)

        outcome = ref.run("go", timeout=WAIT)

    assert isinstance(outcome, us.Complete)
    (result,) = results_of(outcome)
    assert (result.error_kind, "shop/tools/cut has stopped" in result.content) == ("unavailable", True)
