"""`Registered`: the objects that a program registered for its specs."""

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
    """The objects that a program registered, by the names its specs use."""

    toolbox: Toolbox
    callbacks: Mapping[str, AgentCallback] = field(default_factory=dict[str, AgentCallback])
    criteria: Mapping[str, Criterion] = field(default_factory=dict[str, Criterion])
    objects: Mapping[str, object] = field(default_factory=dict[str, object])
    more: str = ""
    """Tells in errors where more objects can come from."""

    def problem(self, kind: Kind, name: str) -> str:
        """Return why a name does not name an object of this kind; empty if it does."""
        return kind.problem(name, self._known(kind), self.more)

    def get(self, kind: Kind, name: str) -> Any:
        """Return the object of a name for which `problem` is empty.

        Raises:
            KeyError: there is no such name.
        """
        known = self._known(kind)
        return known[name] if name in known else kind.built_in[name]

    def _known(self, kind: Kind) -> Mapping[str, object]:
        """Return the objects to look among: callbacks and criteria may also be registered as plain objects."""
        if kind is CALLBACK:
            return {**self.objects, **self.callbacks}
        return {**self.objects, **self.criteria} if kind is CRITERION else self.objects


def checked_callback(name: str, given: AgentCallback) -> AgentCallback:
    """Return the callback that was given.

    Raises:
        TypeError: the object is not a callback, or is a class of callbacks.
    """
    if isinstance(given, type) and issubclass(given, AgentCallback):
        raise TypeError(f"callback {name!r} must be an object, got a class; write {given.__name__}()")
    if not isinstance(given, AgentCallback):
        raise TypeError(f"callback {name!r} must be an AgentCallback, got {given!r}")
    return given


def checked_criterion(name: str, given: Criterion) -> Criterion:
    """Return the criterion that was given.

    Raises:
        TypeError: the object is not a criterion.
    """
    if isinstance(given, type) or not callable(given):
        raise TypeError(
            f"criterion {name!r} must be a criterion or a function of the context and the text, got {given!r}"
        )
    return given
