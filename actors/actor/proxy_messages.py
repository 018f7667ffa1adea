"""The messages of Pykka's proxies, which an actor handles by itself."""

from __future__ import annotations

import inspect
from typing import Any

from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr

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
