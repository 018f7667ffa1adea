"""The grammar of groups, workflows and supervisors: their keys and types."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Tag

from understudy.orchestration.definitions.workflow import DEFAULT_REPEATS, FIRST_RETRY, LONGEST_WAIT
from understudy.orchestration.supervision.restarts import DEFAULT_MAX_RESTARTS, DEFAULT_WITHIN
from understudy.vocabulary.messages import JsonValue

from .agent import PARAMETERS, RUNNER_ID, AgentGrammar
from .grammar import TEXT, Grammar, exact, form, forms
from .named import Condition, WatcherEntry

WORKFLOW_TYPES = ("sequential", "parallel", "workflow")
DEFINES = ("id", "model", "provider", "type")
"""A step with one of these keys is a definition in place; a step without is a reference."""
OUTPUTS = (False, True, "combined")


def _first_and_most(pair: list[float]) -> list[float]:
    if not 0 <= pair[0] <= pair[1]:
        raise ValueError("must be seconds before the first one, and the most: [1, 60]")
    return pair


Backoff = Annotated[list[float], Field(min_length=2, max_length=2), AfterValidator(_first_and_most)]


class RefGrammar(Grammar):
    """A runner that is defined elsewhere."""

    called: ClassVar[str] = "a reference"

    ref: str = Field(description="its id; it may be defined later")
    parameters: dict[str, JsonValue] = Field(default={}, description=PARAMETERS)


class SequentialGrammar(Grammar):
    """Runners that run one after another."""

    called: ClassVar[str] = "a workflow of type sequential"

    id: str = Field(description="unique in the spec", json_schema_extra={"pattern": RUNNER_ID})
    type: Literal["sequential"] = Field(description="this kind of workflow")
    description: str = Field(default="", description="what it is for")
    steps: list[Step] = Field(min_length=1, description="`ref: ID`, or an agent or a workflow that is defined here")
    pass_output: Annotated[Literal[False, True, "combined"], BeforeValidator(partial(exact, of=OUTPUTS))] = Field(
        default=False,
        description="a step is told the text of the one before; `combined`: all texts of a parallel group; `false`: the input",
    )
    callbacks: list[WatcherEntry] | None = Field(default=None, description="told how a run ends, in order")


class ParallelGrammar(Grammar):
    """Runners that run at the same time on the same input."""

    called: ClassVar[str] = "a workflow of type parallel"

    id: str = Field(description="unique in the spec", json_schema_extra={"pattern": RUNNER_ID})
    type: Literal["parallel"] = Field(description="this kind of workflow")
    description: str = Field(default="", description="what it is for")
    steps: list[Step] = Field(min_length=1, description="`ref: ID`, or an agent or a workflow that is defined here")
    merge_strategy: Literal["collect_all", "first"] = Field(
        default="collect_all", description="collect all answers, or take the first success and cancel the others"
    )
    max_parallel: int | None = Field(default=None, ge=1, description="how many steps run at once; null for all")
    on_error: Literal["fail", "collect"] = Field(
        default="fail", description="a step's failure ends the run, or leaves its place empty"
    )
    callbacks: list[WatcherEntry] | None = Field(default=None, description="told how a run ends, in order")


class TaskGrammar(Grammar):
    """One task of a workflow; `agent` or `ref` says who does it."""

    called: ClassVar[str] = "a task"

    id: str = Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$", description="names it in prompts, dependencies and outcomes"
    )
    agent: str | None = Field(default=None, description="id of an agent, a workflow, or another runner")
    ref: str | None = Field(default=None, description="the same as `agent`")
    parameters: dict[str, JsonValue] = Field(default={}, description=PARAMETERS)
    prompt: str = Field(
        default="${input}",
        description="its input: `${task}`, `${task.key}`, `${input}`, or any other name for a parameter of the run; "
        "if it names no task, the texts of the dependencies stand before it",
    )
    dependencies: list[str] | None = Field(default=None, description="ids of the tasks that must be done before")
    retries: int = Field(default=0, ge=0, description="how often it is run again after an error that may pass")
    retry_on: list[str] | None = Field(
        default=None,
        description="classes of other errors after which it is run again: Python's, understudy's, or registered ones",
    )
    backoff: Backoff = Field(
        default=[FIRST_RETRY, LONGEST_WAIT],
        description="seconds before the first retry, doubled each time, and the most",
    )
    when: Condition | None = Field(
        default=None,
        description="`${check.label} == spam and ${check.n} > 3`, or `{name: NAME}` of a function; the task is skipped if it does not hold",
    )
    for_each: str | None = Field(
        default=None, description="`${list}` or `${task.key}`: the task runs once for each `${item}`"
    )
    until: Condition | None = Field(
        default=None,
        description="`${draft.score} >= 8`, or `{name: NAME}` of a function: the task runs again until it holds, "
        "with `${previous}`",
    )
    max_repeats: int = Field(default=DEFAULT_REPEATS, ge=0, description="how often it runs again at most")


class GraphGrammar(Grammar):
    """Tasks that start as soon as the tasks they depend on are done."""

    called: ClassVar[str] = "a workflow of type workflow"

    id: str = Field(description="unique in the spec", json_schema_extra={"pattern": RUNNER_ID})
    type: Literal["workflow"] = Field(description="this kind of workflow")
    description: str = Field(default="", description="what it is for")
    tasks: list[TaskGrammar] = Field(min_length=1, description="its tasks, in any order")
    max_parallel: int | None = Field(
        default=None, ge=1, description="how many tasks run at once; null for all that may"
    )
    callbacks: list[WatcherEntry] | None = Field(default=None, description="told how a run ends, in order")


WorkflowEntry = Annotated[
    Annotated[SequentialGrammar, form("sequential")]
    | Annotated[ParallelGrammar, form("parallel")]
    | Annotated[GraphGrammar, form("workflow")],
    forms("must be a mapping with 'type'", types=WORKFLOW_TYPES),
]
Step = Annotated[
    Annotated[RefGrammar, form("ref")]
    | Annotated[AgentGrammar, form("agent")]
    | Annotated[SequentialGrammar, form("sequential")]
    | Annotated[ParallelGrammar, form("parallel")]
    | Annotated[GraphGrammar, form("workflow")],
    forms(
        "must be 'ref: ID', an agent or a workflow", types=WORKFLOW_TYPES, keys=("ref",), other="agent", marks=DEFINES
    ),
]


class ChildGrammar(Grammar):
    """A runner that a supervisor watches, with its restart rule."""

    called: ClassVar[str] = "a child"

    ref: str = Field(description="id of a runner")
    restart: Literal["permanent", "transient", "temporary"] = Field(
        default="transient", description="restarted whenever it ends, when it fails, or never"
    )


ChildEntry = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[ChildGrammar, form("child")],
    forms("must be an id, or a mapping with 'ref: ID'", text=True, other="child"),
]


class SupervisorGrammar(Grammar):
    """Runners that a system starts together, and what happens when one fails."""

    called: ClassVar[str] = "a supervisor"

    id: str = Field(description="unique in the spec", pattern=r"^[^/]+$")
    children: list[ChildEntry] = Field(
        min_length=1, description="ids of runners or other supervisors, in the order in which they start"
    )
    strategy: Literal["one_for_one", "one_for_all", "rest_for_one"] = Field(
        default="one_for_one", description="who is restarted: the one that failed, all, or it and those after it"
    )
    max_restarts: int = Field(
        default=DEFAULT_MAX_RESTARTS,
        ge=0,
        description="restarts within the period that are borne, of all children together",
    )
    within: float = Field(default=DEFAULT_WITHIN, gt=0, description="the period, in seconds")
    backoff: Backoff | None = Field(
        default=None, description="seconds before the first restart, doubled each time, and the most; null: at once"
    )
    decider: str | None = Field(
        default=None, description="name of a registered function that says what an error deserves; null: a restart"
    )


for _grammar in (SequentialGrammar, ParallelGrammar):
    _grammar.model_rebuild()
