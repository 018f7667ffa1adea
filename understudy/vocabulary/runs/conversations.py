"""Conversations as stores keep them: turns and summaries with numbers, windows, and the result of an erasure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from understudy.vocabulary.checks import UNSET, Unset, checked_whole
from understudy.vocabulary.messages import Message

NO_USER = "default"
"""Whose the conversations are of runs without a `user_id`; what memories have kept is found under this word."""

DEFAULT_TURNS = 20  # Turns of a window: older ones are mostly settled, and each run pays for every kept turn.


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationTurn:
    """One entry of a stored conversation: a turn, or a summary of the turns before it."""

    number: int
    """Its place in the conversation, from 1. A number is never used again, so there may be gaps."""
    kind: Literal["turn", "summary"]
    run_id: str
    """The run that stored it; empty if it was stored by hand without one."""
    messages: tuple[Message, ...]
    tokens: int
    """An estimate from the length of the messages."""
    upto: int | None
    """The number of the last turn that a summary stands for; None for a turn."""
    added_at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """How much of a user's data was erased."""

    conversations: int = 0
    turns: int = 0
    summaries: int = 0
    values: int = 0
    """Values of sessions."""
    pauses: int = 0
    """Runs that waited for a person or stood at a limit."""
    runs: int = 0
    """Runs that were not over: another process drove them, or one that died had left them."""

    def __add__(self, other: Erased) -> Erased:
        return Erased(
            conversations=self.conversations + other.conversations,
            turns=self.turns + other.turns,
            summaries=self.summaries + other.summaries,
            values=self.values + other.values,
            pauses=self.pauses + other.pauses,
            runs=self.runs + other.runs,
        )


class Window(NamedTuple):
    """How much of a conversation a run begins with: the last whole turns, up to either limit; None is no limit."""

    turns: int | None
    tokens: int | None


def checked_window(turns: int | Unset | None, tokens: int | None) -> Window:
    """Return a window; without any limit given it is 20 turns.

    Raises:
        TypeError: a limit is no whole number.
        ValueError: a limit is below 1.
    """
    if tokens is not None:
        checked_whole("tokens", tokens, 1)
    if turns is UNSET:
        turns = DEFAULT_TURNS if tokens is None else None
    if turns is not None:
        checked_whole("turns", turns, 1)
    return Window(turns, tokens)
