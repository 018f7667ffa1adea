"""`ParallelRun`: children at the same time, of which all count, or the first that succeeds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from understudy.messages import Part
from understudy.outcomes import Complete

from .children import ChildResult
from .group_run import PlainRun


class ParallelRun(PlainRun):
    """The run of a parallel group.

    Children that pause let the others finish; the group pauses when nothing runs. With `first`, a pause is no success, and
    the group goes on while anything runs that may succeed.
    """

    __slots__ = ()

    def _due(self) -> Iterator[int]:
        if self._spec.merge == "first" and self._winner() is not None:
            return
        children = self._state.children
        # One that goes on after a pause stands behind those that run, wherever it stands in the group.
        pending = sorted([p for p, child in enumerate(children) if child.phase == "pending"], key=self._not_begun)
        yield from sorted(pending[: self._spec.max_parallel])

    def _is_running(self, position: int) -> bool:
        begun = 0 <= position < len(self._state.children) and self._state.children[position].begun
        return begun and (self._spec.merge != "first" or self._winner() is None)

    def _not_begun(self, position: int) -> bool:
        return not self._state.children[position].begun

    def _input_of(self, position: int) -> str | tuple[Part, ...]:
        return self._state.input

    def _failure(self) -> Exception | None:
        errors = self._failures()
        if not errors:
            return None
        if self._spec.merge == "first":
            none_left = len(errors) == len(self._state.children)
            return ExceptionGroup(f"no child of {self._spec.runner_id!r} succeeded", errors) if none_left else None
        if self._spec.on_error == "fail":
            return errors[0]
        none_done = len(errors) == len(self._state.children)
        return ExceptionGroup(f"every child of {self._spec.runner_id!r} failed", errors) if none_done else None

    def _outcome(self) -> Complete[str] | None:
        if self._spec.merge == "first":
            winner = self._winner()
            if winner is None:
                return None
            return self._complete(winner, "the first child to succeed completed", None)
        if any(child.phase in ("pending", "paused") for child in self._state.children):
            return None
        texts = [None if child.result is None else child.result.text for child in self._state.children]
        reason = "all children completed"
        if None in texts:
            reason = f"{len(texts) - texts.count(None)} of {len(texts)} children completed; the others failed"
        return self._complete(self._all_results()[-1], reason, json.dumps(texts, ensure_ascii=False))

    def _winner(self) -> ChildResult | None:
        return next((r for p in self._state.order if (r := self._state.children[p].result) is not None), None)

    def _kept(self) -> Iterable[ChildResult]:
        if self._spec.merge != "first":
            return super()._kept()
        winner = self._winner()
        return [] if winner is None else [winner]
