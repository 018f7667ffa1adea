"""What two views of one conversation have in common, when the older one may have lost its beginning meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.vocabulary.messages import Message


def count_new(before: Sequence[Message], now: Sequence[Message]) -> int:
    """Return how many messages of `now` came after those of `before`.

    Both end where the conversation ended at their time, and may begin late: a memory forgets whole turns from the front.
    What was forgotten since is not counted. Where a conversation repeats itself word for word, as little is new as can be.
    """
    before, now = tuple(before), tuple(now)
    for kept in range(min(len(before), len(now)), 0, -1):
        if before[-kept:] == now[:kept]:
            return len(now) - kept
    return len(now)
