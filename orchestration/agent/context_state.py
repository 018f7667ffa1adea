"""The state of a compaction, which is saved: how long requests are, and which part of a long history they show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from understudy.vocabulary.messages import NO_USAGE, Message, Usage

ContextKind: TypeAlias = Literal["pruned", "summarized", "failed", "dropped"]


@dataclass(frozen=True, slots=True)
class ContextChange:
    """What a compaction did, until it is told."""

    kind: ContextKind
    messages_before: int = 0
    messages_after: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    pruned: int = 0
    """How many tool results requests leave out from now on."""
    usage: Usage = NO_USAGE
    """Tokens of the summary's model calls."""
    problem: str = ""
    """Why there is no summary."""
    turn: int = 0
    text: str = ""
    """The number and the text of a turn that was dropped, because its text reached the end of the window."""


@dataclass(slots=True)
class ShownMessages:
    """The messages that requests show of a long history. New ones are added, until a compaction changes those before them."""

    made_by: tuple[object, ...]
    """The fields of the state that decide how messages are shown, but for `pruned`."""
    pruned: int
    """Up to which message tool results are left out."""
    history: list[Message]
    upto: int
    """How many messages of the history are in it."""
    messages: list[Message]
    """Grows only: requests have views of it."""


class _Unsaved:
    """The part of the state of a compaction that is no field of it, and so is not saved."""

    __slots__ = ("view",)

    view: ShownMessages
    """What the last request showed; missing before that."""

    def keep(self, view: ShownMessages) -> None:
        self.view = view


@dataclass(slots=True, kw_only=True)
class ContextState(_Unsaved):
    """Which of the run's messages requests show, and how long these requests are. An index counts the run's messages."""

    upto: int = 0
    """How many messages the summary stands for."""
    summary: str = ""
    history_upto: int = 0
    """How many messages the last summary stands for that covers the given history only; a memory may keep that summary."""
    history_summary: str = ""
    keeps_input: bool = True
    """Whether requests still show the run's input after a summary of what followed it."""
    pruned: int = 0
    """Tool results in the messages before this one are left out, if they are long."""
    longest: int = 0
    """Tool results in the messages before `shortened` have at most so many characters; 0 for any number."""
    shortened: int = 0

    target: int = 0
    """How many messages the summary is to stand for; above `upto` while a summary is asked for."""
    reach: int = 0
    """How many it stands for after the next answer: a summary may take several rounds."""
    begun: int = 0
    """The value of `upto` when the first round began."""
    messages_before: int = 0
    tokens_before: int = 0
    pruned_now: int = 0
    spent: Usage = NO_USAGE
    """The figures of the compaction under way: messages and tokens of a request before it, results left out, usage."""

    looked_at: int = 0
    """How many messages there were when the size was looked at last."""
    billed: int | None = None
    """Tokens of the last request, and of its answer if that is in the history; None if the provider did not say."""
    billed_input: int = 0
    shown_at: int = 0
    """How many messages there were at that request."""
    billed_at: int = 0
    """How many of the messages `billed` counts."""
    scale: float = 1.0
    """Billed tokens for each estimated one; never below 1."""
    window: int | None = None
    """The context window as a refused request has shown it."""
    retry_from: int = 0
    """Tokens from which on a summary is asked for again after one failed."""
    overflows: int = 0
    """How often the model refused the present turn's request as too long; 2 if the run cannot go on by itself."""
    news: list[ContextChange] = field(default_factory=list[ContextChange])
    """The changes that are not told yet."""

    @property
    def is_summing(self) -> bool:
        """Whether the pending model call is one for a summary."""
        return self.target > self.upto
