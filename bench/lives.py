"""The cost of starting, restarting and stopping a user's actor."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial

import understudy as us

from . import own, references
from .batch import Round, timed, timing_itself, warmed
from .fakes import FAIL, Failure
from .measure import Measure, Side
from .sizes import Sizes

END = 10.0  # Seconds a stop is waited for.
BEAR_ALL = us.OneForOne(max_restarts=1_000_000, within=1.0)


@contextmanager
def _spawn(sizes: Sizes) -> Generator[Round]:
    began: queue.SimpleQueue[None] = queue.SimpleQueue()
    with us.ActorSystem("bench") as system:

        def ours() -> None:
            reference = system.spawn(lambda: own.Announcing(began))
            began.get()
            assert reference.stop(timeout=END)

        def theirs() -> None:
            reference = references.Announcing.start(began)
            began.get()
            assert reference.stop()

        sides = {
            "spawn, on_start, stop": partial(timed, ours),
            "a bare Pykka actor: start, on_start, stop": partial(timed, theirs),
        }
        yield warmed(sides, sizes.asks)


class _Renewed:
    """A bare Pykka actor that its user replaces after a failure."""

    def __init__(self) -> None:
        self._actor = references.Fragile.start()

    def ask(self, message: object) -> object:
        try:
            return self._actor.ask(message)
        except Failure:
            self._actor.stop()
            self._actor = references.Fragile.start()
            raise

    def stop(self) -> None:
        self._actor.stop()


def _cost_of_failure(ask: Callable[[object], object], failure: type[Exception]) -> float:
    """Return how much longer an ask that fails and one that works take than two that work."""
    began = time.perf_counter()
    ask("go")
    ask("go")
    middle = time.perf_counter()
    with suppress(failure):
        ask(FAIL)
    ask("go")
    return time.perf_counter() - middle - (middle - began)


@contextmanager
def _restart(sizes: Sizes) -> Generator[Round]:
    renewed = _Renewed()
    try:
        with us.ActorSystem("bench") as system:
            fragile = system.spawn(own.Fragile, strategy=BEAR_ALL)
            sides = {
                "restart in place": partial(timing_itself, lambda: _cost_of_failure(fragile.ask, us.AgentCrashed)),
                "a bare Pykka actor: stop it, start another": partial(
                    timing_itself, lambda: _cost_of_failure(renewed.ask, Failure)
                ),
            }
            yield warmed(sides, sizes.asks)
    finally:
        renewed.stop()


SPAWN = Measure(
    name="spawn",
    title=lambda _: "starting an actor and stopping it, each waited for",
    ours=(Side(label="spawn, on_start, stop"),),
    references=(Side(label="a bare Pykka actor: start, on_start, stop"),),
    prepare=_spawn,
)

RESTART = Measure(
    name="restart",
    title=lambda _: "an ask that raises and one that works, less two that work",
    ours=(Side(label="restart in place", target=60e-6),),
    references=(Side(label="a bare Pykka actor: stop it, start another"),),
    prepare=_restart,
)
