"""Changes an answer as careless servers do: what is counted, named, repeated or left out in its JSON.

A change takes the events of a stream, or a list with one whole body, and returns new ones. It knows no API: it finds fields by
their names, wherever they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import count
from typing import Any

from understudy.errors import ProviderError
from understudy.vocabulary.messages import ModelTurn

Events = list[Any]
Change = Callable[[Events], Events]

GONE: Any = object()
"""In place of a value: the field is left out."""


def changed(value: Any, keys: Collection[str], change: Callable[[Any], Any]) -> Any:
    """Return a copy in which `change` was applied to the value of each field of these names."""
    if isinstance(value, Mapping):
        made: dict[str, Any] = {}
        for key, each in value.items():  # pyright: ignore[reportUnknownVariableType]  # any JSON
            found = change(each) if key in keys else changed(each, keys, change)
            if found is not GONE:
                made[str(key)] = found  # pyright: ignore[reportUnknownArgumentType]  # any JSON
        return made
    if isinstance(value, list):
        return [changed(each, keys, change) for each in value]  # pyright: ignore[reportUnknownVariableType]  # any JSON
    return value


def everywhere(keys: Collection[str], change: Callable[[Any], Any]) -> Change:
    """Return the change of all fields of these names."""
    return lambda events: [changed(event, keys, change) for event in events]


def _of_numbers(change: Callable[[int], Any]) -> Callable[[Any], Any]:
    return lambda value: change(value) if isinstance(value, int) else value


def of_indexes(keys: Collection[str]) -> dict[str, Change]:
    """Return changes of indexes that leave items in their order, and tell them apart."""
    return {
        "counted from 1": everywhere(keys, _of_numbers(lambda index: index + 1)),
        "counted from 7": everywhere(keys, _of_numbers(lambda index: index + 7)),
        "with gaps": everywhere(keys, _of_numbers(lambda index: index * 5 + 2)),
    }


def of_lost_indexes(keys: Collection[str]) -> dict[str, Change]:
    """Return changes of indexes that tell items no longer apart."""
    return {
        "missing": everywhere(keys, lambda _: GONE),
        "null": everywhere(keys, lambda _: None),
        "all the same": everywhere(keys, lambda _: 0),
        "a text": everywhere(keys, str),
        "a fraction": everywhere(keys, lambda _: 0.5),
        "below 0": everywhere(keys, lambda _: -1),
    }


def of_ids(keys: Collection[str]) -> dict[str, Change]:
    """Return changes of ids."""
    number = count()
    return {
        "missing": everywhere(keys, lambda _: GONE),
        "null": everywhere(keys, lambda _: None),
        "empty": everywhere(keys, lambda _: ""),
        "all the same": everywhere(keys, lambda _: "same"),
        "numbers": everywhere(keys, lambda _: 5),
        "new in each event": everywhere(keys, lambda _: f"id-{next(number)}"),
    }


def of_types(keys: Collection[str]) -> dict[str, Change]:
    """Return changes of values to ones of another type."""
    wrong: tuple[Any, ...] = (5, 1.5, True, "text", [], ["x"], {}, {"value": "x"}, None)
    return {f"{key} is {value!r}": everywhere((key,), partial(instead, value)) for key in keys for value in wrong}


def instead(new: object, _: object) -> object:
    return new


def missing(keys: Collection[str]) -> dict[str, Change]:
    """Return changes that leave out one field everywhere."""
    return {f"no {key}": everywhere((key,), lambda _: GONE) for key in keys}


def what_came(read: Callable[[], ModelTurn]) -> object:
    """Return what a reader of an answer gets: the named error, or the content of the turn without ids.

    Args:
        read: returns the turn; any error but those of the clients is a fault of theirs, and raised.
    """
    try:
        turn = read()
    except (ValueError, ProviderError) as error:
        assert str(error), "an error says what was wrong"
        return "an error"
    if turn.finish_reason == "other" or any(call.bad_arguments is not None for call in turn.tool_calls):
        return "an error"  # the client raises the first; the model is told of the second, and no tool runs
    calls = [(call.name, call.arguments) for call in turn.tool_calls]
    return turn.text, turn.thinking, turn.refusal, calls, turn.finish_reason
