"""Turns runners into a picture: its parts, their nesting, and the arrows between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from understudy.errors import DrawingError
from understudy.orchestration import Agent, ParallelAgent, SequentialAgent, Task, Workflow
from understudy.orchestration.definitions.runner import Runner, below
from understudy.orchestration.definitions.sub_agent import tool_name
from understudy.vocabulary.models import name_of
from understudy.vocabulary.tools.definition import Tool

NodeKind: TypeAlias = Literal["agent", "fork", "join"]
BoxKind: TypeAlias = Literal["sequence", "parallel", "workflow", "task"]


@dataclass(frozen=True, slots=True)
class Node:
    """One thing to draw.

    Attributes:
        key: letters and digits, unique in its picture.
        kind: an agent, or the point where branches part (fork) or meet (join).
        title: one line of printable text, like each note. A fork and some joins have none.
        notes: lines in small print below the title.
    """

    key: str
    kind: NodeKind
    title: str = ""
    notes: tuple[str, ...] = ()

    @property
    def entry(self) -> Node:
        """The node where an arrow to this part ends."""
        return self

    @property
    def exit(self) -> Node:
        """The node where an arrow from this part begins."""
        return self


@dataclass(frozen=True, slots=True)
class Box:
    """Parts drawn inside a frame.

    Attributes:
        key: unique among the boxes and nodes of the picture.
        kind: the kind of runner or task.
        title: one line of printable text, like each note.
        notes: lines in small print below the title.
        parts: the parts inside, in the order of the definition.
        entry: the inner node where an arrow to the box ends.
        exit: the inner node where an arrow from the box begins.
    """

    key: str
    kind: BoxKind
    title: str
    notes: tuple[str, ...]
    parts: tuple[Part, ...]
    entry: Node
    exit: Node


Part: TypeAlias = "Node | Box"


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from one part to another.

    Attributes:
        tail: the part it begins at.
        head: the part it points to.
        label: one line of printable text, or empty.
        hands_over: whether it leads to a sub-agent, which returns, and not to the next step.
    """

    tail: Part
    head: Part
    label: str = ""
    hands_over: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """All parts and arrows of a drawing.

    Attributes:
        parts: the outermost boxes and nodes.
        arrows: all arrows, also those inside boxes.
    """

    parts: tuple[Part, ...]
    arrows: tuple[Arrow, ...]


MAX_PARTS = 2_000  # A larger picture is unreadable, and its layout takes minutes.
MAX_DEPTH = 50  # Runs nest at most 32 deep; Python's stack ends at a few hundred.


def picture_of(runners: Iterable[Runner[object]]) -> Picture:
    """Return the picture of the outermost runners: a runner inside another is drawn there only.

    Raises:
        DrawingError: there is no runner, or the picture would be too large.
    """
    given = list(dict.fromkeys(runners))
    if not given:
        raise DrawingError("there is nothing to draw: no runners were given")
    inside = set(below(given))
    artist = _Artist()
    parts: list[Part] = []
    for runner in given:
        if runner not in inside:
            artist.place(runner, parts)
    return Picture(tuple(parts), tuple(artist.arrows))


class _Artist:
    def __init__(self) -> None:
        self.arrows: list[Arrow] = []
        self._count = 0
        self._depth = 0

    def place(self, runner: Runner[object], among: list[Part]) -> Part:
        """Draw a runner, and its sub-agents beside it, into `among`; return the runner's part."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise DrawingError(f"{runner.id!r} is nested more than {MAX_DEPTH} levels deep, which cannot be drawn")
        among.append(made := self._drawn(runner))
        if isinstance(made, Node):
            for inner, label in _handed_over(runner):
                self.arrows.append(Arrow(made, self.place(inner, among), label, hands_over=True))
        self._depth -= 1
        return made

    def _drawn(self, runner: Runner[object]) -> Part:
        match runner:
            case SequentialAgent():
                return self._sequence(runner)
            case ParallelAgent():
                return self._parallel(runner)
            case Workflow():
                return self._workflow(runner)
            case Agent():
                return Node(self._key(), "agent", plain(runner.id), agent_notes(runner))
            case _:
                return Node(self._key(), "agent", plain(runner.id), (plain(type(runner).__name__),))

    def _key(self) -> str:
        self._count += 1
        if self._count > MAX_PARTS:
            raise DrawingError(f"a picture of more than {MAX_PARTS:,} parts helps nobody; draw runners one by one")
        return f"n{self._count}"

    def _sequence(self, group: SequentialAgent) -> Box:
        key = self._key()
        parts: list[Part] = []
        steps = [self.place(step, parts) for step in group.steps]
        self.arrows += [Arrow(tail, head) for tail, head in pairwise(steps)]
        return Box(
            key, "sequence", plain(group.id), sequence_notes(group), tuple(parts), steps[0].entry, steps[-1].exit
        )

    def _parallel(self, group: ParallelAgent) -> Box:
        key = self._key()
        fork, join = Node(self._key(), "fork"), Node(self._key(), "join", group.merge)
        parts: list[Part] = [fork]
        for child in group.children:
            placed = self.place(child, parts)
            self.arrows += [Arrow(fork, placed), Arrow(placed, join)]
        return Box(key, "parallel", plain(group.id), parallel_notes(group), (*parts, join), fork, join)

    def _workflow(self, workflow: Workflow) -> Box:
        key = self._key()
        tasks = {task.name: self._task(task) for task in workflow.tasks}
        needed = {name for task in workflow.tasks for name in task.dependencies}
        self.arrows += [
            Arrow(tasks[name], tasks[task.name])
            for task in workflow.tasks
            for name in dict.fromkeys(task.dependencies)  # a duplicate dependency is drawn once
        ]
        first = [tasks[task.name] for task in workflow.tasks if not task.dependencies]
        last = [box for name, box in tasks.items() if name not in needed]
        parts: list[Part] = list(tasks.values())
        entry, exit = first[0].entry, last[0].exit
        if len(first) > 1:
            parts.insert(0, entry := Node(self._key(), "fork"))
            self.arrows += [Arrow(entry, box) for box in first]
        if len(last) > 1:
            parts.append(exit := Node(self._key(), "join"))
            self.arrows += [Arrow(box, exit) for box in last]
        return Box(key, "workflow", plain(workflow.id), workflow_notes(workflow), tuple(parts), entry, exit)

    def _task(self, task: Task) -> Box:
        key = self._key()
        parts: list[Part] = []
        runner = self.place(task.runner, parts)
        return Box(key, "task", task.name, task_notes(task), tuple(parts), runner.entry, runner.exit)


def _handed_over(runner: Runner[object]) -> list[tuple[Runner[object], str]]:
    """Return a runner's sub-agents, each with the name its model uses if that is not the id."""
    if not isinstance(runner, Agent):
        return [(inner, "") for inner in runner.inner_runners]
    return [(to.runner, "" if to.name == tool_name(to.runner.id) else plain(to.name)) for to in runner.sub_agents]


MAX_TOOLS = 8  # Up to so many tools are named; of more, only the tools that need an approval.
MAX_CONDITION = 60  # Characters; the rest is cut.
WIDTH = 36  # Characters of a line of names.


def agent_notes(agent: Agent[object]) -> tuple[str, ...]:
    """Return lines with the model and the tools."""
    return (plain(name_of(agent.model)), *_tool_notes(agent.tools))


def _tool_notes(tools: Sequence[Tool[..., object]]) -> list[str]:
    """Return lines with the tools; tools that need an approval are never left out."""
    marks: Mapping[bool, str] = {True: " (approval)", False: ""}
    named = {tool.name + (" (approval?)" if callable(tool.approval) else marks[tool.approval]): tool for tool in tools}
    if not tools:
        return []
    if len(tools) <= MAX_TOOLS:
        return _wrapped(("tools: " if len(tools) > 1 else "tool: ") + ", ".join(named))
    marked = [name for name, tool in named.items() if tool.approval is not False]
    return _wrapped(f"{len(tools)} tools" + (": " + ", ".join([*marked, "…"]) if marked else ""))


def sequence_notes(group: SequentialAgent) -> tuple[str, ...]:
    """Return which input the steps get."""
    passes = {False: (), True: ("each is told the text before",), "combined": ("each is told all texts before",)}
    return ("sequence", *passes[group.pass_output])


def parallel_notes(group: ParallelAgent) -> tuple[str, ...]:
    """Return how many steps run at once, and whether a failure ends the group."""
    goes_on = ["goes on after failures"] if group.on_error == "collect" else []
    return ("parallel", *_at_once(group.max_parallel), *goes_on)


def workflow_notes(workflow: Workflow) -> tuple[str, ...]:
    """Return how many tasks run at once, and the parameters that a run needs."""
    needs = _wrapped("parameters: " + ", ".join(sorted(workflow.parameters))) if workflow.parameters else []
    return ("workflow", *_at_once(workflow.max_parallel), *needs)


def task_notes(task: Task) -> tuple[str, ...]:
    """Return when a task runs, and how often."""
    notes: list[str] = []
    if task.when is not None:
        notes.append(f"when {_condition(task.when)}")
    if task.for_each is not None:
        notes.append(f"for each of {_condition(task.for_each)}")
    if task.until is not None:
        notes.append(f"until {_condition(task.until)}, repeated {_times(task.max_repeats)} at most")
    if task.retries:
        notes.append(f"retries: {task.retries}")
    return tuple(notes)


def _condition(given: str | Callable[..., bool]) -> str:
    if not isinstance(given, str):
        return plain(getattr(given, "__name__", type(given).__name__)) + "()"
    text = plain(given)
    return text if len(text) <= MAX_CONDITION else text[: MAX_CONDITION - 1] + "…"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _at_once(limit: int | None) -> list[str]:
    return [] if limit is None else [f"{limit} at once"]


def _wrapped(text: str) -> list[str]:
    """Break a list of names into lines, between names."""
    lines = [""]
    for word in text.split(", "):
        start = f"{lines[-1]}, {word}" if lines[-1] else word
        if len(start) > WIDTH and lines[-1]:
            lines[-1] += ","
            lines.append(word)
        else:
            lines[-1] = start
    return lines


def plain(text: str) -> str:
    """Return a text as one printable line: ids may have characters without a glyph, or controls, which XML forbids."""
    joiners = "\u200c\u200d"  # They have no glyph, but Persian words and many emoji need them.
    return "".join([c if c.isprintable() or c in joiners else " " if c.isspace() else f"\\u{ord(c):04x}" for c in text])
