"""Messages and options that actors and their senders share: queries, notices, and the overflow rules of mailboxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from understudy.vocabulary.checks import checked_whole

R_co = TypeVar("R_co", covariant=True)

DEFAULT_CAPACITY = 1000  # Room for a burst; more waiting messages are a problem that the sender must see.
DEFAULT_ASK_TIMEOUT = 30.0  # Seconds. What takes longer is a run, not an ask.


class Query(Generic[R_co]):
    """A message that is answered with an `R`: `ask` of a `Query[R]` gives an `R`.

    Derive from it, for instance with a frozen dataclass: `class PriceOf(Query[float | None])`.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Mailbox:
    """How many messages may wait for an actor, and what happens to one more."""

    capacity: int = DEFAULT_CAPACITY
    when_full: Literal["fail", "block"] = "fail"
    """`fail` raises `MailboxFull` at once; `block` lets a caller outside of actors wait up to its timeout. An actor never waits."""

    def __post_init__(self) -> None:
        checked_whole("mailbox: capacity", self.capacity, 1)
        if self.when_full not in ("fail", "block"):
            raise ValueError(f"when_full must be 'fail' or 'block', got {self.when_full!r}")


@dataclass(frozen=True, slots=True)
class Down:
    """Sent once to each watcher of an actor, when the actor has stopped or is given up."""

    actor: str
    """The address of the actor."""
    reason: BaseException | None = None
    """Why; None when it was stopped in an orderly way."""
    epoch: int = 0
    """How often the actor had been restarted."""
