"""Whole programs of actors, from their first message to their end, beside the same programs on bare Pykka actors."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import cast

import pykka

import understudy as us

from . import savina, savina_streams
from .batch import Round, taking_turns, timing_itself
from .measure import Measure, Side
from .savina import Program, Ref, Role, Start
from .sizes import Sizes

Make = Callable[[Start, Sizes], Program]


ROOM = us.Mailbox(1_000_000)  # A Pykka inbox has no limit, and some programs send thousands of messages in one go.

_own: dict[type[Role], type[us.Actor[object]]] = {}
_bare: dict[type[Role], type[pykka.ThreadingActor]] = {}


def own(role: type[Role]) -> type[us.Actor[object]]:
    """Return the class of understudy's actors that have a role; one for each role."""
    if role not in _own:
        _own[role] = cast("type[us.Actor[object]]", type(role.__name__, (role, us.Actor), {}))
    return _own[role]


def bare(role: type[Role]) -> type[pykka.ThreadingActor]:
    """Return the class of Pykka's actors that have a role; one for each role."""
    if role not in _bare:
        _bare[role] = cast("type[pykka.ThreadingActor]", type(role.__name__, (role, pykka.ThreadingActor), {}))
    return _bare[role]


@contextmanager
def own_actors() -> Generator[Start]:
    """Start understudy's actors, and stop them at the end of the block."""
    with us.ActorSystem("savina") as system:

        def start(role: type[Role], *arguments: object) -> Ref:
            return system.spawn(partial(own(role), *arguments), mailbox=ROOM)

        yield start


@contextmanager
def bare_actors() -> Generator[Start]:
    """Start Pykka's actors, and stop them at the end of the block."""
    started: list[pykka.ActorRef[pykka.ThreadingActor]] = []

    def start(role: type[Role], *arguments: object) -> Ref:
        started.append(bare(role).start(*arguments))
        return started[-1]

    try:
        yield start
    finally:
        for each in started:
            each.stop()


def _seconds(actors: Callable[[], AbstractContextManager[Start]], make: Make, sizes: Sizes) -> float:
    """Return how long a program takes from its first message to its end; its actors' starts and stops are not timed."""
    with actors() as start:
        program = make(start, sizes)
        began = time.perf_counter()
        program.play()
        return time.perf_counter() - began


def _measure(name: str, title: Callable[[Sizes], str], make: Make) -> Measure:
    ours, theirs = "actors of understudy's", "bare Pykka actors"

    @contextmanager
    def prepare(sizes: Sizes) -> Generator[Round]:
        sides = {
            ours: partial(timing_itself, partial(_seconds, own_actors, make, sizes), sizes.samples),
            theirs: partial(timing_itself, partial(_seconds, bare_actors, make, sizes), sizes.samples),
        }
        _seconds(own_actors, make, sizes)  # imports and threads are paid for
        yield taking_turns(sides)

    return Measure(
        name=name,
        title=title,
        ours=(Side(label=ours, target_ratio=1.15),),
        references=(Side(label=theirs),),
        prepare=prepare,
    )


PROGRAMS = (
    _measure(
        "ping-pong",
        lambda sizes: f"Savina's ping-pong: {sizes.pings:,} pings, each answered",
        lambda start, sizes: savina.ping_pong(start, sizes.pings),
    ),
    _measure(
        "thread-ring",
        lambda sizes: f"Savina's thread ring: {sizes.crowd} actors, a token passed on {2 * sizes.pings:,} times",
        lambda start, sizes: savina.thread_ring(start, sizes.crowd, 2 * sizes.pings),
    ),
    _measure(
        "big",
        lambda sizes: (
            f"Savina's big: {sizes.crowd} actors, {2 * sizes.pings // sizes.crowd} pings of each to any others"
        ),
        lambda start, sizes: savina.big(start, sizes.crowd, 2 * sizes.pings // sizes.crowd),
    ),
    _measure(
        "philosophers",
        lambda sizes: f"Savina's philosophers: {sizes.crowd} of them, {sizes.pings // sizes.crowd} meals of each",
        lambda start, sizes: savina.philosophers(start, sizes.crowd, sizes.pings // sizes.crowd),
    ),
    _measure(
        "counting",
        lambda sizes: f"Savina's counting: {2 * sizes.pings:,} messages of one actor to another",
        lambda start, sizes: savina_streams.counting(start, 2 * sizes.pings),
    ),
    _measure(
        "bank",
        lambda sizes: f"Savina's bank transaction: {sizes.pings // 2:,} transfers among {sizes.crowd} accounts",
        lambda start, sizes: savina_streams.bank(start, sizes.crowd, sizes.pings // 2),
    ),
    _measure(
        "fork-join",
        lambda sizes: f"Savina's fork-join: {2 * sizes.pings // sizes.crowd} messages to each of {sizes.crowd} workers",
        lambda start, sizes: savina_streams.fork_join(start, sizes.crowd, 2 * sizes.pings // sizes.crowd),
    ),
    _measure(
        "creation",
        lambda sizes: f"Savina's actor creation: {5 * sizes.crowd} actors made for one message each",
        lambda start, sizes: savina_streams.creation(start, 5 * sizes.crowd),
    ),
)
