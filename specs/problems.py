"""What is wrong with a spec and where, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from understudy.errors import SpecError


class Place(NamedTuple):
    """A line and a column of a text, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    source: str
    """The file, or `<text>`."""
    place: Place
    message: str

    def __str__(self) -> str:
        return f"{self.source}:{self.place.line}:{self.place.column}: {self.message}"


def spec_error(problems: Iterable[Problem], sources: Iterable[str] = ()) -> SpecError:
    """Make the error that lists all problems, in the order of the text, file by file: `newsroom.yaml:3:5: …`."""
    unique = list(dict.fromkeys(problems))
    position = {source: number for number, source in enumerate(sources)}
    unique.sort(key=lambda problem: (position.get(problem.source, 0), problem.place, problem.message))
    return SpecError("\n".join(map(str, unique)))


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'model'?` if one of the known names is near, else an empty text."""
    near = get_close_matches(given, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def listed(names: Iterable[str], otherwise: str = "none") -> str:
    """Return the names with commas between them, in the order given."""
    return ", ".join(names) or otherwise
