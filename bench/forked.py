"""The time until a forked child has its first answer from an agent that the parent made and used."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

from .batch import Round, taking_turns, timing_itself
from .fakes import ANSWER, five_tool_agent
from .measure import Measure, Side
from .sizes import Sizes

_SECONDS = struct.Struct("d")


def _in_child(action: Callable[[], object]) -> float:
    """Fork, and return the seconds from the child's beginning to the end of `action` there."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            began = time.perf_counter()
            action()
            os.write(writing, _SECONDS.pack(time.perf_counter() - began))
            status = 0
        finally:
            os._exit(status)  # the child must not flush the parent's buffers or run its exit handlers
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"
    (seconds,) = _SECONDS.unpack(told)
    assert isinstance(seconds, float)
    return seconds


@contextmanager
def _fork(sizes: Sizes) -> Generator[Round]:
    agent = five_tool_agent(rounds=1)

    def run() -> None:
        assert agent.run("go").text == ANSWER

    def bare() -> None:
        thread = threading.Thread(target=str, daemon=True)
        thread.start()
        thread.join()

    run()  # as in a server that has answered before it forks: threads are parked, schemas are built
    sides = {"agent.run with one tool": run, "start a bare thread and join it": bare}
    yield taking_turns(
        {label: partial(timing_itself, partial(_in_child, act), sizes.samples) for label, act in sides.items()}
    )


FORK = Measure(
    name="fork",
    title=lambda sizes: "a forked child's first answer, from an agent that its parent made and used",
    ours=(Side(label="agent.run with one tool", target=5e-3),),
    references=(Side(label="start a bare thread and join it"),),
    prepare=_fork,
)
