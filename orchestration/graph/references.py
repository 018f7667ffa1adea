"""`${…}` in prompts: finds the references of a text and fills in their values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from understudy.vocabulary.json_text import fenced
from understudy.vocabulary.messages import JsonValue

NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
PLACE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
WHOLE = re.compile(rf"\s*({NAME})((?:\.{NAME})*)\s*")


@dataclass(frozen=True, slots=True)
class Reference:
    """The content of the braces: a name, and keys into its value."""

    name: str
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "${" + ".".join((self.name, *self.keys)) + "}"


def references(text: str) -> list[Reference]:
    """Return the references of a text, in order; `$${` is an escaped `${`.

    Raises:
        ValueError: a reference is no name with keys, or a brace is not closed.
    """
    return [_read(found) for found in PLACE.finditer(text) if found.group() != "$${"]


def reference(text: str) -> Reference:
    """Return the reference that the whole text consists of.

    Raises:
        ValueError: the text is anything but one reference.
    """
    found = PLACE.fullmatch(text.strip())
    if found is None or found.group() == "$${":
        raise ValueError(f"expected one reference, such as ${{name}} or ${{task.key}}, got {text!r}")
    return _read(found)


def _read(found: re.Match[str]) -> Reference:
    inner = found.group(1)
    whole = None if inner is None else WHOLE.fullmatch(inner)
    if whole is None:
        raise ValueError(
            f"{found.group()!r} is no reference: expected ${{name}} or ${{task.key}}; write $${{ for the characters themselves"
        )
    return Reference(whole.group(1), tuple(whole.group(2).split(".")[1:]))


def bound(text: str, value_of: Callable[[Reference], str]) -> str:
    """Return a text with the values in place of the references. References inside of a value are not filled."""
    return PLACE.sub(lambda found: "${" if found.group() == "$${" else value_of(_read(found)), text)


def value_at(value: JsonValue, keys: tuple[str, ...], whose: Reference) -> JsonValue:
    """Follow keys into a value, also into text that is JSON.

    Raises:
        ValueError: there is no such key.
    """
    for key in keys:
        inside = from_text(value) if isinstance(value, str) else value
        if not isinstance(inside, Mapping) or key not in inside:
            there = ", ".join(map(str, inside)) if isinstance(inside, Mapping) else f"no object, but {_short(inside)}"
            raise ValueError(f"{whose} has no {key!r}; there is: {there or 'nothing'}")
        value = inside[key]
    return value


def as_text(value: JsonValue) -> str:
    """Return the text that stands for a value in a prompt: a text itself, any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def from_text(text: str) -> JsonValue:
    """Return the value of a JSON text, or of its only fenced block; the text itself if there is no JSON."""
    blocks = fenced(text)
    try:
        return cast(JsonValue, json.loads(blocks[0] if len(blocks) == 1 else text))
    except (ValueError, RecursionError):
        return text


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
