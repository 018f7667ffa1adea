"""`TaskValues`: resolves a task's references: its condition, its items and its prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from understudy.vocabulary.messages import JsonValue, join_text

from .comparing import holds
from .references import Reference, as_text, bound, from_text, reference, value_at
from .spec import INPUT, ITEM, PREVIOUS, TaskSpec, handed_over
from .state import GraphState, TaskState

MARKER = re.compile(r"<(?=\s*/?\s*result\b)", re.IGNORECASE)
"""A tag in a dependency's text that could be taken for the start or end of its block in the prompt."""


class TaskValues:
    """The values of references in the present state of a run.

    Args:
        state: the run's state.
        numbers: name of a task -> its number.
    """

    __slots__ = ("_numbers", "_state")

    def __init__(self, state: GraphState, numbers: Mapping[str, int]) -> None:
        self._state = state
        self._numbers = numbers

    def prepare(self, spec: TaskSpec, task: TaskState) -> None:
        """Decide whether a task runs, is skipped or fails; all of its dependencies must be decided."""
        before = {name: self._state.tasks[self._numbers[name]] for name in spec.dependencies}
        undone = [f"{name!r}, which {_was(each)}" for name, each in before.items() if each.status != "done"]
        if undone:
            task.status, task.reason = "skipped", f"it depends on {', '.join(undone)}"
            return
        try:
            if spec.when is not None and not holds(spec.when, self._value_of):
                task.status, task.reason = "skipped", f"its condition does not hold: {spec.when}"
                return
            task.items = None if spec.for_each is None else self._items(spec.for_each)
            task.prompts = [self.prompt(spec, task, item) for item in ([None] if task.items is None else task.items)]
        except ValueError as error:
            task.status, task.reason = "failed", str(error)
            return
        task.status = "running"

    def prompt(self, spec: TaskSpec, task: TaskState, item: JsonValue = None) -> str:
        """Return the prompt of a task, for one item if it has `for_each`.

        Before a prompt that names no task come the texts of the dependencies, in order, each with its task's name.

        Raises:
            ValueError: a reference has no value.
        """

        def text_of(where: Reference) -> str:
            if where.name == ITEM:
                return as_text(value_at(item, where.keys, where))
            if where.name == PREVIOUS:
                return as_text(value_at(task.text, where.keys, where))
            return as_text(self._value_of(where))

        told = bound(spec.prompt, text_of)
        walked = reference(spec.for_each).name if spec.for_each is not None else ""
        for name in reversed(handed_over(spec, self._numbers)):
            text = as_text(item) if name == walked else self._state.tasks[self._numbers[name]].text
            told = f'<result task="{name}">\n{MARKER.sub("&lt;", text)}\n</result>\n\n{told}'
        return told

    def wants_more(self, until: str) -> bool:
        """Whether a task must run again because its `until` condition does not hold."""
        try:
            return not holds(until, self._value_of)
        except ValueError:  # a reference has no value yet
            return True

    def _items(self, for_each: str) -> list[JsonValue]:
        where = reference(for_each)
        value = self._value_of(where)
        inside = from_text(value) if isinstance(value, str) else value
        if isinstance(inside, (str, Mapping)) or not isinstance(inside, Sequence):
            raise ValueError(  # noqa: TRY004 (what a model said is of the wrong form, not an argument)
                f"for_each: {where} must be a list, or text that is a JSON array; got {as_text(value)[:60]!r}"
            )
        return list(inside)

    def _value_of(self, where: Reference) -> JsonValue:
        if where.name == INPUT:
            given = self._state.input
            value: JsonValue = given if isinstance(given, str) else join_text(given)
        elif where.name in self._numbers:
            value = self._state.tasks[self._numbers[where.name]].text
        else:
            value = self._state.parameters[where.name]
        return value_at(value, where.keys, where)


def _was(task: TaskState) -> str:
    return "failed" if task.status == "failed" else "was skipped"
