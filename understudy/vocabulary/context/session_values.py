"""The values of a session: how they are copied and compared, and which of them are shared with whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias, cast

from understudy.vocabulary.messages import JsonValue

RESERVED = "__"
TEMPORARY = "temp:"
OF_APP = "app:"
OF_USER = "user:"

SessionScope: TypeAlias = Literal["app", "user", "session"]


class SessionValues(dict[str, JsonValue]):
    """The values that a run left, in an outcome or an error. A run that is given them reads them, and does not update them."""


class SessionOwner(NamedTuple):
    """Whose values of a scope are meant."""

    scope: SessionScope
    names: tuple[str, ...]
    """Of the app, the user and the conversation, as far as the scope needs them."""


def owners(app: str, user: str, conversation: str | None) -> list[SessionOwner]:
    """Return the owners of the values that a run sees."""
    found = [SessionOwner("app", (app,)), SessionOwner("user", (app, user))]
    if conversation is not None:
        found.append(SessionOwner("session", (app, user, conversation)))
    return found


def owner_of(key: str, found: list[SessionOwner]) -> SessionOwner | None:
    """Return which of a run's owners has a key; None for one that ends with the run, which has no conversation."""
    if key.startswith(OF_APP):
        return found[0]
    if key.startswith(OF_USER):
        return found[1]
    return found[2] if len(found) > 2 else None


def check_key(key: str) -> None:
    """Raise for a key that users may not set."""
    if not isinstance(key, str):
        raise TypeError(f"session keys are strings, got {key!r}")
    if key.startswith(RESERVED):
        raise ValueError(f"session key {key!r}: keys that start with '__' belong to the runtime")


def copy_of(value: JsonValue) -> JsonValue:
    """Copy lists and dicts, at any depth; other values inside are shared. A value that JSON cannot nest is returned as it is."""
    if type(value) not in (list, dict):
        return value
    try:
        return _copied(value)
    except RecursionError:  # a list in itself
        return value


def _copied(value: JsonValue) -> JsonValue:
    kind = type(value)
    if kind is list:
        return [_copied(each) for each in cast("list[JsonValue]", value)]
    if kind is dict:  # `list`, for a thread that the user's code left behind may change it meanwhile
        return {key: _copied(each) for key, each in list(cast("dict[str, JsonValue]", value).items())}
    return value


def is_same(one: JsonValue, other: JsonValue) -> bool:
    """Whether two values are the same to JSON, to which 1, 1.0 and true are not. Calls no code of a user's."""
    if one is other:
        return True
    try:
        return _is_same(one, other)
    except RecursionError:
        return False


def _is_same(one: JsonValue, other: JsonValue) -> bool:
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is list:
        ours, theirs = cast("list[JsonValue]", one), cast("list[JsonValue]", other)
        return len(ours) == len(theirs) and all(map(_is_same, ours, theirs))
    if kind is dict:
        return _is_same_mapping(cast("dict[str, JsonValue]", one), cast("dict[str, JsonValue]", other))
    if kind is float:
        return repr(one) == repr(other)  # -0.0 is not 0.0
    return kind in (str, int) and one == other


def _is_same_mapping(one: Mapping[str, JsonValue], other: Mapping[str, JsonValue]) -> bool:
    return len(one) == len(other) and all(key in other and _is_same(value, other[key]) for key, value in one.items())
