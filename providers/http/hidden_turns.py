"""Takes a key out of an error, and out of the turn in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from understudy.errors import ContentBlocked, ProviderError
from understudy.vocabulary.messages import ModelTurn

from .credentials import Secret
from .errors import LONGEST_MESSAGE, MOST_CATEGORIES, QUOTED, one_line

T = TypeVar("T", bound=ModelTurn | None)


def without_key(turn: T, key: Secret) -> T:
    """Return `turn` with stars in place of the key, wherever a server quoted it."""
    return cast(T, _clean(turn, key))


def clean_error(error: ProviderError, key: Secret) -> None:
    """Put stars in place of the key into an error's text and attributes, its partial turn included, and shorten them.

    This comes after decoding, because JSON can write one text, and so a quoted key, in many ways. A server's message goes
    into logs and terminals, so it becomes one line of a limited length. The partial turn keeps its length.
    """
    for name, value in vars(error).items():
        if isinstance(value, str | tuple | ModelTurn):
            setattr(error, name, _clean(cast(object, value), key))
    key.out_of_error(error)
    error.args = tuple([one_line(each, LONGEST_MESSAGE) if isinstance(each, str) else each for each in error.args])
    error.code, error.type = one_line(error.code, QUOTED), one_line(error.type, QUOTED)
    if isinstance(error, ContentBlocked):
        error.reason = one_line(error.reason, QUOTED)
        error.categories = tuple([one_line(each, QUOTED) for each in error.categories[:MOST_CATEGORIES]])


def _clean(value: object, key: Secret) -> Any:
    if isinstance(value, str):
        return key.out_of(value)
    if isinstance(value, Mapping):
        return {_clean(name, key): _clean(each, key) for name, each in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (tuple, list)):
        cleaned = [_clean(each, key) for each in cast("list[object]", value)]
        return tuple(cleaned) if isinstance(value, tuple) else cleaned
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _clean(getattr(value, field.name), key) for field in fields(value)})
    return value
