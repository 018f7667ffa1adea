"""`ParallelRun`: children that run at the same time; a merge rule decides which results count."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from understudy.errors import SeveralErrors
from understudy.orchestration.agent.state import PausedChild
from understudy.vocabulary.messages import Part
from understudy.vocabulary.runs.outcomes import Complete

from .children import ChildFailure, ChildResult
from .group_run import PlainRun
from .merge_rule import AllDecide, MemberEnds, MergeRule, NoneSucceeded, OneDecides, rule_of
from .outcome import complete, results_of


class ParallelRun(PlainRun):
    """The run of a parallel group.

    When a child pauses, the others finish; the group pauses when no child runs. If one success is enough, a pause is
    none: the group goes on while a child runs that may succeed.
    """

    __slots__ = ("_ends", "_rule")

    _ends: MemberEnds
    """The children that are done or failed. It is not saved, because it follows from the state."""
    _rule: MergeRule

    def _make_index(self) -> None:
        super()._make_index()
        children = self._state.children
        done = [position for position in self._state.order if children[position].result is not None]
        self._ends = MemberEnds(len(children), done, self._failed)
        self._rule = rule_of(self._spec)

    @property
    def any_will_do(self) -> bool:
        return self._rule.any_will_do

    def _eligible(self) -> Iterable[int]:
        return [position for position, child in enumerate(self._state.children) if child.phase == "pending"]

    def _due(self) -> list[int]:
        return [] if self._rule.any_will_do and self._ends.succeeded else self._queue.due()

    def expects(self, position: int) -> bool:
        if self._rule.any_will_do and self._ends.succeeded:  # children still in flight do not count any more
            return False
        return position in self._queue.running or position in self._queue.due()

    def take_result(self, position: int, result: ChildResult) -> None:
        super().take_result(position, result)
        self._ends.succeeded.append(position)

    def child_at_limit(self, position: int, saved: str, failure: ChildFailure, error: Exception | None = None) -> None:
        super().child_at_limit(position, saved, failure, error)
        if self._rule.keeps_errors:  # it counts as failed; its run is kept for the case that all fail
            self._state.order.append(position)
            self._failed.append(position)

    def at_limit(self) -> bool:
        return bool(self._limited) and self.has_failed if self._rule.keeps_errors else super().at_limit()

    def go_on(self, raised: Mapping[int, str]) -> None:
        if not self._rule.keeps_errors:
            return super().go_on(raised)
        self._check_raised(raised)
        for position, saved in raised.items():
            self._state.children[position].paused = PausedChild(saved, ())
        self.retry_failed()

    def _input_of(self, position: int) -> str | tuple[Part, ...]:
        return self._state.input

    def _failure(self) -> Exception | None:
        match self._rule.verdict(self._ends):
            case None | AllDecide():
                return None
            case OneDecides(place=position):
                failed = self._state.children[position].failure is not None
                return self._error_of(position) if failed else None
            case NoneSucceeded():
                what = "no child of {!r} succeeded" if self.any_will_do else "every child of {!r} failed"
                return SeveralErrors(what.format(self._spec.runner_id), self._failures())

    @property
    def is_done(self) -> bool:
        verdict = self._rule.verdict(self._ends)
        if isinstance(verdict, OneDecides):
            return self._state.children[verdict.place].result is not None
        return isinstance(verdict, AllDecide)

    def _outcome(self) -> Complete[str]:
        verdict = self._rule.verdict(self._ends)
        winner = self._state.children[verdict.place].result if isinstance(verdict, OneDecides) else None
        if winner is not None:
            return complete(self._spec.runner_id, self._state, winner.text, "the first child to succeed completed")
        texts = [None if child.result is None else child.result.text for child in self._state.children]
        reason = "all children completed"
        if None in texts:
            reason = f"{len(texts) - texts.count(None)} of {len(texts)} children completed; the others failed"
        last = results_of(self._state)[-1].text
        combined = json.dumps(texts, ensure_ascii=False)
        return complete(self._spec.runner_id, self._state, last, reason, combined_text=combined)

    def _results_to_merge(self) -> Iterable[ChildResult]:
        results = [self._state.children[position].result for position in self._rule.counted(self._ends)]
        return [result for result in results if result is not None]
