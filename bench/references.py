"""The least that each piece of work can cost: bare Pykka actors, bare threads, plain Python."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Self, TypeVar, cast

import pykka

from .fakes import ANSWER, FAIL, Failure, noop

A = TypeVar("A", bound=pykka.ThreadingActor)


class Echo(pykka.ThreadingActor):
    """Replies with the message."""

    def on_receive(self, message: object) -> object:
        return message


class Hop(pykka.ThreadingActor):
    """Asks another actor inside its turn, and replies with that actor's reply."""

    def __init__(self, other: pykka.ActorRef[Echo]) -> None:
        super().__init__()
        self._other = other

    def on_receive(self, message: object) -> object:
        return cast("object", self._other.ask(message))


class Fragile(pykka.ThreadingActor):
    """Fails at the message `FAIL`, and replies with any other."""

    def on_receive(self, message: object) -> object:
        if message is FAIL:
            raise Failure
        return message


class Announcing(pykka.ThreadingActor):
    """Puts one item into a queue when it has started."""

    def __init__(self, began: queue.SimpleQueue[None]) -> None:
        super().__init__()
        self._began = began

    def on_start(self) -> None:
        self._began.put(None)


class SelfAsking(pykka.ThreadingActor):
    """Asks itself inside its turn, which Pykka allows, and replies with the seconds until its timeout."""

    def on_receive(self, message: object) -> float:
        if not isinstance(message, float):  # else it is its own message, handled after the timeout
            return 0.0
        began = time.perf_counter()
        with suppress(pykka.Timeout):
            self.actor_ref.ask("again", timeout=message)
        return time.perf_counter() - began


class HandWritten(pykka.ThreadingActor):
    """The loop an agent goes through, written by hand: a history of dictionaries, a table of functions, no checks."""

    def on_receive(self, message: object) -> object:
        rounds = message if isinstance(message, int) else 0
        history: list[dict[str, object]] = [{"role": "user", "content": "go"}]
        for turn in range(1, rounds + 1):
            call = {"id": f"call-{turn}", "name": "noop", "arguments": {"x": turn}}
            history.append({"role": "assistant", "calls": [call]})
            history.append({"role": "tool", "id": call["id"], "content": noop(turn)})
        history.append({"role": "assistant", "content": ANSWER})
        return history[-1]["content"]


@contextmanager
def started(kind: type[A], *arguments: object) -> Generator[pykka.ActorRef[A]]:
    """Start a Pykka actor, and stop it at the end of the block."""
    reference = kind.start(*arguments)
    try:
        yield reference
    finally:
        reference.stop()


class BareThread:
    """A thread that echoes items of a queue: about the minimum for a request and its reply."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[object, queue.SimpleQueue[object]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="bench-bare", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            message, reply = request
            reply.put(message)

    def ask(self, message: object) -> object:
        """Send `message` over and wait for it to come back."""
        reply: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._requests.put((message, reply))
        return reply.get()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.put(None)
        self._thread.join()


@dataclass(frozen=True)
class PlainTool:
    """A dataclass as plain as they come, with a tool's fields."""

    name: str
    function: object
    timeout: float = 60.0
    retries: int = 0


def sleeping_threads(threads: int, naps: Sequence[float]) -> None:
    """Start `threads` threads that each sleep for each of `naps`, in seconds, and join them all."""

    def sleep() -> None:
        for nap in naps:
            time.sleep(nap)

    started = [threading.Thread(target=sleep, daemon=True) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
