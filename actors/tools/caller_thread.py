"""What a thread that waits for a run does meanwhile: the calls of tools with `isolation="caller"`, one after another."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

from understudy.actors.cells.envelope import Fate
from understudy.actors.threads.promise import Promise
from understudy.errors import ToolUnavailable
from understudy.orchestration import Agent
from understudy.orchestration.definitions.runner import below
from understudy.vocabulary.context.ancestry import enter_ancestry, leave_ancestry

from .executor import execute
from .tool_call import ToolCallTask

if TYPE_CHECKING:
    from understudy.orchestration.definitions.runner import Runner
    from understudy.vocabulary.runs.outcomes import Outcome


class CallerThreadCalls:
    """A line of calls for one thread, which goes through it until the run is over. Use it in a `with` block."""

    __slots__ = ("_closed", "_line", "_lock")

    def __init__(self) -> None:
        self._line: SimpleQueue[tuple[ToolCallTask, Promise[object]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        """Guards the end: what is put later is refused, and what was put before is seen."""
        self._closed = False

    def put(self, order: ToolCallTask, reply: Promise[object]) -> None:
        """Have the thread make a call, after those that were put before; does not wait."""
        with self._lock:
            if not self._closed:
                self._line.put((order, reply))
                return
        refuse(order, reply)

    def run_until_over(self, outcome: Promise[Outcome[object]]) -> None:
        """Make the calls, on this thread and with its context variables, until the run has its outcome.

        An interrupt, or another exception that belongs to the thread and not to the tool, is raised. Its call stays
        without an answer, and the caller ends the run.
        """
        outcome.when_done(lambda: self._line.put(None))
        while (errand := self._line.get()) is not None:
            order, reply = errand
            if reply.done:
                order.came_back(Fate.CANCELLED)  # it was given up before its turn came
                continue
            chain = enter_ancestry(order.record.ancestry)  # of the run, or of a sub-agent's inside of it
            try:
                reply.set(execute(order))
            finally:
                leave_ancestry(chain)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
        while not self._line.empty():  # nobody else takes, and nothing more comes
            errand = self._line.get()
            if errand is not None:
                refuse(*errand)


def refuse(order: ToolCallTask, reply: Promise[object]) -> None:
    """Answer a call that no thread is there for."""
    order.came_back(Fate.DEAD)
    reply.fail(_nobody(order))


def _nobody(order: ToolCallTask) -> ToolUnavailable:
    return ToolUnavailable("no thread waits in run() to make the call", tool=order.call.name, call_id=order.call.id)


def needs_caller(runner: Runner[object]) -> str | None:
    """Return the name of the first tool, of the runner or those inside of it, whose calls run on the caller's thread."""
    for each in (runner, *below([runner])) if runner.inner_runners else (runner,):
        for tool in each.tools if isinstance(each, Agent) else ():
            if tool.isolation == "caller":
                return tool.name
    return None
