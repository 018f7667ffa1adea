"""What the rows of a journal tell, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from understudy.orchestration.runs.events import ResultCame, RunEvent
from understudy.orchestration.runs.lines import line_of

EARLY = "SELECT body FROM understudy_run_rows WHERE kind = 'line' AND body LIKE '\n%' ORDER BY id"
"""The bodies of the rows of results that were written while other calls of their round ran."""


def is_early(body: str) -> bool:
    """Whether the body of a line's row has the result of a call that was done while others ran, and nothing after it."""
    return body.startswith("\n")


def events_in(bodies: Iterable[str]) -> Iterator[RunEvent]:
    """Yield the events in bodies of a line's rows."""
    for body in bodies:
        yield from [entry.event for entry in line_of(body.partition("\n")[2])]


def results_in(bodies: Iterable[str]) -> list[ResultCame]:
    """Return the results in bodies of a line's rows."""
    return [event for event in events_in(bodies) if isinstance(event, ResultCame)]
