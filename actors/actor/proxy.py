"""`ActorProxy`: the methods and attributes of a user's actor, as futures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pykka

from understudy.vocabulary.other_names import OF_ACTORS


class ActorProxy(pykka.ActorProxy[Any]):
    """Pykka's proxy of an actor that outlives its objects: it looks at the present object, and keeps no earlier one alive.

    Args:
        ref: the actor.
        present: returns its present object, for a look at its attributes.
        path: the attribute that the proxy is for; empty for the actor itself.
    """

    def __init__(self, ref: pykka.ActorRef[Any], present: Callable[[], object], path: tuple[str, ...] = ()) -> None:
        self._present = present
        super().__init__(actor_ref=ref, attr_path=path)

    @property
    def _actor(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]  # Pykka keeps the object
        return self._present()

    @_actor.setter
    def _actor(self, actor: object) -> None:
        """Keep nothing."""

    def __getattr__(self, name: str) -> Any:
        if name in OF_ACTORS and not self._attr_path:
            self._check_is_there(name)
        found = super().__getattr__(name)
        # The proxy of a traversable attribute; Pykka keeps it, and it would keep the object.
        if type(found) is pykka.ActorProxy:
            path = (*self._attr_path, name)
            found = self._actor_proxies[path] = ActorProxy(self.actor_ref, self._present, path)
        return found

    def _check_is_there(self, name: str) -> None:
        """Raise for a name that Pykka finds in the class, and that no actor has: asking for it would fail the actor."""
        actor = self._present()
        if name not in getattr(actor, "__dict__", {}):
            getattr(type(actor), name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ActorProxy):
            return False
        return self.actor_ref == other.actor_ref and self._attr_path == other._attr_path

    def __hash__(self) -> int:
        return hash((self.actor_ref, self._attr_path))
