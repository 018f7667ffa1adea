"""Random trees of runners, as data: agents that do as they are written, in sequences, parallel groups and workflows.

An agent's turns are its `beats`, one after another, and then its `end`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from hypothesis import strategies as st

from understudy.orchestration.group.spec import Merge, OnError, PassOutput

Beat: TypeAlias = Literal["note", "ask", "ask by tool", "pay", "all at once", "hand over"]
Kind: TypeAlias = Literal["plain", "when", "asks when", "each", "until", "asks until"]
End: TypeAlias = Literal["says", "list", "improves", "fails", "fails once", "stops short"]
ENDS: list[End] = [
    "says",
    "says",
    "says",
    "says",
    "says",
    "says",
    "list",
    "list",
    "improves",
    "improves",
    "fails",
    "fails once",
    "stops short",
]


@dataclass(frozen=True)
class AgentNode:
    id: str
    beats: tuple[Beat, ...] = ()
    end: End = "says"
    below: tuple[Node, ...] = ()


@dataclass(frozen=True)
class SequenceNode:
    id: str
    below: tuple[Node, ...]
    pass_output: PassOutput = False


@dataclass(frozen=True)
class ParallelNode:
    id: str
    below: tuple[Node, ...]
    merge: Merge = "collect_all"
    max_parallel: int | None = None
    on_error: OnError = "fail"


@dataclass(frozen=True)
class TaskNode:
    runner: Node
    kind: Kind = "plain"
    needs: tuple[int, ...] = ()
    retries: int = 0


@dataclass(frozen=True)
class WorkflowNode:
    id: str
    tasks: tuple[TaskNode, ...]
    max_parallel: int | None = None

    @property
    def below(self) -> tuple[Node, ...]:
        return tuple([task.runner for task in self.tasks])


Node: TypeAlias = AgentNode | SequenceNode | ParallelNode | WorkflowNode


# --- what is known of a tree before it runs


def weight(node: Node) -> int:
    """Return the number of agents in the tree; an agent at two places counts twice."""
    own = 1 if isinstance(node, AgentNode) else 0
    return own + sum([weight(each) for each in node.below])


def depth(node: Node) -> int:
    return 1 + max([depth(each) for each in node.below], default=0)


def may_fail(node: Node) -> bool:
    """Whether its run may end other than complete."""
    match node:
        case AgentNode(end=end):
            return end in ("fails", "fails once", "stops short")  # what a sub-agent fails of, it is told
        case WorkflowNode(tasks=tasks) if any(task.kind == "each" and task.needs for task in tasks):
            return True  # what came before may be no list
        case _:
            return any(may_fail(each) for each in node.below)


def counts_failures(node: Node) -> bool:
    """Whether an agent in it fails the first time only, so that it matters who comes first."""
    return (isinstance(node, AgentNode) and node.end == "fails once") or any(map(counts_failures, node.below))


def in_one_order(node: Node) -> bool:
    """Whether nothing that shares a session runs at once in it: no two tasks of a workflow, no two sub-agents."""
    match node:
        case WorkflowNode(max_parallel=limit):
            alone = limit == 1
        case AgentNode(below=below):
            alone = len(below) < 2
        case _:
            alone = True
    return alone and all(map(in_one_order, node.below))


# --- strategies


@st.composite
def trees(draw: st.DrawFn, *, settled: bool = False) -> Node:
    """Draw a tree of depth 2 to 4.

    Args:
        draw: Hypothesis's.
        settled: whether its outcome must be the same whoever is quicker, where real threads run it.
    """
    grown: list[Node] = []
    return _grown(draw, draw(st.integers(2, 4)), grown, settled)


def _grown(draw: st.DrawFn, levels: int, grown: list[Node], settled: bool) -> Node:
    again = [n for n in grown if depth(n) <= levels and weight(n) <= 3 and not (settled and counts_failures(n))]
    if again and levels < 4 and draw(st.integers(0, 3)) == 3:
        return draw(st.sampled_from(again))
    kind = "agent" if levels == 1 else draw(st.sampled_from(["agent", "sequence", "parallel", "workflow", "parallel"]))
    id = f"{kind[0]}{len(grown)}-{levels}"
    if kind == "agent":
        made: Node = _agent(draw, id, levels, grown, settled)
    elif kind == "workflow":
        made = _workflow(draw, id, levels, grown, settled)
    else:
        below = tuple([_grown(draw, levels - 1, grown, settled) for _ in range(draw(st.integers(1, 3)))])
        if kind == "sequence":
            given: list[PassOutput] = [False, True, "combined"]
            made = SequenceNode(id, below, draw(st.sampled_from(given)))
        else:
            made = _parallel(draw, id, below, settled)
    grown.append(made)
    return made


def _agent(draw: st.DrawFn, id: str, levels: int, grown: list[Node], settled: bool) -> AgentNode:
    beats: list[Beat] = ["note", "note", "ask", "ask by tool", "pay", "all at once"]
    chosen = draw(st.lists(st.sampled_from(beats), max_size=2))
    below: tuple[Node, ...] = ()
    if levels > 1 and draw(st.booleans()):
        below = tuple([_grown(draw, levels - 1, grown, settled) for _ in range(draw(st.integers(1, 2)))])
        chosen.append("hand over")
    return AgentNode(id, tuple(chosen), draw(st.sampled_from(ENDS)), below)


def _parallel(draw: st.DrawFn, id: str, below: tuple[Node, ...], settled: bool) -> ParallelNode:
    merges: list[Merge] = ["collect_all", "collect_all", "first"]
    rules: list[OnError] = ["fail", "collect", "collect"]
    merge, on_error = draw(st.sampled_from(merges)), draw(st.sampled_from(rules))
    limit = draw(st.none() | st.integers(1, 2))
    if settled and (merge == "first" or (on_error == "fail" and any(map(may_fail, below)))):
        limit = 1
    return ParallelNode(id, below, merge, limit, on_error)


def _workflow(draw: st.DrawFn, id: str, levels: int, grown: list[Node], settled: bool) -> WorkflowNode:
    tasks: list[TaskNode] = []
    kinds: list[Kind] = ["plain", "plain", "when", "asks when", "each", "until", "asks until"]
    for number in range(draw(st.integers(1, 3))):
        needs = draw(st.lists(st.integers(0, number - 1), unique=True, max_size=2)) if number else []
        tasks.append(
            TaskNode(
                _grown(draw, levels - 1, grown, settled),
                draw(st.sampled_from(kinds)),
                tuple(needs),
                draw(st.integers(0, 1)),
            )
        )
    limit = draw(st.none() | st.integers(1, 2))
    if settled and any(task.kind == "each" and may_fail(task.runner) for task in tasks):
        limit = 1
    return WorkflowNode(id, tuple(tasks), limit)
