"""What a tool raised, for people: where it happened, without what the error says, which may quote arguments."""

from __future__ import annotations

import traceback
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import TracebackType
from typing import Any

from understudy.errors import cause_of

HEADING = "Traceback (most recent call last):\n"
BETWEEN = "\n\nfrom which came:\n\n"
MAX_WORDS = 100_000  # Characters of a traceback, or of an error's message; more says no more.
MAX_CAUSES = 10
_TRACEBACK: Any = vars(BaseException)["__traceback__"]  # Its class may have a property of that name.
MAY_GO_ON = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


def where(error: BaseException) -> str:
    """Return the traceback of an error and of those it came of, oldest first, with types and no messages."""
    pieces = ["".join([HEADING, *traceback.format_tb(_steps(each)), type(each).__name__]) for each in _chain(error)]
    return BETWEEN.join(reversed(pieces))[-MAX_WORDS:]


def let_go(error: BaseException) -> None:
    """Empty the frames of an error that is kept: what a tool had at hand should not live as long as the run's events."""
    for each in _chain(error):
        step = _steps(each)
        while step is not None:
            if not step.tb_frame.f_code.co_flags & MAY_GO_ON:
                try:
                    step.tb_frame.clear()
                except RuntimeError:
                    pass  # the frame still runs, and nobody may clear it: it frees its values when it returns
            step = step.tb_next


def _steps(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error from where the tool begins: how it was called is the same each time."""
    whole: TracebackType | None = _TRACEBACK.__get__(error)
    step = whole
    while step is not None and str(step.tb_frame.f_globals.get("__name__")).startswith("understudy."):
        step = step.tb_next
    return whole if step is None else step


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and len(found) < MAX_CAUSES:
        found.append(each)
        each = cause_of(each)
    return found
