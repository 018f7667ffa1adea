"""Pictures and documents: made of bytes, checked, and told of in words. Functions of their arguments."""

from __future__ import annotations

import base64
import re
from typing import TypeAlias

from .messages import FilePart, ImagePart

Media: TypeAlias = ImagePart | FilePart

MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*")
TEXTS = ("application/json", "application/xml", "application/yaml", "application/x-yaml")


def encoded(data: bytes) -> str:
    """Return bytes in base64.

    Raises:
        TypeError: they are none.
        ValueError: there are none.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"expected the bytes of a file, got {type(data).__name__}")
    if not data:
        raise ValueError("expected the bytes of a file, got none")
    return base64.b64encode(data).decode()


def checked_type(media_type: str) -> str:
    """Return a media type.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(media_type, str) or not MEDIA_TYPE.fullmatch(media_type):
        raise ValueError(f"a media type is such as 'application/pdf', got {media_type!r}")
    return media_type


def image_type(data: bytes, media_type: str | None = None) -> str:
    """Return the media type of an image: the one given, or what its first bytes tell.

    Raises:
        ValueError: the type given is none of an image, or the bytes do not tell.
    """
    found = _told_by(bytes(data[:12])) if media_type is None else checked_type(media_type)
    if found is None:
        raise ValueError("the bytes are no PNG, JPEG, GIF or WebP image; give the media_type of another kind")
    if not found.startswith("image/"):
        raise ValueError(f"an image's media type begins with 'image/', got {found!r}")
    return found


def _told_by(head: bytes) -> str | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:] == b"WEBP" else None


def check_media(part: Media) -> None:
    """Refuse what no API takes.

    Raises:
        TypeError: a field is no text.
        ValueError: there is neither data nor address, the data is no base64, or the media type is none that fits.
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
    """Return the text of a document that is text; None for one that is none, or that is elsewhere."""
    if not part.data or not (part.media_type.startswith("text/") or part.media_type in TEXTS):
        return None
    try:
        return base64.b64decode(part.data).decode()
    except ValueError:
        return None


def described(part: Media) -> str:
    """Return what a part is, in words."""
    what = "image" if isinstance(part, ImagePart) else f"file {part.name!r}" if part.name else "file"
    if part.url:
        return f"{what} at {part.url}"
    size = len(part.data) * 3 // 4 - part.data[-2:].count("=")
    return f"{what} of type {part.media_type}, {size:,} bytes"
