"""A model request on a tape: a digest to find it by, and the beginning of each piece for people to read.

The digest covers the model's input: system prompt, messages, tools (in any order) and settings. It does not cover the
number of the turn, nor the model. Fields at their default are left out, so that a field added by a later version does not
make old tapes useless.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property

from understudy.providers.wire.json_values import is_array, is_object
from understudy.vocabulary.messages import JsonObject, JsonValue, ModelRequest

from .redaction import Redactor

SHOWN = 200  # Characters of each piece on a tape: enough for a person to recognise it, and a long history stays short.
AROUND = 60  # Characters of a difference in an error.
LISTED = 5  # Differing pieces named in an error; nobody reads more.
TOLD_APART = ("messages", "system", "tools", "settings", "turn")


@dataclass(frozen=True)
class Piece:
    """A part of a request, without its secrets."""

    name: str
    """`system prompt`, `message 1`, `tool find`, `settings`, or a further field of the request."""
    digest: str
    shows: str
    """Its beginning."""


@dataclass(frozen=True)
class Asked:
    """A request in pieces, always in the same order."""

    pieces: tuple[Piece, ...]

    @cached_property
    def digest(self) -> str:
        """Equal for equal requests, in every process."""
        return _digest([[piece.name, piece.digest] for piece in self.pieces])

    @cached_property
    def by_name(self) -> Mapping[str, Piece]:
        """The pieces."""
        return {piece.name: piece for piece in self.pieces}


def asked(request: ModelRequest, redactor: Redactor) -> Asked:
    """Split a request into pieces, with secrets hidden.

    Raises:
        TypeError: JSON cannot hold a value of the request.
    """
    tools = sorted(request.tools, key=lambda tool: tool.name)
    found: list[tuple[str, object]] = [("system prompt", request.system)]
    found += [(f"message {number}", message) for number, message in enumerate(request.messages, 1)]
    found += [(f"tool {redactor.text(tool.name)}", tool) for tool in tools]
    found += [("settings", request.settings)]
    usual = ModelRequest(())
    others = [(f.name, getattr(request, f.name)) for f in fields(request) if f.name not in TOLD_APART]
    found += [(name, value) for name, value in others if value != getattr(usual, name)]
    return Asked(tuple([_piece(name, redactor.plain(value)) for name, value in found]))


def _piece(name: str, tree: JsonValue) -> Piece:
    shown = _shown(tree)
    return Piece(name, _digest(tree), shown if len(shown) <= SHOWN else shown[:SHOWN] + "…")


def _digest(tree: JsonValue) -> str:
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# --- for people


def _shown(tree: JsonValue) -> str:
    if isinstance(tree, str):
        return tree
    if is_object(tree) and is_array(parts := tree.get("parts")):
        return f"{tree.get('role')}: " + " ".join([_shown_part(part) for part in parts if is_object(part)])
    return _json(tree)


def _shown_part(part: JsonObject) -> str:
    match part.get("kind"):
        case "text":
            return str(part.get("text", ""))
        case "tool_call":
            return f"{part['name']}({part.get('bad_arguments') or _json(part.get('arguments', {}))})"
        case "tool_result":
            return f"{part.get('name', '')} {'failed' if part.get('is_error') else 'gave'}: {part['content']}"
        case kind:
            return f"({kind})"


def _json(tree: JsonValue) -> str:
    return json.dumps(tree, ensure_ascii=False)


def differences(recorded: Asked, now: Asked) -> list[str]:
    """Return the names of the pieces that differ."""
    names = {**now.by_name, **recorded.by_name}
    return [name for name in names if _digest_in(recorded, name) != _digest_in(now, name)]


def _digest_in(request: Asked, name: str) -> str | None:
    piece = request.by_name.get(name)
    return None if piece is None else piece.digest


def explained(recorded: Asked, now: Asked) -> str:
    """Return a text that names the differing pieces, and shows the first difference."""
    names = differences(recorded, now)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{', '.join(names[:LISTED])}{more}; {_explained(names[0], recorded, now)}"


def _explained(name: str, recorded: Asked, now: Asked) -> str:
    old, new = recorded.by_name.get(name), now.by_name.get(name)
    if old is None:
        return f"{name} was not there when it was recorded"
    if new is None:
        return f"{name} was there when it was recorded"
    if old.shows == new.shows:
        return f"{name} differs in what the tape does not show"
    start = max(0, _same_beginning(old.shows, new.shows) - AROUND // 3)
    return f"{name} was {_cut(old.shows, start)!r}, and is {_cut(new.shows, start)!r}"


def _same_beginning(old: str, new: str) -> int:
    differing = [i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b]
    return differing[0] if differing else min(len(old), len(new))


def _cut(text: str, start: int) -> str:
    end = start + AROUND
    return ("…" if start else "") + text[start:end] + ("…" if len(text) > end else "")
