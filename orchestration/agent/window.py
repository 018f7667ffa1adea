"""Counts the new messages of a conversation, given an older view of it."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.vocabulary.messages import Message


def count_new(before: Sequence[Message], now: Sequence[Message]) -> int:
    """Return how many messages of `now` are newer than all of `before`.

    Each view ends with the latest message of its time. It may lack the oldest messages: a memory forgets whole turns
    from the front. Messages that were added and forgotten between the views are not counted. If a conversation repeats
    itself word for word, the result is the lowest number that fits.
    """
    before, now = tuple(before), tuple(now)
    for kept in range(min(len(before), len(now)), 0, -1):
        if before[-kept:] == now[:kept]:
            return len(now) - kept
    return len(now)
