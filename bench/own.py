"""Users' actors that do almost nothing: the counterparts of the actors in `references`."""

from __future__ import annotations

import queue

import understudy as us

from .fakes import FAIL, Failure


class Echo(us.Actor[object]):
    """Replies with the message."""

    def on_receive(self, message: object) -> object:
        return message


class Hop(us.Actor[object]):
    """Asks another actor inside its turn, and replies with that actor's reply."""

    def __init__(self, other: us.ActorRef[object]) -> None:
        self._other = other

    def on_receive(self, message: object) -> object:
        return self._other.ask(message)


class Fragile(us.Actor[object]):
    """Fails at the message `FAIL`, and replies with any other."""

    def on_receive(self, message: object) -> object:
        if message is FAIL:
            raise Failure
        return message


class Announcing(us.Actor[object]):
    """Puts one item into a queue when it has started."""

    def __init__(self, began: queue.SimpleQueue[None]) -> None:
        self._began = began

    def on_start(self) -> None:
        self._began.put(None)
