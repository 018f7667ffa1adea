"""`Transcript`: a view of a history that grows at its end, without a copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast, overload

from understudy.vocabulary.messages import Message, ToolCall


def check_answered(history: Iterable[Message]) -> None:
    """Check that providers accept a history: the results of all tool calls must follow at once.

    Raises:
        ValueError: a call has no result, as in the messages of a paused run.
    """
    open_calls: dict[str, ToolCall] = {}
    for message in history:
        results = message.tool_results
        for result in results:
            open_calls.pop(result.call_id, None)
        if open_calls and not results:
            break
        open_calls |= {call.id: call for call in message.tool_calls}
    for call in open_calls.values():
        raise ValueError(
            f"history: the call of {call.name!r} (id {call.id!r}) has no result; a run that waits goes on with resume(token), "
            "and what it added is a history once it is over"
        )


class Transcript(Sequence[Message]):
    """The first `length` messages of a list that only grows.

    The view does not change when the owner of the list appends to it, so a request can keep its view.
    """

    __slots__ = ("_length", "_messages")

    def __init__(self, messages: list[Message], length: int) -> None:
        self._messages = messages
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple([self._messages[i] for i in range(*index.indices(self._length))])
        if not -self._length <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self._messages[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[Message]:
        # By index, because the list may grow during the iteration.
        for i in range(self._length):
            yield self._messages[i]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return list(self) == list(cast("Sequence[object]", other))

    __hash__ = None  # type: ignore[assignment]  # equals both lists and tuples, so no hash fits

    def __repr__(self) -> str:
        return f"Transcript({self._length} messages)"


def count_new(before: Sequence[Message], now: Sequence[Message]) -> int:
    """Return how many messages of `now` are newer than all of `before`.

    Each view ends with the latest message of its time. It may lack the oldest messages: a memory forgets whole turns
    from the front. Messages that were added and forgotten between the views are not counted. If a conversation repeats
    itself word for word, the result is the lowest number that fits.
    """
    before, now = tuple(before), tuple(now)
    for kept in range(min(len(before), len(now)), 0, -1):
        if before[-kept:] == now[:kept]:
            return len(now) - kept
    return len(now)
