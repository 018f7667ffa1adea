"""What a spec may say: its keys and their types. What the values must mean is checked in `checks`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from understudy.messages import JsonValue
from understudy.orchestration.spec import DEFAULT_MAX_ITERATIONS, DEFAULT_MAX_TURNS


class _Grammar(BaseModel):
    # Strict: "3" is no number and 1 is no text, so that what is loaded is what was written.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _not_yet(value: object) -> object:
    if value in (None, [], {}):
        return value
    raise ValueError("is not supported yet by this version of understudy; leave it out")


def _tool_name(value: object) -> str:
    if isinstance(value, str):
        return value
    given = dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else {}
    match list(given.items()):
        case [("name", str(name))]:
            return name
        case _:
            raise ValueError("must be a tool's name, or 'name: NAME' and nothing else")


Later = Annotated[JsonValue, AfterValidator(_not_yet)]
"""A key whose meaning comes with a later version; it may stand there empty."""

ToolName = Annotated[str, BeforeValidator(_tool_name)]
"""`web_search`, `name: web_search`, or `tools.py:web_search`."""


class SettingsGrammar(_Grammar):
    """How the model should answer."""

    temperature: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)
    top_p: float | None = Field(default=None, ge=0, le=1)
    stop: list[str] = []
    seed: int | None = None
    tool_choice: str = "auto"
    parallel_tool_calls: bool | None = None
    thinking_tokens: int | None = Field(default=None, ge=0)
    extra: dict[str, JsonValue] = {}


class AgentGrammar(_Grammar):
    """One agent."""

    id: str
    provider: str | None = None
    model: str | None = None
    system_prompt: str = ""
    description: str = ""
    tools: list[ToolName] = []
    settings: SettingsGrammar = SettingsGrammar()
    max_iterations: int = Field(default=DEFAULT_MAX_ITERATIONS, ge=0)
    max_turns: int = Field(default=DEFAULT_MAX_TURNS, ge=1)
    memory: Later = None
    criteria: Later = None
    callbacks: Later = None


class SpecGrammar(_Grammar):
    """A whole spec."""

    agents: list[AgentGrammar] = Field(min_length=1)
    workflows: Later = None


LATER = ("memory", "criteria", "callbacks", "workflows")
