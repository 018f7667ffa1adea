"""Memories that keep summaries: the protocol, the summary that a run gives them, and `CompactedMemory` around any memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from understudy.vocabulary.checks import checked_whole
from understudy.vocabulary.messages import Message

from . import memory as memories
from .compaction import Compaction, summary_message
from .memory import DEFAULT_CONVERSATIONS, ConversationKey, Memory


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """A summary of the conversation that a run got from its memory, made by the run's compaction."""

    text: str
    """The summary. It takes in an earlier one that was among the messages."""
    covers: int
    """How many of the messages that `load` returned to the run the summary stands for; the first ones."""
    first: Message
    """The first message that `load` returned: it shows whether the run knew what the memory knows now."""
    last: Message
    """The last message that the summary stands for. The next one is a user's, or there is none.

    A memory that keeps turns as wholes rounds down to one.
    """


@runtime_checkable
class SummaryMemory(Memory, Protocol):
    """A memory that keeps the summary of a conversation, so that the next run need not sum up again.

    After `summarize`, `load` returns `with_summary(text, messages)`: the summary, then the messages after those that it
    stands for. Nothing else is lost by it: the memory may keep the others, and returns them to nobody.
    """

    def summarize(self, key: ConversationKey, summary: ConversationSummary, run_id: str, /) -> None:
        """Keep a summary of the first messages of a conversation.

        It is called right before `append` for a run that is complete, and again if it or `append` raised: the same
        summary twice is one. A memory that returns other messages by now, as `first` and `last` show, ignores it: the
        next run sums up again.
        """
        ...


def with_summary(text: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return a conversation that begins with a summary, which joins the first message if that is a user's."""
    return joined(summary_message(text), messages)


def joined(summary: Message, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return what `with_summary` returns, for a summary that is a message already."""
    if messages and messages[0].role == summary.role:
        return (Message(summary.role, (*summary.parts, *messages[0].parts)), *messages[1:])
    return (summary, *messages)


class _Kept(NamedTuple):
    """A summary, and the end of the messages that it stands for, in the conversation of the inner memory."""

    text: str
    covers: int
    """How many messages of the inner memory it stands for, when it was made."""
    anchor: tuple[Message, ...]
    """The last of these messages: the inner memory may have forgotten some before them since."""


ANCHOR = 4  # Messages; a shorter sequence comes up again in a conversation that repeats itself.


class CompactedMemory:
    """Any memory, with a summary in place of the oldest messages of a long conversation.

    The runs of its agent follow the rule given here, unless the agent has one of its own. The inner memory keeps
    all messages: `compacted.inner.load(key)` returns it. The summaries are in this process; an inner memory
    that keeps summaries itself is given them.

    Args:
        inner: the memory that keeps the turns.
        compaction: the rule; or its options one by one, as `Compaction` takes them.
        max_conversations: how many summaries are kept; beyond that, those made longest ago are forgotten.

    Raises:
        TypeError: the inner memory is none, or an option is of the wrong type.
        ValueError: an option is out of range.
    """

    def __init__(
        self,
        inner: Memory,
        compaction: Compaction | None = None,
        *,
        max_conversations: int = DEFAULT_CONVERSATIONS,
        **options: Any,
    ) -> None:
        if isinstance(inner, type) or not isinstance(inner, Memory):
            raise TypeError(f"CompactedMemory takes a memory with load(), append() and clear(), got {inner!r}")
        if compaction is not None and options:
            raise TypeError("CompactedMemory takes a Compaction, or its options, not both")
        if compaction is not None and not isinstance(compaction, Compaction):
            raise TypeError(f"CompactedMemory: compaction must be Compaction(…), got {compaction!r}")
        self._most = checked_whole("max_conversations", max_conversations, 1)
        self.inner = inner
        self.compaction = Compaction(**options) if compaction is None else compaction
        self._kept: OrderedDict[ConversationKey, _Kept] = OrderedDict()

    def load(self, key: ConversationKey, /) -> Sequence[Message]:
        """Return the summary of a conversation, if there is one, and the messages that it does not stand for."""
        messages = self.inner.load(key)
        with memories.guard():
            kept = self._kept.get(key)
        if kept is None:
            return messages
        begin = _end_of(kept, messages)
        return with_summary(kept.text, tuple(messages)[begin:])

    def append(self, key: ConversationKey, messages: Sequence[Message], run_id: str = "", /) -> None:
        """Add a turn to a conversation."""
        return self.inner.append(key, messages, run_id)

    def summarize(self, key: ConversationKey, summary: ConversationSummary, run_id: str = "", /) -> None:
        """Keep a summary, or give it to an inner memory that keeps summaries."""
        if isinstance(self.inner, SummaryMemory):
            return self.inner.summarize(key, summary, run_id)
        messages = tuple(self.inner.load(key))
        with memories.guard():
            known = self._kept.get(key)
        begin, loaded = 0, messages
        if known is not None:
            begin = _end_of(known, messages)
            loaded = with_summary(known.text, messages[begin:])
        if (loaded[:1], loaded[summary.covers - 1 : summary.covers]) != ((summary.first,), (summary.last,)):
            return None  # others have changed it meanwhile
        place = begin + summary.covers - (len(loaded) - (len(messages) - begin))
        kept = _Kept(summary.text, place, messages[max(0, place - ANCHOR) : place])
        with memories.guard():
            self._kept[key] = kept
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return None

    def clear(self, key: ConversationKey, /) -> None:
        """Forget a conversation."""
        self.inner.clear(key)
        with memories.guard():
            self._kept.pop(key, None)

    def __repr__(self) -> str:
        return f"CompactedMemory({self.inner!r})"


def _end_of(kept: _Kept, messages: Sequence[Message]) -> int:
    """Return where the messages begin that a summary does not stand for.

    The inner memory may have forgotten messages from the front. Where the place is in doubt, the first one that fits is
    taken: a message may be told twice then, and none is lost.
    """
    size = len(kept.anchor)
    if tuple(messages[kept.covers - size : kept.covers]) == kept.anchor:
        return kept.covers
    for end in range(size, len(messages) + 1):
        if tuple(messages[end - size : end]) == kept.anchor:
            return end
    return next((n for n in range(size - 1, 0, -1) if tuple(messages[:n]) == kept.anchor[size - n :]), 0)
