"""Backoff: the wait before an attempt doubles from a first wait up to a longest one."""

from __future__ import annotations

DOUBLINGS = 60  # A wait doubled more often has passed any longest wait, and would overflow in the end.


def backoff_wait(first: float, most: float, doublings: int) -> float:
    """Return the seconds to wait: `first`, doubled so many times, and never longer than `most`."""
    return min(most, first * 2.0 ** min(doublings, DOUBLINGS))
