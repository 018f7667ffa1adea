"""Systems, and guards, for tests of agents and actors at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import understudy as us
from tests.support.killing import Effects
from tests.support.scripts import WAIT, eventually
from tests.support.stores import DictStore
from understudy.actors.waiting.graph import graph


@pytest.fixture
def system() -> Iterator[us.ActorSystem]:
    """Return a system; its stop waits for everything in it."""
    with us.ActorSystem("shop") as system:
        yield system


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Return the URL of a store in a file."""
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a store that nobody has opened: a file, and a database on a server."""
    return (
        f"sqlite:///{tmp_path}/runs.db" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    )


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    """Return where processes note their effects, outside of the store."""
    return Effects(tmp_path / "effects")


@pytest.fixture(params=["memory", "store"])
def another(request: pytest.FixtureRequest) -> Iterator[Callable[[], us.ActorSystem]]:
    """Return a function that gives the system where a run goes on: the same one, or a new one with the same store."""
    made, store = list[us.ActorSystem](), DictStore()

    def system() -> us.ActorSystem:
        if request.param == "store" or not made:
            made.append(us.ActorSystem("shop", store=store if request.param == "store" else None))
        return made[-1]

    yield system
    for each in reversed(made):
        each.stop(WAIT)


@pytest.fixture(params=["object", "text"])
def systems(request: pytest.FixtureRequest) -> Iterator[tuple[us.ActorSystem, us.ActorSystem]]:
    """Return the system where a run pauses, and the one where it goes on: the same, or two with the same store."""
    if request.param == "object":
        with us.ActorSystem("shop") as only:
            yield only, only
    else:
        store = DictStore()
        with us.ActorSystem("shop", store=store) as first, us.ActorSystem("shop", store=store) as second:
            yield first, second


@pytest.fixture
def empty_graph() -> Iterator[None]:
    """Fail a test that leaves a wait in the graph of waits; files ask for it with `usefixtures`."""
    yield
    eventually(lambda: len(graph) == 0, "no wait was left in the graph")


@pytest.fixture
def pair(url: str) -> Iterator[tuple[us.ActorSystem, us.ActorSystem]]:
    """Return a system that drives runs, and one of its name that knows them by the store alone."""
    with us.ActorSystem("shop", store=url) as drives, us.ActorSystem("shop", store=url) as reads:
        yield drives, reads
