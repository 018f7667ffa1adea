"""`Agent`: the definition of an agent, as a value. The runtime runs it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict, cast, overload

from understudy.orchestration.agent.spec import (
    DEFAULT_CONTINUE_MESSAGE,
    DEFAULT_MAX_CONTINUES,
    DEFAULT_MAX_INVALID_RETRIES,
    DEFAULT_MAX_ITERATIONS,
    DEFAULT_MAX_OUTPUT_RETRIES,
    DEFAULT_MAX_TURNS,
    CompactionRule,
    RunSpec,
)
from understudy.orchestration.agent.typed_answers import output_spec
from understudy.orchestration.definitions.agent_rules import (
    InvalidCallRule,
    are_completion_rules,
    cap_of,
    checked_callbacks,
    checked_criteria,
    checked_invalid_call_rule,
    checked_message,
)
from understudy.orchestration.definitions.by_turns import TurnRunner
from understudy.orchestration.definitions.call_checks import CallChecks, check_calls
from understudy.orchestration.definitions.checks import (
    SystemPrompt,
    check_beside_cache,
    check_fit,
    checked_budget,
    checked_count,
    checked_description,
    checked_id,
    checked_memory,
    checked_model,
    checked_model_timeout,
    checked_output_mode,
    checked_output_type,
    checked_prompt,
    checked_restarts,
    checked_rule,
    checked_settings,
    checked_tools,
)
from understudy.orchestration.definitions.port import RunOptions, runtime
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.definitions.sub_agent import SubAgent, SubAgentLike, checked_sub_agents
from understudy.orchestration.definitions.unknown_options import of_agent
from understudy.vocabulary.answers.forms import JsonSchema
from understudy.vocabulary.answers.output_type import CheckedOutput, OutputMode, OutputType
from understudy.vocabulary.checks import UNSET, Unset
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Budget, Spending, narrowed
from understudy.vocabulary.messages import JsonValue, ModelTurn, OutputSpec, Settings, ToolCall, ToolResult
from understudy.vocabulary.models import Model, ModelLike, ModelName, names_of
from understudy.vocabulary.runs.callbacks import AgentCallback
from understudy.vocabulary.runs.compacted_memory import CompactedMemory
from understudy.vocabulary.runs.compaction import Compaction
from understudy.vocabulary.runs.criteria import Criterion
from understudy.vocabulary.runs.memory import MemoryLike
from understudy.vocabulary.tools.definition import Tool
from understudy.vocabulary.tools.options import (
    DEFAULT_MAX_PARALLEL_CALLS,
    OnToolError,
    checked_on_error,
    checked_parallel,
)
from understudy.vocabulary.tools.questions import asks_user
from understudy.vocabulary.tools.toolset import ToolSource

if TYPE_CHECKING:
    from typing_extensions import TypeForm, TypeVar, Unpack

    from understudy.orchestration.agent.run import AgentRun

    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True, default=str)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


class AgentOptions(TypedDict, total=False):
    """The options of an agent, besides its id, model and output type."""

    system_prompt: SystemPrompt
    description: str
    tools: Iterable[ToolSource]
    sub_agents: Iterable[SubAgentLike]
    settings: Settings
    max_iterations: int
    max_turns: int
    restart_on: Iterable[type[Exception]]
    on_tool_error: OnToolError
    max_parallel_calls: int | None
    callbacks: Iterable[AgentCallback]
    criteria: Iterable[Criterion]
    continue_message: str
    max_continues: int
    on_invalid_call: InvalidCallRule
    max_invalid_retries: int
    budget: Budget | None
    memory: MemoryLike | None
    compaction: Compaction | None
    output_mode: OutputMode
    max_output_retries: int
    model_timeout: float | None


class AgentChanges(AgentOptions, total=False):
    """What `Agent.replace` can change, besides the id."""

    model: ModelLike


class Agent(TurnRunner[T_co]):
    """An agent: a model, its instructions, and the tools it may call.

    An agent is a value: it never changes, may be shared by any number of threads, and costs nothing until it runs.
    Everything is checked here except the provider's key, which is looked up at the first call, and the schemas of the
    tools, which are built at the first run, or here if they must be strict.

    Args:
        id: names the agent in logs, addresses, specs and errors.
        model: `"PROVIDER:MODEL"`, or a model object.
        system_prompt: instructions, or a function of the run's context that returns them, called once a run.
        description: what the agent is for; other agents read it.
        tools: functions, tools or toolsets the model may call; names must differ.
        sub_agents: agents that the model may hand tasks to, as it calls tools; a `SubAgent` says more about one.
        settings: how the model should answer.
        max_iterations: rounds of tool calls a run may execute.
        max_turns: model calls a run may make.
        restart_on: errors of the model or a tool after which the agent is restarted, as after a failure of its own: its
            model lets go of its connections, and the step that the model failed in is done again. Of a tool, the result
            is the error as ever.
        on_tool_error: what becomes of a tool call that fails, times out, is malformed or cannot be made: `"result"`, an error
            that the model reads, or `"raise"`, which ends the run with `ToolError` and cancels the turn's other calls. A
            tool's own `on_error` goes before. What a tool says with `Retry`, and a person's no, are for the model always.
        max_parallel_calls: how many calls of one turn run at once; the others wait for a place without a thread, in call
            order, and the time of each begins with it. With 1 each begins when the one before it is done, and sees what that
            one changed in the session. None for any number.
        callbacks: asked at the moments of a run, in order; see `AgentCallback`.
        criteria: one of them must be met by a text for it to end the run, asked in order; see `Criterion`. Without
            any, the first text does.
        continue_message: what the model is told after a text that meets no criterion.
        max_continues: how often a run tells it so; then the outcome is `Incomplete`.
        on_invalid_call: what becomes of a call of an unknown tool, or with arguments that do not fit: `"result"`,
            `"fail"`, `"retry"`, or a function of the context and the invalid call.
        max_invalid_retries: how many turns a run may have tried again because of invalid calls; then it fails.
        budget: what a run may spend, with everything inside of it; None for no limit.
        output_type: what the answer must be: a class, or another type such as `list[int]`. The outcome's `output` is of
            this type. Its JSON Schema is built at the first run. Or a `JsonSchema`, and the output is JSON that fits it.
        output_mode: how the model is held to it: `"native"`, by its provider; `"tool"`, by a tool that it calls with the
            answer; `"auto"`, natively where the provider can for this model and these tools.
        max_output_retries: how often the model is told what is wrong with an answer and asked for another.
        memory: what the agent knows of a conversation from the runs before; for runs with a `conversation_id` only.
            Agents that are given one memory share what it knows. A class, or a function without arguments, is called for
            the first run that needs the memory, and again after a failure; in one system it makes one memory for all agents
            that have it. None, and each run stands alone.
        compaction: the rule for a conversation that fills the model's context window; see `Compaction`. None: the rule
            of a `CompactedMemory`, or nothing: then a request that is too long ends the run with `ContextOverflow`.
        model_timeout: seconds one model call may take with its retries; then the run ends with `ProviderTimeout`. None for
            no limit. Without it the model's own `model_timeout` holds, which is 120 unless its client was given another.

    Raises:
        ValueError: the model string is unknown, the model lacks one of the settings, two tools have one name, or a number
            is out of range.
        TypeError: an argument is of the wrong type, or a tool's signature cannot be called by name.
    """

    __slots__ = (
        *(AgentChanges.__annotations__.keys() - {"description"}),
        "_output",
        "_overrides",
        "_run_spec",
        "output_type",
        "tools_by_name",
    )

    model: ModelName | Model
    system_prompt: SystemPrompt
    tools: tuple[Tool[..., object], ...]
    sub_agents: tuple[SubAgent, ...]
    tools_by_name: Mapping[str, Tool[..., object]]
    settings: Settings
    max_iterations: int
    max_turns: int
    restart_on: tuple[type[Exception], ...]
    on_tool_error: OnToolError
    max_parallel_calls: int | None
    callbacks: tuple[AgentCallback, ...]
    criteria: tuple[Criterion, ...]
    continue_message: str
    max_continues: int
    on_invalid_call: InvalidCallRule
    max_invalid_retries: int
    budget: Budget | None
    output_type: object
    """As it was given; None for any text."""
    output_mode: OutputMode
    max_output_retries: int
    memory: MemoryLike | None
    """As it was given."""
    compaction: Compaction | None
    """As it was given; None also where a memory has the rule."""
    model_timeout: float | Unset | None
    """As it was given; `UNSET` for the model's own."""

    @overload
    def __init__(
        self: Agent[str], id: str, *, model: ModelLike, output_type: None = None, **options: Unpack[AgentOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[T], id: str, *, model: ModelLike, output_type: type[T], **options: Unpack[AgentOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[JsonValue], id: str, *, model: ModelLike, output_type: JsonSchema, **options: Unpack[AgentOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[T], id: str, *, model: ModelLike, output_type: TypeForm[T], **options: Unpack[AgentOptions]
    ) -> None: ...
    @of_agent
    def __init__(
        self,
        id: str,
        *,
        model: ModelLike,
        system_prompt: SystemPrompt = "",
        description: str = "",
        tools: Iterable[ToolSource] = (),
        sub_agents: Iterable[SubAgentLike] = (),
        settings: Settings | None = None,
        max_iterations: int = DEFAULT_MAX_ITERATIONS,
        max_turns: int = DEFAULT_MAX_TURNS,
        restart_on: Iterable[type[Exception]] = (),
        on_tool_error: OnToolError = "result",
        max_parallel_calls: int | None = DEFAULT_MAX_PARALLEL_CALLS,
        callbacks: Iterable[AgentCallback] = (),
        criteria: Iterable[Criterion] = (),
        continue_message: str = DEFAULT_CONTINUE_MESSAGE,
        max_continues: int = DEFAULT_MAX_CONTINUES,
        on_invalid_call: InvalidCallRule = "result",
        max_invalid_retries: int = DEFAULT_MAX_INVALID_RETRIES,
        budget: Budget | None = None,
        output_type: object = None,
        output_mode: OutputMode = "auto",
        max_output_retries: int = DEFAULT_MAX_OUTPUT_RETRIES,
        memory: MemoryLike | None = None,
        compaction: Compaction | None = None,
        model_timeout: float | Unset | None = UNSET,
    ) -> None:
        given = checked_settings(id, settings)
        mind = checked_model(id, model)
        check_fit(id, given, mind)
        made = checked_tools(id, tools, given, checked_sub_agents(id, sub_agents))
        values: dict[str, object] = {
            "id": checked_id(id),
            "model": mind,
            "system_prompt": checked_prompt(id, system_prompt),
            "description": checked_description(id, description),
            "tools": tuple([tool for tool in made if not isinstance(tool, SubAgent)]),
            "sub_agents": tuple([tool for tool in made if isinstance(tool, SubAgent)]),
            "settings": given,
            "max_iterations": checked_count(id, "max_iterations", max_iterations, 0),
            "max_turns": checked_count(id, "max_turns", max_turns, 1),
            "restart_on": checked_restarts(id, restart_on),
            "on_tool_error": checked_on_error(f"agent {id!r}: on_tool_error", on_tool_error),
            "max_parallel_calls": checked_parallel(f"agent {id!r}: max_parallel_calls", max_parallel_calls),
            "callbacks": checked_callbacks(id, callbacks),
            "criteria": checked_criteria(id, criteria),
            "continue_message": checked_message(id, continue_message),
            "max_continues": checked_count(id, "max_continues", max_continues, 0),
            "on_invalid_call": checked_invalid_call_rule(id, on_invalid_call),
            "max_invalid_retries": checked_count(id, "max_invalid_retries", max_invalid_retries, 0),
            "budget": checked_budget(id, budget, mind),
            "output_type": output_type,
            "output_mode": checked_output_mode(id, output_mode),
            "max_output_retries": checked_count(id, "max_output_retries", max_output_retries, 0),
            "_output": checked_output_type(id, output_type),
            "memory": checked_memory(id, memory, has_rule=compaction is not None),
            "compaction": None if compaction is None else checked_rule(id, compaction, budget),
            "model_timeout": checked_model_timeout(id, model_timeout),
            "_run_spec": None,
            "_overrides": [],
            "tools_by_name": {tool.name: tool for tool in made},
        }
        answers_by_tool = output_mode == "tool" and values["_output"] is not None
        check_beside_cache(id, given, prompt=system_prompt != "", tools=bool(made) or answers_by_tool)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def replace(self, *, id: str | None = None, **changes: Unpack[AgentChanges]) -> Agent[T_co]:
        """Return a copy with some arguments changed; the copy is an agent of its own, with its own place in a system.

        The output type stays: with another one it would be another kind of agent.
        """
        kept = {name: getattr(self, name) for name in AgentChanges.__annotations__} | {"model": _as_given(self.model)}
        unknown = sorted(changes.keys() - kept.keys())
        if unknown:
            raise TypeError(f"an agent has no {', '.join(unknown)}; it has id, {', '.join(sorted(kept))}")
        make = cast("Callable[..., Agent[T_co]]", Agent)
        return make(self.id if id is None else id, output_type=self.output_type, **(kept | changes))

    def check_output(self, text: str) -> CheckedOutput[T_co]:
        """Read an answer as the agent's output type, as a run does; for programs that drive a run by hand.

        Validators of the type run on the calling thread. A `ValueError` of theirs is the problem; any other error is raised.
        """
        checked = CheckedOutput(text, "", text) if self._output is None else self._output.check(text)
        return cast("CheckedOutput[T_co]", checked)

    def partial_output(self, text: str) -> object:
        """Return what the beginning of an answer shows of it already, in the output type; for the runtime.

        Raises:
            ValueError: it shows nothing yet. A validator of the type may raise errors of its own.
        """
        if self._output is None:
            raise ValueError("the agent has no output type")
        return self._output.partial(text)

    def dump_output(self, value: object) -> str:
        """Return an outcome's `output` as text, as a model reads it: JSON of the output type, or the text itself.

        Serializers of the type run on the calling thread.
        """
        return str(value) if self._output is None else self._output.dump(value)

    # --- for programs that drive a run by hand

    def check_calls(self, turn: ModelTurn, *, number: int = 1) -> CallChecks:
        """Check the calls of a turn by the agent's rules; changes nothing and runs no tool.

        A call is allowed, needs a person's approval, is a question to a person, names no tool that may be called, or has
        arguments that do not fit. Validators of the tools run on the calling thread. An approval rule that is a function is
        not asked: its calls need approval, as in an `AgentRun` that is driven by hand without rules.

        Args:
            turn: the model's turn.
            number: the number of the turn in the run, from 1; a forced tool choice holds for the first.
        """
        return check_calls(self.run_spec, self.tools_by_name, turn, number)

    def execute(
        self,
        call: ToolCall,
        *,
        session: Mapping[str, JsonValue] | None = None,
        deps: object = None,
        user_id: str | None = None,
        conversation_id: str | None = None,
        timeout: float | None = None,
        system: object = None,
    ) -> ToolResult:
        """Make one tool call as a run does, and return its result. Blocks; for programs that drive a run by hand.

        The arguments are validated, and the tool's time limit, retries, isolation and `max_parallel` apply. `max_parallel` counts
        the calls of the system's runs too. A tool that fails, times out or gets bad arguments gives an error result.
        Approval rules and callbacks are not called: the code that drives the run asks for approval.

        Args:
            call: the call, of a tool or a sub-agent.
            session: what the tool sees as `ctx.session`; a `SessionState` gets the changed keys.
            deps: as for `run`.
            user_id: as for `run`.
            conversation_id: what the tool sees as `ctx.conversation_id`.
            timeout: seconds that the call may take with its retries and its wait for a place.
            system: as for `run`.

        Raises:
            TypeError: the call is no `ToolCall`, or an option is of the wrong type.
            ValueError: the call is a question to a person.
            RunTimedOut: `timeout` passed.
            UnfinishedRun: a sub-agent's run waits for a person.
        """
        options = RunOptions(
            session=session,
            deps=deps,
            user_id=user_id,
            conversation_id=conversation_id,
            timeout=timeout,
            system=system,
        )
        return runtime().execute(self, call, options)

    # --- for tests, machines and the runtime

    @contextmanager
    def override(self, *, model: Model) -> Generator[None]:
        """Let another model answer inside the `with` block: in every thread, and where the agent is used by others.

        Raises:
            TypeError: it is no model; a string is not enough here.
            ValueError: it lacks one of the agent's settings.
        """
        if not isinstance(model, Model) or isinstance(model, type):
            raise TypeError(f"agent {self.id!r}: override needs a model with a complete() method, got {model!r}")
        check_fit(self.id, self.settings, model)
        self._overrides.append(model)
        try:
            yield
        finally:
            self._overrides.remove(model)

    @property
    def current_model(self) -> ModelName | Model:
        """The model that answers at present: the innermost override, or the agent's own."""
        return self._overrides[-1] if self._overrides else self.model

    @property
    def run_spec(self) -> RunSpec:
        """The agent as data for its machine; builds the tools' schemas at the first use."""
        spec = self._run_spec
        if spec is None:
            spec = self._make_run_spec()
            object.__setattr__(self, "_run_spec", spec)
        return spec

    @property
    def inner_runners(self) -> tuple[Runner[object], ...]:
        return tuple([each.runner for each in self.sub_agents])

    def fingerprint(self) -> str:
        return self.run_spec.fingerprint()

    def _make_run_spec(self) -> RunSpec:
        model, tools = self.model, self.tools_by_name.values()
        return RunSpec(
            agent_id=self.id,
            # Not str(model), which omits a colon at the end: saved runs have a fingerprint with the colon.
            model=f"{model.provider}:{model.model}" if isinstance(model, ModelName) else type(model).__name__,
            system=self.system_prompt if isinstance(self.system_prompt, str) else None,
            tools=tuple([tool.spec for tool in tools]),
            approvals={t.name: None if callable(t.approval) else t.approval for t in tools},
            asks=frozenset(asking) if (asking := [tool.name for tool in tools if asks_user(tool)]) else _NONE,
            sub_agents={each.name: each.runner.fingerprint() for each in self.sub_agents},
            settings=self.settings,
            max_iterations=cap_of(self.criteria, self.max_iterations),
            max_turns=self.max_turns,
            on_tool_error=self.on_tool_error,
            tool_errors={t.name: said for t in self.tools if (said := t.on_error) is not None},
            criteria=are_completion_rules(self.criteria),
            continue_message=self.continue_message,
            max_continues=self.max_continues,
            max_invalid_retries=self.max_invalid_retries,
            watched=bool(self.callbacks),
            budget=self.budget,
            priced_as=names_of(model)[0],
            output=None if self._output is None else self._output_spec(self._output),
            max_output_retries=self.max_output_retries,
            compaction=None if (rule := self._rule()) is None else CompactionRule.of(rule, model),
        )

    def _rule(self) -> Compaction | None:
        """Return the rule for long conversations: the agent's, or that of its memory."""
        if self.compaction is not None or not isinstance(self.memory, CompactedMemory):
            return self.compaction
        return checked_rule(self.id, self.memory.compaction, self.budget)

    def _output_spec(self, output: OutputType) -> OutputSpec:
        return output_spec(output.spec, self.output_mode, self.model, self.tools_by_name)

    _output: OutputType | None
    _overrides: list[Model]
    _run_spec: RunSpec | None


_NONE: frozenset[str] = frozenset()


def _as_given(model: ModelName | Model) -> ModelLike:
    return str(model) if isinstance(model, ModelName) else model


def account_of(
    agent: Agent[object], budget: Budget | None, machine: AgentRun | None, within: Account | None
) -> Account:
    """Return the account of a new or resumed run, inside of the account of the run around it.

    Raises:
        ValueError: there is a limit of dollars, and the agent's model has no price.
    """
    if machine is not None:
        machine.account.enter(within)
        return machine.account
    spending = Spending(budget=narrowed(agent.budget, budget))
    return Account(agent.id, agent.run_spec.priced_as, spending, within)
