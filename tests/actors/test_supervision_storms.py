"""Groups in groups whose members fail all at once, also as they start: in the end each works or is down, and none is in between."""

from __future__ import annotations

import random
import threading

import pytest

import understudy as us
from tests.support.scripts import WAIT

LETTERS = ("a", "ab", "abc")


class Frail(us.Actor[str]):
    """Fails at some of its starts, and whenever it is told to."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def on_start(self) -> None:
        if self._chance.random() < 0.15:
            raise ValueError("it does not start")

    def on_receive(self, message: str) -> str:
        if message == "fail":
            raise ValueError("it was told to")
        return message


def group(chance: random.Random, depth: int = 0) -> us.Supervisor:
    """Return three actors and, down to three levels, a group of such among them, under some strategy."""
    children: list[us.Child | us.Supervisor] = [
        us.Child(
            lambda: Frail(random.Random(chance.random())),
            name=f"{LETTERS[depth]}-{n}",
            restart=chance.choice(["transient", "permanent"]),
        )
        for n in range(3)
    ]
    if depth + 1 < len(LETTERS):
        children.insert(chance.randrange(4), group(chance, depth + 1))
    strategy = chance.choice([us.OneForOne, us.OneForAll, us.RestForOne])
    pauses = chance.choice([None, (0.001, 0.01)])
    rules = strategy(max_restarts=chance.choice([2, 30, 300]), within=60, backoff=pauses)
    return us.Supervisor(f"group-{depth}", children, strategy=rules)


@pytest.mark.parametrize("seed", range(12))
def test_after_a_storm_each_actor_works_or_is_down(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", logger="understudy")
    chance = random.Random(seed)
    with us.ActorSystem("storm") as system:
        system.spawn(group(chance))
        actors = [system.find(f"{letters}-{n}") for letters in LETTERS for n in range(3)]

        def blow(seed: int) -> None:
            mine = random.Random(seed)
            for _ in range(25):
                mine.choice(actors).tell(mine.choice(["fail", "go on", "go on"]))

        threads = [threading.Thread(target=blow, args=(n,), name=f"storm-{n}", daemon=True) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)

        for actor in actors:
            try:
                assert actor.ask("how are you", timeout=WAIT) == "how are you"
            except us.AgentDown:  # it, or its group, failed too often
                assert not actor.is_alive()
