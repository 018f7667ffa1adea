"""`ParallelRun`: children that run at the same time; all results count, or the first success."""

from __future__ import annotations

import json
from collections.abc import Iterable

from understudy.errors import SeveralErrors
from understudy.vocabulary.messages import Part
from understudy.vocabulary.runs.outcomes import Complete

from .children import ChildFailure, ChildResult
from .group_run import PlainRun
from .outcome import complete, results_of


class ParallelRun(PlainRun):
    """The run of a parallel group.

    When a child pauses, the others finish; the group pauses when no child runs. With `first`, a pause is no success:
    the group goes on while a child runs that may succeed.
    """

    __slots__ = ()

    def _eligible(self) -> Iterable[int]:
        return [position for position, child in enumerate(self._state.children) if child.phase == "pending"]

    def _due(self) -> list[int]:
        return [] if self._is_won() else super()._due()

    def expects(self, position: int) -> bool:
        return not self._is_won() and super().expects(position)

    def child_at_limit(self, position: int, saved: str, failure: ChildFailure, error: Exception | None = None) -> None:
        if self._spec.merge != "first" and self._spec.on_error == "collect":  # as any other failure
            self.child_failed(position, failure, error)
        else:
            super().child_at_limit(position, saved, failure, error)

    def _is_won(self) -> bool:
        """Whether the outcome is decided, so that children still running do not count."""
        return self._spec.merge == "first" and len(self._state.order) > len(self._failed)

    def _input_of(self, position: int) -> str | tuple[Part, ...]:
        return self._state.input

    def _failure(self) -> Exception | None:
        if not self._failed:
            return None
        if self._spec.merge != "first" and self._spec.on_error == "fail":
            return self._failures()[0]
        if len(self._failed) < len(self._state.children):
            return None
        what = "no child of {!r} succeeded" if self._spec.merge == "first" else "every child of {!r} failed"
        return SeveralErrors(what.format(self._spec.runner_id), self._failures())

    def _outcome(self) -> Complete[str] | None:
        if self._spec.merge == "first":
            winner = self._winner()
            if winner is None:
                return None
            return complete(self._spec.runner_id, self._state, winner.text, "the first child to succeed completed")
        if len(self._state.order) < len(self._state.children):
            return None
        texts = [None if child.result is None else child.result.text for child in self._state.children]
        reason = "all children completed"
        if None in texts:
            reason = f"{len(texts) - texts.count(None)} of {len(texts)} children completed; the others failed"
        last = results_of(self._state)[-1].text
        combined = json.dumps(texts, ensure_ascii=False)
        return complete(self._spec.runner_id, self._state, last, reason, combined_text=combined)

    def _winner(self) -> ChildResult | None:
        if not self._is_won():
            return None
        return next(r for p in self._state.order if (r := self._state.children[p].result) is not None)

    def _results_to_merge(self) -> Iterable[ChildResult]:
        if self._spec.merge != "first":
            return super()._results_to_merge()
        winner = self._winner()
        return [] if winner is None else [winner]
