"""An agent at module level, as applications have one, and what its hosts run: imported once, used in every process."""

from __future__ import annotations

import os
import threading
from functools import reduce
from operator import add

import understudy as us
from understudy.testing import FunctionModel

PATIENCE = 20.0
"""Seconds that a part may wait for another before that counts as a failure."""

_meetings: dict[str, threading.Barrier] = {}


def _meet(run_id: str) -> None:
    """Wait until both tools of the turn are here, so that a turn whose tools run one after another fails."""
    _meetings.setdefault(run_id, threading.Barrier(2)).wait(PATIENCE)


@us.tool
def double(number: int, ctx: us.ToolContext[object]) -> int:
    _meet(ctx.run_id)
    return 2 * number


@us.tool
def process(ctx: us.ToolContext[object]) -> int:
    _meet(ctx.run_id)
    return os.getpid()


@us.tool
def hang() -> str:
    os.write(1, b"hanging\n")
    threading.Event().wait()
    return "never"


@us.tool(timeout=0.1)
def lose() -> str:
    threading.Event().wait()
    return "never"


def _think(request: us.ModelRequest) -> us.ModelTurn:
    if request.text == "hang":
        return us.calls("hang")
    if request.text == "stall" and not request.tool_results:
        return reduce(add, [us.calls("lose") for _ in range(20)])
    if not request.tool_results:
        return us.calls("double", number=int(request.text)) + us.calls("process")
    return us.says(" ".join([result.content for result in request.tool_results]))


clerk = us.Agent("clerk", model=FunctionModel(_think), tools=[double, process, hang, lose])
office = us.ActorSystem("office")


def work(number: int) -> tuple[int, int]:
    """Return twice the number, and the process whose tools said so."""
    answer = clerk.run(str(number), timeout=PATIENCE).text
    doubled, pid = answer.split()
    return int(doubled), int(pid)


def stall() -> str:
    """Lose more calls than a process should bear, and return which process it was."""
    clerk.run("stall", timeout=PATIENCE, system=office)
    return str(os.getpid())
