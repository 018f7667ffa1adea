"""`ActorProxy`: the methods and attributes of a user's actor, as futures."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pykka
from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr

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


PROXY_MESSAGES = frozenset({ProxyCall, ProxyGetAttr, ProxySetAttr})


class CallersMistake(Exception):
    """What a proxy asks for cannot be done, and none of the actor's own code has failed: no failure of the actor.

    Args:
        error: what the caller gets.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def handle_proxy_message(actor: object, message: object) -> object:
    """Do with the object of an actor what a proxy asks for.

    Raises:
        CallersMistake: there is no such attribute, the arguments do not fit, or the attribute cannot be set.
    """
    match message:
        case ProxyCall(path, args, kwargs):
            return _called(_at(actor, path), args, kwargs)
        case ProxySetAttr(path, value):
            _set(_at(actor, path[:-1]), path[-1], value)
            return None
        case ProxyGetAttr(path):
            return _at(actor, path)
        case _:
            raise TypeError(f"a proxy does not send a {type(message).__name__}")


def _at(root: object, path: tuple[str, ...]) -> Any:
    for name in path:
        try:
            root = getattr(root, name)
        except AttributeError as error:
            if _is_defined(root, name):  # a property, whose code has failed
                raise
            raise CallersMistake(error) from None
    return root


def _is_defined(root: object, name: str) -> bool:
    try:
        inspect.getattr_static(root, name)
    except AttributeError:
        return False
    return True


def _called(method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    try:
        return method(*args, **kwargs)
    except TypeError as error:
        if not _entered(error) and not _takes(method, args, kwargs):
            raise CallersMistake(error) from None
        raise


def _set(root: object, name: str, value: object) -> None:
    try:
        setattr(root, name, value)
    except AttributeError as error:
        if _entered(error):
            raise
        raise CallersMistake(error) from None


def _entered(error: BaseException) -> bool:
    """Whether the error was raised in Python code that was called, and not by the call itself."""
    here = error.__traceback__
    return here is not None and here.tb_next is not None


def _takes(method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the arguments fit, as far as that can be known."""
    if not callable(method):
        return False
    try:
        signature = inspect.signature(method, follow_wrapped=False)
    except (TypeError, ValueError):  # of a method written in C
        return True
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True
