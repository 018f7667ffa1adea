"""Media types, and bytes as base64."""

from __future__ import annotations

import base64
import re

MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*")


def encoded(data: bytes) -> str:
    """Return bytes in base64.

    Raises:
        TypeError: the argument is no bytes.
        ValueError: it is empty.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"expected the bytes of a file, got {type(data).__name__}")
    if not data:
        raise ValueError("expected the bytes of a file, got none")
    return base64.b64encode(data).decode()


def checked_type(media_type: str) -> str:
    """Return a media type.

    Raises:
        ValueError: the text is no media type.
    """
    if not isinstance(media_type, str) or not MEDIA_TYPE.fullmatch(media_type):
        raise ValueError(f"a media type is such as 'application/pdf', got {media_type!r}")
    return media_type


def image_type(data: bytes, media_type: str | None = None) -> str:
    """Return the media type of an image: the given one, or the one that its first bytes show.

    Raises:
        ValueError: the given type is not that of an image, or the bytes are of an unknown type.
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
