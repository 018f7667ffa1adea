"""Checks the options of a client when it is made. Each check raises a TypeError or ValueError that names the option."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
"""What stands in a path begins with a letter or digit: servers read `..` as the folder above."""
HOST = re.compile(r"[A-Za-z0-9._\-\u0080-\U0010ffff]+|[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")
"""Names, letters of any language included, and IPv4 and IPv6 addresses."""


def checked_model(model: str) -> str:
    """Return the name of a model; raises TypeError or ValueError if it cannot be one."""
    if not isinstance(model, str):
        raise TypeError(f"model must be a string, got {type(model).__name__}")
    if not model.strip() or not model.isprintable():
        raise ValueError(f"model must be the name of a model, got {model!r}")
    return model.strip()


def checked_url(url: str, name: str = "base_url") -> str:
    """Return an address without its last slash; `name` is its name in the error."""
    if not isinstance(url, str):
        raise TypeError(f"{name} must be a string, got {type(url).__name__}")
    problem = _problem_of(url)
    if problem:
        raise ValueError(f"{name} must look like https://host/path{problem}")
    return url.rstrip("/")


def _problem_of(url: str) -> str:
    """Return the problem of an address, or an empty text; it quotes nothing, as any part may be a key or password."""
    if " " in url or not url.isprintable():  # urlsplit leaves some of these out
        return ", and must not hold a space, a line break or another character that is not shown"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # its text quotes the address
        return ", and its host or port cannot be read"
    if parts.username is not None or parts.password is not None:
        return ", and must not hold a user or password; pass the key by its own parameter"
    if parts.query or parts.fragment:
        return ", and must not hold a query or fragment; pass the key by its own parameter"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ", and has no 'http://' or 'https://' with a host after it"
    if not HOST.fullmatch(parts.hostname):
        return ", and its host has a character that no host's name has"
    return ""


def checked_root(url: str, version: str, ends: Sequence[str] = (), name: str = "base_url") -> str:
    """Return an address as `checked_url` does; it must end before what the client adds.

    Args:
        url: the address.
        version: what the client adds first; empty for nothing.
        ends: what paths of the client end in.
        name: of the address in the error.
    """
    root = checked_url(url, name)
    added = next((end for end in ends if root.endswith(end)), "")
    if added:
        raise ValueError(
            f"{name} must look like https://host/path, and must end before {added!r}, which the client adds"
        )
    if version and root.endswith(f"/{version}"):
        raise ValueError(f"{name} must be the address without a version: the client adds '/{version}' itself")
    return root


def checked_count(value: int, name: str) -> int:
    """Return a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value


def checked_version(version: str) -> str:
    """Return an `api_version` that can stand in a path or header."""
    if not isinstance(version, str):
        raise TypeError(f"api_version must be a string, got {type(version).__name__}")
    if not WORD.fullmatch(version):
        raise ValueError(f"api_version must be a word such as 'v1' or '2023-06-01', got {version!r}")
    return version


def checked_word(word: str, name: str) -> str:
    """Return a project or location that can stand in a path."""
    if not isinstance(word, str):
        raise TypeError(f"{name} must be a string, got {type(word).__name__}")
    if not ID.fullmatch(word):
        raise ValueError(f"{name} must be an id of Google Cloud's, got {word!r}")
    return word
