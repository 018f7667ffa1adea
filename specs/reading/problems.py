"""Problems of a spec: a place, a message with a hint, and the error that lists them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import NamedTuple

from understudy.errors import SpecError

MAX_PROBLEMS = 100  # An author mends these before reading more; and each costs a search for the nearest name.
MAX_MESSAGE = 2_000  # Our longest message has 800 characters without the text it quotes.
MAX_NAME, MAX_NAMES = 100, 1_000  # Longer names, or more names, are not compared: it would take minutes.


class Place(NamedTuple):
    """A line and a column of a text, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a spec, with its place."""

    source: str
    """The file, or `<text>`."""
    place: Place
    message: str

    def __post_init__(self) -> None:
        if len(self.message) > MAX_MESSAGE:  # cut in the middle, as a hint is at the end
            half = MAX_MESSAGE // 2
            object.__setattr__(self, "message", f"{self.message[:half]} … {self.message[-half:]}")

    def __str__(self) -> str:
        return f"{self.source}:{self.place.line}:{self.place.column}: {self.message}"


def spec_error(problems: Iterable[Problem], sources: Iterable[str] = ()) -> SpecError:
    """Make the error that lists all problems, in the order of the text, file by file: `newsroom.yaml:3:5: …`."""
    unique = list(dict.fromkeys(problems))
    position = {source: number for number, source in enumerate(sources)}
    unique.sort(key=lambda problem: (position.get(problem.source, 0), problem.place, problem.message))
    more = [f"… and more: only the first {MAX_PROBLEMS} problems are told"] if len(unique) > MAX_PROBLEMS else []
    return SpecError("\n".join([*map(str, unique[:MAX_PROBLEMS]), *more]))


def did_you_mean(given: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return `; did you mean 'model'?` if a known name is similar, else an empty text."""
    near = nearest(given, known, cutoff=cutoff)
    return f"; did you mean {near!r}?" if near else ""


def nearest(given: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the known name most similar to the given one; empty if none is similar."""
    if len(given) > MAX_NAME:
        return ""
    names = {name.lower(): name for name in islice(known, MAX_NAMES) if len(name) <= MAX_NAME}
    near = get_close_matches(given.lower(), names, 1, cutoff)
    return names[near[0]] if near else ""


def listed(names: Iterable[str], otherwise: str = "none") -> str:
    """Return the names with commas between them, in the order given; empty names are left out."""
    return ", ".join(filter(None, names)) or otherwise


def short(text: str) -> str:
    """Return a text in quotes, cut at its end if it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")
