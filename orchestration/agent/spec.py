"""`RunSpec`: what a run needs to know of its agent, as data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from understudy.vocabulary.context.budget import Budget
from understudy.vocabulary.fast_init import fast_init
from understudy.vocabulary.messages import OutputSpec, Settings, ToolSpec
from understudy.vocabulary.tools.options import OnToolError

DEFAULT_MAX_ITERATIONS = 10
DEFAULT_MAX_TURNS = 50
DEFAULT_MAX_CONTINUES = 3
DEFAULT_MAX_INVALID_RETRIES = 3
DEFAULT_MAX_REJECTIONS = 8  # Enough for a model to mend its answer, and an end to one that does not.
DEFAULT_MAX_OUTPUT_RETRIES = 2  # One to mend what it is told of, one for luck; after that it does not understand.
ABOUT_OUTPUT_TOOL = (
    "Give the final answer. Call this once, when everything else is done; what you say besides is not read."
)
DEFAULT_CONTINUE_MESSAGE = "This does not finish the task yet. Go on, and give the final answer when you have it."


class Specified(Protocol):
    """An agent, as far as its machine needs to know of it."""

    @property
    def run_spec(self) -> RunSpec:
        """What a run of it decides by."""
        ...


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunSpec:
    """What an `AgentRun` decides by. Functions and classes stay with the agent; this holds only data."""

    agent_id: str = ""
    model: str = ""
    """The model string, or the type's name for a model object; part of the fingerprint only."""
    system: str | None = ""
    """The system prompt; None where a function makes it, and the driver passes its text to `AgentRun`."""
    tools: tuple[ToolSpec, ...] = ()
    approvals: Mapping[str, bool | None] = field(default_factory=dict[str, "bool | None"])
    """Tool name -> whether a person must agree; None where a function decides, and the driver passes its verdict."""
    asks: frozenset[str] = frozenset()
    """Names of the tools whose calls are questions to a person, answered and not run."""
    sub_agents: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name of a tool whose calls are runs -> the fingerprint of the runner."""
    settings: Settings = field(default_factory=Settings)
    max_iterations: int = DEFAULT_MAX_ITERATIONS
    """Rounds of tool calls that may run."""
    max_turns: int = DEFAULT_MAX_TURNS
    """Model calls that may be made; retries of the transport do not count."""
    criteria: bool = False
    """Whether a text must meet a criterion to end the run; the driver judges and passes the reason."""
    max_continues: int = DEFAULT_MAX_CONTINUES
    """How often a text that meets no criterion is answered with `continue_message`."""
    continue_message: str = DEFAULT_CONTINUE_MESSAGE
    max_invalid_retries: int = DEFAULT_MAX_INVALID_RETRIES
    """How often a run may answer an invalid call with `RetryTurn`."""
    on_tool_error: OnToolError = "result"
    """Whether a call that fails is a result for the model, or ends the run; no part of the fingerprint."""
    tool_errors: Mapping[str, OnToolError] = field(default_factory=dict[str, OnToolError])
    """Tool name -> the same, for tools that say it for themselves."""
    max_rejections: int = DEFAULT_MAX_REJECTIONS
    """How many turns in a row callbacks may reject with feedback."""
    watched: bool = False
    """Whether callbacks see the results of a round before it is closed: the driver feeds `AgentRun.review`."""
    budget: Budget | None = None
    """What a run may spend; a limit as the others, which a run may narrow or have raised."""
    priced_as: str = ""
    """By which name the price of the model is looked up: its model string, or the type's name for an unknown object."""
    output: OutputSpec | None = None
    """What the answer must be; None for any text. The driver checks it, and passes what is wrong."""
    max_output_retries: int = DEFAULT_MAX_OUTPUT_RETRIES
    """How often the model is told what is wrong with an answer and asked for another."""
    offered_tools: tuple[ToolSpec, ...] = field(init=False)
    """The tools that a model is told of: the agent's, and the one by which the answer is given, if it is."""
    offered_names: frozenset[str] = field(init=False)
    """Their names."""

    def __post_init__(self) -> None:  # once for an agent, and not for every turn
        offered, output = self.tools, self.output
        if output is not None and output.tool:
            offered = (*offered, ToolSpec(output.tool, ABOUT_OUTPUT_TOOL, output.schema))
        object.__setattr__(self, "offered_tools", offered)
        object.__setattr__(self, "offered_names", frozenset([tool.name for tool in offered]))

    @classmethod
    def of(cls, agent: Specified) -> RunSpec:
        """Return the agent's spec; builds the schemas of its tools the first time.

        Raises:
            TypeError: it is no agent, or a tool's parameter has a type without JSON Schema.
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
        # Where nothing is left but to give the answer. Claude API, Extended thinking: a forced choice is refused.
        if by_tool and (not self.tools or choice == "none") and not self.settings.thinking_tokens:
            choice = by_tool
        return self.settings if choice == given else replace(self.settings, tool_choice=choice)

    def allowed_tools(self, turn: int = 1) -> frozenset[str]:
        """Return the names the model may call in its turn number `turn`, under that turn's tool choice."""
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

        Limits are left out: a saved run keeps those it began with, and they may be raised. So is what becomes of errors.
        """
        tools = [(t.name, t.description, t.schema, self.approvals.get(t.name, False)) for t in self.tools]
        usual = Settings()
        given = {name: getattr(self.settings, name) for name in usual.__slots__}
        # Only what was chosen: a setting that a later version adds must not refuse the runs of this one.
        settings = {name: value for name, value in given.items() if value != getattr(usual, name)}
        parts: list[object] = [self.agent_id, self.model, self.system, tools, settings, self.criteria]
        if self.sub_agents:
            parts.append({"sub_agents": self.sub_agents})
        if self.output is not None:
            parts.append([self.output.name, self.output.schema])
        text = json.dumps(parts, sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def parts(self) -> dict[str, str]:
        """Return a short digest of each part of what the fingerprint is of, by what the part is called."""
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
