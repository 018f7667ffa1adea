"""Random trees of runners, as values: agents that do as they are written, in sequences, parallel groups and workflows.

An agent's turns are its `beats`, one after another, and then its `end`. What it says depends on what it was told and on
nothing else, so that whoever drives it, and in which order, hears the same.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

from hypothesis import strategies as st

from understudy import (
    Agent,
    ParallelAgent,
    SequentialAgent,
    SubAgent,
    Task,
    TaskResult,
    ToolContext,
    Workflow,
    ask_user,
    tool,
)
from understudy.callbacks import AgentCallback, CallbackAction, Continue
from understudy.criteria import KeywordCriteria
from understudy.errors import BadReply
from understudy.messages import JsonValue, ModelRequest, ModelTurn, ToolCall, ToolResult, Usage, calls, says
from understudy.orchestration.group_spec import Merge, OnError, PassOutput
from understudy.orchestration.runner import Runner
from understudy.outcomes import Outcome
from understudy.session import RunContext
from understudy.tools import ToolLike

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
LONGEST = 40  # Characters that are quoted whole.
GIVEN = "given"
"""A session key that the agents remove."""


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
    """Return how many agents stand in it, one that stands there twice counted twice."""
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


# --- what goes on around the runners


class Stage:
    """Counts what the runners of a tree have done, and makes code of theirs fail at drawn moments.

    Attributes:
        models: how often models were called.
        tools: how often tools were.
        stumbled: how often something was made to fail.
    """

    def __init__(self, stumbles: Collection[int] = (), *, watched: bool = False) -> None:
        self.models = self.tools = self.stumbled = 0
        self.callbacks: list[AgentCallback] = [Stumbling(self)] if watched else []
        self._stumbles = stumbles
        self._moments = 0
        self._lock = threading.Lock()

    def model_called(self) -> None:
        with self._lock:
            self.models += 1

    def tool_called(self) -> None:
        with self._lock:
            self.tools += 1

    def moment(self, fault: type[BaseException]) -> None:
        """Fail, if this is a moment to."""
        with self._lock:
            self._moments += 1
            if self._moments not in self._stumbles:
                return
            self.stumbled += 1
        raise fault("a fault that was drawn")


class Stumbling(AgentCallback):
    """Fails the driver of an agent, which is what an unhandled exception of a callback does."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def before_model_call(self, ctx: RunContext, request: ModelRequest) -> CallbackAction:
        self._stage.moment(ZeroDivisionError)
        return Continue()

    def after_model_call(self, ctx: RunContext, turn: ModelTurn) -> CallbackAction:
        self._stage.moment(ZeroDivisionError)
        return Continue()

    def before_tool_call(self, ctx: RunContext, call: ToolCall) -> CallbackAction:
        self._stage.moment(ZeroDivisionError)
        return Continue()

    def after_tool_call(self, ctx: RunContext, call: ToolCall, result: ToolResult) -> CallbackAction:
        self._stage.moment(ZeroDivisionError)
        return Continue()

    def on_finish(self, ctx: RunContext, outcome: Outcome[object]) -> CallbackAction:
        self._stage.moment(ZeroDivisionError)
        return Continue()


# --- the runners


def runner_of(node: Node, stage: Stage | None = None) -> Runner[object]:
    """Make the runner; what stands at several places of the tree is one runner there."""
    return _made(node, stage or Stage(), {})


def _made(node: Node, stage: Stage, made: dict[Node, Runner[object]]) -> Runner[object]:
    found = made.get(node)
    if found is None:
        below = [_made(each, stage, made) for each in node.below]
        found = made[node] = _runner(node, stage, below)
    return found


def _runner(node: Node, stage: Stage, below: list[Runner[object]]) -> Runner[object]:
    match node:
        case AgentNode(id=id, end=end):
            subs = [SubAgent(each, name=f"below_{number}") for number, each in enumerate(below)]
            criteria = [KeywordCriteria("nobody says this")] if end == "stops short" else []
            tools: list[ToolLike] = [*_tools(id, stage), ask_user]
            return Agent(
                id,
                model=Actor(node, stage),
                tools=tools,
                sub_agents=subs,
                criteria=criteria,
                max_continues=0,
                callbacks=stage.callbacks,
            )
        case SequenceNode(id=id, pass_output=pass_output):
            return SequentialAgent(id, below, pass_output=pass_output)
        case ParallelNode(id=id, merge=merge, max_parallel=limit, on_error=on_error):
            return ParallelAgent(id, below, merge=merge, max_parallel=limit, on_error=on_error)
        case WorkflowNode(id=id, tasks=tasks, max_parallel=limit):
            made = [
                _task(number, task, runner, stage)
                for number, (task, runner) in enumerate(zip(tasks, below, strict=True))
            ]
            return Workflow(id, made, max_parallel=limit)


def _task(number: int, node: TaskNode, runner: Runner[object], stage: Stage) -> Task:
    name, needs = f"t{number}", [f"t{each}" for each in node.needs]
    prompt = "".join(["${input}", *[f" ${{{each}}}" for each in needs]])
    task: dict[str, str | Callable[..., bool]] = {}
    match node.kind:
        case "when" if needs:
            task["when"] = f"${{{needs[0]}}} != good"
        case "asks when" if needs:
            task["when"] = partial(are_short, stage, needs)
        case "each":
            task["for_each"], prompt = f"${{{needs[0]}}}" if needs else "${input}", prompt + " ${item}"
        case "until":
            task["until"], prompt = f"${{{name}}} == good", prompt + " ${previous}"
        case "asks until":
            task["until"], prompt = partial(is_good, stage), prompt + " ${previous}"
        case _:
            pass
    return Task(
        name,
        runner,
        prompt=prompt,
        dependencies=needs,
        retries=node.retries,
        backoff=(0.0, 0.0),
        max_repeats=2,
        **task,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    )


def are_short(stage: Stage, names: list[str], tasks: Mapping[str, TaskResult]) -> bool:
    stage.moment(SystemExit)  # an exception would be the task's failure
    return all(len(tasks[name].text) < LONGEST for name in names)


def is_good(stage: Stage, text: str) -> bool:
    stage.moment(SystemExit)
    return text == "good"


def _tools(id: str, stage: Stage) -> list[ToolLike]:
    def note(ctx: ToolContext) -> str:
        """Count in the session, and remove what was given there."""
        stage.tool_called()
        return noted(id, ctx.session)

    def look() -> str:
        stage.tool_called()
        return "seen"

    @tool(approval=True)
    def pay() -> str:
        stage.tool_called()
        return "paid"

    return [note, look, pay]


def noted(id: str, session: MutableMapping[str, JsonValue]) -> str:
    """Do what the tool `note` of an agent does."""
    before = session.get(id, 0)
    assert isinstance(before, int)
    session[id] = before + 1
    session.pop(GIVEN, None)
    return "noted"


@dataclass
class Actor:
    """The model of an agent, which acts as its node says."""

    node: AgentNode
    stage: Stage
    failed: Counter[str] = field(default_factory=Counter[str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def complete(self, request: ModelRequest) -> ModelTurn:
        self.stage.model_called()
        turn = self._turn(request)
        return ModelTurn(turn.parts, Usage(input_tokens=len(request.messages), output_tokens=1))

    def _turn(self, request: ModelRequest) -> ModelTurn:
        said = sum([message.role == "assistant" for message in request.messages])
        if said < len(self.node.beats):
            return self._beat(self.node.beats[said], quoted(request.messages[0].text))
        told = [message.text for message in request.messages if message.role == "user" and message.text]
        results = [r for message in request.messages for r in message.tool_results]
        heard = ["!" if r.is_error else quoted(r.content) for r in results]
        return self._end(request.messages[0].text, quoted("|".join([*map(quoted, told), *heard])))

    def _beat(self, beat: Beat, input: str) -> ModelTurn:
        ask = calls("ask_user", question=f"{self.node.id} {input}?")
        match beat:
            case "note":
                return calls("note") + calls("look")
            case "ask":
                return says(f"__ask_user__: {self.node.id} {input}?")
            case "ask by tool":
                return ask
            case "pay":
                return calls("pay")
            case "all at once":
                return ask + calls("pay") + calls("note") + calls("pay")
            case "hand over":
                turn = calls("look")
                for number in range(len(self.node.below)):
                    turn = turn + calls(f"below_{number}", input=f"{number} {input}")
                return turn

    def _end(self, input: str, heard: str) -> ModelTurn:
        match self.node.end:
            case "says" | "stops short":
                return says(f"{self.node.id}({heard})")
            case "list":
                return says('["one", "two"]')
            case "improves":
                return says("good" if "poor" in input else "poor")
            case "fails":
                raise BadReply(f"{self.node.id} fails")
            case "fails once":
                with self.lock:
                    self.failed[input] += 1
                    first = self.failed[input] == 1
                if first:
                    raise BadReply(f"{self.node.id} fails once")
                return says(f"{self.node.id}({heard})")


def quoted(text: str) -> str:
    """Return a text, or what stands for a long one: trees repeat what they are told many times over."""
    return text if len(text) <= LONGEST else f"#{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def tally(tasks: Mapping[str, TaskResult]) -> list[tuple[str, str, str, str, int]]:
    """Return all that is told of a workflow's tasks."""
    return [(name, each.status, each.text, each.reason, each.attempts) for name, each in tasks.items()]
