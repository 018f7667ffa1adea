"""Checks of arguments, for every floor. `where` names the argument and begins each message.

Each returns its argument, or raises `TypeError` for a wrong type and `ValueError` for a wrong value. A bool is
no number here: `retries=True` is a mistake, and would count as 1.
"""

from __future__ import annotations

import inspect
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, cast

LONGEST_NUMBER = 14_000  # Bits; Python's JSON parser reads no number of more than 4,300 digits.
DEEPEST = 100  # Levels of nested values; JSON parsers have a limit too.

if TYPE_CHECKING:
    import os

    from .json_types import JsonValue


class WrongReturn(TypeError):
    """A user's function returned a value of the wrong type. It would do so again, so it is not retried."""


def found_instead(given: object) -> str:
    """Describe the return value of a user's function by its type, not its value, which may hold words of users.

    A coroutine is closed, so that Python does not warn that nobody awaited it.
    """
    kind = type(given)  # not isinstance, which also reads the object's __class__: that may raise
    if issubclass(kind, Coroutine):
        cast("Coroutine[object, object, object]", given).close()
        return "a coroutine; write a plain function, not async def"
    if issubclass(kind, type):
        return f"the class {cast(type, given).__name__} and no object of it"
    return "None" if given is None else f"a value of type {kind.__name__}"


def named_safely(given: object) -> str:
    """Return the `repr` of a user's object, or its type if `repr` raises."""
    try:
        return repr(given)
    except BaseException:  # noqa: BLE001 (whatever a user's __repr__ raises)
        return f"a {type(given).__name__}"


def is_async(given: object) -> bool:
    """Whether a call of an object makes a coroutine or an async iterator: `async def`, also as its `__call__`."""
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    calls = (given, getattr(type(given), "__call__", None))  # noqa: B004  # the method itself is looked at
    return any(kind(call) for kind in kinds for call in calls)


def checked_plain(where: str, given: object) -> None:
    """Raise unless this is a function, and no `async def`, whose call would run nothing."""
    if not callable(given):
        raise TypeError(f"{where} must be a function, got {named_safely(given)}")
    if is_async(given):
        raise TypeError(f"{where} must be a plain function, not async def")


class Unset(Enum):
    """The default of parameters for which None has a meaning."""

    UNSET = "not given"


UNSET = Unset.UNSET


def checked_flag(where: str, given: bool) -> bool:
    """Return True or False; other values, such as `"no"`, are refused although Python takes them as conditions."""
    if not isinstance(given, bool):
        raise TypeError(f"{where} must be True or False, got {given!r}")
    return given


def checked_text(where: str, given: str) -> str:
    """Return a string."""
    if not isinstance(given, str):
        raise TypeError(f"{where} must be a string, got {given!r}")
    return given


def checked_whole(where: str, given: int, least: int) -> int:
    """Return a whole number of at least `least`."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{where} must be a whole number, got {given!r}")
    if given < least:
        raise ValueError(f"{where} must be at least {least}, got {given}")
    return given


def _is_finite(given: float) -> bool:
    try:
        return isfinite(given)
    except OverflowError:  # a whole number beyond the largest float
        return False


def _shown(given: float) -> str:
    """Return a number for an error; Python writes no whole number of more than 4,300 digits."""
    return repr(given) if _is_finite(given) or isinstance(given, float) else "a whole number too large for a float"


def checked_number(where: str, given: float) -> float:
    """Return a finite number."""
    if not isinstance(given, (int, float)) or isinstance(given, bool):
        raise TypeError(f"{where} must be a number, got {given!r}")
    if not _is_finite(given):
        raise ValueError(f"{where} must be finite, got {_shown(given)}")
    return given


def checked_seconds(where: str, given: float | None) -> float | None:
    """Return a time span above 0, or None for no limit."""
    if given is None:
        return None
    if not isinstance(given, (int, float)) or isinstance(given, bool):
        raise TypeError(f"{where} must be a number of seconds, or None for no limit; got {given!r}")
    if not 0 < given or not _is_finite(given):
        raise ValueError(f"{where} must be above 0 seconds and finite, or None for no limit; got {_shown(given)}")
    return given


def checked_wait(where: str, given: float | None) -> None:
    """Raise unless this is how long a wait may be: seconds, of which 0 is a look, or None for any time."""
    if given is None:
        return
    if not isinstance(given, (int, float)) or isinstance(given, bool):
        raise TypeError(f"{where}: timeout must be a number of seconds or None, got {given!r}")
    if not given >= 0:  # also for a NaN
        raise ValueError(f"{where}: timeout must be 0 seconds or more, or None for no limit; got {given!r}")


def checked_mapping(where: str, given: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return a mapping with names as keys. Errors do not quote it, because it may hold words of users, or a key."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{where} must be a mapping, got {type(given).__name__}")
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"{where} must have strings as keys, got {name!r}")
    return given


def checked_json(where: str, given: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return a mapping of names to values that JSON can carry. Errors do not quote the values."""
    fault = not_json(dict(checked_mapping(where, given)), where)
    if fault:
        raise TypeError(f"{fault}, which JSON cannot carry")
    return given


def checked_path(where: str, given: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the path of a file."""
    if not isinstance(given, str) and not hasattr(given, "__fspath__"):
        raise TypeError(f"{where} must be a path, got {given!r}")
    if not str(given):
        raise ValueError(f"{where} must be the path of a file, got {given!r}")
    return given


def not_json(value: object, where: str, depth: int = 0) -> str:
    """Say what JSON would lose or change in `value`, and at which key; empty if nothing."""
    match value:
        case float() if not isfinite(value):
            return f"{where} is {value}"
        case int() if value.bit_length() > LONGEST_NUMBER:
            return f"{where} is a number of more than {LONGEST_NUMBER:,} bits"
        case None | bool() | int() | float() | str():
            return ""
        case _ if depth == DEEPEST:
            return f"{where[:40]}… is nested more than {DEEPEST} deep"
        case list() | tuple():
            inside: Iterable[tuple[object, object]] = enumerate(cast("Sequence[object]", value))
        case dict():
            keyed = cast("dict[object, object]", value)
            keys = [key for key in keyed if not isinstance(key, str)]
            if keys:
                return f"{where} has the key {keys[0]!r}"
            inside = keyed.items()
        case _:
            return f"{where} is of type {type(value).__name__}"
    return next(filter(None, [not_json(each, f"{where}[{key!r}]", depth + 1) for key, each in inside]), "")
