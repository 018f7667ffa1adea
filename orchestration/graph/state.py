"""The state of a workflow's run, as data: the states of its tasks, besides the state of a group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from understudy.orchestration.group.children import ChildState
from understudy.orchestration.group.state import GroupState
from understudy.vocabulary.messages import JsonValue

Standing: TypeAlias = Literal["pending", "running", "done", "failed", "skipped"]
"""A task's status but for `paused`, which follows from how its runs stand."""

DECIDED = ("done", "failed", "skipped")


@dataclass(slots=True)
class TaskState:
    """Where one task stands."""

    status: Standing = "pending"
    children: list[int] = field(default_factory=list[int])
    """Positions of its runs, side by side: one, or one for each item."""
    items: list[JsonValue] | None = None
    prompts: list[str] = field(default_factory=list[str])
    text: str = ""
    reason: str = ""
    repeats: int = 0
    begun: int = 0


@dataclass(slots=True, kw_only=True)
class GraphState(GroupState):
    """What the run of a workflow remembers."""

    parameters: dict[str, JsonValue]
    tasks: list[TaskState]

    @property
    def size(self) -> int:
        return len(self.tasks)

    def forget(self, task: TaskState) -> None:
        """Have a task begin anew; what its runs came to does not count any more."""
        for position in task.children:
            child = self.children[position]
            child.phase, child.result, child.failure, child.paused = "failed", None, None, None
            child.refused = False
        task.status, task.children, task.items, task.prompts = "pending", [], None, []
        task.text, task.reason, task.repeats = "", "", 0

    def reopen(self, task: TaskState, raised: Mapping[int, str]) -> None:
        """Have a task go on whose runs stood at a limit, those that are `raised`; others that failed begin anew."""
        task.status, task.reason = "running", ""
        for position in task.children:
            child = self.children[position]
            child.begun = False
            if position in raised:
                child.release(raised[position])
            elif child.phase in ("failed", "limit"):
                self.children[position] = child = ChildState()
            if child.phase == "pending" and position in self.order:
                self.order.remove(position)
