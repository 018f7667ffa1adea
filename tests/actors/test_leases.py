"""What each store does that gives leases on paused runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.scripts import WAIT
from tests.support.stores import LeasedDictStore, sqlite_pauses
from tests.support.together import all_at_once
from understudy import LeasedPauseStore, PausedRun
from understudy.actors.stores.open_store import open_store
from understudy.actors.stores.pauses import PauseTable

RUN = PausedRun(run_id="shop-1", revision=1, nonce="secret", payload="[1]")
NEXT = replace(RUN, revision=2, payload="[2]")


class Timed:
    """A store, and its clock."""

    def __init__(self, store: LeasedPauseStore, wait: Callable[[float], None]) -> None:
        self.store = store
        self.wait = wait


@pytest.fixture(params=["dictionary", "sqlite", "postgresql"])
def timed(request: pytest.FixtureRequest, tmp_path: Path) -> Timed:
    if request.param == "dictionary":
        store = LeasedDictStore()
        return Timed(store, lambda seconds: setattr(store, "now", store.now + seconds))
    now = [1000.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    if request.param == "sqlite":
        return Timed(sqlite_pauses(str(tmp_path / "shop.db"), clock=lambda: now[0]), wait)
    database = open_store(request.getfixturevalue("postgres_url")).database
    assert database is not None
    return Timed(PauseTable(database, clock=lambda: now[0]), wait)


@pytest.fixture
def store(timed: Timed) -> LeasedPauseStore:
    timed.store.put(RUN, keep=None)
    return timed.store


def test_an_entry_under_a_lease_waits_and_is_nobody_elses(store: LeasedPauseStore) -> None:
    assert store.lease("shop-1", 1, "ada", 60)

    assert store.get("shop-1") == replace(RUN, leased_until=1060.0)
    assert not store.lease("shop-1", 1, "bob", 60)
    assert not store.take("shop-1", 1)
    assert not store.put(NEXT, keep=None)
    assert not store.commit(NEXT, "bob", keep=None)
    assert not store.finish("shop-1", 1, "bob")
    store.release("shop-1", 1, "bob")
    assert store.get("shop-1") == replace(RUN, leased_until=1060.0)


def test_a_lease_is_renewed_by_its_holder(timed: Timed, store: LeasedPauseStore) -> None:
    store.lease("shop-1", 1, "ada", 60)
    timed.wait(50)

    assert store.lease("shop-1", 1, "ada", 60)

    timed.wait(50)
    assert not store.lease("shop-1", 1, "bob", 60)


@pytest.mark.parametrize(("run_id", "revision"), [("shop-2", 1), ("shop-1", 2)])
def test_there_is_no_lease_on_what_does_not_wait(run_id: str, revision: int, store: LeasedPauseStore) -> None:
    assert not store.lease(run_id, revision, "ada", 60)
    store.take("shop-1", 1)
    assert not store.lease("shop-1", 1, "ada", 60)


def test_a_turn_is_committed_once_and_the_run_waits_again(store: LeasedPauseStore) -> None:
    store.lease("shop-1", 1, "ada", 60)

    assert store.commit(NEXT, "ada", keep=None)

    assert store.get("shop-1") == NEXT
    assert not store.commit(NEXT, "ada", keep=None)
    assert not store.lease("shop-1", 1, "ada", 60)
    assert store.lease("shop-1", 2, "bob", 60)


def test_a_run_that_is_finished_leaves_a_mark_without_its_text(store: LeasedPauseStore) -> None:
    store.lease("shop-1", 1, "ada", 60)

    assert store.finish("shop-1", 1, "ada")

    assert store.get("shop-1") == replace(RUN, state="over", payload="")
    assert not store.finish("shop-1", 1, "ada")


def test_a_lease_that_was_given_back_is_free_at_once(store: LeasedPauseStore) -> None:
    store.lease("shop-1", 1, "ada", 60)

    store.release("shop-1", 1, "ada")

    assert store.get("shop-1") == RUN
    assert not store.commit(NEXT, "ada", keep=None)
    assert store.take("shop-1", 1)


def test_a_lease_that_is_over_is_the_next_workers_and_not_its_holders(timed: Timed, store: LeasedPauseStore) -> None:
    store.lease("shop-1", 1, "ada", 60)
    timed.wait(60)

    assert store.get("shop-1") == RUN
    assert store.lease("shop-1", 1, "bob", 60)
    assert not store.lease("shop-1", 1, "ada", 60)
    assert not store.commit(NEXT, "ada", keep=None)
    assert not store.finish("shop-1", 1, "ada")
    assert store.commit(NEXT, "bob", keep=None)


def test_a_lease_that_is_over_and_that_nobody_took_is_still_its_holders(timed: Timed, store: LeasedPauseStore) -> None:
    store.lease("shop-1", 1, "ada", 60)
    timed.wait(1000)

    assert store.commit(NEXT, "ada", keep=None)


def test_who_takes_a_run_for_good_ends_a_lease_that_is_over(timed: Timed, store: LeasedPauseStore) -> None:
    store.lease("shop-1", 1, "ada", 60)
    timed.wait(60)

    assert store.take("shop-1", 1)

    assert not store.commit(NEXT, "ada", keep=None)


def test_of_many_workers_one_gets_the_lease(store: LeasedPauseStore) -> None:
    start, given = threading.Barrier(8), list[bool]()

    def lease(holder: int) -> None:
        start.wait(WAIT)
        given.append(store.lease("shop-1", 1, str(holder), 60))

    all_at_once(lease, range(8))

    assert sorted(given) == [False] * 7 + [True]


def test_an_entry_that_may_be_forgotten_is_kept_while_it_is_under_a_lease(tmp_path: Path) -> None:
    now = [1000.0]
    store = sqlite_pauses(str(tmp_path / "shop.db"), clock=lambda: now[0])
    store.put(RUN, keep=10)
    store.lease("shop-1", 1, "ada", 60)

    now[0] += 20
    store.put(replace(RUN, run_id="shop-2"), keep=None)  # forgets what may be forgotten

    assert store.commit(NEXT, "ada", keep=None)
