"""Tells which call a piece belongs to: servers give each an index, an id, or neither, and send some calls twice."""

from __future__ import annotations

from collections.abc import Collection

from understudy.orchestration.streaming.turn_assembler import joined
from understudy.providers.wire.json_values import inner, is_object, kept, object_in, place_of, text, text_in, written
from understudy.vocabulary.json_reading import arguments, arguments_text, parse
from understudy.vocabulary.messages import JsonObject, JsonValue, ToolCall
from understudy.vocabulary.pieces import CallPiece

FIRST_CALL = 1_000_000
"""The number of the first call as a part: above those of all content, because calls are the last parts of a turn."""
ENTRY = frozenset(("index", "id", "type", "function"))
FUNCTION = frozenset(("name", "arguments"))
NONE: JsonObject = {}


class _Call:
    """A call as far as it came."""

    __slots__ = ("id", "is_held", "name", "number", "own", "texts")

    def __init__(self, number: int, *, is_held: bool) -> None:
        self.number = number
        self.id = ""
        self.name = ""
        self.texts: list[str] = []
        self.own: dict[str, JsonValue] = {}
        """The server's own fields."""
        self.is_held = is_held
        """Whether a call before it has its id. Only the end tells whether it is that call again, so no reader sees it yet."""

    @property
    def arguments(self) -> str:
        return joined(self.texts)

    @property
    def has_all_arguments(self) -> bool:
        return bool(self.texts) and self.texts[-1].rstrip().endswith("}") and _is_whole(self.arguments)

    @property
    def signature(self) -> str | None:
        return written(self.own) if self.own else None


class StreamedCalls:
    """The calls of one turn, from pieces or whole. Two calls with one id and the same name and arguments are one call."""

    def __init__(self) -> None:
        self._at: dict[int, _Call] = {}
        """Number that the server's index tells -> the last call that came under it."""
        self._calls: dict[int, _Call] = {}
        """Number as a part -> the call."""
        self._last: _Call | None = None

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, entry: JsonObject) -> list[CallPiece]:
        """Return what an entry of `tool_calls` adds to its call, if it adds something. An id or name comes once."""
        function = object_in(entry, "function", "delta.tool_calls[].function")
        call_id, name = text(entry, "id"), text(function, "name")
        index = place_of(entry, "index", "delta.tool_calls[].index")
        number = None if index is None else FIRST_CALL + index
        call = self._found(number, call_id)
        if call is None or _is_another(call, call_id, name, arguments_text(function.get("arguments"))):
            if call is not None and number is not None and name == call.name:
                call_id = call_id or call.id  # it may be the call again, without its id
            call = self._begin(number, call_id)
        given = more_arguments(
            function, "arguments", "delta.tool_calls[].function.arguments", has_begun=bool(call.texts)
        )
        return self._grow(call, given, call_id, name, own_fields(entry))

    def add(
        self, number: int, given: str, call_id: str = "", name: str = "", own: JsonObject = NONE
    ) -> list[CallPiece]:
        """Return what a piece adds to the call of this number; `own` has the server's own fields of the call."""
        return self._grow(self._at.get(number) or self._begin(number, call_id), given, call_id, name, own)

    def numbers(self) -> list[int]:
        """Return the numbers of all calls."""
        return list(self._calls)

    def has_begun(self, number: int) -> bool:
        """Whether some of the arguments of a call came."""
        return number in self._calls and bool(self._calls[number].texts)

    def text_of(self, number: int) -> str:
        """Return the arguments of a call so far."""
        return self._calls[number].arguments if number in self._calls else ""

    def rest(self) -> list[CallPiece]:
        """Return the pieces that were held back."""
        found: list[CallPiece] = []
        for call in [each for each in self._calls.values() if each.is_held]:
            first, missing = self._first_of(call)
            if first is None:
                call.is_held = False
                found.append(CallPiece(call.number, call.arguments, call.id, call.name, call.signature))
            else:
                del self._calls[call.number]
                found += self._grow(first, missing, "", call.name, call.own)
        return found

    def whole(self) -> dict[int, ToolCall]:
        """Return the calls by their numbers, when all have come."""
        self.rest()
        return {
            number: ToolCall(call.id, call.name, *arguments(call.arguments), signature=call.signature)
            for number, call in sorted(self._calls.items())
        }

    def _found(self, number: int | None, call_id: str) -> _Call | None:
        if number is not None:
            return self._at.get(number)
        return next((each for each in reversed(self._calls.values()) if call_id and each.id == call_id), self._last)

    def _begin(self, index: int | None, call_id: str) -> _Call:
        number = FIRST_CALL if index is None else index
        if number in self._calls:
            number = max(self._calls) + 1
        is_held = bool(call_id) and any(each.id == call_id for each in self._calls.values())
        call = self._calls[number] = _Call(number, is_held=is_held)
        if index is not None:
            self._at[index] = call
        return call

    def _grow(self, call: _Call, given: str, call_id: str, name: str, own: JsonObject) -> list[CallPiece]:
        self._last = call
        if given:
            call.texts.append(given)
        new_id, new_name = "" if call.id else call_id, "" if call.name else name
        call.id, call.name = call.id or call_id, call.name or name
        has_new = any(call.own.get(key) != value for key, value in own.items())
        call.own = {**call.own, **own} if has_new else call.own
        if call.is_held or not (given or new_id or new_name or has_new):
            return []
        return [CallPiece(call.number, given, new_id, new_name, call.signature if has_new else None)]

    def _first_of(self, call: _Call) -> tuple[_Call | None, str]:
        """Return the earlier call that a held call repeats, and the arguments that the earlier one lacks; None if there is none."""
        for first in [each for each in self._calls.values() if each.id == call.id and not each.is_held]:
            both = _both(first.arguments, call.arguments)
            if both is not None and (first.name == call.name or not (first.name and call.name)):
                return first, both[len(first.arguments) :]
        return None, ""


def more_arguments(piece: JsonObject, key: str, where: str, *, has_begun: bool) -> str:
    """Return the arguments under `key` in a piece of a call; `has_begun` says that some came already.

    They are a text that comes in pieces. Some servers send them whole, as an object. `where` names any other value in the error.
    """
    given = piece.get(key)
    return arguments_text(given) if is_object(given) and not has_begun else text_in(piece, key, where)


def own_fields(entry: JsonObject) -> JsonObject:
    """Return the fields of an entry of `tool_calls` that only its server knows; they go back to it.

    Gemini API, OpenAI compatibility: without `extra_content`, which holds the call's signature, the next request is refused.
    """
    if entry.keys() <= ENTRY and inner(entry, "function").keys() <= FUNCTION:  # nearly always
        return NONE
    function = beyond(inner(entry, "function"), FUNCTION)
    return {**beyond(entry, ENTRY), **({"function": function} if function else {})}


def beyond(source: JsonObject, known: Collection[str]) -> JsonObject:
    """Return the fields that are neither known nor null."""
    return kept({key: each for key, each in source.items() if key not in known and each is not None}, "a tool call")


def _is_another(call: _Call, call_id: str, name: str, given: str) -> bool:
    """Whether a piece begins a call after `call`, though it has the same index, or none.

    A call begins with its name. Servers that send calls whole may give each the index 0; others repeat id and name on every
    piece of a call.
    """
    if not name or not call.name:
        return False
    if call_id and call.id:
        if call_id != call.id:
            return True
    elif name != call.name:
        return True
    return bool(given.strip()) and call.has_all_arguments


def _is_whole(text: str) -> bool:
    try:
        return is_object(parse(text, in_range=False))
    except ValueError:
        return False


def _both(first: str, again: str) -> str | None:
    """Return the arguments of one call whose pieces came as two calls with one id; None if they are two calls."""
    if again.startswith(first):
        return again
    if first.startswith(again) or not again.strip():
        return first
    if not first.strip():
        return first + again
    if _is_whole(first):
        return first if _is_whole(again) and arguments(first) == arguments(again) else None
    return None if _is_whole(again) else first + again
