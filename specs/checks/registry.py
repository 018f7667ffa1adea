"""What a program registered for its specs to name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.vocabulary.runs.callbacks import AgentCallback
from understudy.vocabulary.runs.criteria import Criterion

from .registered_objects import CALLBACK, CRITERION, Kind
from .tool_names import Toolbox


@dataclass(frozen=True, slots=True)
class Registered:
    """What a program registered for its specs to name."""

    toolbox: Toolbox
    callbacks: Mapping[str, AgentCallback] = field(default_factory=dict[str, AgentCallback])
    criteria: Mapping[str, Criterion] = field(default_factory=dict[str, Criterion])
    objects: Mapping[str, object] = field(default_factory=dict[str, object])
    more: str = ""
    """Where others come from, for errors."""

    def problem(self, kind: Kind, name: str) -> str:
        """Return why a name stands for nothing of a kind; empty if it does."""
        return kind.problem(name, self._known(kind), self.more)

    def get(self, kind: Kind, name: str) -> Any:
        """Return what a name stands for; `problem` has nothing to say of it.

        Raises:
            KeyError: there is no such name.
        """
        known = self._known(kind)
        return known[name] if name in known else kind.built_in[name]

    def _known(self, kind: Kind) -> Mapping[str, object]:
        """Return what may be looked up: callbacks and criteria may be registered as such, or as any other object."""
        if kind is CALLBACK:
            return {**self.objects, **self.callbacks}
        return {**self.objects, **self.criteria} if kind is CRITERION else self.objects


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
