"""`TaskIndex`: the open tasks of a workflow, and the tasks that are ready to begin."""

from __future__ import annotations

from .spec import TaskSpec
from .state import DECIDED, GraphState


class TaskIndex:
    """Indexes over the tasks, by number. A step costs what it changes, however many tasks there are.

    They are not saved, because they follow from the state.

    Attributes:
        numbers: name of a task -> its number.
        dependents: for each task, the tasks that depend on it.
        owners: position of a child -> number of its task.
        open: tasks that run.
        left: task that runs -> how many of its children are neither done nor at a limit.
        ready: tasks that are pending and depend on none that is not decided.
    """

    __slots__ = ("_missing", "_tasks", "dependents", "left", "numbers", "open", "owners", "ready")

    def __init__(self, specs: tuple[TaskSpec, ...], state: GraphState) -> None:
        self._tasks = tasks = state.tasks
        self.numbers = {spec.name: number for number, spec in enumerate(specs)}
        self.dependents: list[list[int]] = [[] for _ in specs]
        self._missing: list[int] = []
        """How many that each task depends on are not decided."""
        for number, spec in enumerate(specs):
            before = [self.numbers[name] for name in spec.dependencies]
            self._missing.append(sum([tasks[each].status not in DECIDED for each in before]))
            for each in before:
                self.dependents[each].append(number)
        self.owners = {position: number for number, task in enumerate(tasks) for position in task.children}
        self.open = {n for n, task in enumerate(tasks) if task.status == "running"}
        over = ("done", "limit")
        self.left = {n: sum([state.children[p].phase not in over for p in tasks[n].children]) for n in self.open}
        self.ready = {n for n, task in enumerate(tasks) if task.status == "pending" and not self._missing[n]}

    def take_ready(self) -> list[int]:
        """Return the tasks that are ready, in order; each is returned once, and the caller decides about it."""
        taken, self.ready = sorted(self.ready), set[int]()
        return taken

    def begin(self, number: int, children: list[int]) -> None:
        """Take in the children with which a task begins."""
        self.owners.update(dict.fromkeys(children, number))
        self.left[number] = len(children)

    def note(self, number: int) -> None:
        """Bring the index up to the status that a task has now, which is no longer pending."""
        status = self._tasks[number].status
        if status == "running":
            self.open.add(number)
            return
        self.open.discard(number)
        if status in DECIDED:
            for dependent in self.dependents[number]:
                self._missing[dependent] -= 1
                if not self._missing[dependent]:
                    self.ready.add(dependent)
