"""`MapRun`, the machine of a `map`: when to take an input, which answer to hand out next, and when to end."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from understudy.vocabulary.runs.outcomes import MapAnswer, MapFailure

Answered: TypeAlias = MapAnswer[object] | MapFailure


@dataclass(frozen=True, slots=True)
class TakeInput:
    """Take one more input and start its run: report `took`, or `no_more_inputs`."""


@dataclass(frozen=True, slots=True)
class HandOut:
    """Give the caller this answer, and report `handed_out`."""

    answer: Answered


@dataclass(frozen=True, slots=True)
class AwaitAnswers:
    """Wait until one of the runs in flight ends, and report it with `answered`."""


@dataclass(frozen=True, slots=True)
class MapFailed:
    """Raise the error of this failure; the runs in flight are cancelled."""

    failure: MapFailure


@dataclass(frozen=True, slots=True)
class MapDone:
    """All inputs are answered."""


MapStep: TypeAlias = TakeInput | HandOut | AwaitAnswers | MapFailed | MapDone


class MapRun:
    """The machine of one `map`. It does no I/O and is driven by one thread.

    Args:
        max_parallel: how many runs may be in flight at once.
        ordered: whether answers are handed out in the order of the inputs.
        keep_errors: whether a failure is handed out like an answer; otherwise the first failure ends the map.
    """

    def __init__(self, *, max_parallel: int, ordered: bool, keep_errors: bool) -> None:
        self._max_parallel = max_parallel
        self._ordered = ordered
        self._keep_errors = keep_errors
        self._taken = 0
        self._answered = 0
        self._handed_out = 0
        self._exhausted = False
        self._ready: deque[Answered] = deque()
        """Answers in the order in which they are handed out."""
        self._early: dict[int, Answered] = {}
        """Index -> an answer that waits for earlier answers; empty unless answers are ordered."""
        self.failure: MapFailure | None = None
        """The failure that ends the map; the runtime cancels the other runs."""

    def next_step(self) -> MapStep:
        """Return the next step; the same step until a report is fed."""
        if self._may_take():
            return TakeInput()
        if self._ready:
            return HandOut(self._ready[0])
        if self.failure is not None:
            return MapFailed(self.failure)
        return AwaitAnswers() if self._answered < self._taken else MapDone()

    def _may_take(self) -> bool:
        if self._exhausted or self.failure is not None:
            return False
        # With ordered answers, as many again may wait behind a slow run, so that the places stay in use.
        window = self._max_parallel * 2 if self._ordered else self._max_parallel
        return self._taken - self._answered < self._max_parallel and self._taken - self._handed_out < window

    def took(self) -> int:
        """Note that an input was taken, and return its index."""
        self._taken += 1
        return self._taken - 1

    def no_more_inputs(self) -> None:
        """Note that all inputs were taken."""
        self._exhausted = True

    def answered(self, answer: Answered) -> None:
        """Take the answer or failure of an input; ignored after the failure that ends the map."""
        self._answered += 1
        if self.failure is not None:
            return
        if isinstance(answer, MapFailure) and not self._keep_errors:
            self.failure = answer
        elif not self._ordered:
            self._ready.append(answer)
        else:
            self._early[answer.index] = answer
            while (following := self._handed_out + len(self._ready)) in self._early:
                self._ready.append(self._early.pop(following))

    def handed_out(self) -> None:
        """Note that the answer of the last step was handed out."""
        self._ready.popleft()
        self._handed_out += 1
