"""aimock out of order at random: nobody knows what comes, but something does."""

from __future__ import annotations

from tests.soak.faults import chaotic, try_all
from tests.support.peers import Peer

RUNS = 60
"""`python -m tests.soak faults` does more."""


def test_every_run_ends_with_an_outcome_or_a_named_error(peer: Peer) -> None:
    endings = try_all(chaotic(peer), RUNS, lambda text: None)

    assert endings.total() == RUNS
    assert ("chaos", "RunTimedOut") not in endings
