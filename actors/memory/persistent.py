"""`PersistentMemory`: conversations in the store of a system, or in a store of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta

from understudy.actors.stores.conversations import Conversations, Fence, LoadedConversation
from understudy.actors.stores.open_store import check_address, open_store, shown_store
from understudy.actors.stores.store import Store
from understudy.actors.threads.forked import Stage, at_fork
from understudy.vocabulary.checks import UNSET, Unset, checked_seconds, checked_whole
from understudy.vocabulary.messages import Message
from understudy.vocabulary.other_names import OF_WINDOWS, explains_arguments
from understudy.vocabulary.runs.compacted_memory import CompactedMemory, ConversationSummary, joined
from understudy.vocabulary.runs.compaction import summary_message
from understudy.vocabulary.runs.conversations import ConversationTurn, Erased, Window, checked_window
from understudy.vocabulary.runs.memory import ConversationKey, Memory, WindowedMemory, checked_key


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


_lock = threading.Lock()
"""Held while a memory opens its store, so that it does it once."""


@explains_arguments(
    "PersistentMemory", {"url": "use store="} | {name: f"use {ours}=" for name, ours in OF_WINDOWS.items()}
)
class PersistentMemory:
    """Conversations in a store, so that they outlive the process, and that several processes may share.

    A run begins with the last summary of its conversation, if there is one, and the last turns after it. All turns stay
    in the store and can be read. A conversation is granted to one run at a time, in all processes that have the store.

    Args:
        store: a URL, as for `ActorSystem`; its store is opened at the first use. Without one, the store is that of the system
            in which an agent with this memory runs; in a system without a store, conversations end with the system.
        turns: how many whole turns a run begins with: 20 if neither limit is given; None for no limit.
        tokens: how many tokens these turns have at most, by an estimate from their length. The last turn is always there.
        keep: seconds, or a `timedelta`, after which turns are forgotten; None for never. Old turns are removed in small
            steps, when a turn of the same app is added.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: a URL that names no store, or a limit that is out of range.
    """

    def __init__(
        self,
        store: str | Store | None = None,
        *,
        turns: int | Unset | None = UNSET,
        tokens: int | None = None,
        keep: float | timedelta | None = None,
    ) -> None:
        if store is not None and not isinstance(store, str | Store):
            raise TypeError(f"PersistentMemory: store must be a URL, or None for the system's own; got {store!r}")
        if isinstance(store, str):
            check_address(store)
        self._given = store
        self._window = checked_window(turns, tokens)
        self._keep = checked_seconds("keep", keep.total_seconds() if isinstance(keep, timedelta) else keep)
        self._own: StoredMemory | None = None

    def __repr__(self) -> str:
        given = self._given
        return f"PersistentMemory({'' if given is None else shown_store(given) if isinstance(given, str) else repr(given)})"

    # --- used by hand

    def load(self, key: ConversationKey, /) -> Sequence[Message]:
        """Return the last summary of a conversation and the turns of the window, oldest first.

        Raises:
            RuntimeError: the memory was given no store, and knows of none outside of runs.
            StoreError: the store cannot be opened, or failed.
        """
        return self._by_hand().load(key)

    def append(self, key: ConversationKey, messages: Sequence[Message], run_id: str = "", /) -> None:
        """Add a turn to a conversation, unless this run has added one before. Raises as `load` does."""
        self._by_hand().append(key, messages, run_id)

    def summarize(self, key: ConversationKey, summary: ConversationSummary, run_id: str = "", /) -> None:
        """Keep a summary of the first turns of a conversation, which stay readable. Raises as `load` does."""
        self._by_hand().summarize(key, summary, run_id)

    def clear(self, key: ConversationKey, /) -> None:
        """Forget a conversation. Raises as `load` does."""
        self._by_hand().clear(key)

    def load_window(self, key: ConversationKey, window: Window, /) -> Sequence[Message]:
        """Return what `load` returns, for a window of `WindowedMemory`. Raises as `load` does."""
        return self._by_hand().load_window(key, window)

    def read(self, key: ConversationKey, *, after: int = 0, limit: int = 100) -> Sequence[ConversationTurn]:
        """Return turns and summaries with numbers above `after`, oldest first, also those that a summary stands for.

        Args:
            key: the conversation.
            after: the number of the last entry of the page before.
            limit: how many there are at most.

        Raises:
            RuntimeError, StoreError: as for `load`.
        """
        checked_whole("after", after, 0)
        return self._by_hand().read(key, after=after, limit=checked_whole("limit", limit, 1))

    def _by_hand(self) -> StoredMemory:
        if self._given is None:
            raise RuntimeError(
                "this PersistentMemory has the store of the system in which an agent runs; to use it by hand, give it one: "
                'us.PersistentMemory("sqlite:///shop.db")'
            )
        return self.in_system(None)

    @property
    def has_own_store(self) -> bool:
        """Whether its store is its own, and not that of the system."""
        return self._given is not None

    # --- used by systems

    def in_system(self, store: Store | None, window: Window | None = None) -> StoredMemory:
        """Return this memory in the store of a system, or in its own store, which is opened now.

        Raises:
            StoreError: the store cannot be opened.
        """
        if self._given is None:
            assert store is not None, "only runs use a memory without a store, and a system has one"
            return StoredMemory(store, window or self._window, self._keep)
        with _lock:
            if self._own is None:
                self._own = StoredMemory(open_store(self._given), self._window, self._keep)
        own = self._own
        return own if window is None else StoredMemory(own.store, window, self._keep)

    def store_in(self, store: Store) -> Store:
        """Return the store that this memory has in a system, opened. Raises `StoreError`."""
        return self.in_system(store).store


def persistent_in(memory: object) -> PersistentMemory | None:
    """Return the memory in a store that a memory is, is a window of, or keeps summaries in."""
    if isinstance(memory, CompactedMemory):
        return persistent_in(memory.inner)
    if isinstance(memory, PersistentMemory):
        return memory
    if isinstance(memory, WindowedMemory) and isinstance(memory.inner, PersistentMemory):
        return memory.inner
    return None


def in_system(memory: Memory, store: Store) -> Memory:
    """Return the memory that runs of a system use, with its store opened, for a memory that `persistent_in` knows."""
    if isinstance(memory, CompactedMemory):  # the store keeps the summaries
        return in_system(memory.inner, store)
    if isinstance(memory, WindowedMemory) and isinstance(memory.inner, PersistentMemory):
        return memory.inner.in_system(store, memory.window)
    assert isinstance(memory, PersistentMemory)
    return memory.in_system(store)


def _begin_anew_in_child() -> None:
    global _lock
    _lock = threading.Lock()


at_fork(Stage.STORES, _begin_anew_in_child)
