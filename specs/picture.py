"""`Picture`: runners as nodes, nested boxes and arrows, before anyone says in which language they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from understudy.errors import DrawingError
from understudy.models import name_of
from understudy.orchestration import Agent, ParallelAgent, SequentialAgent, SubAgent, Task, Workflow
from understudy.orchestration.delegation import tool_name
from understudy.orchestration.runner import Runner
from understudy.tools import Tool

NodeKind: TypeAlias = Literal["agent", "fork", "join"]
BoxKind: TypeAlias = Literal["sequence", "parallel", "workflow", "task"]

MAX_PARTS = 2_000  # Nobody reads more on one page, and a layout of more takes minutes.
MAX_DEPTH = 50  # No run nests deeper than 32; Python's stack ends at a few hundred.
MAX_TOOLS = 8  # So many are named; of more, those that a person must allow.
MAX_NOTE = 60  # Characters of a condition; the rest is left out.
WIDTH = 36  # Characters of a line of tools.


@dataclass(frozen=True, slots=True)
class Node:
    """One thing to draw.

    Attributes:
        key: letters and digits, unique in its picture.
        kind: an agent, or where branches part and meet.
        title: one line of printable text; so is each note. A fork and some joins have none.
        notes: what is to be read in small below.
    """

    key: str
    kind: NodeKind
    title: str = ""
    notes: tuple[str, ...] = ()

    @property
    def entry(self) -> Node:
        """Where an arrow to it ends."""
        return self

    @property
    def exit(self) -> Node:
        """Where an arrow from it begins."""
        return self


@dataclass(frozen=True, slots=True)
class Box:
    """Things drawn inside of a frame.

    Attributes:
        key: as a node's; boxes and nodes share their keys.
        kind: what the frame stands for.
        title: one line of printable text; so is each note.
        notes: what is to be read in small below.
        parts: what is inside, in the order of the definition.
        entry: the node inside where an arrow to the box leads.
        exit: the node inside where an arrow from the box begins.
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
    """From one part to another.

    Attributes:
        tail: where it begins.
        head: where its point is.
        label: one line of printable text, or nothing.
        hands_over: whether it leads to a sub-agent, which comes back, and not to what follows.
    """

    tail: Part
    head: Part
    label: str = ""
    hands_over: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """What is to be drawn.

    Attributes:
        parts: the outermost boxes and nodes.
        arrows: all, wherever their ends are.
    """

    parts: tuple[Part, ...]
    arrows: tuple[Arrow, ...]


def picture_of(runners: Iterable[Runner[object]]) -> Picture:
    """Return the picture of those runners that stand inside of no other one of them.

    Raises:
        DrawingError: there are none, or too many for a picture.
    """
    given = {id(runner): runner for runner in runners}
    if not given:
        raise DrawingError("there is nothing to draw: no runners were given")
    inside = _inside(given.values())
    artist = _Artist()
    parts: list[Part] = []
    for key, runner in given.items():
        if key not in inside:
            artist.place(runner, parts)
    return Picture(tuple(parts), tuple(artist.arrows))


def _inside(runners: Iterable[Runner[object]]) -> set[int]:
    """Return the identities of what stands inside of the runners, at any depth."""
    found: set[int] = set()
    left = [inner for runner in runners for inner in runner.inner_runners]
    while left:
        runner = left.pop()
        if id(runner) not in found:
            found.add(id(runner))
            left += runner.inner_runners
    return found


class _Artist:
    def __init__(self) -> None:
        self.arrows: list[Arrow] = []
        self._count = 0
        self._depth = 0

    def place(self, runner: Runner[object], among: list[Part]) -> Part:
        """Draw a runner and its sub-agents beside the parts `among`; return the one for the runner itself."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise DrawingError(f"{runner.id!r} is nested more than {MAX_DEPTH} levels deep, which cannot be drawn")
        match runner:
            case SequentialAgent():
                among.append(made := self._sequence(runner))
            case ParallelAgent():
                among.append(made := self._parallel(runner))
            case Workflow():
                among.append(made := self._workflow(runner))
            case Agent():
                among.append(made := Node(self._key(), "agent", _plain(runner.id), _agent_notes(runner)))
                for each in runner.sub_agents:
                    self._hand_over(made, each, among)
            case _:
                among.append(made := Node(self._key(), "agent", _plain(runner.id), (_plain(type(runner).__name__),)))
        self._depth -= 1
        return made

    def _key(self) -> str:
        self._count += 1
        if self._count > MAX_PARTS:
            raise DrawingError(f"a picture of more than {MAX_PARTS:,} parts helps nobody; draw runners one by one")
        return f"n{self._count}"

    def _hand_over(self, agent: Node, to: SubAgent, among: list[Part]) -> None:
        label = "" if to.name == tool_name(to.runner.id) else _plain(to.name)
        self.arrows.append(Arrow(agent, self.place(to.runner, among), label, hands_over=True))

    def _sequence(self, group: SequentialAgent) -> Box:
        key = self._key()
        parts: list[Part] = []
        steps = [self.place(step, parts) for step in group.steps]
        self.arrows += [Arrow(tail, head) for tail, head in pairwise(steps)]
        passes = {False: (), True: ("each is told the text before",), "combined": ("each is told all texts before",)}
        notes = ("sequence", *passes[group.pass_output])
        return Box(key, "sequence", _plain(group.id), notes, tuple(parts), steps[0].entry, steps[-1].exit)

    def _parallel(self, group: ParallelAgent) -> Box:
        key = self._key()
        fork, join = Node(self._key(), "fork"), Node(self._key(), "join", group.merge)
        parts: list[Part] = [fork]
        for child in group.children:
            placed = self.place(child, parts)
            self.arrows += [Arrow(fork, placed), Arrow(placed, join)]
        notes = ["parallel", *_at_once(group.max_parallel)]
        if group.on_error == "collect":
            notes.append("goes on after failures")
        return Box(key, "parallel", _plain(group.id), tuple(notes), (*parts, join), fork, join)

    def _workflow(self, workflow: Workflow) -> Box:
        key = self._key()
        tasks = {task.name: self._task(task) for task in workflow.tasks}
        needed = {name for task in workflow.tasks for name in task.dependencies}
        self.arrows += [
            Arrow(tasks[name], tasks[task.name])
            for task in workflow.tasks
            for name in dict.fromkeys(task.dependencies)  # named twice, it is waited for once
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
        notes = ["workflow", *_at_once(workflow.max_parallel)]
        if workflow.parameters:
            notes += _wrapped("parameters: " + ", ".join(sorted(workflow.parameters)))
        return Box(key, "workflow", _plain(workflow.id), tuple(notes), tuple(parts), entry, exit)

    def _task(self, task: Task) -> Box:
        key = self._key()
        parts: list[Part] = []
        runner = self.place(task.runner, parts)
        return Box(key, "task", task.name, _task_notes(task), tuple(parts), runner.entry, runner.exit)


def _agent_notes(agent: Agent[object]) -> tuple[str, ...]:
    return (_plain(name_of(agent.model)), *_tool_notes(agent.tools))


def _tool_notes(tools: Sequence[Tool[..., object]]) -> list[str]:
    """Return lines with the tools; those that a person must allow are never left out."""
    marks: Mapping[bool, str] = {True: " (approval)", False: ""}
    named = {tool.name + (" (approval?)" if callable(tool.approval) else marks[tool.approval]): tool for tool in tools}
    if not tools:
        return []
    if len(tools) <= MAX_TOOLS:
        return _wrapped(("tools: " if len(tools) > 1 else "tool: ") + ", ".join(named))
    marked = [name for name, tool in named.items() if tool.approval is not False]
    return _wrapped(f"{len(tools)} tools" + (": " + ", ".join([*marked, "…"]) if marked else ""))


def _task_notes(task: Task) -> tuple[str, ...]:
    notes: list[str] = []
    if task.when is not None:
        notes.append(f"when {_condition(task.when)}")
    if task.for_each is not None:
        notes.append(f"for each of {_condition(task.for_each)}")
    if task.until is not None:
        notes.append(f"until {_condition(task.until)}, again {_times(task.max_repeats)} at most")
    if task.retries:
        notes.append(f"after a failure again, {_times(task.retries)} at most")
    return tuple(notes)


def _condition(given: str | Callable[..., bool]) -> str:
    if not isinstance(given, str):
        return _plain(getattr(given, "__name__", type(given).__name__)) + "()"
    text = _plain(given)
    return text if len(text) <= MAX_NOTE else text[: MAX_NOTE - 1] + "…"


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


def _plain(text: str) -> str:
    """Return a text as one line: ids and conditions may hold whatever no font shows, and XML has no control characters."""
    joiners = "\u200c\u200d"  # They show nothing of their own, and Persian words and many emoji need them.
    return "".join([c if c.isprintable() or c in joiners else " " if c.isspace() else f"\\u{ord(c):04x}" for c in text])
