"""`RunSpec`: the rules and limits of an agent, as data for its runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from understudy.vocabulary.context.budget import Budget
from understudy.vocabulary.context.context_windows import context_window_of
from understudy.vocabulary.fast_init import fast_init
from understudy.vocabulary.messages import OutputSpec, Settings, ToolSpec
from understudy.vocabulary.models import Model, ModelName, names_of
from understudy.vocabulary.runs.compaction import Compaction
from understudy.vocabulary.tools.options import OnToolError

DEFAULT_MAX_ITERATIONS = 10
DEFAULT_MAX_TURNS = 50
DEFAULT_MAX_CONTINUES = 3
DEFAULT_MAX_INVALID_RETRIES = 3
DEFAULT_MAX_REJECTIONS = 8  # Enough for a model to correct its answer; finite for one that does not.
DEFAULT_MAX_OUTPUT_RETRIES = 2  # One to correct the named problem, one more for the next.
ABOUT_OUTPUT_TOOL = (
    "Give the final answer. Call this once, when everything else is done; what you say besides is not read."
)
DEFAULT_CONTINUE_MESSAGE = "This does not finish the task yet. Go on, and give the final answer when you have it."


class Specified(Protocol):
    """An agent as its machine sees it: an object with a `run_spec`."""

    @property
    def run_spec(self) -> RunSpec:
        """The rules and limits of its runs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRule:
    """An agent's rule for long conversations, with what is known of its models."""

    compaction: Compaction
    window: int | None = None
    """The context window of the agent's model, in tokens; None if it is unknown."""
    summary_window: int | None = None
    """That of the other model that sums up; None if there is none, or if it is unknown."""
    priced_as: str = ""
    """The name of the other model in the price table; empty if there is none."""

    @classmethod
    def of(cls, compaction: Compaction, model: ModelName | Model) -> CompactionRule:
        """Return the rule of an agent with this model."""
        other = compaction.other_model
        return cls(
            compaction=compaction,
            window=compaction.context_window or context_window_of(model),
            summary_window=None if other is None else context_window_of(other),
            priced_as="" if other is None else names_of(other)[0],
        )


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunSpec:
    """The rules and limits of an `AgentRun`. Functions and classes stay with the agent; a spec holds only data."""

    agent_id: str = ""
    model: str = ""
    """The model string, or the type's name for a model object; part of the fingerprint only."""
    system: str | None = ""
    """The system prompt; None if a function makes it: then `AgentRun` is passed the text."""
    tools: tuple[ToolSpec, ...] = ()
    approvals: Mapping[str, bool | None] = field(default_factory=dict[str, "bool | None"])
    """Tool name -> whether a person must agree; None if a function decides: then its verdict is fed with the turn."""
    asks: frozenset[str] = frozenset()
    """Names of the tools whose calls are questions: a person answers them, and they do not run."""
    sub_agents: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name of a tool that stands for a sub-agent -> the fingerprint of the sub-agent."""
    settings: Settings = field(default_factory=Settings)
    max_iterations: int = DEFAULT_MAX_ITERATIONS
    """How many rounds of tool calls may run."""
    max_turns: int = DEFAULT_MAX_TURNS
    """How many model calls may be made; retries of the transport do not count."""
    criteria: bool = False
    """Whether a text must meet a criterion to end the run; the reason is fed with the turn."""
    max_continues: int = DEFAULT_MAX_CONTINUES
    """How often the run answers a text that meets no criterion with `continue_message`."""
    continue_message: str = DEFAULT_CONTINUE_MESSAGE
    max_invalid_retries: int = DEFAULT_MAX_INVALID_RETRIES
    """How often a run may answer an invalid call with `RetryTurn`."""
    on_tool_error: OnToolError = "result"
    """Whether a failed call is a result for the model, or ends the run; not part of the fingerprint."""
    tool_errors: Mapping[str, OnToolError] = field(default_factory=dict[str, OnToolError])
    """Tool name -> the same, for tools with a rule of their own."""
    max_rejections: int = DEFAULT_MAX_REJECTIONS
    """How many turns in a row callbacks may reject with feedback."""
    watched: bool = False
    """Whether callbacks see the results of a round before it is closed: `AgentRun.review` must be fed."""
    budget: Budget | None = None
    """The most that a run may spend. A run can start with less, and the limit can be raised."""
    priced_as: str = ""
    """The model's name in the price table: its model string, or the type's name for an unknown object."""
    output: OutputSpec | None = None
    """The type of the answer; None for any text. Answers are checked outside, and the problem is fed with the turn."""
    max_output_retries: int = DEFAULT_MAX_OUTPUT_RETRIES
    """How often the model reads the problem of an answer and is asked for another answer."""
    compaction: CompactionRule | None = None
    """What becomes of a conversation that fills the model's context window; not part of the fingerprint."""
    offered_tools: tuple[ToolSpec, ...] = field(init=False)
    """The tools in each request: the agent's, and the tool that gives the answer, if there is one."""
    offered_names: frozenset[str] = field(init=False)
    """The names of the offered tools."""

    def __post_init__(self) -> None:  # once for each agent, instead of in every turn
        offered, output = self.tools, self.output
        if output is not None and output.tool:
            offered = (*offered, ToolSpec(output.tool, ABOUT_OUTPUT_TOOL, output.schema))
        object.__setattr__(self, "offered_tools", offered)
        object.__setattr__(self, "offered_names", frozenset([tool.name for tool in offered]))

    @classmethod
    def of(cls, agent: Specified) -> RunSpec:
        """Return the agent's spec; builds the schemas of its tools the first time.

        Raises:
            TypeError: the argument is no agent, or a tool's parameter has a type without JSON Schema.
        """
        found: object = getattr(agent, "run_spec", None)
        if not isinstance(found, RunSpec):
            raise TypeError(f"RunSpec.of takes an agent, got {agent!r}")
        return found

    def settings_for(self, turn: int) -> Settings:
        """Return the settings of a run's model call number `turn`, from 1.

        A forced choice holds for the first turn only: forced on every turn, the model could never answer.
        """
        given = self.settings.tool_choice
        choice = given if turn <= 1 or given == "none" else "auto"
        by_tool = "" if self.output is None else self.output.tool
        # If the answer is the only call left. Claude API, Extended thinking: a forced choice is refused.
        if by_tool and (not self.tools or choice == "none") and not self.settings.asks_for_reasoning:
            choice = by_tool
        return self.settings if choice == given else replace(self.settings, tool_choice=choice)

    def allowed_tools(self, turn: int = 1) -> frozenset[str]:
        """Return the names the model may call in its turn number `turn`, under that turn's tool choice."""
        if self.output is None and self.settings.tool_choice == "auto":  # as of most agents
            return self.offered_names
        choice = self.settings_for(turn).tool_choice
        if choice == "none":
            return frozenset()
        if choice in ("auto", "required"):
            return self.offered_names
        return frozenset([choice])

    def raises(self, tool: str) -> bool:
        """Whether a failing call of `tool` ends the run; there may be no such tool."""
        return self.tool_errors.get(tool, self.on_tool_error) == "raise"

    def fingerprint(self) -> str:
        """Return a short digest of the definition; equal specs have equal ones in every process.

        Limits are left out: a saved run keeps the limits it started with, and they may be raised. The rules for tool
        errors are left out too.
        """
        tools = [(t.name, t.description, t.schema, self.approvals.get(t.name, False)) for t in self.tools]
        usual = Settings()
        given = {name: getattr(self.settings, name) for name in usual.__slots__}
        # Only settings that differ from the default: a later version may add settings and must still load these runs.
        settings = {name: value for name, value in given.items() if value != getattr(usual, name)}
        parts: list[object] = [self.agent_id, self.model, self.system, tools, settings, self.criteria]
        if self.sub_agents:
            parts.append({"sub_agents": self.sub_agents})
        if self.output is not None:
            parts.append([self.output.name, self.output.schema])
        text = json.dumps(parts, sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def parts(self) -> dict[str, str]:
        """Return a short digest of each part of the fingerprint, by the part's name."""
        from .spec_changes import digests

        usual = Settings()
        settings = {name: getattr(self.settings, name) for name in usual.__slots__}
        parts: dict[str, object] = {
            "the id": self.agent_id,
            "the model": self.model,
            "the system prompt": self.system,
            "the settings": {name: value for name, value in settings.items() if value != getattr(usual, name)},
            "whether criteria decide": self.criteria,
        }
        for tool in self.tools:
            if tool.name in self.sub_agents:
                parts[f"sub-agent {tool.name!r}"] = [self.sub_agents[tool.name], tool.description, tool.schema]
            else:
                parts[f"tool {tool.name!r}"] = [tool.description, tool.schema]
            if self.approvals.get(tool.name, False) is not False:
                parts[f"the approval of {tool.name!r}"] = self.approvals[tool.name]
        if self.output is not None:
            parts["the output type"] = [self.output.name, self.output.schema]
        return digests(parts)
