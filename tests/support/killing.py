"""Runs in a process that is killed, and the effects that its tools had, for tests that go on with them."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import understudy as us
from understudy.testing import says

Runner: TypeAlias = "us.Runner[Any]"


def forked(do: Callable[[], object]) -> int:
    """Do something in a forked child; returns its number."""
    child = os.fork()
    if child == 0:
        try:
            do()
        finally:
            os._exit(0)
    return child


def killed(do: Callable[[], object]) -> bool:
    """Do something in a forked child; returns whether the child was killed before it had done it."""
    return os.WIFSIGNALED(os.waitpid(forked(do), 0)[1])


class Effects:
    """A file of effects: a line for each, with the key of its call. The process is killed when it has so many lines.

    Args:
        file: where they are noted.
        deadly: the effect that kills, counted from 1; 0 for none.
    """

    def __init__(self, file: Path, deadly: int = 0) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.deadly = deadly
        self.dies_before = False
        """Whether the deadly effect does not come to pass."""

    def note(self, key: str) -> None:
        """Have an effect."""
        with self._lock:  # the calls of a parallel group count one after another
            is_last = len(self.noted) + 1 == self.deadly
            if is_last and self.dies_before:
                os.kill(os.getpid(), signal.SIGKILL)
            with self._file.open("a") as file:
                file.write(f"{key}\n")
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)

    @property
    def noted(self) -> list[str]:
        """The keys of all effects, in order."""
        return self._file.read_text().splitlines() if self._file.exists() else []

    @property
    def repeated(self) -> list[str]:
        """Keys of effects that came to pass more than once."""
        return [key for key, count in Counter(self.noted).items() if count > 1]

    def tool(
        self, name: str = "act", *, idempotent: bool = False, reconcile: Callable[..., Any] | None = None
    ) -> us.Tool[..., object]:
        """Return a tool with an effect."""

        def act(ctx: us.ToolContext, word: str) -> str:
            """Act."""
            self.note(ctx.call_key)
            return f"did {word}"

        return us.tool(name=name, idempotent=idempotent, reconcile=reconcile)(act)


def worker(id: str, tool: us.Tool[..., object], words: Sequence[str], sub_agents: Sequence[us.Agent] = ()) -> us.Agent:
    """Return an agent that calls a tool with each word, a round for each, and says what it was told.

    A word that is the id of a sub-agent is a call of that one.
    """
    below = {each.id for each in sub_agents}

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        last = request.messages[-1]
        done = sum([message.role == "assistant" for message in request.messages])
        if done < len(words):
            word = words[done]
            name, arguments = (word, {"input": "go"}) if word in below else (tool.name, {"word": word})
            return us.ModelTurn((us.ToolCall(f"c{done}", name, arguments),))
        return says(
            "; ".join([result.content for message in request.messages for result in message.tool_results]) or last.text
        )

    return us.Agent(id, model=us.FunctionModel(next_turn), tools=[tool], sub_agents=sub_agents)


def runners(tool: us.Tool[..., object]) -> dict[str, tuple[Runner, int]]:
    """Return a runner of each kind, and how many effects its run has."""
    one, two = worker("one", tool, ["a", "b"]), worker("two", tool, ["c", "d"])
    lead = worker("lead", tool, ["x", "one", "y"], [one])
    flow = us.Workflow(
        "flow", [us.Task("first", one, prompt="go"), us.Task("then", lead, prompt="go", dependencies=["first"])]
    )
    return {
        "agent": (one, 2),
        "sub-agent": (lead, 4),
        "sequence": (us.SequentialAgent("seq", [two, lead]), 6),
        "parallel": (us.ParallelAgent("par", [two, lead]), 6),
        "workflow": (flow, 6),
    }
