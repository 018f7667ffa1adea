"""Memory: the protocol for keeping conversations between runs, and the memories that live in this process.

A memory keeps turns. A turn is all messages of one run, from the user's input to the final answer, with the
tool calls and their results between them: it is stored as a whole, forgotten as a whole, and never cut.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeGuard, runtime_checkable

from understudy.vocabulary.checks import UNSET, Unset, named_safely
from understudy.vocabulary.messages import Message
from understudy.vocabulary.other_names import OF_WINDOWS, explains_arguments

from .conversations import Erased, Window, checked_window
from .token_estimates import messages_tokens

DEFAULT_CONVERSATIONS = 10_000  # Some tens of MB of text; without a bound a process that lives for months fills up.


class MemoryNotUsed(UserWarning):
    """A run without a `conversation_id` knew and stored nothing, or a `PersistentMemory` has no store; told once for each agent."""


class ConversationKey(NamedTuple):
    """The key of a conversation: equal keys mean the same one."""

    app: str
    """The name of the system that the run is in."""
    user: str
    """The run's `user_id`; `"default"` for all runs without one."""
    conversation: str
    """The run's `conversation_id`."""


@runtime_checkable
class Memory(Protocol):
    """Keeps conversations; `Agent(memory=…)` takes any object with these methods, and a class or function that makes one.

    In one system a memory is called by one thread at a time, a run's own, and may block: only runs that use the same
    memory wait for it. What a method raises is a failure of the memory: it is restarted, and the run does the step again,
    a few times. A call that takes more than 30 seconds, its wait for others included, ends its run with `AgentCrashed`.
    """

    def load(self, key: ConversationKey, /) -> Sequence[Message]:
        """Return the turns of a conversation that a run starts with: whole turns, oldest first; maybe none."""
        ...

    def append(self, key: ConversationKey, messages: Sequence[Message], run_id: str, /) -> None:
        """Add a turn to a conversation; the run is reported done when this has returned.

        It is called once for each run that is complete, and again only if it raised: a memory that may have stored the
        turn nevertheless knows it again by `run_id`.
        """
        ...

    def clear(self, key: ConversationKey, /) -> None:
        """Forget a conversation. The runtime never calls it."""
        ...


MemoryLike: TypeAlias = "Memory | Callable[[], Memory]"
"""A memory, or a class or function that makes one."""


def makes_memory(memory: MemoryLike) -> TypeGuard[Callable[[], Memory]]:
    """Whether it is a class or a function that makes a memory, and not a memory; reads attributes of the object."""
    return isinstance(memory, type) or not isinstance(memory, Memory)


class WindowSource(Memory, Protocol):
    """A memory that knows its turns apart, so that a window of another one can be taken from it."""

    def load_window(self, key: ConversationKey, window: Window, /) -> Sequence[Message]:
        """Return the last whole turns of a conversation up to a window's limits; always the last turn."""
        ...


_Turns: TypeAlias = "deque[tuple[tuple[Message, ...], int]]"
"""Turns, and their tokens if these are limited."""

_lock = threading.Lock()
"""Guards the tables of all memories of this process. One lock is enough: it is held for a microsecond."""


def begin_anew_in_child() -> None:
    """Make a new lock in a forked child, because the thread that held the old one may not exist there."""
    global _lock
    _lock = threading.Lock()


def guard() -> threading.Lock:
    """Return the lock of the tables of all memories of this process; hold it for a moment only."""
    return _lock


@explains_arguments("InMemoryMemory", {name: f"use WindowedMemory({ours}=…)" for name, ours in OF_WINDOWS.items()})
class InMemoryMemory:
    """Conversations in this process, whole. They end with it; a forked child begins with a copy.

    Safe to share between agents, which then take part in the same conversations, and between threads. Nothing blocks.

    Args:
        max_conversations: how many are kept; beyond that the least recently used ones are forgotten. None for any
            number, which is for programs that end or call `clear`.

    Raises:
        ValueError: a number is below 1.
    """

    window = Window(None, None)

    def __init__(self, *, max_conversations: int | None = DEFAULT_CONVERSATIONS) -> None:
        self._most = None if max_conversations is None else _at_least_one("max_conversations", max_conversations)
        self._conversations: OrderedDict[ConversationKey, _Turns] = OrderedDict()

    def load(self, key: ConversationKey, /) -> tuple[Message, ...]:
        """Return the messages of a conversation, oldest first."""
        return tuple([message for turn, _ in self._turns(key) for message in turn])

    def load_window(self, key: ConversationKey, window: Window, /) -> Sequence[Message]:
        """Return the last whole turns of a conversation up to a window's limits; always the last turn."""
        last: list[tuple[Message, ...]] = []
        spent = 0
        for turn, _ in reversed(self._turns(key)):
            spent += 0 if window.tokens is None else messages_tokens(turn)
            if last and (len(last) == window.turns or spent > (window.tokens or spent)):
                break
            last.append(turn)
        return tuple([message for turn in reversed(last) for message in turn])

    def _turns(self, key: ConversationKey) -> list[tuple[tuple[Message, ...], int]]:
        with _lock:
            turns = self._conversations.get(key)
            if turns is None:
                return []
            self._conversations.move_to_end(key)
            return list(turns)

    def append(self, key: ConversationKey, messages: Sequence[Message], run_id: str = "", /) -> None:
        """Add a turn to a conversation."""
        most = self.window.tokens
        size = 0 if most is None else messages_tokens(messages)
        with _lock:
            turns = self._conversations.setdefault(key, deque(maxlen=self.window.turns))
            turns.append((tuple(messages), size))
            if most is not None:
                _drop_oldest(turns, most)
            self._conversations.move_to_end(key)
            if self._most is not None and len(self._conversations) > self._most:
                self._conversations.popitem(last=False)

    def clear(self, key: ConversationKey, /) -> None:
        """Forget a conversation.

        Raises:
            TypeError: the argument is no key, so nothing was forgotten.
        """
        with _lock:
            self._conversations.pop(checked_key(key), None)

    def erase(self, app: str, user: str) -> Erased:
        """Forget all conversations that a user has in an app."""
        with _lock:
            found = [key for key in self._conversations if (key.app, key.user) == (app, user)]
            turns = sum([len(self._conversations.pop(key)) for key in found])
        return Erased(conversations=len(found), turns=turns)

    def __len__(self) -> int:
        return len(self._conversations)

    def __bool__(self) -> bool:
        return True  # also without any conversation yet

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} conversations)"


@explains_arguments("WindowedMemory", {name: f"use {ours}=" for name, ours in OF_WINDOWS.items()})
class WindowedMemory(InMemoryMemory):
    """The last turns of each conversation, whole: in this process, or a window of what another memory keeps.

    Args:
        turns: how many turns there are at most: 20 if neither limit is given; None for no limit.
        tokens: how many tokens these turns have at most, by an estimate from their length. The last turn is always there.
        memory: the memory that keeps the conversations, such as `PersistentMemory()`. It keeps all turns, and a run begins
            with the last ones. Without one, they are kept in this process, and older turns are forgotten.
        max_conversations: as for `InMemoryMemory`; without `memory` only.

    Raises:
        ValueError: a number is below 1.
        TypeError: `memory` cannot tell its turns apart, or an argument has a wrong type.
    """

    def __init__(
        self,
        turns: int | Unset | None = UNSET,
        *,
        tokens: int | None = None,
        memory: WindowSource | None = None,
        max_conversations: int | None = DEFAULT_CONVERSATIONS,
    ) -> None:
        self.window = checked_window(turns, tokens)
        if memory is not None and not callable(getattr(memory, "load_window", None)):
            raise TypeError(
                "WindowedMemory: memory must be one that knows its turns apart, such as us.PersistentMemory(); "
                f"got {named_safely(memory)}"
            )
        self.inner = memory
        super().__init__(max_conversations=max_conversations)

    def load(self, key: ConversationKey, /) -> tuple[Message, ...]:
        """Return the last turns of a conversation, oldest first."""
        return super().load(key) if self.inner is None else tuple(self.inner.load_window(key, self.window))

    def append(self, key: ConversationKey, messages: Sequence[Message], run_id: str = "", /) -> None:
        """Add a turn to a conversation."""
        if self.inner is None:
            super().append(key, messages, run_id)
        else:
            self.inner.append(key, messages, run_id)

    def clear(self, key: ConversationKey, /) -> None:
        """Forget a conversation, also in the memory that keeps it."""
        if self.inner is None:
            super().clear(key)
        else:
            self.inner.clear(key)


def never_blocks(memory: object) -> bool:
    """Whether a memory is one of this package, and no class made from it, that never blocks."""
    if type(memory) is WindowedMemory:
        return memory.inner is None or type(memory.inner) is InMemoryMemory
    return type(memory) is InMemoryMemory


def checked_key(key: ConversationKey) -> ConversationKey:
    """Return the key of a conversation.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(key, tuple) or len(key) != len(ConversationKey._fields):
        raise TypeError(f"a conversation is named by ConversationKey(app, user, conversation), got {key!r}")
    return key


def _drop_oldest(turns: _Turns, tokens: int) -> None:
    """Drop the oldest turns of a conversation until its tokens fit, or one turn is left."""
    spent = sum([size for _, size in turns])
    while spent > tokens and len(turns) > 1:
        spent -= turns.popleft()[1]


def _at_least_one(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value
