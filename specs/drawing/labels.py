"""The words of a picture: labels and notes of runners, each one line of printable text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from understudy.orchestration import Agent, ParallelAgent, SequentialAgent, Task, Workflow
from understudy.vocabulary.models import name_of
from understudy.vocabulary.tools.definition import Tool

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
