"""What the model reads of a tool's value: text, and the pictures and documents beside it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import cast

from understudy.media import Media, check_media, described, text_of
from understudy.messages import FilePart, ImagePart, JsonObject, JsonValue, TextPart

MAX_MEDIA = (
    10 * 2**20
)  # Characters of base64 in one result: Gemini takes 20 MB in a request, and a history holds several.


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
        TooLarge: there is more than `MAX_MEDIA` of them.
    """
    items = cast("Sequence[object]", value) if _is_mixed(value) else (value,)
    parts = tuple([item for item in items if isinstance(item, (ImagePart, FilePart))])
    if not parts:
        return Rendered("\n".join([_words(item) for item in items]))
    _check(parts)
    words = [_words(item) for item in items if not isinstance(item, (ImagePart, FilePart))]
    # Never empty: people and programs read it too, and an API may refuse a result without text.
    return Rendered("\n".join(words) or "; ".join([described(part) for part in parts]), parts)


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


def check_texts(parts: Sequence[Media], limit: int) -> None:
    """Refuse a document whose text is longer than a result's may be.

    Raises:
        TooLarge: it is.
    """
    for part in parts:
        text = text_of(part)
        if text is not None and len(text) > limit:
            raise TooLarge(
                f"{described(part)}, is text of {len(text):,} characters; at most {limit:,} go into a result: "
                "return it as text to have it cut"
            )


def _words(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, TextPart):
        return value.text
    if isinstance(value, (bool, int, float)) or value is None:
        return json.dumps(value)
    dump = getattr(value, "model_dump_json", None)
    if callable(dump):  # a pydantic model
        return str(dump())
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, (ImagePart, FilePart)):
        raise TypeError("an image or file is returned by itself, or in a list or tuple; not inside of other values")
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(cast("set[object]", value), key=repr)
    return str(value)
