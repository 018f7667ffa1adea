"""`GraphSpec`: the tasks and limits of a workflow, as data for its runs; and the checks of a workflow's tasks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from difflib import get_close_matches
from itertools import islice

from understudy.orchestration.group.spec import GroupSpec
from understudy.vocabulary.messages import JsonValue

from .conditions import references_in
from .references import Reference, references
from .references import reference as one_reference

MOST = 200  # Of problems, and of names that are compared: ten thousand times ten thousand take hours.
MOST_SHOWN = 20
INPUT, ITEM, PREVIOUS = "input", "item", "previous"
RESERVED = {
    INPUT: "the input of the workflow",
    ITEM: "the item of a task with for_each",
    PREVIOUS: "the text of the last repetition of a task with until",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task of a workflow."""

    name: str
    runner: str
    """The fingerprint of its runner."""
    prompt: str
    dependencies: tuple[str, ...] = ()
    retries: int = 0
    backoff: tuple[float, float] = (1.0, 60.0)
    """Seconds before the first retry, doubled each time, and the most."""
    when: str | None = None
    """A condition on tasks before it, without which it is skipped."""
    asks_when: bool = False
    """Whether a function decides if it is skipped; the machine is told its answer."""
    for_each: str | None = None
    """A reference to a list; the task runs once for each item."""
    until: str | None = None
    """A condition on its own text; it runs again until it holds."""
    asks_until: bool = False
    """Whether a function decides if it runs again; the machine is told its answer."""
    max_repeats: int = 3
    """How often it runs again at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSpec(GroupSpec):
    """The tasks and limits of a `GraphRun`."""

    tasks: tuple[TaskSpec, ...] = ()
    parameters: frozenset[str] = field(default_factory=frozenset[str])
    """Names in prompts that are no tasks: a run must be given them."""
    given: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Values of other such names, of which texts may refer to the input; a saved run has them, so they are no part of the fingerprint."""

    @property
    def size(self) -> tuple[int, str]:
        return len(self.tasks), "tasks"

    def fingerprint(self) -> str:
        parts = [self.runner_id, [astuple(task) for task in self.tasks]]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def parts(self) -> dict[str, str]:
        from understudy.orchestration.agent.spec_changes import digests

        tasks = {f"task {task.name!r}": astuple(task) for task in self.tasks}
        return digests({"the id": self.runner_id, "the order of the tasks": list(tasks), **tasks})


@dataclass(frozen=True, slots=True)
class GraphProblem:
    """What is wrong with a workflow's tasks."""

    message: str
    task: int
    """Position of the task that it is about."""
    where: tuple[str | int, ...] = ()
    """Which argument of the task, and which entry of it."""
    whose: str = ""
    """What the sentence about it begins with."""

    def __str__(self) -> str:
        return self.whose + self.message


def problems_of(tasks: Sequence[TaskSpec]) -> list[GraphProblem]:
    """Return the faults in the tasks of a workflow; none if all is well."""
    found = [*_problems_with_names(tasks), *islice(_problems_with_dependencies(tasks), MOST)]
    circle = circle_in(tasks)
    if circle:
        names = [task.name for task in tasks]
        path = " -> ".join(circle if len(circle) <= MOST_SHOWN else [*circle[: MOST_SHOWN - 2], "…", *circle[-2:]])
        found.append(GraphProblem(f"the tasks wait for one another: {path}", names.index(circle[0]), ("dependencies",)))
    if found:
        return found
    before, known = ancestors(tasks), {task.name for task in tasks}
    problems = (
        GraphProblem(message, position, (option,), f"task {task.name!r}: ")
        for position, task in enumerate(tasks)
        for option, message in _problems_with(task, before[task.name], known)
    )
    return list(islice(problems, MOST))


def _problems_with_names(tasks: Sequence[TaskSpec]) -> Iterator[GraphProblem]:
    seen: set[str] = set()
    told: set[str] = set()
    for position, task in enumerate(tasks):
        if task.name in seen and task.name not in told:
            told.add(task.name)
            yield GraphProblem(f"two tasks are named {task.name!r}", position, ("name",))
        seen.add(task.name)
    for position, task in enumerate(tasks):
        if task.name in RESERVED:
            message = f"a task cannot be named {task.name!r}: that is {RESERVED[task.name]}"
            yield GraphProblem(message, position, ("name",))


def _problems_with_dependencies(tasks: Sequence[TaskSpec]) -> Iterator[GraphProblem]:
    names = [task.name for task in tasks]
    known = set(names)
    for position, task in enumerate(tasks):
        for number, name in enumerate(task.dependencies):
            if name not in known:
                near = get_close_matches(name, names[:MOST], 1)
                shown = ", ".join(names[:MOST_SHOWN]) + (", …" if len(names) > MOST_SHOWN else "")
                hint = f"; did you mean {near[0]!r}?" if near else f"; the tasks are: {shown}"
                message = f"it depends on {name!r}, which is no task{hint}"
                yield GraphProblem(message, position, ("dependencies", number), f"task {task.name!r}: ")


def circle_in(tasks: Sequence[TaskSpec]) -> list[str]:
    """Return the names on a way from a task to itself along dependencies; empty if there is none."""
    needs = {task.name: task.dependencies for task in tasks}
    done: set[str] = set()
    for start in needs:
        way: dict[str, None] = {}
        stack: list[Iterator[str]] = [iter((start,))]
        while stack:  # no recursion: a chain of tasks may be longer than the stack
            name = next(stack[-1], None)
            if name is None:
                stack.pop()
                if way:
                    done.add(way.popitem()[0])
            elif name in way:
                path = list(way)
                return [*path[path.index(name) :], name]
            elif name in needs and name not in done:
                way[name] = None
                stack.append(iter(needs[name]))
    return []


@dataclass(frozen=True, slots=True)
class Before:
    """The tasks that are done before a task: a bit for each, for a chain of ten thousand has fifty million such pairs."""

    numbers: Mapping[str, int]
    bits: int

    def __contains__(self, name: object) -> bool:
        number = self.numbers.get(name) if isinstance(name, str) else None
        return number is not None and bool(self.bits >> number & 1)


def ancestors(tasks: Sequence[TaskSpec]) -> Mapping[str, Before]:
    """Return each task's name -> the names of all that are done before it; the tasks must have no circle."""
    numbers = {task.name: number for number, task in enumerate(tasks)}
    found: dict[str, int] = {}
    for start in tasks:
        waiting = [start]
        while waiting:  # no recursion: a chain of tasks may be longer than the stack
            task = waiting[-1]
            missing = [tasks[numbers[name]] for name in task.dependencies if name not in found]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            bits = 0
            for name in task.dependencies:
                bits |= found[name] | 1 << numbers[name]
            found[task.name] = bits
    return {name: Before(numbers, bits) for name, bits in found.items()}


def _problems_with(task: TaskSpec, before: Container[str], names: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a task, as the name of the argument, and words."""
    if task.for_each is not None and (task.until is not None or task.asks_until):
        yield "for_each", "for_each and until cannot be combined; put one of them into a workflow of its own"
    own = {INPUT}
    if task.for_each is not None:
        own.add(ITEM)
    if task.until is not None or task.asks_until:
        own.add(PREVIOUS)
    for option, of_own, found in _read(task):
        what = "its prompt" if option == "prompt" else option
        if isinstance(found, ValueError):
            yield option, f"{what}: {found}"
        elif found.name in RESERVED and found.name not in own | of_own:
            yield option, f"{what} refers to {found}, {RESERVED[found.name]}, which it is not or has not"
        elif found.name in names and found.name not in before and found.name not in of_own:
            yield option, f"{what} refers to {found}, but {found.name!r} is none of its dependencies"


def _read(task: TaskSpec) -> Iterator[tuple[str, set[str], Reference | ValueError]]:
    """Yield each reference of a task: its argument, the names that are allowed only there, and the reference itself."""
    try:
        yield from (("prompt", set[str](), found) for found in references(task.prompt))
    except ValueError as error:
        yield "prompt", set(), error
    if task.for_each is not None:
        try:
            yield "for_each", set(), one_reference(task.for_each)
        except ValueError as error:
            yield "for_each", set(), error
    for what, condition, own in (("when", task.when, set[str]()), ("until", task.until, {task.name})):
        if condition is not None:
            try:
                yield from ((what, own, found) for found in references_in(condition))
            except ValueError as error:
                yield what, own, error


def parameters_of(tasks: Sequence[TaskSpec]) -> frozenset[str]:
    """Return the names that the tasks refer to and that no task has: a run must be given them."""
    names = {task.name for task in tasks} | RESERVED.keys()
    found = {each.name for task in tasks for _, _, each in _read(task) if isinstance(each, Reference)}
    return frozenset(found - names)


def handed_over(task: TaskSpec, names: Container[str]) -> tuple[str, ...]:
    """Return the dependencies whose texts a task is told before its prompt: all of them if the prompt names no task.

    `${item}` names the task whose items `for_each` goes through.

    Args:
        task: which task.
        names: the names of all tasks of its workflow.
    """
    if not task.dependencies:
        return ()
    for found in references(task.prompt):
        if found.name == ITEM and task.for_each is not None:
            found = one_reference(task.for_each)
        if found.name in names:
            return ()
    return tuple(dict.fromkeys(task.dependencies))


def uses_input(tasks: Sequence[TaskSpec]) -> bool:
    """Whether a task refers to the input of the run."""
    return any(isinstance(each, Reference) and each.name == INPUT for task in tasks for _, _, each in _read(task))
