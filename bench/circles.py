"""The time until runs that would wait for each other for ever get their error."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import understudy as us
from understudy import FunctionModel, ModelRequest, ModelTurn, calls, says

from .batch import Batch, Round, taking_turns, timing_itself
from .fakes import ANSWER
from .measure import Measure, Side
from .references import SelfAsking, started
from .sizes import Sizes


def _acting(id: str, act: Callable[[], str]) -> us.Agent[str]:
    """Return an agent whose only tool does `act`, once in each run."""

    def answer(request: ModelRequest) -> ModelTurn:
        return calls("act") if request.turn == 1 else says(ANSWER)

    return us.Agent(id, model=FunctionModel(answer), tools=[us.tool(name="act")(act)])


class _OneOfItself:
    """An agent whose tool runs that agent again."""

    def __init__(self) -> None:
        self._refused = 0.0
        self._agent = _acting("me", self._again)

    def _again(self) -> str:
        """Run the agent that is running."""
        try:
            return self._agent.run("again").text
        except us.CircularAgentCall:
            self._refused = time.perf_counter()
            return ANSWER

    def seconds(self) -> float:
        """Return the time from the run to the error inside the tool."""
        began = time.perf_counter()
        assert self._agent.run("go").text == ANSWER
        return self._refused - began


class _TwoOfEachOther:
    """An agent that runs a second one, whose tool waits for the run of the first."""

    def __init__(self) -> None:
        self._handles: queue.SimpleQueue[us.RunHandle[str]] = queue.SimpleQueue()
        self._refused = 0.0
        self._second = _acting("second", self._back)
        self._first = _acting("first", self._on)

    def _on(self) -> str:
        """Run the second agent."""
        return self._second.run("go").text

    def _back(self) -> str:
        """Wait for the run that waits for this one."""
        try:
            return self._handles.get().result().text
        except us.CircularAgentCall:
            self._refused = time.perf_counter()
            return ANSWER

    def seconds(self) -> float:
        """Return the time from the first run to the error inside the second one's tool."""
        began = time.perf_counter()
        handle = self._first.submit("go")
        self._handles.put(handle)
        assert handle.result().text == ANSWER
        return self._refused - began


@contextmanager
def _deadlock(sizes: Sizes) -> Generator[Round]:
    one, two = _OneOfItself(), _TwoOfEachOther()
    with started(SelfAsking) as bare:

        def impatient() -> float:
            seconds = bare.ask(sizes.nap)
            assert isinstance(seconds, float)
            return seconds

        ours: list[tuple[str, Callable[[int], Batch]]] = [
            ("a tool that runs its own agent again", partial(timing_itself, one.seconds)),
            ("two runs, each waiting for the other", partial(timing_itself, two.seconds)),
        ]
        for _, sample in ours:
            sample(sizes.calls // 10 + 1)
        sides = {label: partial(sample, sizes.calls) for label, sample in ours}
        # This side only waits for its timeout, so a few samples are enough.
        yield taking_turns(
            {**sides, "a bare Pykka actor that asks itself": partial(timing_itself, impatient, sizes.samples)}
        )


DEADLOCK = Measure(
    name="deadlock",
    title=lambda sizes: (
        f"runs in a circle, from run to error; bare Pykka waits for its timeout of {sizes.nap * 1000:g} ms"
    ),
    ours=(
        Side(label="a tool that runs its own agent again", target=5e-3),
        Side(label="two runs, each waiting for the other", target=5e-3),
    ),
    references=(Side(label="a bare Pykka actor that asks itself"),),
    prepare=_deadlock,
)
