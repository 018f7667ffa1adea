"""A sequence in a parallel group in a workflow in a sequence, with an agent at the leaf that asks, and then works."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

import understudy as us
from understudy.testing import FunctionModel, calls, says

Leaf = Literal["agent", "lead"]
Note = Callable[[str], object]
ABOVE = ("outer", "flow", "panel", "inner")
PATIENCE = 20.0
"""Seconds that work waits to be cancelled before that counts as a failure."""


def path_to(leaf: Leaf) -> tuple[str, ...]:
    """Return the ids of all runners from the outermost to the current one."""
    return (*ABOVE, "leaf") if leaf == "agent" else (*ABOVE, "lead", "leaf")


def nested(leaf: Leaf, note: Note, *, asks: bool = True) -> us.SequentialAgent:
    """Make the tree anew, as every process does.

    Args:
        leaf: what stands at the leaf: an agent, or one with a sub-agent that does the work.
        note: told of every model call, by the agent's id, and of what the work does.
        asks: whether the leaf asks a person how to work, and for approval; else it works as its input says.
    """
    inner = us.SequentialAgent("inner", [echo("before", note), _leaf(leaf, note, asks)])
    panel = us.ParallelAgent("panel", [echo("beside", note), inner])
    tasks = [
        us.Task("fetch", echo("fetch", note)),
        us.Task("look", panel, prompt="${input}"),
        us.Task("tell", echo("tell", note), prompt="${fetch} ${look}", dependencies=["fetch", "look"]),
    ]
    return us.SequentialAgent("outer", [us.Workflow("flow", tasks), echo("after", note)], pass_output=True)


def ending(leaf: Leaf, input: str, how: str) -> str:
    """Return the tree's final answer for these notes."""
    worked = f"leaf(worked {how})" if leaf == "agent" else f"lead(leaf(worked {how}))"
    return f"after(tell(fetch({input}) {worked}))"


def notes(leaf: Leaf, how: str, *, asks: bool = True) -> dict[str, int]:
    """Return the notes of a whole run with their counts: each model call and each piece of work once."""
    once = dict.fromkeys(["fetch", "before", "beside", f"work {how}", "tell", "after"], 1)
    return once | {"leaf": 3 if asks else 2} | ({"lead": 2} if leaf == "lead" else {})


def echo(id: str, note: Note) -> us.Agent:
    def answer(request: us.ModelRequest) -> us.ModelTurn:
        note(id)
        return says(f"{id}({request.messages[-1].text})")

    return us.Agent(id, model=FunctionModel(answer))


def _leaf(leaf: Leaf, note: Note, asks: bool) -> us.Agent:
    worker = _worker(note, asks)
    if leaf == "agent":
        return worker

    def hand_over(request: us.ModelRequest) -> us.ModelTurn:
        note("lead")
        results = request.tool_results
        return says(f"lead({results[-1].content})") if results else calls("leaf", input=request.text)

    return us.Agent("lead", model=FunctionModel(hand_over), sub_agents=[worker])


def _worker(note: Note, asks: bool) -> us.Agent:
    @us.tool(approval=asks)
    def work(how: str, ctx: us.ToolContext) -> str:
        """Work; to `hang` is to wait until it is cancelled."""
        note(f"work {how}")
        if how == "hang":
            told = threading.Event()
            ctx.scope.on_cancel(told.set)
            note("told" if told.wait(PATIENCE) else "forgotten")
        return f"worked {how}"

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        note("leaf")
        if request.tool_results:
            return says(f"leaf({request.tool_results[-1].content})")
        if asks and len(request.messages) == 1:
            return says("__ask_user__: How?")
        return calls("work", how=request.text)

    return us.Agent("leaf", model=FunctionModel(answer), tools=[work])
