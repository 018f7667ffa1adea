"""The children of a group's run: those that are under way, how they ended, as the outcome tells it, and when children are tried again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf
from typing import Protocol

from understudy.actors.run_view.errors import named
from understudy.actors.run_view.log import ChildBegan
from understudy.errors import RunCancelled
from understudy.orchestration.agent.pauses import paused_by
from understudy.orchestration.definitions.groups import ParallelAgent
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.runs.events import RunEvent
from understudy.orchestration.saving.machines import Machine, Orchestrator, runner_at
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.runs.outcomes import Complete, Outcome

from .error_facts import describe
from .record import RunRecord


class Around(Protocol):
    """The run around others."""

    def child_ended(self, position: int) -> object:
        """Hear that a child is over; on the thread that ended it."""
        ...


class Inside:
    """One run inside of a run.

    Args:
        record: the run.
        fact: the log entry of its start.
        around: is told that it is over.

    Attributes:
        launched: whether it began. A stay that crashes before that leaves it to the next one to begin it anew.
    """

    __slots__ = ("_around", "fact", "launched", "record")

    def __init__(self, record: RunRecord, fact: ChildBegan, around: Around) -> None:
        self.record = record
        self.fact = fact
        self.launched = False
        self._around = around

    def ended(self) -> None:
        """Tell the run around it that it is over; on the thread that ended it."""
        self._around.child_ended(self.fact.position)


@dataclass(slots=True)
class ChildEnd:
    """How a run inside of a run ended or paused, as the run around it is told.

    Attributes:
        position: the child's.
        ending: its outcome or error, as callers are told; None if it was not to run.
        events: what the machine is told.
        error: the error itself, of which the events have the words.
        changes: what it changed of the session, for the run around it.
        retried: the error after which it is run again; None if it is not.
    """

    position: int
    ending: Outcome[object] | BaseException | None
    events: tuple[RunEvent, ...]
    error: Exception | None = None
    changes: SessionOverlay | None = None
    retried: BaseException | None = None


class RetryTimes:
    """When children are tried again, of a run that has one alarm for all of them.

    Attributes:
        due: positions whose time has come.
    """

    __slots__ = ("_heap", "_moments", "due")

    def __init__(self) -> None:
        self._moments: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        self.due: set[int] = set()

    def set(self, moment: float, position: int) -> None:
        """Note a moment on the monotonic clock, unless the position has one already."""
        if self._moments.setdefault(position, moment) is moment:
            heappush(self._heap, (moment, position))

    def look(self, now: float) -> float:
        """Note the positions whose time has come; returns the next moment, which is infinite without one."""
        while self._heap and self._heap[0][0] <= now:
            moment, position = heappop(self._heap)
            if self._moments.get(position) == moment:  # else it was forgotten
                self.due.add(position)
        return self._heap[0][0] if self._heap else inf

    def forget(self, position: int) -> None:
        """Forget a child that begins or is over."""
        self.due.discard(position)
        self._moments.pop(position, None)

    def call_off(self, record: RunRecord) -> None:
        """Forget all: the run around the children is over."""
        self._moments.clear()


Ending = Outcome[object] | BaseException


@dataclass(frozen=True, slots=True)
class ChildOutcomes:
    """What the children of one run came to, in the order of the orchestrator's children or tasks.

    Attributes:
        group: the orchestrator.
        machine: decides its run.
        endings: position -> how the last run there ended or paused.
        children: position -> the run that is under way there, or over and not reported to the machine yet.
    """

    group: Orchestrator
    machine: Machine
    endings: Mapping[int, Ending]
    children: Mapping[int, Inside]

    def at_the_end(self) -> tuple[Ending, ...]:
        """Return how each child ended or paused, of a run that its machine has ended."""
        return tuple([self._told(position) for position in self._positions()])

    def so_far(self) -> tuple[Ending, ...]:
        """Return how each child ended, of a run that fails; a child that has not ended is told to be cancelled."""
        return tuple([self._told_so_far(position) for position in self._positions()])

    def cut_off(self, position: int) -> Ending:
        """Return how a child ends that is under way while the run ends."""
        return self._told_so_far(position)

    def _positions(self) -> Iterable[int]:
        children = self.machine.state.children
        positions: Iterable[int] = range(len(children))
        if isinstance(self.machine, GraphRun):
            positions = [position for task in self.machine.state.tasks for position in task.children]
        elif not isinstance(self.group, ParallelAgent):
            begun = self.children
            positions = [each for each in positions if children[each].phase != "pending" or each in begun]
        return positions

    def _told_so_far(self, position: int) -> Ending:
        if self.machine.state.children[position].phase != "pending":
            return self._told(position)
        inside = self.children.get(position)
        if inside is not None and inside.record.promise.done:  # the group has not heard of it yet
            error = inside.record.promise.error()
            return inside.record.promise.get() if error is None else error
        what = "did not begin" if inside is None else "was cancelled"
        cut = RunCancelled(f"{self._named(position)} {what}: the run of {self.group.id!r} is over")
        return cut if inside is None else _described(inside.record, cut)

    def _told(self, position: int) -> Ending:
        child, ending = self.machine.state.children[position], self.endings.get(position)
        if child.phase == "pending":
            others = RunCancelled(
                f"{self._named(position)} was not needed any more: others decided how {self.group.id!r} ends"
            )
            inside = self.children.get(position)
            return others if inside is None else _described(inside.record, others)
        if ending is not None:
            return ending
        id = runner_at(self.group, self.machine, position).id
        if child.result is not None:  # from here on: it ended before the run was kept as text
            done = child.result
            return Complete(
                agent_id=id,
                text=done.text,
                output=done.text,
                combined_text=done.combined_text,
                usage=done.usage,
                iterations=done.iterations,
                turns=done.turns,
            )
        if child.failure is not None:
            return child.failure.to_error()
        assert child.paused is not None
        return replace(paused_by(child.paused.pauses), agent_id=id)

    def _named(self, position: int) -> str:
        return named(runner_at(self.group, self.machine, position))


def _described(record: RunRecord, error: RunCancelled) -> RunCancelled:
    """Return the error of a run that is cut off, with what the run has had until now; it may go on meanwhile."""
    with record.lock:  # its session does not change
        describe(record, error)
    return error
