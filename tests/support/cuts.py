"""Bodies of server-sent events that come in two pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from copy import copy
from typing import cast

from understudy.providers.wire.server_events import EventSplitter

from .wire_streams import LONGEST

EVENT = re.compile(rb".+?(?:\r?\n\r?\n|$)", re.DOTALL)


def check_cuts(body: bytes, cuts: Callable[[int], Iterable[int]]) -> int:
    """Check that a cut inside of an event changes neither the events nor the state after it, on which all that follows depends.

    Args:
        body: the whole body. Each event is read from the state after those before it.
        cuts: returns where an event of so many bytes is cut.

    Returns:
        How many cuts were tried.
    """
    splitter, at, tried = EventSplitter(LONGEST), 0, 0
    for event in EVENT.findall(body):
        whole = _copy_of(splitter)
        expected = whole.feed(event)
        for cut in cuts(len(event)):
            cut_in_two = _copy_of(splitter)
            found = cut_in_two.feed(event[:cut]) + cut_in_two.feed(event[cut:])
            assert (found, _state_of(cut_in_two)) == (expected, _state_of(whole)), f"byte {at + cut}"
            tried += 1
        splitter, at = whole, at + len(event)
    assert at == len(body)
    return tried


def _copy_of(splitter: EventSplitter) -> EventSplitter:
    copied = EventSplitter(LONGEST)
    for name in EventSplitter.__slots__:
        value: object = getattr(splitter, name)
        setattr(copied, name, copy(value))
    return copied


def _state_of(splitter: EventSplitter) -> dict[str, object]:
    state: dict[str, object] = {name: getattr(splitter, name) for name in EventSplitter.__slots__}
    begun = state["_begun"]
    assert isinstance(begun, list)
    state["_begun"] = b"".join(cast("list[bytes]", begun))  # a line that has no end yet, in whatever pieces
    return state
