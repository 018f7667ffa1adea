"""A model's answer on a tape: writes and reads a turn, or the error that the model raised."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from understudy import errors
from understudy.errors import UnderstudyError
from understudy.providers.wire.json_values import WrongShape, inner, is_object, text
from understudy.vocabulary.messages import JsonObject, JsonValue, ModelTurn

from .cuts import Cut, written_cuts
from .redaction import Redactor

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MADE_UP = ("run_id", "token", "path")
"""Attributes of errors that only have a meaning in one run."""


def written(answer: ModelTurn | Exception, redactor: Redactor, cuts: Sequence[Cut] = ()) -> JsonObject:
    """Return an answer as JSON without secrets: an object with a `turn` or an `error`, and with `cuts` a `stream`.

    Raises:
        TypeError: `answer` is not a turn or an error, or has a value that JSON cannot hold.
    """
    if isinstance(answer, Exception):
        return {"error": _written_error(answer, redactor)}
    if not isinstance(answer, ModelTurn):
        raise TypeError(f"a model must return a ModelTurn, got {type(answer).__name__}")
    clean = redactor.plain(answer)
    return {"turn": clean} | ({"stream": written_cuts(cuts, answer, clean)} if cuts and is_object(clean) else {})


def read(answer: JsonObject) -> ModelTurn | Exception:
    """Read an answer that `written` wrote: a turn, or an error to raise. Loads pydantic for a turn.

    Raises:
        WrongShape: the object is neither.
    """
    turn = answer.get("turn")
    return _read_turn(turn) if is_object(turn) else _read_error(inner(answer, "error"))


def _read_turn(tree: JsonObject) -> ModelTurn:
    from pydantic import ValidationError

    try:
        return _adapter().validate_python(tree)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the turn"
        raise WrongShape(f"{where}: {first['msg']}") from None


@cache
def _adapter() -> TypeAdapter[ModelTurn]:
    from pydantic import TypeAdapter

    return TypeAdapter(ModelTurn)


def _written_error(error: Exception, redactor: Redactor) -> JsonObject:
    """Return class, message, and the attributes that JSON can hold.

    A foreign class is written as its nearest base class of ours or Python's, and named in the message.
    """
    known = next(kind for kind in type(error).__mro__ if _class_named(kind.__name__) is kind)
    message = str(error.args[0]) if len(error.args) == 1 else str(error)
    if known is not type(error):
        message = f"{type(error).__module__}.{type(error).__qualname__}: {message}"
    tree: dict[str, JsonValue] = {"class": known.__name__, "message": redactor.text(message)}
    if isinstance(error, UnderstudyError):
        kept = {name: value for name, value in vars(error).items() if name not in MADE_UP and _is_kept(value)}
        tree["attributes"] = {name: redactor.plain(value) for name, value in kept.items()}
    return tree


def _read_error(tree: JsonObject) -> Exception:
    kind = _class_named(text(tree, "class"))
    if kind is None:
        raise WrongShape(f"an error of a class that this version does not know: {tree.get('class')!r}")
    error = kind(text(tree, "message"))
    if isinstance(error, UnderstudyError):
        saved = inner(tree, "attributes")
        for name in ("retries_used_up", *vars(error)):
            value = saved.get(name)
            if name in saved and _is_kept(value):
                setattr(error, name, tuple(cast("list[str]", value)) if isinstance(value, list) else value)
    return error


def _class_named(name: str) -> type[Exception] | None:
    """Return the error class of ours or Python's with this name, if it can be made from a message."""
    found: object = getattr(errors, name, None) or getattr(builtins, name, None)
    if not isinstance(found, type) or not issubclass(found, Exception):
        return None
    try:
        found("")
    except TypeError:  # such as UnicodeDecodeError, which takes five arguments
        return None
    return found


def _is_kept(value: object) -> bool:
    if isinstance(value, tuple | list):
        texts = cast("Sequence[object]", value)
        return bool(texts) and all(isinstance(each, str) for each in texts)
    return value is None or isinstance(value, str | int | float)
