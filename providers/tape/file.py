"""The tape's file, in JSON Lines: a header, then a line for each model call, in the order in which the calls ended.

{"tape": "understudy", "format": 1}
{"request": {"digest": "…", "pieces": [["system prompt", "…", "Be brief."], …]}, "model": "openai:gpt-4o", "turn": {…}}
{"request": {…}, "model": "openai:gpt-4o", "turn": {…}, "stream": [[0.25, 0, 12], …]}
{"request": {…}, "model": "openai:gpt-4o", "error": {"class": "RateLimited", "message": "…", "attributes": {…}}}
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from understudy.providers.wire.json_values import WrongShape, as_object, as_text, inner, is_array, is_object, items
from understudy.vocabulary.messages import JsonObject, JsonValue

from .cuts import Cut, read_cuts
from .requests import Asked, Piece

FORMAT = 1
MAKER = "understudy"


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One recorded call.

    Attributes:
        number: the line's number in the file; the header is line 1.
        model: the name of the model that answered, for people.
        answer: an object with a `turn` or an `error`.
        cuts: how a streamed turn came in pieces; empty for one that came whole.
    """

    number: int
    asked: Asked
    model: str
    answer: JsonObject
    cuts: tuple[Cut, ...] = ()


@dataclass(frozen=True, slots=True)
class Tape:
    """The contents of a file.

    Attributes:
        torn: whether the last line is incomplete, because the process was killed while writing; the line is left out.
    """

    lines: tuple[Line, ...]
    torn: bool


def header() -> bytes:
    """Return the first line of a tape."""
    return _line({"tape": MAKER, "format": FORMAT})


def written(asked: Asked, model: str, answer: JsonObject) -> bytes:
    """Return the line of one call; the caller has removed the secrets."""
    pieces: list[JsonValue] = [[piece.name, piece.digest, piece.shows] for piece in asked.pieces]
    return _line({"request": {"digest": asked.digest, "pieces": pieces}, "model": model, **answer})


def _line(tree: JsonObject) -> bytes:
    text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair cannot be UTF-8; written as \udXXX it is the JSON escape of itself.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def read(path: Path) -> Tape:
    """Read a whole tape; its turns are validated when they are replayed.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a tape, its format is newer, or a line is broken; the message names file and line.
    """
    *whole, rest = path.read_bytes().split(b"\n")
    if not whole and not rest:
        raise ValueError(f"{path}: the file is empty; expected a tape, which begins with a header")
    _check_header(path, whole[0] if whole else rest)
    lines = [_read_line(path, number, text) for number, text in enumerate(whole[1:], 2)]
    torn = False
    if rest and whole:
        try:
            lines.append(_read_line(path, len(whole) + 1, rest))  # an editor may have removed the last line end
        except ValueError:
            torn = True
    return Tape(tuple(lines), torn)


def _check_header(path: Path, text: bytes) -> None:
    try:
        first = json.loads(text)
    except (ValueError, RecursionError):
        first = None
    if not is_object(first) or first.get("tape") != MAKER:
        raise ValueError(f"{path}:1: not a tape: the first line is not the header that recording writes")
    number = first.get("format")
    if number != FORMAT:
        newer = "; a newer version wrote it" if isinstance(number, int) and number > FORMAT else ""
        raise ValueError(f"{path}:1: a tape of format {number!r}; this version reads format {FORMAT}{newer}")


def _read_line(path: Path, number: int, text: bytes) -> Line:
    try:
        return _call(number, as_object(json.loads(text), "the line"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{number}: a broken line: not JSON ({error.msg}, column {error.colno})") from None
    except RecursionError:
        raise ValueError(f"{path}:{number}: a broken line: nested too deeply") from None
    except (WrongShape, UnicodeDecodeError) as error:
        raise ValueError(f"{path}:{number}: a broken line: {error}") from None


def _call(number: int, tree: JsonObject) -> Line:
    if not is_object(tree.get("turn")) and not is_object(tree.get("error")):
        raise WrongShape("it holds neither a turn nor an error")
    request = as_object(tree.get("request"), "request")
    asked = Asked(tuple([_piece(entry) for entry in items(request, "pieces", "request.pieces")]))
    if asked.digest != request.get("digest"):
        raise WrongShape("the request's digest is not that of its pieces")
    answer = {name: inner(tree, name) for name in ("turn", "error") if name in tree}
    return Line(number, asked, as_text(tree.get("model"), "model"), answer, read_cuts(tree.get("stream", ())))


def _piece(entry: JsonValue) -> Piece:
    if not is_array(entry) or len(entry) != 3:
        raise WrongShape("a piece of the request must be a name, a digest and a text")
    name, digest, shows = [as_text(value, "a piece of the request") for value in entry]
    return Piece(name, digest, shows)
