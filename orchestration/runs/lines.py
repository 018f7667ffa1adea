"""Events as text: JSON without the fields that have their defaults. Loads pydantic.

Parts of messages and decisions have a field `kind`, which is written where a value may be of several classes. Actions of
callbacks and resolutions of invalid calls look alike, such as `Block(reason)` and `RequireApproval(reason)`: each is written
with its class, under `is`. A turn whose provider has the neutral word for its end is written with that word once, as `ended`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, partial
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, ConfigDict, PlainValidator, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic takes no other one before Python 3.12

from understudy.orchestration.agent.rulings import Ruling
from understudy.orchestration.agent.saved_text import first_problem
from understudy.orchestration.agent.steps import Resolution
from understudy.vocabulary.checks import not_json
from understudy.vocabulary.context.session_values import TEMPORARY
from understudy.vocabulary.json_reading import parse
from understudy.vocabulary.messages import JsonValue, ModelTurn
from understudy.vocabulary.runs.callbacks import ACTIONS

from .events import KINDS, Accepted, Changes, Opened, RunEvent, SessionChanged


class Entry(NamedTuple):
    """An event at its place in a line."""

    seq: int
    """From 0, and growing; the number of the public event that it makes."""
    at: float
    """Seconds since the epoch."""
    event: RunEvent


class UnknownKind(ValueError):
    """A line has an event that this version does not know: a newer version wrote it.

    Attributes:
        kind: the name of the event.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(f"no event is named {kind!r} in this version of understudy: a newer one wrote the line")
        self.kind = kind


def text_of(line: Sequence[Entry]) -> str:
    """Return a line whose places follow one another as JSON: the first place and time, then `[milliseconds since then, kind, fields]`.

    Fields are left out if there are none. Times are written to the millisecond. A lone surrogate, which UTF-8 cannot encode, is an
    escape.

    Raises:
        ValueError: as of `body_of`.
    """
    if not line:
        return ""
    first, began, _ = line[0]
    try:
        told: list[Any] = [first, round(began, 3)]
        for _, at, event in line:
            data, ms = as_data(event), round((at - began) * 1_000)
            told.append([ms, type(event).__name__, data] if data else [ms, type(event).__name__])
        return _json(told)
    except (TypeError, ValueError, RecursionError):
        for _, _, event in line:
            body_of(event)  # which says what it is
        raise


def line_of(text: str) -> list[Entry]:
    """Return the line that `text_of` wrote.

    Raises:
        UnknownKind: this version does not know an event of it.
        ValueError: the text is no line. The error holds nothing that users said.
    """
    if not text:
        return []
    data: object = None
    with suppress(ValueError):
        data = parse(text)
    told: list[Any] = data if isinstance(data, list) else []
    if not told[2:] or not (_fits(told[0], int) and told[0] >= 0 and _fits(told[1], int, float)):
        raise ValueError("not a line of events: it does not begin with a place and a time")
    return [_entry(told[0] + number, told[1], each) for number, each in enumerate(told[2:])]


def _entry(seq: int, began: float, given: JsonValue) -> Entry:
    told: list[Any] = given if isinstance(given, list) else []
    if len(told) not in (2, 3) or not _fits(told[0], int) or type(told[1]) is not str:
        raise ValueError(f"not a line of events: at place {seq} are not milliseconds, a kind and fields")
    return Entry(seq, round(began + told[0] / 1_000, 3), event_from(told[1], told[2] if told[2:] else {}))


def _fits(given: Any, *kinds: type) -> bool:
    return type(given) in kinds and -(10**18) < given < 10**18


# --- writing


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""`json.dumps` makes an encoder at each call."""

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")

_TAGGED: dict[str, type] = {each.__name__: each for each in (*get_args(Resolution), *ACTIONS)}
"""The classes that are written with their names."""

_OF_SESSION: dict[type[Any], set[str]] = {
    Accepted: {"session"},
    Opened: {"session"},
    Changes: {"values", "removed"},
    SessionChanged: {"as_begun"},
}
"""The fields that have keys of a session."""


def body_of(event: RunEvent) -> str:
    """Return the fields of an event as JSON. A lone surrogate, which UTF-8 cannot encode, is an escape.

    Raises:
        ValueError: JSON cannot carry a value: a number that is not finite, an object, deep nesting, or the two halves of a
            surrogate pair side by side, which JSON would join.
    """
    try:
        return _json(as_data(event))
    except (TypeError, RecursionError) as error:
        raise ValueError(f"{type(event).__name__} has a value that JSON cannot carry: {error}") from None


def _json(data: Any) -> str:
    text = _encode(data)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:  # of a model whose tokens were cut, or a file name
        if _PAIR.search(text):
            raise ValueError("a text has the two halves of a surrogate pair side by side, which JSON joins") from None
        return json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text


class _Field(NamedTuple):
    """How a field is written."""

    name: str
    write: Callable[[Any], Any] | None
    """None for a value that is JSON as it stands."""
    usual: object
    """The default; `MISSING` if the field is always written."""
    default: object
    """The same as it would be written."""


class _Plan(NamedTuple):
    """How a dataclass is written."""

    begins: dict[str, str]
    """What stands before the fields."""
    values: Callable[[Any], tuple[Any, ...]]
    """Returns the values of the fields."""
    fields: tuple[_Field, ...]


def as_data(value: Any) -> Any:
    """Return a value as `json` takes it."""
    cls: type = type(value)  # pyright: ignore[reportUnknownVariableType] (it may be of any class)
    if cls is str or value is None:
        return value
    if cls is tuple or cls is list:
        return [as_data(each) for each in value]
    plan = _plan_of(cls)
    if plan is not None:
        data: dict[str, Any] = {**plan.begins}
        for (name, write, usual, default), told in zip(plan.fields, plan.values(value), strict=True):
            if told is usual:  # as most are
                continue
            given = told if write is None else write(told)
            if given != default:
                data[name] = given
        if cls is ModelTurn and value.raw_finish_reason == value.finish_reason:
            data.pop("finish_reason", None)
            data["ended"] = data.pop("raw_finish_reason")
        return data
    if issubclass(cls, Mapping):
        return {key: as_data(each) for key, each in value.items()}
    return value


@cache
def _plan_of(cls: type) -> _Plan | None:
    """Return how a dataclass is written; None for another class."""
    if not is_dataclass(cls):
        return None
    hints, of_session = get_type_hints(cls), _OF_SESSION.get(cls, set())
    written = tuple([_field(each, hints[each.name], each.name in of_session) for each in fields(cls) if each.init])
    names = [each.name for each in written]
    get: Callable[[Any], tuple[Any, ...]]
    get = attrgetter(*names) if len(names) > 1 else partial(_values_of, names)
    return _Plan({"is": cls.__name__} if cls.__name__ in _TAGGED else {}, get, written)


def _values_of(names: Sequence[str], value: Any) -> tuple[Any, ...]:
    return tuple([getattr(value, name) for name in names])


def _field(field: Field[Any], hint: Any, is_of_session: bool) -> _Field:
    write = _lasting if is_of_session else _untagged if _is_tagged(hint) else as_data if _is_deep(hint) else None
    if _is_tag(field.name, hint) or (field.default is MISSING and field.default_factory is MISSING):
        return _Field(field.name, write, MISSING, MISSING)
    default: Any = field.default if field.default_factory is MISSING else field.default_factory()
    return _Field(field.name, write, default, default if write is None else write(default))


def _is_tag(name: str, hint: Any) -> bool:
    """Whether a field tells the class: it has the same value in all objects of it."""
    return name == "kind" and get_origin(hint) is Literal and len(get_args(hint)) == 1


def _is_tagged(hint: Any) -> bool:
    """Whether a type is one class that has such a field."""
    return is_dataclass(hint) and _is_tag("kind", get_type_hints(hint).get("kind"))


def _untagged(value: Any) -> Any:
    """Return an object of a class that follows from its place."""
    data = as_data(value)
    del data["kind"]
    return data


def _is_deep(hint: Any) -> bool:
    """Whether values of a type may hold tuples, or objects of a class."""
    return is_dataclass(hint) or get_origin(hint) is tuple or any(_is_deep(each) for each in get_args(hint))


def _lasting(keys: Mapping[str, Any] | tuple[str, ...]) -> Any:
    """Return keys of a session, or values by key, without the keys that leave no run."""
    if isinstance(keys, Mapping):
        kept = {key: value for key, value in keys.items() if not key.startswith(TEMPORARY)}
        if kept and (strange := not_json(kept, "session")):
            raise ValueError(f"{strange}, which JSON cannot carry")
        return kept
    return [key for key in keys if not key.startswith(TEMPORARY)]


# --- reading


def event_of(kind: str, body: str) -> RunEvent:
    """Return the event that `body_of` wrote.

    Raises:
        UnknownKind: this version has no such event.
        ValueError: the text is no such event. The error holds nothing that users said.
    """
    data: Any = None
    with suppress(ValueError):
        data = parse(body)  # pydantic's own parser refuses half surrogates, and takes 1e999
    return event_from(kind, data)


def event_from(kind: str, data: Any) -> RunEvent:
    """Return the event with these fields, as `as_data` makes them; raises as `event_of`."""
    cls = KINDS.get(kind)
    if cls is None:
        raise UnknownKind(kind)
    problem = ""
    try:
        return cls(**reader_of(cast("Any", cls)).validate_python(data))
    except ValidationError as error:
        problem = first_problem(error)
    raise ValueError(f"not an event {kind}: {problem}")


@cache
def reader_of(cls: type[Any], without: str = "") -> TypeAdapter[dict[str, Any]]:
    """Return what reads the fields of a class that `as_data` wrote, but for one field."""
    hints = get_type_hints(cls)
    types: dict[str, Any] = {}
    for each in fields(cls):
        if each.init and each.name != without:
            readable = _readable(hints[each.name])
            has_default = (each.default, each.default_factory) != (MISSING, MISSING)
            types[each.name] = NotRequired[readable] if has_default else readable
    mapping = cast("Any", TypedDict)(cls.__name__, types)
    mapping.__pydantic_config__ = ConfigDict(extra="forbid")  # a newer version's field is not dropped in silence
    return TypeAdapter(mapping)


def _readable(hint: Any) -> Any:
    """Return a type with what reads the classes that are written with their names."""
    if hint == Resolution:
        return Annotated[Any, PlainValidator(_tagged)]
    if hint is Ruling:
        return Annotated[Any, PlainValidator(_ruling)]
    if hint is ModelTurn:
        return Annotated[ModelTurn, BeforeValidator(_with_reasons)]
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple([_readable(each) for each in parts])]  # noqa: UP007
    return hint if origin in (None, Annotated) or not parts else _with_parts(hint, origin, parts)


def _with_parts(hint: Any, origin: Any, parts: tuple[Any, ...]) -> Any:
    readable = tuple([_readable(each) for each in parts])
    return hint if readable == parts else origin[readable]


def _with_reasons(data: Any) -> Any:
    if not isinstance(data, dict) or "ended" not in data:
        return cast("Any", data)
    told = cast("dict[str, Any]", data)
    if told.keys() & {"finish_reason", "raw_finish_reason"}:
        raise ValueError("a turn that says twice how it ended")
    reason = told["ended"]
    return {
        **{name: each for name, each in told.items() if name != "ended"},
        "finish_reason": reason,
        "raw_finish_reason": reason,
    }


def _ruling(data: Any) -> Ruling:
    told = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if type(told.get("by")) is not str or told.keys() != {"by", "action"}:
        raise ValueError("a ruling needs the name of its callback and an action")
    return Ruling(told["by"], _tagged(told["action"]))


def _tagged(data: Any) -> Any:
    told = dict(cast("dict[str, Any]", data)) if isinstance(data, dict) else {}
    cls = cast("Any", _TAGGED.get(str(told.pop("is", ""))))
    if cls is None:
        raise ValueError("neither an action of a callback nor a resolution that this version knows")
    problem = ""
    try:
        return cls(**reader_of(cls).validate_python(told))
    except ValidationError as error:
        problem = first_problem(error)
    except (TypeError, ValueError):  # of the class itself: its error may quote a value
        problem = f"a {cls.__name__} that its class refuses"
    raise ValueError(problem)
