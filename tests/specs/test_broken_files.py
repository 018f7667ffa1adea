"""Specs with the mistakes that people make: all of them are told, each at its place, and nothing else.

A file of `broken/` says itself what is wrong with it, at the end of the line where it is: `# ! `WORD` MESSAGE`, where WORD is
what the place points to (its first one in the line). `# ! 3:5 MESSAGE` is for places that no comment can stand beside.
`…` in a message is anything. A folder is a spec of several files, of which `spec.yaml` is the first.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.spec_objects import ShopError, Verdict
from understudy import AgentCallback, InMemoryMemory, Rehearsal, RunContext, SpecError, Tool, load_spec, tool

FOLDER = Path(__file__).parent / "broken"
SPECS = sorted([*FOLDER.glob("*.yaml"), *FOLDER.glob("*/spec.yaml")])
MARK = re.compile(r"# ! (?:`([^`]+)`|(\d+):(\d+)) (.*?)(?=\s+# ! |$)")


@tool
def by_any_name(text: str) -> str:
    """Do something."""
    return text


@tool
def with_any_fields(fields: dict[str, str]) -> str:
    """Do something."""
    return str(fields)


def is_polite(context: RunContext, text: str) -> bool:
    """Whether a text says please."""
    return "please" in text


def of_one(given: object) -> None:
    """Stand for a function of one argument."""


def of_two(given: object, other: object) -> None:
    """Stand for a function of two arguments."""


OBJECTS: dict[str, object] = {
    "own_model": Rehearsal(),
    "own_memory": InMemoryMemory(),
    "greet": of_one,
    "is_large": of_two,
    "repair": of_two,
    "is_safe": of_two,
    "is_spam": of_one,
    "decide": of_one,
    "ShopError": ShopError,
    "Verdict": Verdict,
}
CALLBACKS = {"audit": AgentCallback()}
TOOLS = ("audit_sales", "find_files", "place_order", "running_out", "search_notes", "summarize_sales", "web_search")
OPEN_TOOLS = ("weigh_all", "write_all")


class Told(NamedTuple):
    """A problem, as it should be told."""

    file: str
    line: int
    column: int
    message: str


def expected_in(file: Path) -> list[Told]:
    """Return what a file says of its own mistakes, in the order of the text."""
    found: list[Told] = []
    for number, line in enumerate(file.read_bytes().decode("utf-8", errors="replace").split("\n"), 1):
        for mark in MARK.finditer(line):
            word, at_line, column, message = mark.groups()
            place = (int(at_line), int(column)) if word is None else (number, line.index(word) + 1)
            found.append(Told(str(file), *place, message))
    return sorted(found)


def fits(message: str, expected: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), message) is not None


def told_by(spec: Path) -> list[Told]:
    """Return the problems of a spec, in the order in which they are told."""
    tools: dict[str, Tool[..., str]] = {name: by_any_name.replace(name=name) for name in TOOLS}
    tools |= {name: with_any_fields.replace(name=name) for name in OPEN_TOOLS}
    with pytest.raises(SpecError) as caught:
        load_spec(spec, tools=tools, callbacks=CALLBACKS, criteria={"polite": is_polite}, objects=OBJECTS)
    found: list[Told] = []
    for line in str(caught.value).split("\n"):
        place = re.fullmatch(r"(.+?\.yaml):(\d+):(\d+): (.+)", line)
        assert place is not None, line
        found.append(Told(place[1], int(place[2]), int(place[3]), place[4]))
    return found


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSROOM_MODEL", "anthropic:claude-haiku-4-5")
    monkeypatch.setenv("NEWSROOM_TURNS", "twelve")


@pytest.mark.parametrize("spec", SPECS, ids=[str(spec.relative_to(FOLDER)) for spec in SPECS])
def test_all_mistakes_are_told_at_their_places_and_nothing_else(spec: Path) -> None:
    files = [spec, *sorted(set(spec.parent.rglob("*.yaml")) - {spec})] if spec.parent != FOLDER else [spec]
    expected = [told for file in files for told in expected_in(file)]

    told = told_by(spec)

    assert [each[:3] for each in told] == [each[:3] for each in expected], "\n".join(map(str, told))
    for is_told, should_be in zip(told, expected, strict=True):
        assert fits(is_told.message, should_be.message), f"{is_told.message}\nis not\n{should_be.message}"
        assert not re.search(r"pydantic|Traceback|validation error|Input should|<[a-z_]+>", is_told.message)


def test_there_are_enough_broken_specs() -> None:
    assert len(SPECS) >= 60
    assert all(any(expected_in(file) for file in spec.parent.rglob("*.yaml")) for spec in SPECS)
