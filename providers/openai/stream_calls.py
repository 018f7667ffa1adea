"""Tells which call a piece of `tool_calls` belongs to: servers give each an index, an id, or neither."""

from __future__ import annotations

from understudy.providers.wire.json_values import is_object, object_in, place_of, text, text_in
from understudy.vocabulary.json_reading import arguments_text, parse
from understudy.vocabulary.messages import JsonObject
from understudy.vocabulary.pieces import CallPiece

FIRST_CALL = 1_000_000
"""The number of the first call as a part: above those of all content, because calls are the last parts of a turn."""


class _Call:
    """A call as far as it came."""

    __slots__ = ("id", "name", "number", "texts")

    def __init__(self, number: int) -> None:
        self.number = number
        self.id = ""
        self.name = ""
        self.texts: list[str] = []

    @property
    def has_all_arguments(self) -> bool:
        if not self.texts or not self.texts[-1].rstrip().endswith("}"):
            return False
        try:
            parse("".join(self.texts), in_range=False)
        except ValueError:
            return False
        return True


class StreamedCalls:
    """The calls of one turn."""

    def __init__(self) -> None:
        self._at: dict[int, _Call] = {}
        """Index -> the last call that came under it."""
        self._last: _Call | None = None
        self._numbers: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def take(self, entry: JsonObject) -> CallPiece | None:
        """Return what an entry of `tool_calls` adds to its call; None for nothing. An id or name comes once."""
        function = object_in(entry, "function", "delta.tool_calls[].function")
        call_id, name = text(entry, "id"), text(function, "name")
        index = place_of(entry, "index", "delta.tool_calls[].index")
        call = self._last if index is None else self._at.get(index)
        if call is None or _is_another(call, call_id, name, arguments_text(function.get("arguments"))):
            call = self._begin(index)
        given = more_arguments(
            function, "arguments", "delta.tool_calls[].function.arguments", has_begun=bool(call.texts)
        )
        self._last = call
        if given:
            call.texts.append(given)
        new_id, new_name = "" if call.id else call_id, "" if call.name else name
        call.id, call.name = call.id or call_id, call.name or name
        return CallPiece(call.number, given, new_id, new_name) if given or new_id or new_name else None

    def _begin(self, index: int | None) -> _Call:
        number = FIRST_CALL + index if index is not None else FIRST_CALL
        if number in self._numbers:
            number = max(self._numbers) + 1
        self._numbers.add(number)
        call = _Call(number)
        if index is not None:
            self._at[index] = call
        return call


def more_arguments(piece: JsonObject, key: str, where: str, *, has_begun: bool) -> str:
    """Return the arguments under `key` in a piece of a call; `has_begun` says that some came already.

    They are a text that comes in pieces. Some servers send them whole, as an object. `where` names any other value in the error.
    """
    given = piece.get(key)
    return arguments_text(given) if is_object(given) and not has_begun else text_in(piece, key, where)


def _is_another(call: _Call, call_id: str, name: str, given: str) -> bool:
    """Whether a piece begins a call after `call`, though it has the same index, or none.

    A call begins with its name. Servers that send calls whole may give each the index 0; others repeat id and name on every
    piece of a call.
    """
    if not name or not call.name:
        return False
    if call_id and call.id:
        return call_id != call.id
    return bool(given.strip()) and call.has_all_arguments
