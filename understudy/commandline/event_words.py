"""Words for the events of a run and its inner runs, names of runs, and the time each took."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from understudy.errors import kind_and_message
from understudy.vocabulary.runs.events import (
    ChildFinished,
    ChildStarted,
    CompactionFailed,
    ContextCompacted,
    Event,
    RetryScheduled,
    SessionConflict,
    ToolProgress,
)
from understudy.vocabulary.runs.outcomes import Complete

from .report import one_line

ABOUT_NOW = 0.05  # Seconds; a shorter wait would be shown as 0.0 s.


class Progress(Protocol):
    """Shows the events of one run and of its inner runs."""

    def see(self, event: Event) -> None:
        """Show an event, or ignore it."""
        ...

    def close(self) -> None:
        """Remove temporary lines until the next event. A second call does nothing."""
        ...


class Display(Protocol):
    """Shows the events of one run, and knows what is left to print at its end."""

    def see(self, event: Event) -> None:
        """Show an event, or ignore it."""
        ...

    def close(self) -> None:
        """Remove temporary lines until the next event."""
        ...

    def settle(self, answer: str, aside: str) -> tuple[str, str]:
        """Take the texts for standard output and standard error, and return what is left to print of them."""
        ...

    def check(self) -> None:
        """Raise `OutputFailed` if something could not be written."""
        ...


class Stopwatch:
    """Measures calls and runs. Ids of calls are unique within a turn of one run, and no call outlasts its turn."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began: dict[tuple[str, str], float] = {}

    def start(self, run_id: str, call_id: str = "") -> None:
        """Start to measure a call, or a run."""
        self._began[run_id, call_id] = self._clock()

    def stop(self, run_id: str, call_id: str = "") -> float:
        """Return the seconds since its start."""
        now = self._clock()
        return now - self._began.pop((run_id, call_id), now)


class Names:
    """Names of runs: the path to the run, with a number if several runs at one place have the same id."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._runs: dict[str, list[str]] = {}
        """The runs that have one way and id, in the order in which they began."""

    def of(self, event: Event) -> str:
        """Return the name of an event's run, such as `report > panel #2 > clerk`; empty for the run of a single agent."""
        name = self._name(event.run_id, " > ".join(event.path))
        if isinstance(event, ChildStarted):
            self._name(event.child_run_id, f"{name} > {event.runner_id}")
        elif len(event.path) < 2 and not _is_of_a_group(event):
            return ""
        return name

    def _name(self, run_id: str, unnumbered: str) -> str:
        if run_id not in self._names:
            runs = self._runs.setdefault(unnumbered, [])
            runs.append(run_id)
            self._names[run_id] = unnumbered + (f" #{len(runs)}" if len(runs) > 1 else "")
        return self._names[run_id]


def _is_of_a_group(event: Event) -> bool:
    return isinstance(event, (ChildFinished, SessionConflict)) or (
        isinstance(event, RetryScheduled) and event.what == "task"
    )


def shown_progress(event: ToolProgress) -> str:
    """Return the progress of a call on one line: its text, and the amount done of the total."""
    share = "" if event.done is None else _number(event.done)
    if event.total is not None:
        share = f"{share or '?'} of {_number(event.total)}"
    return one_line(" ".join([words for words in (event.text, share) if words]))


def _number(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.2f}".rstrip("0").rstrip(".")


def child_of(event: ChildStarted | ChildFinished) -> str:
    """Return a child's name: its runner, and its task in a workflow."""
    return f"task {event.task} ({event.runner_id})" if event.task else event.runner_id


def retried(event: RetryScheduled) -> str:
    """Return the name of the retried work: a tool, or a task and its runner; empty for a model call."""
    if event.what == "task":
        return f"task {event.task} ({event.runner_id})"
    return "" if event.call is None else event.call.name


def shown_retry(event: RetryScheduled) -> str:
    """Return the time of the next attempt and the error before it, on one line."""
    when = "at once" if event.wait < ABOUT_NOW else f"in {event.wait:.1f} s"
    return one_line(f"trying again {when}: {kind_and_message(event.error)}")


def ending_of(event: ChildFinished) -> tuple[str, str]:
    """Return how a child ended, as a verb and the rest."""
    match event.outcome:
        case None:
            return "failed", "" if event.error is None else one_line(kind_and_message(event.error))
        case Complete(text=text):
            return "gave", one_line(text)
        case unfinished:
            return "stopped", one_line(unfinished.completion_reason)


def shown_compaction(event: ContextCompacted | CompactionFailed) -> str:
    """Return what a compaction did to the next request, on one line."""
    if isinstance(event, CompactionFailed):
        return one_line(f"the conversation was not summed up: {type(event.error).__name__}: {event.error}")
    what = "summed up" if event.how == "summarized" else "without old tool results"
    return f"conversation {what}: about {event.tokens_before:,} -> {event.tokens_after:,} tokens"


def shown_conflict(event: SessionConflict) -> str:
    """Return which keys of the session are in conflict."""
    return one_line(f"session keys left in different ways: {', '.join(event.keys)}")
