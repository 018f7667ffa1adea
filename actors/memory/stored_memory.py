"""A memory in a store: what a run loads of its conversation, and how its turn is added."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.actors.stores.conversations import Conversations, Fence, LoadedConversation
from understudy.actors.stores.store import Store
from understudy.vocabulary.messages import Message
from understudy.vocabulary.runs.compacted_memory import ConversationSummary, joined
from understudy.vocabulary.runs.compaction import summary_message
from understudy.vocabulary.runs.conversations import ConversationTurn, Erased, Window
from understudy.vocabulary.runs.memory import ConversationKey, checked_key


class StoredMemory:
    """A `Memory` in a store that is open. Each call may block for the store; any number of threads may call at once.

    Args:
        store: where the conversations are.
        window: how much of a conversation a run begins with.
        keep: seconds after which turns are forgotten; None for never.
    """

    def __init__(self, store: Store, window: Window, keep: float | None) -> None:
        self.store = store
        self._window = window
        self._keep = keep

    def __repr__(self) -> str:
        return f"PersistentMemory({self.store!r})"

    @property
    def _conversations(self) -> Conversations:
        return self.store.conversations

    def load(self, key: ConversationKey, /) -> Sequence[Message]:
        """Return the last summary and the turns of the window, oldest first."""
        return self.load_window(key, self._window)

    def load_window(self, key: ConversationKey, window: Window, /) -> Sequence[Message]:
        """Return what `load` returns, for another window."""
        return _shown(self._conversations.load(checked_key(key), window))

    def append(
        self, key: ConversationKey, messages: Sequence[Message], run_id: str = "", /, *, fence: Fence | None = None
    ) -> None:
        """Add a turn, unless this run has added one before.

        Raises:
            StoreError: the store failed, or `fence` says that the run does not have the conversation any more.
        """
        self._conversations.append(checked_key(key), messages, run_id, fence=fence, keep=self._keep)

    def summarize(
        self, key: ConversationKey, summary: ConversationSummary, run_id: str = "", /, *, fence: Fence | None = None
    ) -> None:
        """Keep a summary of the whole turns that it covers; none if the conversation has changed since the run loaded it.

        Raises:
            StoreError: as `append`.
        """
        loaded = self._conversations.load(checked_key(key), self._window)
        upto = _last_covered(loaded, summary)
        if upto:
            self._conversations.summarize(key, upto, (summary_message(summary.text),), run_id, fence=fence)

    def has_added(self, key: ConversationKey, run_id: str) -> bool:
        """Whether a run has added its turn, or the summary before it."""
        return self._conversations.has_added(checked_key(key), run_id)

    def clear(self, key: ConversationKey, /) -> None:
        """Forget a conversation."""
        self._conversations.clear(checked_key(key))

    def read(self, key: ConversationKey, *, after: int = 0, limit: int = 100) -> Sequence[ConversationTurn]:
        """Return turns and summaries with numbers above `after`, oldest first."""
        return self._conversations.read(checked_key(key), after, limit)

    def erase(self, app: str, user: str) -> Erased:
        """Remove all conversations that a user has in an app."""
        return self._conversations.erase(user, app)


def _shown(loaded: LoadedConversation) -> tuple[Message, ...]:
    """Return what a run begins with; the summary joins the first message after it, so that roles alternate."""
    if not loaded.summary:
        return loaded.messages
    turns = [message for _, messages in loaded.turns for message in messages]
    return (*loaded.summary[:-1], *joined(loaded.summary[-1], turns))


def _last_covered(loaded: LoadedConversation, summary: ConversationSummary) -> int:
    """Return the number of the last turn that a summary covers as a whole; 0 if there is none."""
    messages = _shown(loaded)
    if (messages[:1], messages[summary.covers - 1 : summary.covers]) != ((summary.first,), (summary.last,)):
        return 0
    upto, end = 0, len(messages) - sum([len(turn) for _, turn in loaded.turns])
    for number, turn in loaded.turns:
        end += len(turn)
        if end > summary.covers:
            break
        upto = number
    return upto
