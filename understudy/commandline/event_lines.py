"""Prints a run for programs: one event a line, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TextIO, TypeAlias, cast

from understudy.orchestration.front_ends.event_json import event_json
from understudy.orchestration.front_ends.sse import json_text
from understudy.vocabulary.runs.events import Event, RunFailed, RunFinished
from understudy.vocabulary.runs.outcomes import Outcome

from .piece_writer import PieceWriter

Ended: TypeAlias = "Outcome[object] | BaseException"


class EventLines:
    """Prints each event of a run and of those inside as a line of JSON. The last line is the run's end.

    Args:
        out: the stream.
        without_vain_token: returns how a run ended without a token that nobody can use.
    """

    def __init__(self, out: TextIO, without_vain_token: Callable[[Ended], Ended]) -> None:
        self._lines = PieceWriter(out)
        self._without_vain_token = without_vain_token
        self._is_over = False

    def see(self, event: Event) -> None:
        if isinstance(event, (RunFinished, RunFailed)):
            event, self._is_over = self._with_useful_token(event), True
        self._lines.write(f"{json_text(event_json(event))}\n")

    def close(self) -> None:
        """Do nothing: lines stay."""

    def settle(self, answer: str, aside: str) -> tuple[str, str]:
        """Return nothing to print, unless no reader got the run's end: then people are told."""
        return "", "" if self._is_over and self._lines.problem is None else aside

    def check(self) -> None:
        self._lines.check()

    def _with_useful_token(self, event: RunFinished | RunFailed) -> RunFinished | RunFailed:
        if isinstance(event, RunFinished):
            return replace(event, outcome=cast("Outcome[object]", self._without_vain_token(event.outcome)))
        self._without_vain_token(event.error)
        return event
