"""The cost of a message to a user's actor: waiting for each reply, for all replies, or for none."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

import understudy as us

from . import own, references
from .batch import Round, timed, warmed
from .measure import Measure, Side
from .references import started
from .sizes import Sizes


@contextmanager
def _ask(sizes: Sizes) -> Generator[Round]:
    with us.ActorSystem("bench") as system, started(references.Echo) as bare:
        echo = system.spawn(own.Echo)
        sides = {
            "ActorRef.ask": partial(timed, lambda: echo.ask("go")),
            "ask a bare Pykka actor": partial(timed, lambda: bare.ask("go")),
        }
        yield warmed(sides, sizes.asks)


@contextmanager
def _pipelined(sizes: Sizes) -> Generator[Round]:
    with us.ActorSystem("bench") as system, started(references.Echo) as bare:
        echo = system.spawn(own.Echo)

        def ours() -> None:
            futures = [echo.ask_future(number) for number in range(sizes.messages)]
            for future in futures:
                future.result()

        def theirs() -> None:
            futures = [bare.ask(number, block=False) for number in range(sizes.messages)]
            for future in futures:
                future.get()

        sides = {
            "ask_future, then result()": partial(timed, ours),
            "Pykka's ask(block=False), then get()": partial(timed, theirs),
        }
        yield warmed(sides, sizes.samples)


@contextmanager
def _tell(sizes: Sizes) -> Generator[Round]:
    with us.ActorSystem("bench") as system, started(references.Echo) as bare:
        # A mailbox is bounded, and this one must hold all messages: the sender never waits for the actor.
        echo = system.spawn(own.Echo, mailbox=us.Mailbox(sizes.tells + 1))

        def ours() -> None:
            for number in range(sizes.tells):
                echo.tell(number)
            echo.ask("fence")

        def theirs() -> None:
            for number in range(sizes.tells):
                bare.tell(number)
            bare.ask("fence")

        sides = {
            "ActorRef.tell, then one ask": partial(timed, ours),
            "Pykka's tell, then one ask": partial(timed, theirs),
        }
        yield warmed(sides, sizes.samples)


@contextmanager
def _two_hop(sizes: Sizes) -> Generator[Round]:
    with (
        us.ActorSystem("bench") as system,
        started(references.Echo) as bare_echo,
        started(references.Hop, bare_echo) as bare_hop,
    ):
        echo = system.spawn(own.Echo)
        hop = system.spawn(lambda: own.Hop(echo), name="hop")
        sides = {
            "ask an actor that asks another": partial(timed, lambda: hop.ask("go")),
            "the same on bare Pykka actors": partial(timed, lambda: bare_hop.ask("go")),
        }
        yield warmed(sides, sizes.asks)


ASK = Measure(
    name="ask",
    title=lambda _: "asking an actor that replies at once, and waiting for the reply",
    ours=(Side(label="ActorRef.ask", target_ratio=1.10),),
    references=(Side(label="ask a bare Pykka actor"),),
    prepare=_ask,
)

PIPELINED = Measure(
    name="pipelined",
    title=lambda sizes: f"{sizes.messages:,} asks of one actor under way at once, then all their results",
    # One and a half times as fast.
    ours=(Side(label="ask_future, then result()", target_ratio=0.67),),
    references=(Side(label="Pykka's ask(block=False), then get()"),),
    prepare=_pipelined,
)

TELL = Measure(
    name="tell",
    title=lambda sizes: f"{sizes.tells:,} tells to one actor, and an ask that comes after them",
    ours=(Side(label="ActorRef.tell, then one ask"),),
    references=(Side(label="Pykka's tell, then one ask"),),
    prepare=_tell,
)

TWO_HOP = Measure(
    name="two-hop",
    title=lambda _: "asking an actor that asks another one inside its turn",
    ours=(Side(label="ask an actor that asks another"),),
    references=(Side(label="the same on bare Pykka actors"),),
    prepare=_two_hop,
)
