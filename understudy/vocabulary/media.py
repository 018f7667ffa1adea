"""Checks pictures and documents, and describes them in words."""

from __future__ import annotations

import base64
from typing import TypeAlias

from .media_types import checked_type
from .messages import FilePart, ImagePart

Media: TypeAlias = ImagePart | FilePart

TEXTS = ("application/json", "application/xml", "application/yaml", "application/x-yaml")


def check_media(part: Media) -> None:
    """Check a picture or a document.

    Raises:
        TypeError: a field is no text.
        ValueError: both data and url are missing, the data is no base64, or the media type does not fit.
    """
    what = "an image" if isinstance(part, ImagePart) else "a file"
    if not (isinstance(part.data, str) and isinstance(part.url, str)):
        raise TypeError(f"{what} has its data as text in base64, or a url; make it of bytes with from_bytes()")
    checked_type(part.media_type)
    if isinstance(part, ImagePart) and not part.media_type.startswith("image/"):
        raise ValueError(f"an image's media type begins with 'image/', got {part.media_type!r}")
    if not part.data and not part.url:
        raise ValueError(f"{what} needs data or a url")
    try:
        base64.b64decode(part.data, validate=True)
    except ValueError as error:
        raise ValueError(f"the data of {what} must be base64: {error}") from error


def text_of(part: Media) -> str | None:
    """Return the text of a text document; None for any other type, and for a document given by its url."""
    if not part.data or not (part.media_type.startswith("text/") or part.media_type in TEXTS):
        return None
    try:
        return base64.b64decode(part.data).decode()
    except ValueError:
        return None


def described(part: Media) -> str:
    """Describe a part in words."""
    what = "image" if isinstance(part, ImagePart) else f"file {part.name!r}" if part.name else "file"
    if part.url:
        return f"{what} at {part.url}"
    size = len(part.data) * 3 // 4 - part.data[-2:].count("=")
    return f"{what} of type {part.media_type}, {size:,} bytes"
