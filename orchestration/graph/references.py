"""`${…}` in prompts: what a text refers to, and the text with the values in place. Functions of their arguments."""

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
    """What stands between the braces: a name, and keys into its value."""

    name: str
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "${" + ".".join((self.name, *self.keys)) + "}"


def references(text: str) -> list[Reference]:
    """Return what a text refers to, in order; `$${` stands for `${` itself.

    Raises:
        ValueError: something between braces is no name with keys, or a brace is not closed.
    """
    return [_read(found) for found in PLACE.finditer(text) if found.group() != "$${"]


def reference(text: str) -> Reference:
    """Return the one thing that a text refers to, which must be all of it.

    Raises:
        ValueError: it is more or less than one reference.
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
    """Return a text with the values in place, each inserted as it is; what is inserted is not looked through again."""
    return PLACE.sub(lambda found: "${" if found.group() == "$${" else value_of(_read(found)), text)


def value_at(value: JsonValue, keys: tuple[str, ...], whose: Reference) -> JsonValue:
    """Return what stands in a value under keys; text that is JSON is looked into.

    Raises:
        ValueError: there is nothing.
    """
    for key in keys:
        inside = from_text(value) if isinstance(value, str) else value
        if not isinstance(inside, Mapping) or key not in inside:
            there = ", ".join(map(str, inside)) if isinstance(inside, Mapping) else f"no object, but {_short(inside)}"
            raise ValueError(f"{whose} has no {key!r}; there is: {there or 'nothing'}")
        value = inside[key]
    return value


def as_text(value: JsonValue) -> str:
    """Return a value as it is inserted: text bare, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def from_text(text: str) -> JsonValue:
    """Return what a text is as JSON, or what its one fenced block is; the text itself if it is none."""
    blocks = fenced(text)
    try:
        return cast(JsonValue, json.loads(blocks[0] if len(blocks) == 1 else text))
    except (ValueError, RecursionError):
        return text


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
