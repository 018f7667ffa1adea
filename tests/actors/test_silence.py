"""The rule of the lease: an owner of runs that has not beaten for that long, while it could have, is taken for gone."""

from __future__ import annotations

import pytest

from understudy.actors.journal.silence import Beating, SilenceWatch

LOOK = 0.25
LEASE = 5.0


class Watched:
    """An owner under a watch, on a simulated clock.

    Attributes:
        writes: whether the watching process can write into the store.
    """

    def __init__(self, lease: float = LEASE) -> None:
        self.watch = SilenceWatch()
        self.lease = lease
        self.now = 0.0
        self.beats = 0
        self.writes = True
        self.is_over = False

    def look_for(self, seconds: float, every: float = LOOK) -> None:
        until = self.now + seconds
        while self.now < until and not self.is_over:
            self.now += every
            seen = [Beating("frozen", self.beats, self.lease)]
            self.is_over = self.watch.look(seen, self.now) == ["frozen"]
            for owner in self.watch.doubted(seen) if self.writes else []:
                self.watch.proved(owner)


@pytest.mark.parametrize("lease", [1.0, 5.0, 15.0])
def test_a_lease_is_over_when_no_beat_was_seen_for_that_long(lease: float) -> None:
    watched = Watched(lease)

    watched.look_for(10 * lease)

    assert watched.is_over
    assert lease <= watched.now <= lease + 2 * LOOK


def test_each_beat_begins_the_lease_anew() -> None:
    watched = Watched()

    for _ in range(200):
        watched.look_for(LEASE - 1.0)
        watched.beats += 1

    assert not watched.is_over


def test_a_beat_that_goes_back_is_a_beat() -> None:
    watched = Watched()
    watched.beats = 7
    watched.look_for(LEASE - 1.0)
    watched.beats = 0
    watched.look_for(LEASE - 1.0)

    assert not watched.is_over


def test_a_pause_of_the_watching_process_does_not_count() -> None:
    watched = Watched()
    watched.look_for(1.0)
    watched.now += 3600.0
    watched.look_for(LEASE - 2.5)

    assert not watched.is_over


def test_a_watching_process_that_is_slow_finds_the_end_of_a_lease_later() -> None:
    watched = Watched()

    watched.look_for(20 * LEASE, every=3.3)

    assert watched.is_over


def test_no_lease_is_over_while_the_store_cannot_be_written() -> None:
    watched = Watched()
    watched.writes = False
    watched.look_for(100 * LEASE)
    assert not watched.is_over

    watched.writes = True
    before = watched.now
    watched.look_for(LEASE)

    assert watched.is_over
    assert watched.now - before > 0.3 * LEASE


def test_after_a_failure_of_the_store_each_lease_begins_anew() -> None:
    watched = Watched()
    watched.look_for(LEASE - LOOK)
    watched.watch.begin_anew()
    watched.look_for(LEASE - LOOK)

    assert not watched.is_over
