"""The messages of Pykka's proxies, which an actor handles by itself."""

from __future__ import annotations

from typing import Any

from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr

PROXY_MESSAGES = frozenset({ProxyCall, ProxyGetAttr, ProxySetAttr})


def handle_proxy_message(actor: object, message: object) -> object:
    """Do with the object of an actor what a proxy asks for."""
    match message:
        case ProxyCall(path, args, kwargs):
            return _at(actor, path)(*args, **kwargs)
        case ProxySetAttr(path, value):
            setattr(_at(actor, path[:-1]), path[-1], value)
            return None
        case ProxyGetAttr(path):
            return _at(actor, path)
        case _:
            raise TypeError(f"a proxy does not send a {type(message).__name__}")


def _at(root: object, path: tuple[str, ...]) -> Any:
    for name in path:
        root = getattr(root, name)
    return root
