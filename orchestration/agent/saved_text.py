"""Values as JSON text and back, without loss. Loads pydantic, so callers import it only when they save or load."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from understudy.vocabulary.message_json import AS_IT_IS

T = TypeVar("T")


class Versioned(Protocol):
    """A saved value with the number of its format."""

    format: int


V = TypeVar("V", bound=Versioned)

_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def written(adapter: TypeAdapter[Any], value: object, exclude: Any = None, *, exclude_defaults: bool = False) -> str:
    r"""Return a value as JSON text. A lone surrogate, which UTF-8 cannot encode, is written as its escape `\udXXX`.

    Args:
        adapter: of the value's type.
        value: what to write.
        exclude: fields to leave out, as pydantic takes them.
        exclude_defaults: leave out the fields that have their defaults too.

    Raises:
        ValueError: a text has two lone surrogates side by side, which JSON would read as one character.
    """
    how: dict[str, Any] = {"warnings": False, "exclude": exclude, "exclude_defaults": exclude_defaults}
    with contextlib.suppress(PydanticSerializationError):
        text = adapter.dump_json(value, context=AS_IT_IS, **how).decode()
        if "\ufffd" not in text:
            return text
    # Lone surrogates come from models whose tokens were cut, and from file names that are not UTF-8. Pydantic refuses them
    # in a text, but writes some keys with U+FFFD without a word, and so does the mode "json" of dump_python.
    data = adapter.dump_python(value, **how)
    text = json.dumps(data)
    if json.loads(text) != _with_lists(data):
        raise ValueError("a text has the two halves of a surrogate pair side by side, which JSON joins")
    return text


def dumped(data: object) -> str:
    """Return JSON data as text without spaces; a lone surrogate is an escape, as in what `written` returns."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(data, separators=(",", ":"))
    return text


def _with_lists(value: object) -> object:
    """Return a value with its tuples replaced by lists, because JSON has no tuples."""
    if isinstance(value, (list, tuple)):
        return [_with_lists(each) for each in cast("Sequence[object]", value)]
    if isinstance(value, dict):
        return {key: _with_lists(each) for key, each in cast("dict[object, object]", value).items()}
    return value


def read(adapter: TypeAdapter[T], text: str) -> T:
    """Read what `written` wrote. Raises `ValidationError`."""
    try:
        return adapter.validate_json(text)
    except ValidationError:  # pydantic's own parser also refuses lone surrogates
        if not _HALF.search(text):
            raise
        data = _loaded(text)
        if data is None:
            raise
    return adapter.validate_python(data)


def read_version(adapter: TypeAdapter[V], text: str, what: str, known: int) -> V:
    """Read what `written` wrote, if it has the one format that is known.

    Args:
        adapter: of the type.
        text: what was saved.
        what: the name for it in errors: "saved run".
        known: the number of the format.

    Raises:
        ValueError: the text is something else, or of another format. The error holds nothing that users said.
    """
    saved, problem = None, ""
    try:
        saved = read(adapter, text)
    except ValidationError as error:
        problem = first_problem(error)
    number = _format_of(text, known) if saved is None else saved.format  # another format may have other fields
    if number != known:
        raise ValueError(f"a {what} of format {number}; this version reads format {known}")
    if saved is None:
        raise ValueError(f"not a {what}: {problem}")
    return saved


def _format_of(text: str, known: int) -> int:
    """Return the number of the format that a text of any shape holds, or `known` if it holds none."""
    data = _loaded(text)
    number = cast("dict[str, object]", data).get("format") if isinstance(data, dict) else None
    return number if type(number) is int else known


def _loaded(text: str) -> object:
    """Return the JSON value in a text; None for any other text, of which the caller tells pydantic's error."""
    with contextlib.suppress(ValueError, RecursionError):
        return cast(object, json.loads(text))
    return None


def first_problem(error: ValidationError) -> str:
    """Return the place and the kind of the first problem of a saved text; the text itself may hold what users said.

    Raise an error with these words outside of the `except` block: pydantic's error would be its context, with the text.
    """
    first, *others = error.errors(include_url=False, include_input=False)
    where = ".".join(str(step) for step in first["loc"]) or "the text"
    more = f" ({len(others) + 1} problems)" if others else ""
    return f"{where}: {first['msg']}{more}"
