"""The grammar of agents: the keys of an agent in a spec, and their types. `checks` checks what the values mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from understudy.orchestration.agent.spec import (
    DEFAULT_CONTINUE_MESSAGE,
    DEFAULT_MAX_CONTINUES,
    DEFAULT_MAX_INVALID_RETRIES,
    DEFAULT_MAX_ITERATIONS,
    DEFAULT_MAX_OUTPUT_RETRIES,
    DEFAULT_MAX_TURNS,
)
from understudy.vocabulary.messages import JsonValue
from understudy.vocabulary.models import DEFAULT_MODEL_TIMEOUT
from understudy.vocabulary.other_names import OF_AGENTS
from understudy.vocabulary.runs.compaction import (
    DEFAULT_KEEP,
    DEFAULT_SUMMARY_TOKENS,
    DEFAULT_THRESHOLD,
    LEAST_WINDOW,
)
from understudy.vocabulary.settings import ReasoningLevel, Verbosity
from understudy.vocabulary.tools.definition import DEFAULT_TOOL_TIMEOUT
from understudy.vocabulary.tools.options import DEFAULT_MAX_PARALLEL_CALLS, DEFAULT_MAX_RESULT, MAX_RESULT

from .grammar import TEXT, Grammar, form, forms
from .memory import MemoryEntry
from .named import Approval, CallbackEntry, CallRule, ModelEntry, NamedGrammar, Prompt


class MaxIterationsGrammar(Grammar):
    """Met when rounds of tool calls and continue messages together reach a number; it is the agent's `max_iterations` too."""

    called: ClassVar[str] = "a criterion of type max_iterations"

    type: Literal["max_iterations"] = Field(description="this kind of criterion")
    max: int = Field(ge=1, description="the number")


class KeywordGrammar(Grammar):
    """Met by a text with a keyword in it."""

    called: ClassVar[str] = "a criterion of type keyword"

    type: Literal["keyword"] = Field(description="this kind of criterion")
    keyword: str = Field(min_length=1, description="the keyword, letter case included")


class StructuredOutputGrammar(Grammar):
    """Met by a text that is JSON, or has JSON in a fence."""

    called: ClassVar[str] = "a criterion of type structured_output"

    type: Literal["structured_output"] = Field(description="this kind of criterion")
    schema_: dict[str, JsonValue] | None = Field(
        default=None, alias="schema", description="the JSON Schema that it must fit; null for any JSON"
    )


CriterionEntry = Annotated[
    Annotated[MaxIterationsGrammar, form("max_iterations")]
    | Annotated[KeywordGrammar, form("keyword")]
    | Annotated[StructuredOutputGrammar, form("structured_output")]
    | Annotated[NamedGrammar, form("name")],
    forms(
        "must be a mapping with 'type', or with 'name' of a registered criterion",
        types=("max_iterations", "keyword", "structured_output"),
        keys=("name",),
    ),
]


PARAMETERS = (
    "of a workflow: values for the names in its prompts; in a text, `${input}` stands for the workflow's input here"
)
RUNNER_ID = r"^\S(.{0,126}\S)?$"


Reasoning: TypeAlias = Annotated[
    Annotated[Literal[ReasoningLevel, False], form("level")] | Annotated[int, Field(ge=0), form("tokens")],
    Discriminator(lambda given: "<tokens>" if type(given) is int else "<level>"),
]
Cache: TypeAlias = Annotated[
    Annotated[bool, form("flag")] | Annotated[str, form("words")],
    Discriminator(lambda given: "<flag>" if isinstance(given, bool) else "<words>"),
]


class SettingsGrammar(Grammar):
    """How the model should answer. The provider chooses the values that are left out."""

    called: ClassVar[str] = "'settings'"

    temperature: float | None = Field(default=None, ge=0, description="how freely the model chooses its words")
    max_tokens: int | None = Field(default=None, ge=1, description="most tokens of one model turn, reasoning included")
    top_p: float | None = Field(default=None, ge=0, le=1, description="the share of likely words it chooses from")
    stop: list[str] = Field(default=[], description="the model stops before it writes one of these")
    seed: int | None = Field(default=None, description="for answers that can be had again, where the provider can")
    tool_choice: str = Field(default="auto", description="`auto`, `none`, `required` (some tool), or a tool's name")
    parallel_tool_calls: bool | None = Field(default=None, description="`false`: at most one tool call a turn")
    thinking_tokens: int | None = Field(default=None, ge=0, description="the same as a number in `reasoning`")
    reasoning: Reasoning | None = Field(
        default=None, description="how much the model reasons: a level, or tokens; YAML reads a plain `off` as `false`"
    )
    verbosity: Verbosity | None = Field(default=None, description="how long the answer is")
    service_tier: str | None = Field(
        default=None, description="`auto`, `standard`, `flex`, `priority`, or a word of the provider's own"
    )
    cache: Cache | None = Field(
        default=None,
        description="whether the prompt's beginning is cached; `5m`, `30m`, `1h`, `24h`; or `cachedContents/…`",
    )
    strict_tools: bool | None = Field(default=None, description="`true`: the model is held to the tools' schemas")
    extra: dict[str, JsonValue] = Field(
        default={}, description="fields of the provider's own request, laid over it; `tools` are added to the agent's"
    )


class ToolGrammar(Grammar):
    """A tool with options of this spec's; those that are left out stay as the tool has them."""

    called: ClassVar[str] = "a tool"

    name: str = Field(
        description="as it is registered, which the model calls it too; `ask_user`; or `FILE.py:FUNCTION`"
    )
    description: str | None = Field(default=None, description="what the model is told of it")
    timeout: float | None = Field(
        default=DEFAULT_TOOL_TIMEOUT, gt=0, description="seconds one call may take; null for no limit"
    )
    retries: int = Field(default=0, ge=0, description="how often a call that raised is tried again")
    idempotent: bool = Field(default=False, description="whether a call that timed out may be tried again too")
    approval: Approval = Field(
        default=False,
        description="whether a person must agree to each call, or `{name: NAME}` of a function that says it",
    )
    isolation: Literal["thread", "process", "caller"] = Field(default="thread", description="where calls run")
    memory_limit: int | None = Field(
        default=None, gt=0, description="bytes that the process of a call may take; with `isolation: process` only"
    )
    max_parallel: int | None = Field(
        default=None, ge=1, description="how many calls may run at once; null for any number"
    )
    on_error: Literal["result", "raise"] | None = Field(
        default=None,
        description="a call that fails is a result for the model, or ends the run; null: as the agent says",
    )
    max_result: int | None = Field(
        default=DEFAULT_MAX_RESULT, ge=1, le=MAX_RESULT, description="characters of a result that the model gets"
    )


class SubAgentGrammar(Grammar):
    """A runner that the agent's model can hand tasks to; `agent` or `ref` says which."""

    called: ClassVar[str] = "a sub-agent"

    agent: str | None = Field(default=None, description="id of an agent, a workflow, or another runner")
    ref: str | None = Field(default=None, description="the same as `agent`")
    parameters: dict[str, JsonValue] = Field(default={}, description=PARAMETERS)
    name: str | None = Field(default=None, description="what the model calls it; made from the id if not given")
    description: str | None = Field(
        default=None, description="what the model is told of it; the runner's own if not given"
    )
    allow: list[str] | None = Field(default=None, description="ids of the runners that may run below it; null for all")
    deny: list[str] = Field(default=[], description="ids of the runners that may not")
    timeout: float | None = Field(default=None, gt=0, description="seconds one task may take; null for no limit")


class PriceGrammar(Grammar):
    """What a model costs, in US dollars per million tokens."""

    called: ClassVar[str] = "a price"

    input: float = Field(ge=0, description="the prompt")
    output: float = Field(ge=0, description="what the model produced, reasoning included")
    cached_input: float | None = Field(default=None, ge=0, description="what was read from a cache; null: as `input`")
    cache_write: float | None = Field(default=None, ge=0, description="what was written to a cache; null: as `input`")
    cache_write_1h: float | None = Field(
        default=None, ge=0, description="what was written to be kept for an hour; null: as `cache_write`"
    )


class BudgetGrammar(Grammar):
    """What a run may spend, with everything inside of it. Each limit holds on its own; null is none."""

    called: ClassVar[str] = "'budget'"

    total_tokens: int | None = Field(default=None, ge=1, description="input and output together")
    input_tokens: int | None = Field(default=None, ge=1, description="tokens of prompts")
    output_tokens: int | None = Field(default=None, ge=1, description="tokens of answers")
    cost_usd: float | None = Field(default=None, gt=0, description="US dollars; the model needs a price")
    turns: int | None = Field(default=None, ge=1, description="model calls that were answered")
    tool_calls: int | None = Field(default=None, ge=0, description="calls of tools")
    seconds: float | None = Field(default=None, gt=0, description="time the run was active")
    prices: dict[str, PriceGrammar] = Field(
        default={}, description="price by model string, for models without a known one"
    )


class CompactionGrammar(Grammar):
    """The rule for a conversation that fills the context window of the model."""

    called: ClassVar[str] = "'compaction'"

    context_window: int | None = Field(
        default=None, ge=LEAST_WINDOW, description="tokens that a prompt may have; null: as known of the model"
    )
    threshold: float = Field(
        default=DEFAULT_THRESHOLD, gt=0, le=1, description="the share of the window that a request may fill"
    )
    keep: float = Field(
        default=DEFAULT_KEEP, ge=0, lt=1, description="the share that the latest messages may fill after a compaction"
    )
    model: ModelEntry | None = Field(
        default=None,
        description="`PROVIDER:MODEL` that sums up, or `{name: NAME}` of a registered model; null: the agent's",
    )
    prompt: str | None = Field(
        default=None, pattern=r"\S", description="instructions for the summary; null: the usual ones"
    )
    summary_tokens: int = Field(default=DEFAULT_SUMMARY_TOKENS, ge=1, description="about how long a summary may be")
    prune: bool = Field(default=True, description="whether old tool results are left out before a summary is asked for")


ToolEntry = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[ToolGrammar, form("tool")],
    forms("must be a tool's name, or a mapping with 'name: NAME'", text=True, other="tool"),
]
SubAgentEntry = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[SubAgentGrammar, form("sub_agent")],
    forms("must be an id, or a mapping with 'agent: ID'", text=True, other="sub_agent"),
]


class AgentGrammar(Grammar):
    """One agent."""

    called: ClassVar[str] = "an agent"
    elsewhere: ClassVar[Mapping[str, str]] = {**OF_AGENTS, "name": "id"}

    id: str = Field(
        description="names the agent in logs, errors and references; unique in the spec",
        json_schema_extra={"pattern": RUNNER_ID},
    )
    provider: str | None = Field(
        default=None,
        description="where `model` does not say it",
        json_schema_extra={
            "examples": [
                "openai",
                "openai-chat",
                "openai-responses",
                "anthropic",
                "gemini",
                "google",
                "vertex",
                "rehearsal",
            ]
        },
    )
    model: ModelEntry | None = Field(
        default=None,
        description="`PROVIDER:MODEL`, the model of `provider`, `rehearsal`, or `{name: NAME}` of a registered model",
    )
    fallback: list[str] | None = Field(
        default=None,
        min_length=1,
        description="models that are asked in turn when `model` fails, each `PROVIDER:MODEL`; address and limits below are those of `model`",
    )
    base_url: str | None = Field(
        default=None, description="the address of the provider's API, or of a compatible server"
    )
    api_version: str | None = Field(default=None, description="the version of the API; not for `openai`")
    project: str | None = Field(default=None, description="Google Cloud project, for `vertex`")
    location: str | None = Field(default=None, description="Google Cloud region, for `vertex`")
    endpoint: str | None = Field(default=None, description="address of the resource on Azure, for `azure`")
    betas: list[str] | None = Field(default=None, description="names of beta features, for `anthropic`")
    model_timeout: float | None = Field(
        default=DEFAULT_MODEL_TIMEOUT,
        gt=0,
        description="seconds one model call may take with its retries; null: no limit",
    )
    attempt_timeout: float | None = Field(
        default=None, gt=0, description="seconds one attempt of a model call may take; null: as long as the call may"
    )
    idle_timeout: float | None = Field(
        default=None, gt=0, description="seconds without a byte after which a streamed reply of the model is given up"
    )
    attempts: int | None = Field(default=None, ge=1, description="how often a model call is sent at most")
    max_in_flight: int | None = Field(default=None, ge=1, description="how many model calls may be under way at once")
    max_reply_bytes: int | None = Field(default=None, ge=1, description="most bytes that a reply of the model may have")
    system_prompt: Prompt = Field(
        default="", description="instructions, or `{file: FILE}`, or `{name: NAME}` of a function that returns them"
    )
    description: str = Field(default="", description="what the agent is for; other agents read it")
    tools: list[ToolEntry] | None = Field(
        default=None, description="names of registered tools and toolsets, or mappings that change a tool's options"
    )
    sub_agents: list[SubAgentEntry] | None = Field(
        default=None, description="ids of runners that the model may hand tasks to, or mappings that say more"
    )
    settings: SettingsGrammar | None = Field(default=None, description="how the model should answer")
    max_iterations: int = Field(
        default=DEFAULT_MAX_ITERATIONS, ge=0, description="rounds of tool calls a run may execute"
    )
    max_turns: int = Field(default=DEFAULT_MAX_TURNS, ge=1, description="model calls a run may make")
    on_tool_error: Literal["result", "raise"] = Field(
        default="result", description="a tool call that fails is a result for the model, or ends the run"
    )
    max_parallel_calls: int | None = Field(
        default=DEFAULT_MAX_PARALLEL_CALLS,
        ge=1,
        description="how many calls of one turn run at once; 1: one after another, in call order; null for any number",
    )
    restart_on: list[str] | None = Field(
        default=None,
        description="classes of errors after which the agent is restarted: Python's, understudy's, or registered ones",
    )
    on_invalid_call: CallRule = Field(
        default="result",
        description="what becomes of a call of an unknown tool, or with arguments that do not fit; "
        "or `{name: NAME}` of a function that says it",
    )
    max_invalid_retries: int = Field(
        default=DEFAULT_MAX_INVALID_RETRIES, ge=0, description="how many turns are tried again because of such calls"
    )
    criteria: list[CriterionEntry] | None = Field(
        default=None,
        description="one of them must be met by a text for it to end the run; without any, the first text does",
    )
    max_continues: int = Field(
        default=DEFAULT_MAX_CONTINUES, ge=0, description="how often a text that meets no criterion is answered"
    )
    continue_message: str = Field(
        default=DEFAULT_CONTINUE_MESSAGE, pattern=r"\S", description="what the model is told after such a text"
    )
    output_schema: dict[str, JsonValue] | None = Field(
        default=None, description="the JSON Schema of the answer; `outcome.output` is the JSON then"
    )
    output_type: str | None = Field(
        default=None, description="name of a registered type that the answer must be, in place of `output_schema`"
    )
    output_mode: Literal["auto", "native", "tool"] = Field(
        default="auto", description="how the model is held to it: by its provider, by a tool, or by the better of both"
    )
    max_output_retries: int = Field(
        default=DEFAULT_MAX_OUTPUT_RETRIES, ge=0, description="how often an answer that does not fit is sent back"
    )
    callbacks: list[CallbackEntry] | None = Field(default=None, description="asked at the moments of a run, in order")
    memory: MemoryEntry | None = Field(
        default=None, description="what it knows of a conversation: a mapping, or a name out of `memories`"
    )
    budget: BudgetGrammar | None = Field(default=None, description="what a run may spend; null for no limit")
    compaction: CompactionGrammar | None = Field(
        default=None,
        description="the rule for a conversation that fills the model's context window; null for none",
    )
