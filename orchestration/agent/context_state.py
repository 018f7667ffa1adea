"""What a run knows about the size of its requests, and what they show of a history that is too long: data to be saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from understudy.vocabulary.messages import NO_USAGE, Usage

ContextKind: TypeAlias = Literal["pruned", "summarized", "failed", "dropped"]


@dataclass(frozen=True, slots=True)
class ContextChange:
    """What a compaction did, until its driver has told it."""

    kind: ContextKind
    messages_before: int = 0
    messages_after: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    pruned: int = 0
    """How many tool results are left out of requests since."""
    usage: Usage = NO_USAGE
    """Tokens of the summary's model calls."""
    problem: str = ""
    """Why there is no summary."""
    turn: int = 0
    text: str = ""
    """Of a turn that was dropped because its text reached the end of the window: its number and its text."""


@dataclass(slots=True, kw_only=True)
class ContextState:
    """What requests show of the run's messages, and what is known of their size. Indexes count the run's messages."""

    upto: int = 0
    """How many messages the summary stands for."""
    summary: str = ""
    history_upto: int = 0
    """The same of the last summary that stands for nothing but the given history; a memory may keep it."""
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
    """What `upto` was when the first round began."""
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
    """What has changed since the driver last asked."""

    @property
    def is_summing(self) -> bool:
        """Whether the pending model call is one for a summary."""
        return self.target > self.upto
