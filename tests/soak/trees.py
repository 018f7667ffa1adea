"""Random trees of supervisors whose actors fail all at once: nobody may hang, and who works in the end is as OTP has it."""

from __future__ import annotations

import logging
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import understudy as us
from tests.support.otp import Failure, Group, Leaf, Model, Rule, World
from tests.support.scripts import eventually
from understudy.orchestration.supervision.restarts import Restart, Strategy

PATIENCE = 20.0  # Seconds after which what has not come will not come.
INTERVAL = 1e-6  # Seconds for which a thread keeps the interpreter: as little as it takes.
STRATEGIES: dict[Rule, type[Strategy]] = {
    "one for one": us.OneForOne,
    "one for all": us.OneForAll,
    "rest for one": us.RestForOne,
}
RESTARTS: tuple[Restart, ...] = ("permanent", "transient", "temporary")
STORMS = 3
STOPPED = 10
"""Of so many trees, one is stopped in its last storm."""


def tree(chance: random.Random) -> Group:
    """Return a tree of three levels."""
    return _group(chance, "g", 1)


def _group(chance: random.Random, name: str, level: int) -> Group:
    children: list[Leaf | Group] = []
    for number in range(chance.choice([1, 2, 3, 3])):
        if level < 3 and (number == 0 or chance.random() < 0.4):
            children.append(_group(chance, f"{name}{number}", level + 1))
        else:
            children.append(Leaf(f"a{name[1:]}{number}", chance.choice(RESTARTS)))
    if level < 3:
        children.append(Leaf(f"a{name[1:]}x", "transient"))
        chance.shuffle(children)
    rules: list[Rule] = list(STRATEGIES)
    return Group(name, chance.choice(rules), chance.choice([0, 1, 2, 5, 50]), tuple(children), chance.random() < 0.05)


@dataclass
class Stage:
    """What the actors of one tree share."""

    starts_to_fail: Counter[str] = field(default_factory=Counter[str])
    downs: Counter[str] = field(default_factory=Counter[str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fails_to_start(self, name: str) -> bool:
        with self.lock:
            self.starts_to_fail[name] -= 1
            return self.starts_to_fail[name] >= 0

    def note_down(self, down: us.Down) -> None:
        with self.lock:
            self.downs[down.actor] += 1


class Frail(us.Actor[object]):
    """Fails when it is told to, in every way there is; its hooks always fail."""

    def __init__(self, name: str, stage: Stage) -> None:
        self._name = name
        self._stage = stage

    def on_start(self) -> None:
        if self._stage.fails_to_start(self._name):
            raise SystemExit(f"{self._name} does not start")

    def on_receive(self, message: object) -> object:
        if isinstance(message, BaseException):
            raise message
        return message() if callable(message) else message

    def before_restart(self, error: BaseException, message: object) -> None:
        raise KeyboardInterrupt("before the restart")

    def on_stop(self) -> None:
        raise SystemExit("at the end")


def _slow(gate: threading.Event) -> None:
    gate.wait(PATIENCE)
    raise LookupError("a slow failure")


def _cannot_decide(error: BaseException) -> us.Directive:
    raise SystemExit("cannot decide")


def _supervisor(group: Group, stage: Stage) -> us.Supervisor:
    children: list[us.Child | us.Supervisor] = []
    for each in group.children:
        if isinstance(each, Group):
            children.append(_supervisor(each, stage))
        else:
            children.append(us.Child(partial(Frail, each.name, stage), each.name, restart=each.restart))
    strategy = STRATEGIES[group.rule](
        max_restarts=group.max_restarts, within=3600, decider=_cannot_decide if group.broken else None
    )
    return us.Supervisor(group.name, children, strategy=strategy)


class Trial:
    """One tree, in a system of its own."""

    def __init__(self, seed: int, system: us.ActorSystem) -> None:
        self._seed = seed
        self._chance = random.Random(seed)
        self._system = system
        self._tree = tree(self._chance)
        self._model = Model(self._tree)
        self._worlds = {World()}
        self._stage = Stage()
        self._group = system.spawn(_supervisor(self._tree, self._stage))
        self._refs = {leaf.name: system.find(leaf.name) for leaf in self._tree.below()}
        for ref in self._refs.values():
            ref.on_down("trial", self._stage.note_down)

    def run(self) -> str:
        """Carry out some storms, and return how it ended. Raises `AssertionError` if anything hangs or is not as it may be."""
        self._settle(())
        stopped = self._seed % STOPPED == 0
        for number in range(STORMS):
            failures = self._failures(1 if number == 0 else self._chance.choice([2, 3]))
            is_last = stopped and number == STORMS - 1
            asked = self._storm(failures, partial(self._group.stop, block=False) if is_last else None)
            self._answered(asked, failures)
            if not is_last:
                self._settle(failures)
        if stopped:
            self._group.stop(timeout=PATIENCE)
            # An actor has ended a moment before it is out of the directory.
            eventually(lambda: not self._system.health().actors, self._told("all actors have stopped"))
        else:
            self._stop_each()
        self._must(set(self._stage.downs.values()) == {1}, f"each actor has one Down: {self._stage.downs}")
        self._must(len(self._stage.downs) == len(self._refs), f"each actor has a Down: {self._stage.downs}")
        return "stopped in a storm" if stopped else "given up" if all(world.down for world in self._worlds) else "works"

    def _failures(self, number: int) -> tuple[Failure, ...]:
        names = self._chance.choices(list(self._refs), k=number)
        failures = [Failure(name) for name in names]
        if number > 1 and self._chance.random() < 0.5:
            failures.append(Failure(self._chance.choice(list(self._refs)), at_start=True))
        return tuple(failures)

    def _storm(self, failures: tuple[Failure, ...], at_last: Callable[[], object] | None) -> list[us.Future[object]]:
        """Have actors fail, some of them slowly, and ask others something meanwhile."""
        gates: list[threading.Event] = []
        asked: list[us.Future[object]] = []
        pause = threading.Event()
        for failure in failures:
            if failure.at_start:
                with self._stage.lock:
                    self._stage.starts_to_fail[failure.actor] = 1
        for failure in failures:
            if failure.at_start:
                continue
            message: object = ValueError("it was told to")
            if self._chance.random() < 0.5:
                gates.append(threading.Event())
                message = partial(_slow, gates[-1])
            asked.append(self._refs[failure.actor].ask_future(message, timeout=2 * PATIENCE))
            asked += [ref.ask_future("hello", timeout=2 * PATIENCE) for ref in self._some()]
            pause.wait(self._chance.choice([0, 0, 0.0003, 0.001]))
        self._chance.shuffle(gates)
        for gate in gates:
            gate.set()
            pause.wait(self._chance.choice([0, 0, 0.0003, 0.001]))
        if at_last is not None:
            at_last()
        return asked

    def _some(self) -> list[us.ActorRef[object]]:
        return self._chance.choices(list(self._refs.values()), k=2)

    def _answered(self, asked: list[us.Future[object]], failures: tuple[Failure, ...]) -> None:
        for each in asked:
            try:
                error = each.exception(PATIENCE)
            except TimeoutError as late:
                raise AssertionError(self._told(f"an ask was not answered: {late}; {failures}")) from None
            self._must(error is None or isinstance(error, (us.AgentCrashed, us.AgentDown)), f"an answer: {error!r}")

    def _settle(self, failures: tuple[Failure, ...]) -> None:
        """Wait until it is as it may be, and stays so."""
        allowed = self._model.storm(self._worlds, failures)
        pause = threading.Event()
        for _ in range(int(PATIENCE * 200)):
            seen = self._seen()
            self._worlds = {world for world in allowed if self._looks(world) == seen}
            if self._worlds and self._holds(seen) and self._seen() == seen:
                break
            pause.wait(0.005)
        else:
            looks = [self._looks(world) for world in allowed]
            raise AssertionError(self._told(f"after {failures} it is {self._seen()}, and may be {looks}"))
        with self._stage.lock:  # a start that was to fail and did not come is not to come later
            self._stage.starts_to_fail.clear()

    def _seen(self) -> dict[str, str]:
        states = {figures.address.rpartition("/")[2]: figures.state for figures in self._system.health().actors}
        return {name: states.get(name, "stopped") for name in self._refs}

    def _looks(self, world: World) -> dict[str, str]:
        up = "down" if world.down else "running"
        return {name: "stopped" if name in world.ended else up for name in self._refs}

    def _holds(self, seen: dict[str, str]) -> bool:
        """Whether those that run answer; none of them may leave an ask open."""
        for name, state in seen.items():
            if state == "running":
                try:
                    self._must(self._refs[name].ask("hello", timeout=PATIENCE) == "hello", f"{name} says hello")
                except us.AgentDown:
                    return False
                except TimeoutError as late:
                    raise AssertionError(self._told(f"{name} does not answer: {late}")) from None
        return True

    def _stop_each(self) -> None:
        for name, ref in self._refs.items():
            try:
                ref.stop(timeout=PATIENCE)
            except TimeoutError as late:
                raise AssertionError(self._told(f"{name} does not stop: {late}")) from None

    def _must(self, holds: bool, what: str) -> None:
        if not holds:
            raise AssertionError(self._told(f"not so: {what}"))

    def _told(self, what: str) -> str:
        return f"tree {self._seed}: {what}\n  {self._tree}"


def try_trees(trees: int, progress: Callable[[str], object], first: int = 0) -> Counter[str]:
    """Carry out storms in random trees, one after another; how they ended -> how often.

    Raises:
        AssertionError: an ask was not answered, an actor could not be stopped, told of its end otherwise than once, or was
            not in a state that OTP's rules allow.
    """
    endings: Counter[str] = Counter()
    with unquiet():
        for number in range(trees):
            with us.ActorSystem("trees") as system:
                endings[Trial(first + number, system).run()] += 1
            if (number + 1) % 100 == 0 or number + 1 == trees:
                progress(f"{number + 1} trees, of {trees}")
    return endings


@contextmanager
def unquiet() -> Generator[None]:
    """Have threads change as often as they can, and keep the log of failures that are meant to be away."""
    before, log = sys.getswitchinterval(), logging.getLogger("understudy")
    level = log.level
    sys.setswitchinterval(INTERVAL)
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        log.setLevel(level)
