"""How the runs inside of an orchestrator's run ended, as its outcome and its error tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from understudy.actors.run_view.errors import named
from understudy.errors import RunCancelled
from understudy.orchestration.agent.pauses import paused_by
from understudy.orchestration.definitions.groups import ParallelAgent
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.saving.machines import Machine, Orchestrator, runner_at
from understudy.vocabulary.runs.outcomes import Complete, Outcome

from .group_children import Inside

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
        return RunCancelled(f"{self._named(position)} {what}: the run of {self.group.id!r} is over")

    def _told(self, position: int) -> Ending:
        child, ending = self.machine.state.children[position], self.endings.get(position)
        if child.phase == "pending":
            return RunCancelled(
                f"{self._named(position)} was not needed any more: others decided how {self.group.id!r} ends"
            )
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
