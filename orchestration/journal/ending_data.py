"""Outcomes and errors as plain data for rows of a journal, and back. Loads pydantic.

JSON does not carry all of them. An `output` in a class of the user's comes back as plain data. An error comes back in its class
if that is one of ours, with its words and those of its attributes that are texts or numbers; else as a `RunError` that names the class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeAlias, cast

from pydantic import TypeAdapter

from understudy import errors
from understudy.errors import RunError, kind_and_message, message_of
from understudy.vocabulary.context.artifacts import Artifact
from understudy.vocabulary.messages import Message, ToolCall, Usage
from understudy.vocabulary.runs.outcome_data import plain_value
from understudy.vocabulary.runs.outcomes import (
    Complete,
    Incomplete,
    NeedsApproval,
    NeedsInput,
    Outcome,
    Pause,
    TaskResult,
)

Data: TypeAlias = "dict[str, Any]"

_ERRORS = {
    name: each for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, BaseException)
}
_OUTCOMES: dict[str, type[Outcome[object]]] = {
    "complete": Complete,
    "needs_input": NeedsInput,
    "needs_approval": NeedsApproval,
    "incomplete": Incomplete,
}


def error_data(error: BaseException) -> Data:
    """Return an error as plain data."""
    known = _ERRORS.get(type(error).__name__)
    if known is None or not isinstance(error, known):
        return {"type": "", "message": kind_and_message(error)}
    values = {name: each for name, each in vars(error).items() if _is_kept(name, each)}
    return {"type": known.__name__, "message": message_of(error), "values": values}


def _is_kept(name: str, value: object) -> bool:
    if name.startswith("_"):
        return False
    if isinstance(value, tuple):
        return all(isinstance(each, str) for each in cast("tuple[object, ...]", value))
    return value is None or isinstance(value, str | int | float)


def error_of(data: Data) -> BaseException:
    """Return the error of some data."""
    message = str(data["message"])
    try:
        error = _ERRORS[data["type"]](message)
        values = cast("dict[str, str | float | list[str] | None]", data["values"])
        vars(error).update({name: tuple(each) if isinstance(each, list) else each for name, each in values.items()})
    except Exception:  # noqa: BLE001 (of a version that has another class of this name, or none)
        return RunError(message)
    return error


def outcome_data(outcome: Outcome[object]) -> Data:
    """Return an outcome as plain data. A value that a user's own code cannot give as such is left out."""
    data: Data = {}
    for name in names_of(type(outcome)):
        value = getattr(outcome, name)
        try:
            data[name] = _FORMS[name].data(value) if name in _FORMS else plain_value(value)
        except Exception:  # noqa: BLE001 (whatever a user's serializer raises: the run must come to its end)
            data[name] = None if name == "output" else _EMPTY
    return {name: each for name, each in data.items() if each is not _EMPTY}


def outcome_of(data: Data) -> Outcome[object]:
    """Return the outcome of some data.

    Raises:
        Exception: it is no outcome that this version knows.
    """
    kind = _OUTCOMES[data["status"]]
    known = {name: each for name, each in data.items() if name in names_of(kind)}
    return kind(**{name: _FORMS[name].read(each) if name in _FORMS else each for name, each in known.items()})


_NAMES: dict[type[object], tuple[str, ...]] = {}
"""Class -> the names of its fields."""


def names_of(kind: type[object]) -> tuple[str, ...]:
    """Return the names of the fields of a class."""
    found = _NAMES.get(kind)
    if found is None:
        found = _NAMES[kind] = tuple([field.name for field in fields(cast(Any, kind))])
    return found


_EMPTY = object()
"""Stands for a value that is left out."""


class Form(NamedTuple):
    """How the values of a field become plain data and come back."""

    data: Callable[[Any], Any]
    read: Callable[[Any], Any]


def adapted(kind: Any) -> Form:
    """Return the form of a type that pydantic knows."""
    known: list[TypeAdapter[Any]] = []

    def adapter() -> TypeAdapter[Any]:
        if not known:
            known.append(TypeAdapter(kind))
        return known[0]

    def dumped(value: object) -> object:
        return adapter().dump_python(value, warnings=False)

    def read(data: object) -> object:
        return adapter().validate_python(data)

    return Form(dumped, read)


def ending_data(ending: Outcome[object] | BaseException) -> Data:
    """Return an outcome or an error as plain data."""
    if isinstance(ending, BaseException):
        return {"error": error_data(ending)}
    return {"outcome": outcome_data(ending)}


def ending_of(data: Data) -> Outcome[object] | BaseException:
    """Return what `ending_data` was given."""
    return error_of(data["error"]) if "error" in data else outcome_of(data["outcome"])


def _tasks_data(tasks: Mapping[str, TaskResult]) -> Data:
    return {name: _task_data(task) for name, task in tasks.items()}


def _task_data(task: TaskResult) -> Data:
    error = None if task.error is None else error_data(task.error)
    return {"status": task.status, "text": task.text, "reason": task.reason, "attempts": task.attempts, "error": error}


def _tasks_of(data: Data) -> dict[str, TaskResult]:
    return {name: _task_of(name, task) for name, task in data.items()}


def _task_of(name: str, data: Data) -> TaskResult:
    error = None if data["error"] is None else error_of(data["error"])
    return TaskResult(
        name=name,
        status=data["status"],
        text=data["text"],
        reason=data["reason"],
        attempts=data["attempts"],
        error=error,
    )


def _children_data(children: Sequence[Outcome[object] | BaseException]) -> list[Data]:
    return [ending_data(child) for child in children]


def _children_of(data: Sequence[Data]) -> tuple[Outcome[object] | BaseException, ...]:
    return tuple([ending_of(child) for child in data])


_FORMS: Mapping[str, Form] = {
    "usage": adapted(Usage),
    "messages": adapted(tuple[Message, ...]),
    "artifacts": adapted(dict[str, Artifact]),
    "pauses": adapted(tuple[Pause, ...]),
    "calls": adapted(tuple[ToolCall, ...]),
    "tasks": Form(_tasks_data, _tasks_of),
    "children": Form(_children_data, _children_of),
}
