"""What one agent and one run cost when the model answers at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from types import FunctionType

import understudy as us

from .batch import Batch, Round, timed, warmed
from .fakes import ANSWER, FIVE, five_tool_agent, talker
from .measure import Measure, Side
from .references import BareThread, Echo, HandWritten, PlainTool, started
from .sizes import Sizes

ROUNDS = 10


def _fresh(function: Callable[..., object]) -> Callable[..., object]:
    """Return a new copy of a function: a function caches the schema of its first tool."""
    assert isinstance(function, FunctionType)
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    copy.__annotations__ = dict(function.__annotations__)
    copy.__doc__ = function.__doc__
    return copy


@contextmanager
def _construction(sizes: Sizes) -> Generator[Round]:
    model = talker(0)
    tools = [us.tool(function) for function in FIVE]

    def construct() -> None:
        us.Agent("clerk", model=model, tools=tools)

    def decorating(calls: int) -> Batch:
        fresh = iter([[_fresh(function) for function in FIVE] for _ in range(calls)])
        return timed(lambda: us.Agent("clerk", model=model, tools=[us.tool(each) for each in next(fresh)]), calls)

    def signatures() -> None:
        for function in FIVE:
            inspect.signature(function)

    def dataclasses() -> None:
        for function in FIVE:
            PlainTool(function.__name__, function)

    yield warmed(
        {
            "5 tools decorated before": partial(timed, construct),
            "decorating 5 functions included": decorating,
            "inspect.signature of 5 functions": partial(timed, signatures),
            "5 plain dataclasses": partial(timed, dataclasses),
        },
        sizes.calls,
    )


@contextmanager
def _at_once(sizes: Sizes) -> Generator[Round]:
    agent = five_tool_agent(0)
    assert agent.run("go").text == ANSWER
    with started(Echo) as echo, BareThread() as bare:
        sides = {
            "agent.run": partial(timed, lambda: agent.run("go")),
            "ask a bare Pykka actor": partial(timed, lambda: echo.ask("go")),
            "ask a bare thread by SimpleQueue": partial(timed, lambda: bare.ask("go")),
        }
        yield warmed(sides, sizes.calls)


@contextmanager
def _ten_rounds(sizes: Sizes) -> Generator[Round]:
    agent = five_tool_agent(ROUNDS)
    assert agent.run("go").iterations == ROUNDS
    with started(HandWritten) as by_hand, started(Echo) as echo:
        sides = {
            "agent.run": partial(timed, lambda: agent.run("go")),
            "the same loop by hand, on a bare Pykka actor": partial(timed, lambda: by_hand.ask(ROUNDS)),
            "ask a bare Pykka actor": partial(timed, lambda: echo.ask("go")),
        }
        yield warmed(sides, sizes.calls)


CONSTRUCT = Measure(
    name="construct",
    title=lambda _: "making an agent with 5 tools",
    ours=(
        Side(label="5 tools decorated before", target=120e-6),
        Side(label="decorating 5 functions included"),
    ),
    references=(Side(label="inspect.signature of 5 functions"), Side(label="5 plain dataclasses")),
    prepare=_construction,
)

RUN = Measure(
    name="run",
    title=lambda _: "a run whose model answers at once",
    ours=(Side(label="agent.run", target=130e-6),),
    references=(Side(label="ask a bare Pykka actor"), Side(label="ask a bare thread by SimpleQueue")),
    prepare=_at_once,
)

TEN_ROUNDS = Measure(
    name="rounds",
    title=lambda _: f"a run of {ROUNDS} tool rounds, one instant tool call each",
    ours=(Side(label="agent.run", target=0.8e-3),),
    references=(
        Side(label="the same loop by hand, on a bare Pykka actor"),
        Side(label="ask a bare Pykka actor"),
    ),
    prepare=_ten_rounds,
)
