"""Four more programs of the Savina suite: streams of messages from one sender, and actors made for one message.

Written anew after the descriptions in S. M. Imam and V. Sarkar, "Savina: An Actor Benchmark Suite", AGERE! 2014: counting,
bank transaction, fork-join throughput, and fork-join actor creation.
"""

from __future__ import annotations

import queue
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from .savina import Begin, Over, Program, Ref, Role, Start

# --- counting: one actor counts the messages of another


INCREMENT, REPORT = "increment", "report"


class Counter(Role):
    """Counts increments, and says how many there were when it is asked."""

    def __init__(self, over: Over) -> None:
        super().__init__()
        self._count = 0
        self._over = over

    def on_receive(self, message: object) -> None:
        if message == INCREMENT:
            self._count += 1
        elif message == REPORT:
            self._over.put(self._count)


class Producer(Role):
    """Sends increments to a counter, and then has it say how many arrived."""

    def __init__(self, increments: int) -> None:
        super().__init__()
        self._increments = increments

    def on_receive(self, message: object) -> None:
        if isinstance(message, Begin):
            counter = message.actors[0]
            for _ in range(self._increments):
                counter.tell(INCREMENT)
            counter.tell(REPORT)


def counting(start: Start, increments: int) -> Program:
    """Return a program of one actor that counts what another sends."""
    over: Over = queue.SimpleQueue()
    counter, producer = start(Counter, over), start(Producer, increments)
    return Program(lambda: producer.tell(Begin([counter])), over)


# --- bank transaction: accounts that transfer money to each other, one transfer at a time


@dataclass(frozen=True, slots=True)
class Transfer:
    """Take `amount` from your own account, and give it to `to`."""

    to: Ref
    amount: int


@dataclass(frozen=True, slots=True)
class Credit:
    """Add `amount`, and confirm it to `sender`."""

    sender: Ref
    amount: int


CONFIRMED, DONE = "confirmed", "done"


class Account(Role):
    """Transfers money; a transfer waits until the one before it is confirmed. Its balance is added up at the end."""

    def __init__(self, over: Over) -> None:
        super().__init__()
        self._balance = 0
        self._waiting: deque[Transfer] = deque()
        self._busy = False
        self._me: Ref | None = None
        self._teller: Ref | None = None
        self._over = over

    def on_receive(self, message: object) -> None:
        if isinstance(message, Credit):
            self._balance += message.amount
            message.sender.tell(CONFIRMED)
        elif isinstance(message, Transfer):
            self._waiting.append(message)
            self._next()
        elif message == CONFIRMED and self._teller is not None:
            self._busy = False
            self._teller.tell(DONE)
            self._next()
        elif isinstance(message, Begin):
            self._me, self._teller = message.actors[message.place], message.actors[-1]
        elif message == REPORT:
            self._over.put(self._balance)

    def _next(self) -> None:
        if self._waiting and not self._busy and self._me is not None:
            transfer = self._waiting.popleft()
            self._busy = True
            self._balance -= transfer.amount
            transfer.to.tell(Credit(self._me, transfer.amount))


class Teller(Role):
    """Orders transfers between accounts drawn by chance, and asks for the balances when all are done."""

    def __init__(self, transfers: int) -> None:
        super().__init__()
        self._transfers = self._left = transfers
        self._accounts: Sequence[Ref] = ()

    def on_receive(self, message: object) -> None:
        if isinstance(message, Begin):
            self._accounts, chance = message.actors[:-1], random.Random(self._transfers)
            for _ in range(self._transfers):
                source, to = chance.sample(self._accounts, 2)
                source.tell(Transfer(to, chance.randint(1, 1_000)))
        elif message == DONE:
            self._left -= 1
            if self._left == 0:
                for account in self._accounts:
                    account.tell(REPORT)


def bank(start: Start, accounts: int, transfers: int) -> Program:
    """Return a program of a teller that orders transfers; each account says its balance at the end."""
    over: Over = queue.SimpleQueue()
    everyone = [*(start(Account, over) for _ in range(accounts)), start(Teller, transfers)]
    for place, each in enumerate(everyone[:-1]):
        each.tell(Begin(everyone, place))
    return Program(lambda: everyone[-1].tell(Begin(everyone)), over, ends=accounts)


# --- fork-join: messages to many workers, and workers made for one message each


class Worker(Role):
    """Does a little work for each message, and says so at the last one."""

    def __init__(self, messages: int, over: Over) -> None:
        super().__init__()
        self._left = messages
        self._over = over

    def on_receive(self, message: object) -> None:
        _ = sum(range(10))
        self._left -= 1
        if self._left == 0:
            self._over.put(message)


def fork_join(start: Start, workers: int, messages: int) -> Program:
    """Return a program of workers that each get as many messages, sent to them in turn."""
    over: Over = queue.SimpleQueue()
    crew = [start(Worker, messages, over) for _ in range(workers)]

    def begin() -> None:
        for number in range(messages):
            for each in crew:
                each.tell(number)

    return Program(begin, over, ends=workers)


def creation(start: Start, workers: int) -> Program:
    """Return a program that makes workers, each for one message."""
    over: Over = queue.SimpleQueue()

    def begin() -> None:
        for number in range(workers):
            start(Worker, 1, over).tell(number)

    return Program(begin, over, ends=workers)
