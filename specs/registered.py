"""What a program registered for its specs to name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from understudy.callbacks import AgentCallback
from understudy.criteria import Criterion

from .toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Registered:
    """What a program registered for its specs to name."""

    toolbox: Toolbox
    callbacks: Mapping[str, AgentCallback] = field(default_factory=dict[str, AgentCallback])
    criteria: Mapping[str, Criterion] = field(default_factory=dict[str, Criterion])


def checked_callback(name: str, given: AgentCallback) -> AgentCallback:
    """Return a callback.

    Raises:
        TypeError: it is none, or the class of some.
    """
    if isinstance(given, type) and issubclass(given, AgentCallback):
        raise TypeError(f"callback {name!r} must be an object, got a class; write {given.__name__}()")
    if not isinstance(given, AgentCallback):
        raise TypeError(f"callback {name!r} must be an AgentCallback, got {given!r}")
    return given


def checked_criterion(name: str, given: Criterion) -> Criterion:
    """Return a criterion.

    Raises:
        TypeError: it is none.
    """
    if isinstance(given, type) or not callable(given):
        raise TypeError(
            f"criterion {name!r} must be a criterion or a function of the context and the text, got {given!r}"
        )
    return given
