"""Actors and agents of a system in `pykka.ActorRegistry`: who is there, for how long, and what reaches them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pykka
import pytest

import understudy as us
from tests.hosts.processes import check
from tests.support.players import Player
from tests.support.scripts import WAIT, eventually
from understudy.testing import FunctionModel, says


class Ledger(pykka.ThreadingActor):
    """An actor of bare Pykka."""

    def on_receive(self, message: object) -> object:
        return message


def count(text: str) -> int:
    """Count the letters of a text."""
    return len(text)


def clerk(told: list[str] | None = None) -> us.Agent[str]:
    """Return an agent that notes what it is told."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if told is not None:
            told.append(request.messages[-1].text)
        return says("fine")

    return us.Agent("clerk", model=FunctionModel(answer))


@pytest.fixture
def shop() -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop", registry=True) as system:
        yield system
    assert pykka.ActorRegistry.get_all() == []


def urns() -> list[str]:
    return [ref.actor_urn for ref in pykka.ActorRegistry.get_all()]


def test_a_system_leaves_the_registry_alone_unless_it_is_told_otherwise() -> None:
    with us.ActorSystem("shop") as system:
        system.spawn(Player, name="ann")
        system.spawn(clerk())

        assert urns() == []


def test_spawned_actors_and_agents_are_in_the_registry_and_nothing_else(shop: us.ActorSystem) -> None:
    helper = us.Agent("helper", model="rehearsal")
    lead = us.Agent("lead", model="rehearsal", sub_agents=[helper], tools=[count])
    ann = shop.spawn(Player, name="ann")
    shop.spawn(us.Supervisor("desk", [us.Child(Player, name="bob"), clerk()]))
    shop.spawn(lead)
    shop.subscribe(lambda event: None)
    us.Agent("passing", model="rehearsal").run("hi", system=shop)
    lead.run("hi", system=shop)

    assert sorted(urns()) == ["shop/ann", "shop/desk/bob", "shop/desk/clerk", "shop/helper", "shop/lead"]
    assert pykka.ActorRegistry.get_by_urn("shop/ann") == ann
    assert len(pykka.ActorRegistry.get_by_class_name("Player")) == 2
    assert [ref.actor_urn for ref in pykka.ActorRegistry.get_by_class_name("Agent")].count("shop/lead") == 1


def test_actors_are_found_by_class_those_that_a_function_makes_too(shop: us.ActorSystem) -> None:
    ann = shop.spawn(Player, name="ann")
    made = shop.spawn(lambda: Player(), name="made")
    agent = shop.spawn(clerk())
    assert made.ask("hi", timeout=WAIT)

    registry = pykka.ActorRegistry
    assert registry.get_by_class_name("Player") == [ann, made]
    assert registry.get_by_class(pykka.Actor) == [ann, made]  # type: ignore[type-abstract]
    assert registry.get_by_class(us.Actor) == [ann, made]  # type: ignore[type-var]  # pyright: ignore
    assert registry.get_by_class(us.Agent) == [agent]  # type: ignore[type-var]  # pyright: ignore


def test_a_class_of_bare_pykka_is_not_spawned(shop: us.ActorSystem) -> None:
    for given in (Ledger, us.Supervisor("desk", [Ledger])):
        with pytest.raises(TypeError, match=r"start it with Ledger\.start\(\)"):
            shop.spawn(given)  # type: ignore[arg-type]  # pyright: ignore


def test_arguments_of_an_actor_given_to_spawn_are_refused_with_a_way_to_give_them(shop: us.ActorSystem) -> None:
    way = r"made by a function: spawn\(lambda: Player\(…\), name='…'\)"

    with pytest.raises(TypeError, match=rf"one argument, and options by name; .*{way}"):
        shop.spawn(Player, "ann")  # type: ignore[call-overload]  # pyright: ignore
    with pytest.raises(TypeError, match=rf"no option greeting=; .*{way}"):
        shop.spawn(Player, name="ann", greeting="Hello")  # type: ignore[call-overload]  # pyright: ignore
    with pytest.raises(TypeError, match=r"no option timeout=$"):
        shop.spawn(clerk(), timeout=3)  # type: ignore[call-overload]  # pyright: ignore
    assert shop.health().actors == ()


def test_an_agent_found_in_the_registry_is_asked_and_runs(shop: us.ActorSystem) -> None:
    ref = shop.spawn(clerk())

    found = pykka.ActorRegistry.get_by_urn("shop/clerk")

    assert found is not None and found == ref
    assert found.ask("hello", block=True, timeout=WAIT).text == "fine"
    assert found.ask("hello", block=False).get(timeout=WAIT).text == "fine"


def test_a_broadcast_reaches_actors_and_begins_no_run(shop: us.ActorSystem) -> None:
    heard = threading.Event()
    told: list[str] = []

    class Hears(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            heard.set()
            return None

    shop.spawn(clerk(told))
    shop.spawn(Hears)

    pykka.ActorRegistry.broadcast("all hands")

    assert heard.wait(WAIT)
    assert shop.in_flight == 0
    (letter,) = shop.dead_letters()
    assert (letter.address, letter.reason) == ("shop/clerk", "broadcast")
    assert told == []


def test_a_broadcast_reaches_actors_behind_a_full_mailbox(shop: us.ActorSystem) -> None:
    gate, heard = threading.Event(), threading.Event()

    class Busy(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            return gate.wait(WAIT)

    class Hears(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            heard.set()
            return None

    busy = shop.spawn(Busy, name="busy", mailbox=us.Mailbox(1))
    busy.tell("work")
    eventually(lambda: shop.health().actors[0].depth == 0, "it is at the message")
    busy.tell("waits")
    shop.spawn(Hears)

    pykka.ActorRegistry.broadcast("all hands")

    assert heard.wait(WAIT)
    (letter,) = shop.dead_letters()
    assert (letter.address, letter.reason) == ("shop/busy", "mailbox_full")
    gate.set()


def test_stop_all_stops_ours_and_those_of_bare_pykka(shop: us.ActorSystem) -> None:
    refs = [shop.spawn(Player, name="ann"), Ledger.start(), shop.spawn(clerk())]

    assert pykka.ActorRegistry.stop_all(timeout=WAIT) == [True, True, True]

    assert [ref.is_alive() for ref in refs] == [False, False, False]
    assert urns() == []


def test_stop_all_inside_of_an_actor_waits_for_the_others_alone(shop: us.ActorSystem) -> None:
    class Stops(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            return pykka.ActorRegistry.stop_all(timeout=WAIT)

    ann = shop.spawn(Player, name="ann")
    stops = shop.spawn(Stops)

    assert stops.ask("all") == [True, True]
    assert not ann.is_alive()
    assert stops.actor_stopped.wait(WAIT)


def test_an_actor_that_stops_leaves_the_registry_and_its_successor_stays(shop: us.ActorSystem) -> None:
    for _ in range(3):
        ref = shop.spawn(Player, name="ann")
        assert ref.stop(timeout=WAIT)
        eventually(lambda: urns() == [], "it has left")
    shop.spawn(Player, name="ann")

    assert urns() == ["shop/ann"]


def test_an_actor_that_hangs_has_left_the_registry_when_its_system_has_stopped() -> None:
    gate = threading.Event()
    system = us.ActorSystem("shop", registry=True)

    class Hangs(us.Actor[str]):
        def on_receive(self, message: str) -> object:
            return gate.wait(WAIT)

    system.spawn(Hangs, name="hangs").tell("now")
    assert system.stop(0) == ("shop/hangs",)

    assert urns() == []
    gate.set()


def test_pykkas_registry_has_the_lock_and_the_list_that_are_used_here() -> None:
    ledger = Ledger.start()

    assert type(vars(pykka.ActorRegistry)["_actor_refs_lock"]) is type(threading.RLock())
    assert vars(pykka.ActorRegistry)["_actor_refs"] == [ledger]
    assert ledger.stop(timeout=WAIT)


def test_a_forked_child_has_no_entries_of_its_parent() -> None:
    check("""
        import threading
        import pykka
        import understudy as us
        from tests.hosts.forking import in_child

        class Echo(us.Actor[str]):
            def on_receive(self, message):
                return message

        def urns():
            return [ref.actor_urn for ref in pykka.ActorRegistry.get_all()]

        with us.ActorSystem("shop", registry=True) as system:
            system.spawn(Echo, name="ann")

            def look():
                assert urns() == []
                assert system.spawn(Echo, name="bob").ask("hi", timeout=5) == "hi"
                assert urns() == ["shop/bob"]

            held, gate = threading.Event(), threading.Event()

            def hold():
                with pykka.ActorRegistry._actor_refs_lock:
                    held.set()
                    gate.wait()

            threading.Thread(target=hold).start()
            held.wait()
            in_child(look)
            gate.set()
            assert urns() == ["shop/ann"]
        assert urns() == []
    """)


@pytest.mark.parametrize("wrong", [None, 1, "yes"])
def test_registry_is_a_yes_or_no(wrong: object) -> None:
    with pytest.raises(TypeError, match="registry"):
        us.ActorSystem("shop", registry=wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
