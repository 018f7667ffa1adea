"""Erasing a user: from conversations, sessions, paused runs and the bytes of the file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.scripts import WAIT
from understudy.actors.stores.open_store import open_store
from understudy.testing import FunctionModel, ScriptedModel, calls, says

SECRET = "Lovelace-1815"
VALUE = "Analytical-1843"


@us.tool(approval=True)
def refund(order: str) -> str:
    return f"paid {order}"


@us.tool
def note(ctx: us.ToolContext, what: str) -> str:
    ctx.session["user:note"] = what
    ctx.session["order"] = what
    return "noted"


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory:"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def system(url: str) -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop", store=url) as made:
        yield made


def talk(system: us.ActorSystem, user: str, memory: us.Memory) -> str:
    """Leave traces of a user everywhere, and return the token of a run that waits."""
    model = ScriptedModel([calls("note", what=VALUE), says(f"Dear {user}, {SECRET}")])
    clerk = us.Agent("clerk", model=model, tools=[note], memory=memory)
    clerk.run(SECRET, system=system, user_id=user, conversation_id="c-42")
    model = ScriptedModel([calls("refund", order=SECRET), says("paid")])
    cashier = us.Agent("cashier", model=model, tools=[refund])
    waiting = cashier.run(SECRET, system=system, user_id=user)
    assert isinstance(waiting, us.NeedsApproval)
    return waiting.token


@pytest.mark.filterwarnings("ignore:.*has no store:understudy.MemoryNotUsed")
def test_a_user_is_erased_from_everything_and_counted(system: us.ActorSystem) -> None:
    memory = us.PersistentMemory()
    token, other = talk(system, "ada", memory), talk(system, "bob", memory)

    erased = system.erase("ada")

    assert erased == us.Erased(conversations=1, turns=1, values=2, pauses=1)
    assert system.erase("ada") == us.Erased()
    with pytest.raises(us.UnknownToken):
        system.runner_of(token)
    assert system.runner_of(other) == "cashier"
    assert system.erase("bob") == erased


def test_memories_of_this_process_and_stores_of_memories_are_erased_too(system: us.ActorSystem, tmp_path: Path) -> None:
    inner, own = us.InMemoryMemory(), us.PersistentMemory(f"sqlite:///{tmp_path}/own.db")
    agents = [us.Agent("clerk", model=ScriptedModel([says("hi")]), memory=memory) for memory in (inner, own)]
    for agent in agents:
        agent.run(SECRET, system=system, user_id="ada", conversation_id="c-42")

    assert system.erase("ada") == us.Erased(conversations=2, turns=2)
    assert list(own.load(us.ConversationKey("shop", "ada", "c-42"))) == []


def test_runs_without_a_user_are_those_of_the_default_user(system: us.ActorSystem) -> None:
    us.Agent("clerk", model=ScriptedModel([says("hi")]), memory=us.PersistentMemory()).run(
        "hi", system=system, conversation_id="c-42"
    )

    assert system.erase("default") == us.Erased(conversations=1, turns=1)


def test_a_user_with_runs_under_way_is_not_erased(system: us.ActorSystem) -> None:
    gate = threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        gate.wait(WAIT)
        return says("hi")

    agent = us.Agent("clerk", model=FunctionModel(answer), memory=us.PersistentMemory())
    run = agent.submit("hi", system=system, user_id="ada", conversation_id="c-42")

    with pytest.raises(RuntimeError, match=f"user 'ada' has runs under way.*{run.run_id}"):
        system.erase("ada")
    assert system.erase("bob") == us.Erased()
    gate.set()
    run.get(timeout=WAIT)
    assert system.erase("ada").turns == 1


@pytest.fixture(params=["sqlite", "postgresql"])
def stored_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a store that processes share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.mark.parametrize("ends", [True, False], ids=["the last turn", "a turn"])
def test_a_turn_whose_user_another_process_erases_leaves_nothing(stored_url: str, ends: bool) -> None:
    gate, errors = Gate(), list[us.UnderstudyError]()

    def note(ctx: us.ToolContext, what: str) -> str:
        ctx.session["user:note"] = what
        return "noted"

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 2:
            gate()
        return says(SECRET) if request.turn == 2 and ends else calls("note", what=SECRET)

    clerk = us.Agent("clerk", model=FunctionModel(answer), tools=[note], memory=us.PersistentMemory())

    def work(token: str) -> None:
        try:
            clerk.run_turn(token=token, system=here)
        except us.UnderstudyError as error:
            errors.append(error)

    with us.ActorSystem("shop", store=stored_url) as here, us.ActorSystem("shop", store=stored_url) as there:
        first = clerk.run_turn("Go", user_id="ada", conversation_id="c", system=here)
        assert isinstance(first, us.MoreTurns)
        worker = threading.Thread(target=work, args=(first.token,))
        worker.start()
        assert gate.entered.wait(WAIT)
        with pytest.raises(RuntimeError, match="runs under way"):
            here.erase("ada")
        erased = there.erase("ada")
        gate.open()
        worker.join(WAIT)
        left = there.erase("ada")
        with pytest.raises(us.UnknownToken):
            there.runner_of(first.token)

    assert (erased.pauses, left) == (1, us.Erased())
    assert [type(error) for error in errors] == [us.LeaseLost]


@pytest.mark.parametrize("rounds", [2, 1], ids=["pause", "limit"])
def test_a_run_whose_user_another_process_erases_leaves_neither_pause_nor_values(stored_url: str, rounds: int) -> None:
    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 1:
            return calls("note", what=VALUE)
        there.erase("ada")
        return calls("refund", order=SECRET)

    cashier = us.Agent("cashier", model=FunctionModel(answer), tools=[note, refund], max_iterations=rounds)
    with us.ActorSystem("shop", store=stored_url) as here, us.ActorSystem("shop", store=stored_url) as there:
        with pytest.raises(us.LeaseLost if rounds > 1 else us.MaxIterationsExceeded) as caught:
            cashier.run(SECRET, user_id="ada", conversation_id="c", system=here)

        assert caught.value.token == ""
        assert (there.pending(), there.erase("ada")) == ([], us.Erased())


def test_an_empty_user_is_refused(system: us.ActorSystem) -> None:
    with pytest.raises(ValueError, match="user_id must not be empty"):
        system.erase("")


def test_what_was_erased_is_in_no_byte_of_the_file_and_its_log(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with us.ActorSystem("shop", store=url) as system:
        talk(system, "ada", us.PersistentMemory())
        before = [path.name for path in tmp_path.iterdir() if path.is_file() and SECRET.encode() in path.read_bytes()]
        system.erase("ada")

        left = b"".join(
            [path.read_bytes() for path in tmp_path.iterdir() if path.is_file() and path.suffix != ".db-shm"]
        )
    assert before
    assert [word for word in (SECRET, VALUE) if word.encode() in left] == []


def test_a_store_erases_a_user_in_one_app_or_in_all(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    for app in ("shop", "bank", "my-bank"):
        with us.ActorSystem(app, store=url) as system:
            talk(system, "ada", us.PersistentMemory())
    store = open_store(url)

    assert (
        store.count("ada", "bank")
        == store.erase("ada", "bank")
        == us.Erased(conversations=1, turns=1, values=2, pauses=1)
    )
    assert store.erase("ada", None) == us.Erased(conversations=2, turns=2, values=4, pauses=2)
