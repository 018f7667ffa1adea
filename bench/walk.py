"""`python -m bench.walk`: how many calls and files of the package one run goes through, on all its threads.

The run is `agent.run` with one tool call, by a model that answers at once; the agent has made runs before. The figures say how much code a
reader of a run has to follow, and are the same each time on one Python:

- calls: functions of the package that are entered, from the call of `agent.run` until its threads are idle again. A function that other
  code calls back, such as Pykka, counts too. A generator that goes on counts again. Comprehensions are part of their function, and code
  that is made at run time, such as the `__init__` of a dataclass, is in no file.
- files: files of the package with at least one of these calls.
- changes of file: calls whose file is not that of their caller, which is the nearest function of the package below them on the same thread.
  The first function that a thread enters has no caller, and counts. How two threads take turns does not matter, and returns do not count.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import understudy as us

from .fakes import ANSWER, five_tool_agent

PACKAGE = f"{Path(us.__file__).parent}/"
COMPREHENSIONS = {"<listcomp>", "<dictcomp>", "<setcomp>"}
"""Functions of their own before Python 3.12 only."""
WARM = 3  # Runs before the one that is followed.
IDLE = 0.1  # Seconds; after the answer, the run's thread makes a few calls until it is idle.


@dataclass(frozen=True)
class Call:
    """A function of the package that was entered."""

    file: str
    caller: str | None
    """The file of the nearest function of the package below it."""


@dataclass(frozen=True)
class Figures:
    """What the calls of one run come to."""

    calls: int
    files: dict[str, int]
    """Each file's calls, in the order in which the files were first entered."""
    changes: int


class Recorder:
    """Notes the calls of each thread that begins after `install`, while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.calls: list[Call] = []

    def install(self) -> None:
        """Have the interpreter tell of calls in this thread and in all that begin from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def remove(self) -> None:
        """Have it tell no more, in this thread and in those that begin from now on."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, arg: object) -> None:
        if self.on and event == "call" and is_counted(frame):
            below = next((name_of(each) for each in callers(frame) if is_counted(each)), None)
            self.calls.append(Call(name_of(frame), below))


def is_counted(frame: FrameType) -> bool:
    """Whether the frame is a function of the package."""
    code = frame.f_code
    return code.co_filename.startswith(PACKAGE) and code.co_name not in COMPREHENSIONS


def callers(frame: FrameType) -> Iterator[FrameType]:
    """Yield the frames below one, the nearest first."""
    below = frame.f_back
    while below is not None:
        yield below
        below = below.f_back


def name_of(frame: FrameType) -> str:
    """Return the name of a frame's file inside the package."""
    return frame.f_code.co_filename.removeprefix(PACKAGE)


def figures(calls: Sequence[Call]) -> Figures:
    """Count calls that are in order of time."""
    changes = sum(call.file != call.caller for call in calls)
    return Figures(len(calls), dict(Counter(call.file for call in calls)), changes)


def walk() -> Figures:
    """Follow one warm run; no agent may have run in this process before."""
    recorder = Recorder()
    recorder.install()
    try:
        agent = five_tool_agent(1)
        for _ in range(WARM):
            agent.run("go")
        time.sleep(IDLE)
        recorder.on = True
        answer = agent.run("go").text
        time.sleep(IDLE)
        recorder.on = False
    finally:
        recorder.remove()
    assert answer == ANSWER
    return figures(recorder.calls)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.walk", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--files", action="store_true", help="print the files too, in order of first entry, with their calls"
    )
    options = parser.parse_args(arguments)
    found = walk()
    print(f"{found.calls} calls, {len(found.files)} files, {found.changes} changes of file")
    if options.files:
        for name, calls in found.files.items():
            print(f"{calls:>5}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
