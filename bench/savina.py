"""Four programs of the Savina suite, each written once and played by actors of either runtime.

Written anew after the descriptions in S. M. Imam and V. Sarkar, "Savina: An Actor Benchmark Suite", AGERE! 2014: ping-pong,
thread ring, big, and dining philosophers. The parts of a program are sent to each actor, so that none needs its own reference.
"""

from __future__ import annotations

import queue
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

PATIENCE = 60.0  # Seconds after which a program that has not ended will not end.


class Ref(Protocol):
    """A reference to an actor, in either runtime."""

    def tell(self, message: object) -> object:
        """Send, and go on."""
        ...


class Role:
    """An actor's behaviour; each runtime derives a class from it and from its own actor class."""

    def on_receive(self, message: object) -> object:
        """Handle one message."""
        raise NotImplementedError


Over = queue.SimpleQueue[object]
"""The queue in which a program puts its result at its end."""


class Start(Protocol):
    """Starts an actor that has a role."""

    def __call__(self, role: type[Role], *arguments: object) -> Ref:
        """Return where the new actor can be reached; the arguments are the role's own."""
        ...


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin, with these actors, of which the one who gets it is the one at `place`."""

    actors: Sequence[Ref]
    place: int = 0


@dataclass(frozen=True, slots=True)
class Ping:
    """Answer `sender` with `PONG`."""

    sender: Ref


PONG = "pong"


# --- ping-pong: two actors that exchange messages


class Pinger(Role):
    """Sends a ping, and the next one for each answer, as often as it is told to."""

    def __init__(self, pings: int, over: Over) -> None:
        super().__init__()
        self._left = pings
        self._pongs = 0
        self._over = over
        self._me: Ref | None = None
        self._other: Ref | None = None

    def on_receive(self, message: object) -> None:
        if isinstance(message, Begin):
            self._me, self._other = message.actors
        else:
            self._pongs += 1
        if self._left == 0:
            self._over.put(self._pongs)
        elif self._me is not None and self._other is not None:
            self._left -= 1
            self._other.tell(Ping(self._me))


class Ponger(Role):
    """Answers pings."""

    def on_receive(self, message: object) -> None:
        if isinstance(message, Ping):
            message.sender.tell(PONG)


# --- thread ring: actors that pass a token on


class Passer(Role):
    """Passes a number on to the next one, less one; who has 0 says its place in the ring."""

    def __init__(self, over: Over) -> None:
        super().__init__()
        self._over = over
        self._place = 0
        self._next: Ref | None = None

    def on_receive(self, message: object) -> None:
        if isinstance(message, Begin):
            self._place = message.place
            self._next = message.actors[(message.place + 1) % len(message.actors)]
        elif isinstance(message, int) and self._next is not None:
            if message == 0:
                self._over.put(self._place)
            else:
                self._next.tell(message - 1)


# --- big: many actors that each send messages to others, drawn by chance


class Chatter(Role):
    """Pings others, one after another, and answers their pings; says so when its own are answered."""

    def __init__(self, pings: int, seed: int, over: Over) -> None:
        super().__init__()
        self._left = pings
        self._chance = random.Random(seed)
        self._over = over
        self._answered = 0
        self._others: Sequence[Ref] = ()
        self._ping: Ping | None = None

    def on_receive(self, message: object) -> None:
        if isinstance(message, Ping):
            message.sender.tell(PONG)
            return
        if isinstance(message, Begin):
            self._ping = Ping(message.actors[message.place])
            self._others = [*message.actors[: message.place], *message.actors[message.place + 1 :]]
        else:
            self._answered += 1
        if self._left == 0:
            self._over.put(self._answered)
        else:
            self._left -= 1
            self._chance.choice(self._others).tell(self._ping)


# --- dining philosophers: actors that need two of the things that one more actor lends


@dataclass(frozen=True, slots=True)
class Hungry:
    """Ask for both forks; the answer is `EAT` or `DENIED`."""

    sender: Ref
    place: int


@dataclass(frozen=True, slots=True)
class Done:
    """Give both forks back."""

    place: int


EAT, DENIED, LEFT = "eat", "denied", "left"


class Philosopher(Role):
    """Eats as often as it is told to; one that is denied asks again."""

    def __init__(self, meals: int) -> None:
        super().__init__()
        self._left = meals
        self._hungry: Hungry | None = None
        self._arbitrator: Ref | None = None

    def on_receive(self, message: object) -> None:
        if isinstance(message, Begin):
            self._arbitrator = message.actors[-1]
            self._hungry = Hungry(message.actors[message.place], message.place)
        if self._arbitrator is None or self._hungry is None:
            return
        if message == EAT:
            self._left -= 1
            self._arbitrator.tell(Done(self._hungry.place))
        self._arbitrator.tell(self._hungry if self._left else LEFT)


class Arbitrator(Role):
    """Lends forks, and says how many meals there were when all have left; a fork that is lent twice fails it."""

    def __init__(self, philosophers: int, over: Over) -> None:
        super().__init__()
        self._free = [True] * philosophers
        self._guests = philosophers
        self._meals = 0
        self._over = over

    def on_receive(self, message: object) -> None:
        if isinstance(message, Hungry):
            both = self._forks(message.place)
            may = all(self._free[fork] for fork in both)
            if may:
                for fork in both:
                    self._free[fork] = False
            message.sender.tell(EAT if may else DENIED)
        elif isinstance(message, Done):
            self._meals += 1
            for fork in self._forks(message.place):
                self._free[fork] = True
        elif message == LEFT:
            self._guests -= 1
            if self._guests == 0:
                self._over.put((self._meals, all(self._free)))

    def _forks(self, place: int) -> tuple[int, int]:
        return place, (place + 1) % len(self._free)


# --- the programs


@dataclass(frozen=True, slots=True)
class Program:
    """One program whose actors have started and wait for their first message."""

    begin: Callable[[], object]
    over: Over
    ends: int = 1
    """How many of its actors say that they are done."""

    def play(self) -> list[object]:
        """Run it to its end, and return what its actors said then. Raises `queue.Empty` if it does not end."""
        self.begin()
        return [self.over.get(timeout=PATIENCE) for _ in range(self.ends)]


def ping_pong(start: Start, pings: int) -> Program:
    """Return a program of one actor that pings another `pings` times."""
    over: Over = queue.SimpleQueue()
    actors = [start(Pinger, pings, over), start(Ponger)]
    return Program(lambda: actors[0].tell(Begin(actors)), over)


def thread_ring(start: Start, actors: int, passes: int) -> Program:
    """Return a program of a ring in which a token is passed on `passes` times."""
    over: Over = queue.SimpleQueue()
    ring = [start(Passer, over) for _ in range(actors)]
    for place, each in enumerate(ring):
        each.tell(Begin(ring, place))
    return Program(lambda: ring[0].tell(passes), over)


def big(start: Start, actors: int, pings: int) -> Program:
    """Return a program of actors that each ping others `pings` times."""
    over: Over = queue.SimpleQueue()
    crowd = [start(Chatter, pings, seed, over) for seed in range(actors)]
    return Program(partial(_begin_all, crowd, crowd), over, ends=actors)


def philosophers(start: Start, number: int, meals: int) -> Program:
    """Return a program of philosophers that each eat `meals` times, with forks that one arbitrator lends."""
    over: Over = queue.SimpleQueue()
    guests = [start(Philosopher, meals) for _ in range(number)]
    return Program(partial(_begin_all, guests, [*guests, start(Arbitrator, number, over)]), over)


def _begin_all(actors: Sequence[Ref], all_of_them: Sequence[Ref]) -> None:
    for place, each in enumerate(actors):
        each.tell(Begin(all_of_them, place))
