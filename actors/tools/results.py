"""What the model reads of a tool's value: text, and the pictures and documents beside it."""

from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import (
    AsyncIterator,
    Coroutine,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

from understudy.vocabulary.context.artifacts import cut
from understudy.vocabulary.media import Media, check_media, described, text_of
from understudy.vocabulary.messages import FilePart, ImagePart, JsonObject, JsonValue, TextPart, ToolCall, ToolResult
from understudy.vocabulary.tools.artifact_reader import read_artifact
from understudy.vocabulary.tools.definition import Tool
from understudy.vocabulary.tools.options import MAX_RESULT

if TYPE_CHECKING:
    from .tool_call import ToolRun

MAX_MEDIA = 10 * 2**20
"""Characters of base64 in one result: Gemini takes 20 MB in a request, and a history holds several."""

READER = read_artifact.name
BYTES = (bytes, bytearray, memoryview)


class TooLarge(Exception):
    """A tool returned more than a result may hold; the text says how much, and how much may be."""


@dataclasses.dataclass(slots=True)
class Rendered:
    """A tool's value as its result holds it."""

    content: str
    parts: tuple[Media, ...] = ()

    def to_json(self) -> JsonObject:
        """Return it as it goes from process to process."""
        parts: list[JsonValue] = [dataclasses.asdict(part) for part in self.parts]
        return {"content": self.content, "parts": parts}

    @classmethod
    def from_json(cls, data: JsonObject) -> Rendered:
        """Return what `to_json` made a text of."""
        given = cast("Sequence[Mapping[str, str]]", data["parts"])
        return cls(str(data["content"]), tuple([_part(fields) for fields in given]))


def _part(fields: Mapping[str, str]) -> Media:
    if fields["kind"] == "image":
        return ImagePart(fields["data"], fields["media_type"], fields["url"])
    return FilePart(fields["data"], fields["media_type"], fields["url"], fields["name"])


def rendered(value: object) -> Rendered:
    """Return what the model is to get of a tool's value.

    Text is as it is, anything else JSON. Pictures and documents stand by themselves, or in a list or tuple among others; the
    text between them is joined, a line each.

    Raises:
        TypeError: something has no JSON, or a part has what is no text.
        ValueError: a part can be sent to nobody.
        TooLarge: there is more than `MAX_MEDIA` of them, or more text than `MAX_RESULT`.
    """
    parts: tuple[Media, ...] = ()
    if type(value) is str:  # as of most tools
        content = value
    elif isinstance(value, (ImagePart, FilePart)) or _is_mixed(value):
        items = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else (value,)
        parts = tuple([item for item in items if isinstance(item, (ImagePart, FilePart))])
        _check(parts)
        content = "\n".join([_words(item) for item in items if not isinstance(item, (ImagePart, FilePart))])
    else:
        content = _words(value)
    if len(content) > MAX_RESULT:
        raise TooLarge(f"its text has {len(content):,} characters; at most {MAX_RESULT:,} go into a result")
    # Never empty beside parts: people and programs read it too, and an API may refuse a result without text.
    return Rendered(content or "; ".join([described(part) for part in parts]), parts)


def _is_mixed(value: object) -> bool:
    if not isinstance(value, (list, tuple)):
        return False
    return any(isinstance(item, (TextPart, ImagePart, FilePart)) for item in cast("Sequence[object]", value))


def _check(parts: Sequence[Media]) -> None:
    size = sum([len(part.data) for part in parts])
    if size > MAX_MEDIA:
        raise TooLarge(
            f"its images and files have {size:,} characters in base64; at most {MAX_MEDIA:,} go into a result"
        )
    for part in parts:
        check_media(part)


def result_of(call: ToolCall, tool: Tool[..., object], made: Rendered, record: ToolRun) -> ToolResult:
    """Return the result of a call; of a text that is too long for the model the run keeps the whole.

    Raises:
        TooLarge: a document holds more text than the model may get.
    """
    content, limit = made.content, tool.max_result
    if limit is not None:
        if made.parts:
            _check_texts(made.parts, limit)
        if len(content) > limit:
            artifact = record.artifacts.add(call.name, call.id, content)
            reader = f"; {READER} reads more of it" if READER in record.agent.tools_by_name else ""
            content = cut(content, limit, f"; the whole is {artifact.id}{reader}")
    return ToolResult(call.id, content, name=call.name, parts=made.parts)


def _check_texts(parts: Sequence[Media], limit: int) -> None:
    for part in parts:
        text = text_of(part)
        if text is not None and len(text) > limit:
            raise TooLarge(
                f"{described(part)}, is text of {len(text):,} characters; at most {limit:,} go into a result: "
                "return it as text to have it cut"
            )


def _words(value: object) -> str:
    if isinstance(value, Enum):  # its value is what a model passes for it, also where it is text itself
        return _words(value.value)
    if isinstance(value, str):
        return value
    if isinstance(value, TextPart):
        return value.text
    if isinstance(value, (bool, int, float)) or value is None:
        return json.dumps(value)
    dump = getattr(value, "model_dump_json", None)
    if callable(dump):  # a pydantic model
        return str(dump())
    try:
        return json.dumps(value, default=_plain, ensure_ascii=False)
    except TypeError:  # mostly a key, for which `default` is not asked
        return json.dumps(_with_plain_keys(value), ensure_ascii=False)


def _with_plain_keys(value: object) -> object:
    """Return a value as JSON has it, its keys included.

    Raises:
        TypeError: something in it has no JSON.
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, dict):
        given = cast("dict[object, object]", value)
        return {_plain_key(key): _with_plain_keys(held) for key, held in given.items()}
    if isinstance(value, (list, tuple)):
        return [_with_plain_keys(held) for held in cast("Sequence[object]", value)]
    return _with_plain_keys(_plain(value))


def _plain_key(key: object) -> str | float | None:
    plain = key
    while not (plain is None or isinstance(plain, (str, int, float))):  # an `Enum` may hold what is no JSON either
        before, plain = plain, _plain(plain)
        if isinstance(plain, (dict, list, tuple)):
            raise TypeError(f"a key of a dict is a {type(before).__name__}; expected text, a number or what has a str")
    return plain


def _plain(value: object) -> object:
    if isinstance(value, (ImagePart, FilePart)):
        raise TypeError("an image or file is returned by itself, or in a list or tuple; not inside of other values")
    plain = value  # before what is asked of its type narrows it
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, (Iterator, AsyncIterator, Coroutine)):  # its name says nothing, and it may have no end
        raise TypeError("an iterator, generator or coroutine is no value; return what it makes, as in list(…)")
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(cast("set[object]", value), key=repr)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, (Sequence, KeysView, ValuesView, ItemsView)) and not isinstance(value, BYTES):
        return list(cast("Sequence[object]", value))
    number = _number(plain)
    if number is not None:
        return number
    values = _values_of(plain)
    if values is not None:
        return values
    kind = type(plain)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:  # all that a model would read is an address
        raise TypeError(f"{kind.__name__} has neither JSON nor text; return what it holds")
    return str(plain)


def _values_of(value: Any) -> object:
    """Return the values in an array or table of another library, such as numpy or pandas; None if it is neither.

    The `str` of a large one leaves most of them out.
    """
    shape = getattr(value, "shape", ())
    if not isinstance(shape, tuple) or not shape:
        return None
    sizes = cast("tuple[int, ...]", shape)
    if all(isinstance(size, int) for size in sizes) and prod(sizes) > MAX_RESULT:
        raise TooLarge(f"it has {prod(sizes):,} values; at most {MAX_RESULT:,} characters go into a result")
    if hasattr(value, "iloc"):  # pandas; as "split" rows with one label are not lost
        return (value.to_frame() if hasattr(value, "to_frame") else value).to_dict(orient="split")
    if getattr(getattr(value, "dtype", None), "kind", "") in ("M", "m"):  # times, which tolist() would make numbers
        value = value.astype(str)
    listed = next((name for name in ("to_dicts", "to_list", "tolist") if hasattr(value, name)), None)
    return None if listed is None else getattr(value, listed)()


def _number(value: object) -> float | None:
    """Return the number that a value of another library's is, such as an `int64` of numpy's; None if it is none."""
    if getattr(value, "shape", ()) != ():  # an array, also of one number
        return None
    if hasattr(type(value), "__index__"):
        return operator.index(cast("SupportsIndex", value))
    item = getattr(value, "item", None)
    found = item() if callable(item) and hasattr(value, "shape") else None
    return found if isinstance(found, (int, float)) else None
