"""The runners that a tree of `trees` stands for.

What an agent of it says depends on what it was told and on nothing else, so that whoever drives it, and in which order,
hears the same.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from unittest.mock import patch

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
from understudy.actors.runs.group_actor import GroupRunActor
from understudy.actors.runs.group_record import GroupRunRecord
from understudy.errors import BadReply
from understudy.orchestration.definitions.runner import Runner
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.messages import JsonValue, ModelRequest, ModelTurn, ToolCall, ToolResult, Usage, calls, says
from understudy.vocabulary.runs.callbacks import AgentCallback, CallbackAction, Continue
from understudy.vocabulary.runs.criteria import KeywordCriteria
from understudy.vocabulary.runs.outcomes import Outcome
from understudy.vocabulary.tools.definition import ToolLike

from .trees import AgentNode, Beat, Node, ParallelNode, SequenceNode, TaskNode, WorkflowNode

LONGEST = 40  # Characters that are quoted whole.
GIVEN = "given"
"""A session key that the agents remove."""


# --- what goes on around the runners


class Stage:
    """Counts the work of a tree's runners, and makes their code fail at random moments.

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
    """Crashes the run of an agent, as an unhandled exception of a callback does."""

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
    """Make the runner; a runner at several places of the tree is one object."""
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


@contextmanager
def crashing_groups(stage: Stage) -> Generator[None]:
    """Have groups crash at moments of a stage: in the work that asks a task's function, and in the turn that takes what is due."""
    begin_step = GroupRunRecord.begin_step
    take_due = GroupRunActor._take_due  # pyright: ignore[reportPrivateUsage]

    def begin_step_and_crash(record: GroupRunRecord, epoch: int, doing: str) -> None:
        begin_step(record, epoch, doing)
        if " of task " in doing:
            stage.moment(SystemExit)  # an exception would be the task's failure

    def take_due_and_crash(run: GroupRunActor) -> None:
        take_due(run)
        stage.moment(SystemExit)

    with (
        patch.object(GroupRunRecord, "begin_step", begin_step_and_crash),
        patch.object(GroupRunActor, "_take_due", take_due_and_crash),
    ):
        yield


def are_short(stage: Stage, names: list[str], tasks: Mapping[str, TaskResult]) -> bool:
    return all(len(tasks[name].text) < LONGEST for name in names)


def is_good(stage: Stage, text: str) -> bool:
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
