"""What a store does with conversations: a protocol with one class for databases and one for memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from understudy.vocabulary.messages import Message
from understudy.vocabulary.runs.conversations import ConversationTurn, Erased, Window
from understudy.vocabulary.runs.memory import ConversationKey

from .database import Sql

Fence: TypeAlias = Callable[[Sql], None]
"""A check in the transaction of an append: raises if the run does not have the conversation any more."""


class LoadedConversation(NamedTuple):
    """The part of a conversation with which a run begins: the last summary, if there is one, and whole turns after it."""

    summary: tuple[Message, ...]
    upto: int
    """The number of the last turn that the summary stands for; 0 without one."""
    turns: Sequence[tuple[int, tuple[Message, ...]]]
    """Numbers and messages, oldest first."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages, oldest first."""
        return (*self.summary, *[message for _, messages in self.turns for message in messages])


class Conversations(Protocol):
    """The conversations of a store. Each call may block for the database, and is safe on any thread."""

    def load(self, key: ConversationKey, window: Window) -> LoadedConversation:
        """Return the last turns of a conversation after its last summary; always the last turn, however long."""
        ...

    def append(
        self,
        key: ConversationKey,
        messages: Sequence[Message],
        run_id: str,
        *,
        fence: Fence | None = None,
        keep: float | None = None,
    ) -> None:
        """Add a turn, unless the run has added one before.

        Args:
            key: the conversation.
            messages: the turn.
            run_id: empty for no run.
            fence: checked in the same transaction.
            keep: seconds; turns of this app that are older are forgotten in small steps.
        """
        ...

    def summarize(
        self,
        key: ConversationKey,
        upto: int,
        messages: Sequence[Message],
        run_id: str,
        *,
        fence: Fence | None = None,
    ) -> None:
        """Add a summary of all turns up to a number; they can still be read by `read`."""
        ...

    def has_added(self, key: ConversationKey, run_id: str) -> bool:
        """Whether a run has added a turn or a summary."""
        ...

    def read(self, key: ConversationKey, after: int, limit: int) -> list[ConversationTurn]:
        """Return turns and summaries with numbers above `after`, oldest first."""
        ...

    def clear(self, key: ConversationKey) -> None:
        """Remove a conversation."""
        ...

    def count(self, user: str, app: str | None) -> Erased:
        """Return what `erase` would remove."""
        ...

    def erase(self, user: str, app: str | None) -> Erased:
        """Remove all conversations of a user, of one app or of all."""
        ...
