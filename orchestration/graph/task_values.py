"""`TaskValues`: resolves a task's references: its condition, its items and its prompts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from understudy.vocabulary.messages import JsonValue, join_text

from .conditions import FLAGS, ORDERS, Condition, Fixed, Joined, Listed, Operand, number_in, parsed, read
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


ValueOf: TypeAlias = "Callable[[Reference], JsonValue]"


def holds(condition: str, value_of: ValueOf) -> bool:
    """Whether a condition is true. `and` and `or` stop at the first operand that decides.

    Raises:
        ValueError: the text is no condition, or values cannot be compared so; or any error of `value_of`.
    """
    return _holds(parsed(condition), value_of)


def _holds(condition: Condition, value_of: ValueOf) -> bool:
    if isinstance(condition, Joined):
        each = (_holds(part, value_of) for part in condition.parts)
        match condition.by:
            case "and":
                return all(each)
            case "or":
                return any(each)
            case _:
                return not any(each)
    left, sign, right = condition.left, condition.sign, condition.right
    match sign:
        case "":
            return _is_true(_value(left, value_of))
        case "==" | "!=":
            return _same(left, right, value_of) is (sign == "==")
        case "in" | "not in":
            return _is_in(left, right, value_of) is (sign == "in")
        case _:
            return ORDERS[sign](_comparable(left, sign, value_of), _comparable(right, sign, value_of))


def _value(operand: Operand, value_of: ValueOf) -> JsonValue:
    assert not isinstance(operand, Listed)  # a list can only follow `in`
    return operand.value if isinstance(operand, Fixed) else value_of(operand)


def _is_true(value: JsonValue) -> bool:
    found = read(value)
    if isinstance(found, str):
        return found.strip().lower() not in ("", "false", "no")
    return found not in (None, False, 0) and found != [] and found != {}


def _same(left: Operand, right: Operand, value_of: ValueOf) -> bool:
    """Whether two operands are equal: as numbers if both are numbers and neither is quoted text, otherwise as texts."""
    texts = [each for each in (left, right) if isinstance(each, Fixed) and isinstance(each.value, str)]
    one, other = _value(left, value_of), _value(right, value_of)
    if texts:
        return as_text(one).strip() == as_text(other).strip()
    return _equal(one, other)


def _equal(one: JsonValue, other: JsonValue) -> bool:
    one, other = read(one), read(other)
    if isinstance(one, bool) or isinstance(other, bool):
        return _flag(one) is not None and _flag(one) is _flag(other)
    if isinstance(one, str) and isinstance(other, str):
        return one.strip() == other.strip()
    return one == other


def _flag(value: JsonValue) -> JsonValue:
    """Return a boolean, or the boolean that a model's text such as True means; None for other values."""
    return FLAGS.get(value.strip().lower()) if isinstance(value, str) else value if isinstance(value, bool) else None


def _is_in(left: Operand, right: Operand, value_of: ValueOf) -> bool:
    if isinstance(right, Listed):
        return any(_same(left, each, value_of) for each in right.entries)
    whole = _value(right, value_of)
    inside = read(whole)
    if isinstance(inside, Mapping):
        return as_text(_value(left, value_of)).strip() in inside
    if isinstance(inside, Sequence) and not isinstance(inside, str):
        return any(_same(left, Fixed(each), value_of) for each in inside)
    if isinstance(whole, str):
        return as_text(_value(left, value_of)).strip() in whole
    raise ValueError(f"'in' looks into a list, an object or text; {right} is {as_text(whole)}")


def _comparable(operand: Operand, sign: str, value_of: ValueOf) -> float:
    value = _value(operand, value_of)
    found = number_in(value)
    if found is None:
        raise ValueError(f"{sign!r} compares numbers; {operand} is {as_text(value)[:60]!r}")
    return found
