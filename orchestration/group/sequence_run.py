"""`SequenceRun`: children that run one after another."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.vocabulary.messages import Part
from understudy.vocabulary.runs.outcomes import Complete

from .children import ChildResult
from .group_run import PlainRun
from .outcome import complete


class SequenceRun(PlainRun):
    """The run of a sequence. The first failure ends it, a pause suspends it, and its result is the last child's."""

    __slots__ = ()

    def _eligible(self) -> Iterable[int]:
        position = len(self._state.order)
        children = self._state.children
        return [position] if position < len(children) and children[position].phase == "pending" else []

    def take_result(self, position: int, result: ChildResult) -> None:
        super().take_result(position, result)
        if position + 1 < len(self._state.children):
            self._queue.join(position + 1)

    def _input_of(self, position: int) -> str | tuple[Part, ...]:
        before = self._state.children[position - 1].result if position else None
        if before is None or not self._spec.pass_output:
            return self._state.input
        if self._spec.pass_output == "combined" and before.combined_text is not None:
            return before.combined_text
        return before.text

    def _failure(self) -> Exception | None:
        failures = self._failures()
        return failures[0] if failures else None

    @property
    def is_done(self) -> bool:
        return self._state.children[-1].result is not None

    def _outcome(self) -> Complete[str]:
        last = self._state.children[-1].result
        assert last is not None, "the run is done"
        reason = f"all {len(self._state.children)} steps completed"
        return complete(self._spec.runner_id, self._state, last.text, reason, combined_text=last.combined_text)
