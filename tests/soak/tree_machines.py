"""The same random trees as in `trees`, driven as machines alone: chance orders the steps instead of threads."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from tests.support.machine_trees import Play
from tests.support.otp import Failure, Model, World

from .trees import STOPPED, STORMS, STRATEGIES, tree


class Trial:
    """One tree, without an actor system."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._chance = random.Random(seed)
        self._tree = tree(self._chance)
        self._model = Model(self._tree)
        self._worlds = {World()}
        self._play = Play(self._tree, STRATEGIES, self._chance)

    def run(self) -> str:
        """Carry out some storms, and return how it ended. Raises `AssertionError` if anything hangs or is not as it may be."""
        self._play.begin()
        self._settle(())
        for number in range(STORMS):
            failures = self._failures(1 if number == 0 else self._chance.choice([2, 3]))
            for failure in failures:
                if failure.at_start:
                    self._play.starts_to_fail[failure.actor] = 1
            for failure in failures:
                if not failure.at_start:
                    self._play.fail(failure.actor)
                    self._steps()
            if self._seed % STOPPED == 0 and number == STORMS - 1:
                return self._stopped()
            self._settle(failures)
        if not all(world.down for world in self._worlds):
            return "works"
        return self._tried_again()

    def _failures(self, number: int) -> tuple[Failure, ...]:
        names = self._chance.choices(list(self._play.actors), k=number)
        failures = [Failure(name) for name in names]
        if number > 1 and self._chance.random() < 0.5:
            failures.append(Failure(self._chance.choice(list(self._play.actors)), at_start=True))
        return tuple(failures)

    def _steps(self) -> None:
        for _ in range(self._chance.choice([0, 0, 3, 20])):
            self._play.step()

    def _settle(self, failures: tuple[Failure, ...]) -> None:
        allowed = self._model.storm(self._worlds, failures)
        self._play.settle()
        self._nothing_hangs()
        seen = {name: actor.state for name, actor in self._play.actors.items()}
        self._worlds = {world for world in allowed if self._looks(world) == seen}
        looks = [self._looks(world) for world in allowed]
        self._must(bool(self._worlds), f"after {failures} it is {seen}, and may be {looks}")
        self._play.starts_to_fail.clear()

    def _looks(self, world: World) -> dict[str, str]:
        up = "down" if world.down else "running"
        return {name: "stopped" if name in world.ended else up for name in self._play.actors}

    def _nothing_hangs(self) -> None:
        for name, machine in self._play.machines.items():
            self._must(not machine.rounds, f"{name} waits: {machine.rounds}")
            self._must(machine.phase in ("working", "given up"), f"{name} is {machine.phase}")
            self._must((machine.phase == "given up") == (machine.cause is not None), f"{name} has {machine.cause!r}")

    def _stopped(self) -> str:
        self._play.stop()
        self._play.settle()
        states = {name: actor.state for name, actor in self._play.actors.items()}
        self._must(set(states.values()) == {"stopped"}, f"all have stopped: {states}")
        self._must(
            not [each for machine in self._play.machines.values() for each in machine.rounds.values()],
            "no round is left",
        )
        return "stopped in a storm"

    def _tried_again(self) -> str:
        """Have actors that were given up get messages: all that have not ended work again."""
        down = [name for name, actor in self._play.actors.items() if actor.state == "down"]
        for name in self._chance.choices(down, k=2) if down else ():
            self._play.try_again(name)
            self._steps()
        self._play.settle()
        self._nothing_hangs()
        after = {name: self._play.actors[name].state for name in down}
        self._must(set(after.values()) <= {"running"}, f"after another try it is {after}")
        return "given up"

    def _must(self, holds: bool, what: str) -> None:
        if not holds:
            raise AssertionError(f"tree {self._seed}: {what}\n  {self._tree}")


def try_machines(trees: int, progress: Callable[[str], object], first: int = 0) -> Counter[str]:
    """Carry out storms in random trees of machines; how they ended -> how often.

    Raises:
        AssertionError: a machine waits for an answer that never comes, or an actor is not in a state that OTP's rules allow.
    """
    endings: Counter[str] = Counter()
    for number in range(trees):
        endings[Trial(first + number).run()] += 1
        if (number + 1) % 500 == 0 or number + 1 == trees:
            progress(f"{number + 1} trees, of {trees}")
    return endings
