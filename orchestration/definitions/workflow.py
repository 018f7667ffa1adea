"""`Task` and `Workflow`: runners joined into a graph, as values."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar, cast, overload

from understudy.errors import BadReply, ProviderTimeout, RateLimited, SpecError, ToolTimeout, ToolUnavailable
from understudy.orchestration.graph.parameters import check_given, checked_mapping
from understudy.orchestration.graph.spec import GraphSpec, TaskSpec, parameters_of, problems_of
from understudy.vocabulary.checks import checked_number, checked_text, is_async
from understudy.vocabulary.messages import JsonValue, Part
from understudy.vocabulary.other_names import OF_MAPS, OF_TASKS, OF_WORKFLOWS, explains_arguments, explains_parameters
from understudy.vocabulary.runs.handles import RunHandle
from understudy.vocabulary.runs.outcomes import MapAnswer, MapFailure, Outcome, TaskResult
from understudy.vocabulary.runs.streams import RunStream
from understudy.vocabulary.tools.definition import NAME

from .agent_rules import checked_watchers
from .checks import checked_count, checked_description, checked_errors, checked_id
from .port import MapKeywords, MapOptions, MapSystemKeywords, RunKeywords, RunOptions, runtime
from .runner import Runner
from .unknown_options import of_run

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from understudy.vocabulary.runs.callbacks import AgentCallback

When = str | Callable[[Mapping[str, TaskResult]], bool]
Until = str | Callable[[str], bool]
Condition = TypeVar("Condition", When | None, Until | None)
FIRST_RETRY, LONGEST_WAIT = 1.0, 60.0  # Seconds. Services that tasks depend on are back after a few, or after minutes.
DEFAULT_REPEATS = 3
_MAP_OPTIONS = (*MapKeywords.__annotations__, "system")
PASSING = (RateLimited, ProviderTimeout, BadReply, ToolTimeout, ToolUnavailable)
"""Errors worth a retry of a task, even if they are not `retryable`."""


@explains_arguments("a task", OF_TASKS)
class Task:
    """One step of a workflow: a runner, its prompt, and the tasks that must be done before.

    Args:
        name: names it in prompts and outcomes.
        runner: an agent, a group, or another workflow.
        prompt: what the runner is told. `${task}` stands for the text of a task it depends on, `${task.key}` for what
            stands there if that is JSON, `${input}` for the workflow's input, any other name for a parameter of the run.
            A prompt that names no task gets the texts of its dependencies before it.
        dependencies: names of tasks that must be done before; the task begins the moment they are.
        retries: how often it is run again after an error that may pass: one that is `retryable`, a `RateLimited`, a
            `ProviderTimeout`, a `BadReply`, a `ToolTimeout` or a `ToolUnavailable`, or one that `retry_on` names.
        retry_on: classes of other errors after which it is run again.
        backoff: seconds before the first retry, doubled each time, and the most.
        when: `"${check.label} == spam and ${check.n} > 3"`, or a function of the tasks' results by name; if it does not hold,
            the task is skipped, and what depends on it. A function returns True or False; anything else fails the task, and
            `async def` is refused. Conditions have `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not`,
            `and`, `or` and brackets; docs/orchestration.md has their rules.
        for_each: `"${list}"` or `"${task.key}"`: the task runs once for each item, all at the same time, with `${item}`.
        until: `"${draft.score} == good"`, or a function of the task's own text, as for `when`; until it holds, the task runs
            again, with `${previous}` for what it said before.
        max_repeats: how often it runs again at most.

    Raises:
        ValueError: the name or a number is out of range.
        TypeError: an argument is of the wrong type.
    """

    __slots__ = (
        "backoff",
        "dependencies",
        "for_each",
        "max_repeats",
        "name",
        "prompt",
        "retries",
        "retry_on",
        "runner",
        "until",
        "when",
    )

    def __init__(
        self,
        name: str,
        runner: Runner[object],
        *,
        prompt: str = "${input}",
        dependencies: Iterable[str] = (),
        retries: int = 0,
        retry_on: Iterable[type[Exception]] = (),
        backoff: tuple[float, float] = (FIRST_RETRY, LONGEST_WAIT),
        when: When | None = None,
        for_each: str | None = None,
        until: Until | None = None,
        max_repeats: int = DEFAULT_REPEATS,
    ) -> None:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(f"a task's name must be letters, digits, '_' and '-', at most 64; got {name!r}")
        where = f"task {name!r}"
        if not isinstance(runner, Runner):
            raise TypeError(f"{where}: its runner must be an agent, a group or a workflow, got {runner!r}")
        if isinstance(dependencies, str):
            raise TypeError(f"{where}: dependencies must be a list of names, got the string {dependencies!r}")
        if for_each is not None and not isinstance(for_each, str):
            raise TypeError(f"{where}: for_each must be a reference such as '${{list}}', got {for_each!r}")
        self.name = name
        self.runner = runner
        self.prompt = checked_text(f"{where}: prompt", prompt)
        self.dependencies = tuple(dependencies)
        self.retries = checked_count(name, "retries", retries, 0, "task")
        self.retry_on = checked_errors(f"{where}: retry_on", retry_on)
        self.backoff = _checked_backoff(where, backoff)
        self.when = _checked_condition(f"{where}: when", when)
        self.for_each = for_each
        self.until = _checked_condition(f"{where}: until", until)
        self.max_repeats = checked_count(name, "max_repeats", max_repeats, 0, "task")

    def spec(self, fingerprint: str = "") -> TaskSpec:
        """Return the task as data for a machine, with the fingerprint of its runner."""
        return TaskSpec(
            name=self.name,
            runner=fingerprint,
            prompt=self.prompt,
            dependencies=self.dependencies,
            retries=self.retries,
            backoff=self.backoff,
            when=self.when if isinstance(self.when, str) else None,
            asks_when=callable(self.when),
            for_each=self.for_each,
            until=self.until if isinstance(self.until, str) else None,
            asks_until=callable(self.until),
            max_repeats=self.max_repeats,
        )

    def may_retry(self, error: BaseException) -> bool:
        """Whether a task may be retried after this error."""
        return isinstance(error, (*self.retry_on, *PASSING)) or getattr(error, "retryable", False) is True

    def __repr__(self) -> str:
        return f"Task({self.name!r}, {self.runner!r})"


def _checked_backoff(where: str, given: object) -> tuple[float, float]:
    pair = cast("tuple[float, ...]", given) if isinstance(given, (tuple, list)) else ()
    if len(pair) != 2:
        raise TypeError(f"{where}: backoff must be (first, most) in seconds, got {given!r}")
    first, most = [float(checked_number(f"{where}: backoff", each)) for each in pair]
    if not 0 <= first <= most:
        raise ValueError(f"{where}: backoff must be seconds before the first retry, and the most; got {given!r}")
    return first, most


def _checked_condition(where: str, given: Condition) -> Condition:
    if given is not None and not isinstance(given, str) and not callable(given):
        raise TypeError(f"{where} must be a condition or a function, got {given!r}")
    if is_async(given):
        raise TypeError(f"{where} must be a plain function, not async def; got {given!r}")
    return given


class WorkflowChanges(TypedDict, total=False):
    """What `Workflow.replace` can change, besides the id."""

    tasks: Iterable[Task]
    max_parallel: int | None
    description: str
    callbacks: Iterable[AgentCallback]


@explains_arguments("Workflow", OF_WORKFLOWS)
class Workflow(Runner[object]):
    """Tasks that begin as soon as their dependencies are done.

    A task that fails is retried; then what depends on it is skipped, the rest goes on, and the outcome is `Incomplete`:
    its `.tasks` say what became of each, and `resume(token)` begins the failed ones anew. The session is shared: a task
    sees what those that are done have changed.

    Args:
        id: names it in logs, addresses, specs and errors.
        tasks: in any order, at least one.
        max_parallel: how many tasks run at once; None for as many as may.
        description: what it is for.
        callbacks: told how a run ends, by `on_finish` and `on_error`; see docs/callbacks.md.

    Raises:
        SpecError: tasks wait for one another, a dependency or a reference leads nowhere; all of it at once, a line each.
        TypeError: a task is none.
    """

    __slots__ = ("_graph_spec", "callbacks", "given", "max_parallel", "parameters", "tasks")

    tasks: tuple[Task, ...]
    max_parallel: int | None
    callbacks: tuple[AgentCallback, ...]
    parameters: frozenset[str]
    """Names in the prompts that are no tasks: each run must set them."""
    given: Mapping[str, JsonValue]
    """Values of other such names, from `with_parameters`."""

    def __init__(
        self,
        id: str,
        tasks: Iterable[Task],
        *,
        max_parallel: int | None = None,
        description: str = "",
        callbacks: Iterable[AgentCallback] = (),
    ) -> None:
        given = _checked_tasks(checked_id(id, "workflow"), tasks)
        if max_parallel is not None:
            checked_count(id, "max_parallel", max_parallel, 1, "workflow")
        values: dict[str, object] = {
            "id": id,
            "description": checked_description(id, description, "workflow"),
            "tasks": given,
            "max_parallel": max_parallel,
            "callbacks": checked_watchers(id, callbacks, "workflow"),
            "parameters": parameters_of([task.spec() for task in given]),
            "given": MappingProxyType({}),
            "_graph_spec": None,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def replace(self, *, id: str | None = None, **changes: Unpack[WorkflowChanges]) -> Workflow:
        """Return a copy with some arguments changed."""
        kept: WorkflowChanges = {
            "tasks": self.tasks,
            "max_parallel": self.max_parallel,
            "description": self.description,
            "callbacks": self.callbacks,
        }
        made = Workflow(self.id if id is None else id, **(kept | changes))
        return made.with_parameters({name: each for name, each in self.given.items() if name in made.parameters})

    def with_parameters(self, parameters: Mapping[str, JsonValue]) -> Workflow:
        """Return a copy whose runs have these parameters, so that it can stand inside of another runner.

        Args:
            parameters: values of some names or all; in a text `${input}` stands for the input of the workflow's run, and
                `$${` for `${`. What is not given here, each run must be given.

        Raises:
            ValueError: no prompt refers to a name, it has a value already, or a text refers to more than the input.
            TypeError: the parameters are no mapping, or no JSON.
        """
        given = checked_mapping(f"workflow {self.id!r}", parameters)
        check_given(self.id, self.parameters, given, self.given)
        made = Workflow(
            self.id,
            self.tasks,
            max_parallel=self.max_parallel,
            description=self.description,
            callbacks=self.callbacks,
        )
        object.__setattr__(made, "given", MappingProxyType({**self.given, **given}))
        object.__setattr__(made, "parameters", self.parameters - given.keys())
        return made

    @property
    def inner_runners(self) -> tuple[Runner[object], ...]:
        """The tasks' runners, in order."""
        return tuple([task.runner for task in self.tasks])

    @property
    def run_spec(self) -> GraphSpec:
        """The workflow as data for its machine; builds the schemas of all tools inside of it at the first use."""
        if self._graph_spec is None:
            tasks = tuple([task.spec(task.runner.fingerprint()) for task in self.tasks])
            made = GraphSpec(
                runner_id=self.id,
                children=tuple([task.runner for task in tasks]),
                tasks=tasks,
                parameters=self.parameters,
                given=self.given,
                max_parallel=self.max_parallel,
            )
            object.__setattr__(self, "_graph_spec", made)
        return cast(GraphSpec, self._graph_spec)

    def fingerprint(self) -> str:
        return self.run_spec.fingerprint()

    @explains_parameters("{}.run", of_run, also=RunKeywords.__annotations__)
    def run(
        self,
        input: str | Sequence[Part] = "",
        *,
        parameters: Mapping[str, JsonValue] | None = None,
        system: object = None,
        **options: Unpack[RunKeywords],
    ) -> Outcome[object]:
        """Carry one run to its end, or to where a person is needed; like `Agent.run`, which explains the other options.

        Args:
            input: what `${input}` stands for.
            parameters: what the other names in the prompts stand for; text is inserted as it is, anything else as JSON.
            system: the `ActorSystem` to run in.
            options: as for an agent.

        Raises:
            ValueError: a parameter is missing, unknown, or named like a task.
            TypeError: the parameters are no mapping, or no JSON.
        """
        return runtime().run(self, input, RunOptions(parameters=parameters, system=system, **options))

    @explains_parameters("{}.submit", of_run, also=RunKeywords.__annotations__)
    def submit(
        self,
        input: str | Sequence[Part] = "",
        *,
        parameters: Mapping[str, JsonValue] | None = None,
        system: object = None,
        **options: Unpack[RunKeywords],
    ) -> RunHandle[object]:
        """Begin a run and return its handle at once; takes what `run` takes."""
        return runtime().submit(self, input, RunOptions(parameters=parameters, system=system, stream=True, **options))

    @explains_parameters("{}.stream", of_run, also=RunKeywords.__annotations__)
    def stream(
        self,
        input: str | Sequence[Part] = "",
        *,
        parameters: Mapping[str, JsonValue] | None = None,
        system: object = None,
        inner: bool = False,
        **options: Unpack[RunKeywords],
    ) -> RunStream[object]:
        """Begin a run and iterate over its events, as of `Agent.stream`; takes what `run` takes."""
        handle = self.submit(input, parameters=parameters, system=system, **options)
        return RunStream(handle, handle.events(inner=inner))

    @overload
    def map(
        self,
        inputs: Iterable[Mapping[str, JsonValue] | str | Sequence[Part]],
        *,
        keep_errors: Literal[False] = False,
        **options: Unpack[MapSystemKeywords],
    ) -> Generator[MapAnswer[object]]: ...
    @overload
    def map(
        self,
        inputs: Iterable[Mapping[str, JsonValue] | str | Sequence[Part]],
        *,
        keep_errors: bool,
        **options: Unpack[MapSystemKeywords],
    ) -> Generator[MapAnswer[object] | MapFailure]: ...
    @explains_parameters("{}.map", OF_MAPS, also=_MAP_OPTIONS)
    def map(
        self,
        inputs: Iterable[Mapping[str, JsonValue] | str | Sequence[Part]],
        *,
        keep_errors: bool = False,
        **options: Unpack[MapSystemKeywords],
    ) -> Generator[MapAnswer[object] | MapFailure]:
        """Run the workflow for each of many inputs and yield the answers as they come; like `Agent.map`.

        Args:
            inputs: the parameters of each run; or texts or parts, of a workflow whose prompts need only `${input}`.
            max_parallel: how many runs may be under way at once; `Workflow(max_parallel=…)` is about one run's tasks.
            budget: what all runs may spend together.
            keep_errors: yield a `MapFailure` for a run that fails, and go on.
            ordered: yield the answers in the order of `inputs`.
            session: values that each run begins with a copy of.
            user_id: as for `run`.
            deps: as for `run`; all runs have the same object.
            timeout: seconds that each run may take.
            system: as for `run`.
        """
        given = MapOptions(keep_errors=keep_errors, **options)
        return runtime().map(self, inputs, given)

    _graph_spec: GraphSpec | None


def _checked_tasks(id: str, tasks: Iterable[Task]) -> tuple[Task, ...]:
    if isinstance(tasks, (str, Task)) or not isinstance(tasks, Iterable):
        raise TypeError(f"workflow {id!r}: tasks must be a list of Task(…), got {tasks!r}")
    given = tuple(tasks)
    for task in given:
        if not isinstance(task, Task):
            raise TypeError(f"workflow {id!r}: tasks must hold Task(…), got {task!r}")
    if not given:
        raise SpecError(f"workflow {id!r}: it needs at least one task")
    problems = problems_of([task.spec() for task in given])
    if problems:
        raise SpecError("\n".join([f"workflow {id!r}: {problem}" for problem in problems]))
    return given
