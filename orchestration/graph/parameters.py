"""The parameters of a workflow: values for names in prompts that are no tasks, set by a run or by the definition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import cast

from understudy.vocabulary.messages import JsonValue

from .references import as_text, bound, references
from .spec import INPUT, MOST_SHOWN, RESERVED, GraphSpec


def check_parameters(spec: GraphSpec, given: object) -> Mapping[str, JsonValue]:
    """Check and return the parameters of a run.

    Raises:
        ValueError: a name is missing, unknown, set by the definition, or a task's name.
        TypeError: the parameters are no mapping, or a value is no JSON.
    """
    where = f"workflow {spec.runner_id!r}"
    checked = checked_mapping(where, given)
    names, tasks = set(checked), {task.name for task in spec.tasks}
    for name in sorted(names & (tasks | RESERVED.keys())):
        what = "a task" if name in tasks else RESERVED[name]
        raise ValueError(f"{where}: parameter {name!r} is named like {what}; rename one of them")
    for name in sorted(names):
        _check_free(where, name, spec.given)
    for name in sorted(spec.parameters - names):
        raise ValueError(f"{where}: missing parameter {name!r}{_instead(name, sorted(names - spec.parameters))}")
    for name in sorted(names - spec.parameters):
        raise ValueError(f"{where}: no prompt refers to parameter {name!r}; {_needed(spec.parameters)}")
    _check_json(where, checked)
    return checked


def checked_mapping(where: str, given: object) -> Mapping[str, JsonValue]:
    """Return parameters as a dict; the values are not checked.

    Raises:
        TypeError: the parameters are no mapping.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{where}: parameters must be a mapping such as {{'topic': 'tides'}}, got {given!r}")
    return cast("Mapping[str, JsonValue]", given)


def check_given(
    id: str, names: frozenset[str], given: Mapping[str, JsonValue], before: Mapping[str, JsonValue]
) -> None:
    """Check values that a definition sets, besides those in `before`.

    Raises:
        ValueError: a name is unknown or already set, or a text refers to something other than the input.
        TypeError: a value is no JSON.
    """
    where = f"workflow {id!r}"
    for name, value in given.items():
        _check_free(where, name, before)
        if name not in names:
            near = get_close_matches(str(name), sorted(names), 1)
            hint = f". Did you mean {near[0]!r}?" if near else f"; {_needed(names)}"
            raise ValueError(f"{where}: no prompt refers to parameter {name!r}{hint}")
        for found in references(value) if isinstance(value, str) else ():
            if found.name != INPUT or found.keys:
                raise ValueError(f"{where}: parameter {name!r} refers to {found}; expected ${{input}} or plain text")
    _check_json(where, given)


def _check_free(where: str, name: str, before: Mapping[str, JsonValue]) -> None:
    if name in before:
        raise ValueError(f"{where}: parameter {name!r} has a value already, by with_parameters")


def filled(given: Mapping[str, JsonValue], input: str) -> dict[str, JsonValue]:
    """Return the values that the definition sets, with the input in place of `${input}`."""
    return {
        name: bound(each, lambda _: as_text(input)) if isinstance(each, str) else each for name, each in given.items()
    }


def _instead(name: str, unknown: list[str]) -> str:
    """Return what was given in place of a missing parameter, and which of it was probably meant."""
    if not unknown:
        return ""
    near = get_close_matches(name, unknown, 1)
    shown = repr(near[0]) if near else ", ".join(map(repr, unknown[:MOST_SHOWN]))
    return f". You gave {shown}." + (f" Did you mean {name!r}?" if near else "")


def _needed(names: Iterable[str]) -> str:
    return f"they need: {', '.join(sorted(names)) or 'none'}"


def _check_json(where: str, given: Mapping[str, JsonValue]) -> None:
    for name, value in given.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"{where}: parameter {name!r} is not JSON: {error}") from None
