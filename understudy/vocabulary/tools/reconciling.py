"""What is known of a tool call that was under way when its process died: it happened, it did not, or nobody can tell."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from understudy.vocabulary.checks import is_async
from understudy.vocabulary.messages import JsonValue

from .signature import takes_context_first


@dataclass(frozen=True, slots=True)
class Happened:
    """The call had its effect: the model gets `result`, and the call is not made again.

    A `reconcile` function returns it; and a person answers with it to a call in doubt, in place of `Approve` or `Reject`.
    """

    result: JsonValue = ""
    """What the tool returned, or words for it."""
    kind: Literal["happened"] = "happened"


@dataclass(frozen=True, slots=True)
class DidNotHappen:
    """The call had no effect: it is made again."""


@dataclass(frozen=True, slots=True)
class CannotTell:
    """Nobody knows yet: a person decides."""


Reconciliation: TypeAlias = Happened | DidNotHappen | CannotTell
"""What a `reconcile` function returns."""
Reconcile: TypeAlias = "Callable[..., Reconciliation]"
"""A function of the call's key and arguments, or of the tool's context and these. The arguments are one mapping, or parameters with
the names of the tool's."""


def checked_reconcile(where: str, given: object) -> Callable[..., Any] | None:
    """Return a `reconcile` option.

    Raises:
        TypeError: it is no plain function.
    """
    if given is None:
        return None
    if not callable(given):
        raise TypeError(
            f"{where} must be a function of the call's key and arguments that returns us.Happened(result), us.DidNotHappen() or "
            f"us.CannotTell(); got {given!r}"
        )
    if is_async(given):
        raise TypeError(f"{where} must be a plain function; this one is async def")
    return given


def names_wanted(reconcile: Callable[..., object], known: Collection[str]) -> tuple[str, ...] | None:
    """Return the arguments of the call that the function takes by name; None for one that takes all in one mapping.

    Args:
        reconcile: the function.
        known: the names of the tool's parameters.
    """
    try:
        parameters = list(inspect.signature(reconcile).parameters.values())
    except (TypeError, ValueError):  # a builtin
        return None
    rest = parameters[2 if wants_context(reconcile) else 1 :]
    names = [each.name for each in rest if each.kind is not each.VAR_KEYWORD]
    if names == ["arguments"] or any(name not in known for name in names):
        return None
    return tuple(known) if len(names) < len(rest) else tuple(names)


def wants_context(reconcile: Callable[..., object]) -> bool:
    """Whether the function takes the tool's context before the key and the arguments."""
    return takes_context_first(reconcile)
