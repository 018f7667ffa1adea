"""The tools of the newsroom: they read the real files in `data/`, and one of them prints.

The examples in the annotations tell a model what arguments look like; in rehearsal they are the arguments.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field

import understudy as us

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
PRINTED = HERE / "printed"
LONGEST_SENTENCE = 25  # Words; this and the next one as the house style says.
LONGEST_HEADLINE = 60  # Characters.
FIGURE = re.compile(r"\d+(?:[.,:]\d+)*(?:\s?(?:m|cm|euro|people|households|days)\b)?")


@dataclass(frozen=True)
class Tide:
    """One line of the tide table."""

    day: date
    time: str
    water: str
    metres: float


@us.tool(idempotent=True)
def list_reports() -> str:
    """List the reports that came in, with their first lines."""
    files = sorted((DATA / "wire").glob("*.txt"))
    return "\n".join([f"{len(files)} reports:", *[f"{file.name}: {_lines(file)[0]}" for file in files]])


@us.tool(idempotent=True)
def read_report(
    name: Annotated[str, Field(description="file name, as listed", examples=["01-harbour-office.txt"])],
) -> str:
    """Read one report."""
    files = {file.name: file for file in (DATA / "wire").glob("*.txt")}
    if name not in files:
        raise ValueError(f"no report {name!r}; there are {', '.join(sorted(files))}")
    return files[name].read_text(encoding="utf-8")


@us.tool(idempotent=True)
def tide_table(
    first_day: Annotated[date, Field(description="the first day", examples=["2026-11-24"])],
    days: Annotated[int, Field(description="how many days", ge=1, le=14, examples=[3])],
) -> str:
    """Look up high and low water for some days; says which is the highest."""
    last = first_day + timedelta(days=days - 1)
    tides = [tide for tide in _tides() if first_day <= tide.day <= last]
    if not tides:
        known = sorted({tide.day for tide in _tides()})
        raise ValueError(f"no tides from {first_day} to {last}; the table goes from {known[0]} to {known[-1]}")
    top = max(tides, key=lambda tide: tide.metres)
    lines = [f"{tide.day:%a %d %b} {tide.time} {tide.water} {tide.metres:.2f} m" for tide in tides]
    return "\n".join([f"highest: {top.metres:.2f} m on {top.day:%A %d %B} at {top.time}. All:", *lines])


@us.tool(idempotent=True)
def search_archive(
    word: Annotated[str, Field(description="word or part of one", min_length=3, examples=["spring tide"])],
) -> str:
    """Find what the paper printed before; gives file, line number and line."""
    files = sorted((DATA / "archive").glob("*.md"), reverse=True)
    found = [
        f"{file.name}:{n}: {line}" for file in files for n, line in _numbered(file) if word.lower() in line.lower()
    ]
    return "\n".join([f"{len(found)} lines of {len(files)} articles hold {word!r}, the latest first:", *found])


@us.tool(idempotent=True)
def check_figures(
    text: Annotated[
        str,
        Field(
            description="what is to be printed",
            examples=[
                "The table says 5.83 m for Wednesday, the harbour office 6.10 m; the pier is under water from 5.95 m."
            ],
        ),
    ],
) -> str:
    """Look each figure of a text up in the reports, the tide table and the archive; says which stand nowhere."""
    sources = [*sorted(DATA.glob("*/*.txt")), *sorted(DATA.glob("*/*.md")), DATA / "tides.csv"]
    figures = dict.fromkeys([found.group() for found in FIGURE.finditer(text)])
    places = {figure: _place_of(figure, sources) for figure in figures}
    nowhere = [figure for figure, place in places.items() if not place]
    lines = [f"{figure}: {place or 'stands nowhere'}" for figure, place in places.items()]
    return "\n".join([f"{len(nowhere)} of {len(places)} figures stand nowhere. All:", *lines])


@us.tool(idempotent=True)
def check_style(
    headline: Annotated[str, Field(examples=["Spring tide chaos: gate closes on three mornings"])],
    text: Annotated[
        str, Field(examples=["The gate closes on three mornings. The ferry company says boats stay in port."])
    ],
) -> str:
    """Check a text against the house style; gives what breaks it."""
    banned = _banned_words()
    wrong = [f"the word {word!r}" for word in sorted(banned & set(re.findall(r"[a-z]+", f"{headline} {text}".lower())))]
    if len(headline) > LONGEST_HEADLINE:
        wrong.append(f"a headline of {len(headline)} characters")
    for sentence in re.split(r"(?<=[.!?])\s+", text):
        words = len(sentence.split())
        if words > LONGEST_SENTENCE:
            wrong.append(f"a sentence of {words} words: {sentence[:40]}…")
    return f"{len(wrong)} things break the house style: {'; '.join(wrong) or 'none'}"


@us.tool(approval=True)
def print_story(
    headline: Annotated[
        str, Field(description="one line", min_length=1, examples=["Flood gate closes on three mornings"])
    ],
    text: Annotated[str, Field(examples=["The flood gate at the old lock closes on 24, 25 and 26 November."])],
) -> str:
    """Print the story, once a person has agreed."""
    PRINTED.mkdir(exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", headline.lower()).strip("-")[:60] or "story"
    file = PRINTED / f"{name}.md"
    file.write_text(f"# {headline}\n\n{text}\n", encoding="utf-8")
    return f"printed {len(text.split())} words in {PRINTED.name}/{file.name}"


def _tides() -> Iterator[Tide]:
    with (DATA / "tides.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            yield Tide(date.fromisoformat(row["date"]), row["time"], row["water"], float(row["metres"]))


def _place_of(figure: str, sources: list[Path]) -> str:
    """Return `file:line` of the first source that has the figure, whatever its unit; an empty text if none has."""
    number = re.match(r"[\d.,:]*\d", figure)
    wanted = re.compile(rf"(?<!\d)(?<!\d[.,:]){re.escape(number.group() if number else figure)}(?![\d]|[.,:]\d)")
    for file in sources:
        for line_number, line in _numbered(file):
            if wanted.search(line):
                return f"{file.name}:{line_number}"
    return ""


def _banned_words() -> set[str]:
    line = next(line for line in _lines(DATA / "style.md") if "not ours:" in line)
    return {word.strip() for word in line.partition("not ours:")[2].split(",")}


def _numbered(file: Path) -> list[tuple[int, str]]:
    return list(enumerate(_lines(file), start=1))


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()
