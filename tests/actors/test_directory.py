"""Who lives in a system: looked at and stopped while others come and go."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

import understudy as us
from tests.support.players import Player
from tests.support.scripts import WAIT, eventually
from understudy.actors.cells.event_stream import EventStream
from understudy.actors.system.directory import Directory
from understudy.orchestration.supervision.supervisor import Child
from understudy.testing import ScriptedModel, says


@pytest.fixture
def directory() -> Directory:
    return Directory("shop", lambda agent: Player, lambda turn: None, EventStream("shop"), lambda: False)


def agent(id: str) -> us.Agent:
    return us.Agent(id, model=ScriptedModel([says("ok")]))


class Meanwhile:
    """What another thread does in the midst of a look at a table: it comes to its end, or finds the lock taken."""

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do
        self._lock = threading.Lock()
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def happen(self) -> None:
        """Have it done, once; returns when it is done or waits for the lock."""
        if self._thread.ident is None:
            self._thread.start()
            assert self._settled.wait(WAIT)

    def _run(self) -> None:
        self._do()
        self._settled.set()

    def join(self) -> None:
        self._thread.join(WAIT)
        assert self._settled.is_set() and not self._thread.is_alive()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._settled.set()
            self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


class Names(dict[str, object]):
    """The table of names; something happens while it is gone through."""

    meanwhile: Meanwhile

    def items(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # it is gone through once
        for item in super().items():
            yield item
            self.meanwhile.happen()


class Definitions(weakref.WeakKeyDictionary[us.Agent, object]):
    """The table of definitions; something happens while it is gone through."""

    meanwhile: Meanwhile

    def values(self) -> Iterator[object]:  # type: ignore[override]  # as above
        for value in super().values():
            yield value
            self.meanwhile.happen()


def test_the_cells_can_be_read_while_an_agent_runs_for_the_first_time(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, new, table = [agent("ann"), agent("bob")], agent("eve"), Definitions()
    table.meanwhile = Meanwhile(lambda: directory.cell_of(new))
    monkeypatch.setattr(directory, "_by_definition", table)
    for each in known:
        directory.cell_of(each)
    monkeypatch.setattr(directory, "_lock", table.meanwhile)

    cells = directory.cells

    table.meanwhile.join()
    assert [cell.address for cell in cells] == ["shop/ann", "shop/bob"]
    assert len(directory.cells) == 3


def test_all_are_stopped_although_one_stops_meanwhile(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Names()
    monkeypatch.setattr(directory, "_by_name", table)
    one, *others = [directory.add(Child(Player, name), None) for name in ("ann", "bob", "cid")]

    def stop_one() -> None:
        one.stop()
        eventually(lambda: "ann" not in table, "its name is free")

    table.meanwhile = Meanwhile(stop_one)
    monkeypatch.setattr(directory, "_lock", table.meanwhile)

    directory.stop_all()

    table.meanwhile.join()
    assert all(cell.stopped.wait(WAIT) for cell in others)
    eventually(lambda: directory.names == [], "all names are free")


def test_a_group_is_forgotten_when_the_last_of_it_has_stopped(directory: Directory) -> None:
    team = us.Supervisor("team", [us.Child(Player, "bob"), us.Child(Player, "cid")])
    outer = directory.add_group(us.Supervisor("desk", [us.Child(Player, "ann"), team]))
    alone = directory.add(Child(Player, "dan"), None)

    for name in ("ann", "cid"):
        cell = directory.get(name)
        assert cell is not None
        cell.stop()
    eventually(lambda: directory.names == ["bob", "dan"], "two of the group are gone")
    assert directory.units == [outer, alone]

    outer.stop_then(lambda: None)
    eventually(lambda: directory.units == [alone], "the group is gone")
    alone.stop()
    eventually(lambda: directory.units == [], "nothing is left")


def test_a_log_handler_may_look_at_the_actors_when_one_starts(
    directory: Directory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Looking(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            meanwhile.happen()
            seen_in_time.extend(seen)

    seen, seen_in_time = list[str](), list[str]()
    meanwhile = Meanwhile(lambda: seen.extend(cell.address for cell in directory.cells))
    monkeypatch.setattr(directory, "_lock", meanwhile)
    caplog.set_level(logging.DEBUG, "understudy")
    monkeypatch.setattr(logging.getLogger("understudy"), "handlers", [Looking()])

    directory.cell_of(agent("ann"))

    meanwhile.join()
    assert seen_in_time == ["shop/ann"]
