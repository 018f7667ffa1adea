"""An actor controlled by its messages."""

from __future__ import annotations

import understudy as us


class Player(us.Actor[object]):
    """Raises a message that is an exception, calls one that is callable, and replies with any other."""

    def on_receive(self, message: object) -> object:
        if isinstance(message, BaseException):
            raise message
        return message() if callable(message) else message
