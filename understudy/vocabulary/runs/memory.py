"""Memory: the protocol for keeping conversations between runs, and the memories that live in this process.

A memory keeps turns. A turn is all messages of one run, from the user's input to the final answer, with the
tool calls and their results between them: it is stored as a whole, forgotten as a whole, and never cut.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeGuard, runtime_checkable

from understudy.vocabulary.messages import Message

DEFAULT_TURNS = 20  # Turns of a window: older ones are mostly settled, and each run pays for every kept turn.
DEFAULT_CONVERSATIONS = 10_000  # Some tens of MB of text; without a bound a process that lives for months fills up.


class MemoryNotUsed(UserWarning):
    """An agent with a memory ran without a `conversation_id`, so the run knew and stored nothing; told once for each agent."""


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


_Turns: TypeAlias = "deque[tuple[Message, ...]]"

_lock = threading.Lock()
"""Guards the tables of all memories of this process. One lock is enough: it is held for a microsecond."""


def begin_anew_in_child() -> None:
    """Make a new lock in a forked child, because the thread that held the old one may not exist there."""
    global _lock
    _lock = threading.Lock()


class InMemoryMemory:
    """Conversations in this process, whole. They end with it; a forked child begins with a copy.

    Safe to share between agents, which then take part in the same conversations, and between threads. Nothing blocks.

    Args:
        max_conversations: how many are kept; beyond that the least recently used ones are forgotten. None for any
            number, which is for programs that end or call `clear`.

    Raises:
        ValueError: a number is below 1.
    """

    _window: int | None = None

    def __init__(self, *, max_conversations: int | None = DEFAULT_CONVERSATIONS) -> None:
        self._most = None if max_conversations is None else _at_least_one("max_conversations", max_conversations)
        self._conversations: OrderedDict[ConversationKey, _Turns] = OrderedDict()

    def load(self, key: ConversationKey, /) -> tuple[Message, ...]:
        """Return the messages of a conversation, oldest first."""
        with _lock:
            turns = self._conversations.get(key)
            if turns is None:
                return ()
            self._conversations.move_to_end(key)
            known = list(turns)
        return tuple([message for turn in known for message in turn])

    def append(self, key: ConversationKey, messages: Sequence[Message], run_id: str = "", /) -> None:
        """Add a turn to a conversation."""
        with _lock:
            turns = self._conversations.setdefault(key, deque(maxlen=self._window))
            turns.append(tuple(messages))
            self._conversations.move_to_end(key)
            if self._most is not None and len(self._conversations) > self._most:
                self._conversations.popitem(last=False)

    def clear(self, key: ConversationKey, /) -> None:
        """Forget a conversation.

        Raises:
            TypeError: the argument is no key, so nothing was forgotten.
        """
        if not isinstance(key, tuple) or len(key) != len(ConversationKey._fields):
            raise TypeError(f"a conversation is named by ConversationKey(app, user, conversation), got {key!r}")
        with _lock:
            self._conversations.pop(key, None)

    def __len__(self) -> int:
        return len(self._conversations)

    def __bool__(self) -> bool:
        return True  # also without any conversation yet

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} conversations)"


class WindowedMemory(InMemoryMemory):
    """The last turns of each conversation, in this process.

    Args:
        turns: how many whole turns are kept.
        max_conversations: as for `InMemoryMemory`.

    Raises:
        ValueError: a number is below 1.
    """

    def __init__(self, turns: int = DEFAULT_TURNS, *, max_conversations: int | None = DEFAULT_CONVERSATIONS) -> None:
        self._window = _at_least_one("turns", turns)
        super().__init__(max_conversations=max_conversations)


def _at_least_one(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value
