"""Runs of which many fail, hang or crash, for as long as one likes: each is accounted for, and nothing grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import understudy as us
from bench.holding import Gate
from tests.support.scripts import eventually

from .cast import HANGING, Cast, Kinds, ending, unexpected
from .footprint import Footprint, at_rest, back_to

AT_ONCE = 100
PLACES = 16
"""How many runs one of the systems lets be under way."""
PATIENCE = 60.0
ANY = 1_000_000  # So many restarts are borne.


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of the runs."""

    endings: Counter[tuple[str, str]]
    """(kind of run, how it ended) -> how often."""
    footprints: list[tuple[int, Footprint]]
    """(runs so far, what the process held then), from the end of the warm-up on."""

    def slope(self, what: Callable[[Footprint], float]) -> float:
        """Return by how much a figure grew with every thousand runs: the slope of the straight line that fits best."""
        if len(self.footprints) < 2:
            return 0.0
        runs = [number / 1_000 for number, _ in self.footprints]
        values = [what(footprint) for _, footprint in self.footprints]
        middle, level = sum(runs) / len(runs), sum(values) / len(values)
        above = sum((x - middle) * (y - level) for x, y in zip(runs, values, strict=True))
        return above / sum((x - middle) ** 2 for x in runs)


@contextmanager
def _systems(gate: Gate) -> Generator[tuple[list[us.ActorSystem], list[us.AgentRef[str]]]]:
    """Start two systems: one whose agents stand in a group, and one with few places whose agents stand alone."""
    with us.ActorSystem("shop") as shop, us.ActorSystem("desk", max_runs=PLACES) as desk:
        together, alone = Cast(gate).agents, Cast(gate).agents
        shop.spawn(us.Supervisor("counter", together, strategy=us.OneForAll(max_restarts=ANY, within=1.0)))
        for agent in alone:
            desk.spawn(agent, strategy=us.OneForOne(max_restarts=ANY, within=1.0))
        for system in (shop, desk):
            system.health()  # makes the actors of tools that no run has called yet: the warm-up may not come to all of them
        yield [shop, desk], [*[shop.ref(each.id) for each in together], *[desk.ref(each.id) for each in alone]]


def run_all(runs: int, progress: Callable[[str], object]) -> Report:
    """Begin `runs` runs, a hundred at a time, and wait for the end of each.

    Raises:
        AssertionError: a run ended in another way than its kind must, one that hung was not counted, or at the end
            there was more of something than after the warm-up, which the first fifth of the runs is.
    """
    gate, kinds = Gate(), Kinds()
    endings: Counter[tuple[str, str]] = Counter()
    footprints: list[tuple[int, Footprint]] = []
    with _systems(gate) as (systems, agents):
        for begun in range(0, runs, AT_ONCE):
            done = min(runs, begun + AT_ONCE)
            window = [(kinds.next(), agents[number % len(agents)]) for number in range(begun, done)]
            endings += _ended(window)
            assert endings.total() == done
            assert not unexpected(endings), unexpected(endings)
            _let_go(systems, gate, sum(kind in HANGING for kind, _ in window))
            if done * 5 >= runs:
                footprints.append((done, back_to(footprints[0][1]) if footprints else at_rest()))
            progress(f"{done} runs ended, of {runs}")
    return Report(endings=endings, footprints=footprints)


def _ended(window: list[tuple[str, us.AgentRef[str]]]) -> Counter[tuple[str, str]]:
    under_way = [(kind, agent, agent.submit(kind, timeout=PATIENCE)) for kind, agent in window]
    return Counter([(kind, ending(handle, agent, PATIENCE)) for kind, agent, handle in under_way])


def _let_go(systems: list[us.ActorSystem], gate: Gate, hanging: int) -> None:
    eventually(lambda: sum(system.hung for system in systems) == hanging, f"{hanging} calls hang")
    gate.open()
    eventually(lambda: sum(system.hung for system in systems) == 0, "none hangs any more")
