"""The runs inside of a run as subagents of AG-UI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from understudy.errors import message_of
from understudy.vocabulary.runs.events import ChildFinished, ChildStarted, Event, TurnStarted
from understudy.vocabulary.runs.outcomes import NeedsApproval, NeedsInput

from .agui_marks import Plain, agui_events
from .event_json import outcome_json
from .run_parts import RunParts

ENDED = "Not run: the run has ended."


@dataclass(slots=True)
class _Subagent:
    """A run inside."""

    parent: str | None
    """Run id of the subagent around it; None if that is the run which the client follows."""
    parts: RunParts
    is_over: bool = False


class Subagents:
    """Tells the runs inside of a run. For one thread at a time.

    `ChildFinished` tells the end of a child of a group. The end of a sub-agent's run has no event of its own: it is over when
    the model of the run around it is called again, or that run ends.

    Args:
        shown: ids of tool calls that the client has from before a pause.
    """

    __slots__ = ("_by_run", "_shown")

    def __init__(self, shown: Sequence[str] = ()) -> None:
        self._shown = tuple(shown)
        self._by_run: dict[str, _Subagent] = {}

    def told(self, event: Event) -> Iterator[Plain]:
        """Yield what the client is told of an event of a run inside."""
        run_id = event.run_id
        yield from self._begin(run_id, event.path[-1], event.parent_run_id)
        subagent = self._by_run[run_id]
        if subagent.is_over:
            return
        match event:
            case ChildStarted() | ChildFinished():
                yield from self.child(event, run_id)
            case _:
                if isinstance(event, TurnStarted):
                    yield from self.end_below(run_id)
                for each in agui_events(subagent.parts.read(event)):
                    yield {**each, "subagentRunId": run_id}

    def child(self, event: ChildStarted | ChildFinished, parent: str | None) -> Iterator[Plain]:
        """Yield the beginning or the end of a child of a group.

        Args:
            event: of the group.
            parent: run id of the group, if it is a subagent itself.
        """
        yield from self._begin(event.child_run_id, event.runner_id, parent)
        if isinstance(event, ChildFinished):
            is_suspended = isinstance(event.outcome, (NeedsInput, NeedsApproval))
            for each in self._end(event.child_run_id, is_suspended, event.error):
                if event.outcome is not None and each["type"] == "SUBAGENT_FINISHED":
                    own = each["subagentRunId"] == event.child_run_id
                    each = {**each, "result": outcome_json(event.outcome)} if own else each
                yield each

    def end_below(
        self, parent: str | None, *, is_suspended: bool = False, error: BaseException | None = None
    ) -> Iterator[Plain]:
        """Yield the ends of all runs inside of a run.

        Args:
            parent: the run's id; None for the one that the client follows.
            is_suspended: whether they wait for a person.
            error: what ended them.
        """
        for run_id in [run_id for run_id, each in self._by_run.items() if each.parent == parent and not each.is_over]:
            yield from self._end(run_id, is_suspended, error)

    def end_waiting(self) -> Iterator[Plain]:
        """Yield an end for the calls of runs that wait, where the run around them is over without them."""
        for run_id, subagent in self._by_run.items():
            for each in agui_events(subagent.parts.calls.void(ENDED)):
                yield {**each, "subagentRunId": run_id}

    def _begin(self, run_id: str, name: str, parent: str | None) -> Iterator[Plain]:
        if run_id in self._by_run:
            return
        parent = parent if parent in self._by_run else None
        self._by_run[run_id] = _Subagent(parent, RunParts(run_id, is_inner=True, shown=self._shown))
        told: Plain = {"type": "SUBAGENT_STARTED", "subagentRunId": run_id, "name": name}
        yield {**told, "parentSubagentRunId": parent} if parent is not None else told

    def _end(self, run_id: str, is_suspended: bool, error: BaseException | None) -> Iterator[Plain]:
        subagent = self._by_run[run_id]
        if subagent.is_over:
            return
        yield from self.end_below(run_id, is_suspended=is_suspended, error=error)
        subagent.is_over = True
        keep = subagent.parts.calls.ids() if is_suspended else ()
        for each in agui_events(subagent.parts.end(ENDED, keep)):
            yield {**each, "subagentRunId": run_id}
        told: Plain = {"subagentRunId": run_id}
        if error is not None:
            yield {"type": "SUBAGENT_ERROR", **told, "message": message_of(error), "code": type(error).__name__}
        else:
            yield {"type": "SUBAGENT_FINISHED", **told, "outcome": {"type": "suspended" if is_suspended else "success"}}
