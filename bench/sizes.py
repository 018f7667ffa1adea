"""How much is measured: the full sizes, for which the targets hold, and tiny ones that only show that all of it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How often, how many, how long."""

    quick: bool
    rounds: int
    """How often each measure goes around all its sides."""
    processes: int
    """Fresh processes a side, in each round of an import measure."""
    calls: int
    """Samples a side, in each round of what takes microseconds."""
    asks: int
    """Samples a side, in each round of what switches threads: how soon one wakes is a matter of luck, so there are many."""
    messages: int
    """How many asks are under way at once when they are pipelined."""
    tells: int
    """How many messages are told before the ask that waits for them."""
    crowd: int
    """How many actors a program of many has."""
    pings: int
    """How many messages a program of actors has, more or less."""
    samples: int
    """Samples a side, in each round of what takes milliseconds."""
    few_actors: int
    many_actors: int
    """How many idle actors the memory is divided by."""
    few_runs: int
    many_runs: int
    """How many runs the two bursts begin at once."""
    tool_calls: int
    """How many tools one turn calls at once."""
    callers: int
    """How many threads call a model at once."""
    repeats: int
    """How often a burst is repeated with the threads of the first one."""
    nap: float
    """Seconds that a blocking model or tool blocks."""
    patience: float
    """Seconds after which the deadline of a run comes that is held up."""


FULL = Sizes(
    quick=False,
    rounds=7,
    processes=2,
    calls=150,
    asks=1_500,
    messages=1_000,
    tells=10_000,
    crowd=100,
    pings=2_000,
    samples=5,
    few_actors=1_000,
    many_actors=10_000,
    few_runs=100,
    many_runs=1_000,
    tool_calls=50,
    callers=200,
    repeats=2,
    nap=0.05,
    patience=0.1,
)
QUICK = Sizes(
    quick=True,
    rounds=1,
    processes=1,
    calls=3,
    asks=3,
    messages=5,
    tells=10,
    crowd=4,
    pings=8,
    samples=1,
    few_actors=50,
    many_actors=100,
    few_runs=4,
    many_runs=8,
    tool_calls=3,
    callers=8,
    repeats=1,
    nap=0.005,
    patience=0.1,
)
