"""What tools tell of how far they are, kept small: of many reports of one call fewer and fewer are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.messages import ToolCall

ALL_OF_FIRST = 100  # Reports of a call that are all told; then every second of as many, and so on.
MAX_TEXT = 200  # Characters of a report; it is a line on a screen.


@dataclass(frozen=True, slots=True)
class Report:
    """How far a call is, in its own words."""

    call: ToolCall
    text: str
    done: float | None
    total: float | None


def is_told(number: int) -> bool:
    """Whether the report of this number, from 0, becomes an event: half as many do each time that the number has doubled.

    So a million reports become some seven hundred events, and the last reports are among them.
    """
    return number % (1 << (number // ALL_OF_FIRST).bit_length()) == 0


class Reporter:
    """What a call's `ctx.progress` calls, from any thread of the tool's.

    Args:
        tell: called with what is to be told.
        scope: the call's; a call that was given up tells nothing more.
    """

    def __init__(self, tell: Callable[[str, float | None, float | None], object], scope: Scope) -> None:
        self._tell = tell
        self._scope = scope
        self._numbers = count()

    def __call__(self, text: str, done: float | None, total: float | None) -> None:
        if is_told(next(self._numbers)) and not self._scope.cancelled:
            self._tell(text[:MAX_TEXT], done, total)
