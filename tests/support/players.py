"""An actor that does what its messages say."""

from __future__ import annotations

import understudy as us


class Player(us.Actor[object]):
    """Raises an exception it is sent, calls what can be called, and replies with anything else."""

    def on_receive(self, message: object) -> object:
        if isinstance(message, BaseException):
            raise message
        return message() if callable(message) else message
