"""The grammar of a whole spec: the single source of the loader, the JSON Schema and the reference page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar, Literal, cast

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from .agent import AgentGrammar
from .grammar import Grammar, exact
from .groups import SupervisorGrammar, WorkflowEntry
from .memory import NewMemory

FREE = "x-"
"""Top-level keys with this prefix are ignored: authors keep anchors there."""


class SpecGrammar(Grammar):
    """A whole spec, or one of several files that make one."""

    called: ClassVar[str] = "a spec"
    model_config = ConfigDict(
        json_schema_extra={
            "patternProperties": {f"^{FREE}": {"description": "free, for anchors"}},
            "anyOf": [{"required": [key]} for key in ("agents", "workflows", "supervisors", "include")],
        }
    )

    version: Annotated[Literal[1], BeforeValidator(partial(exact, of=(1,)))] = Field(
        default=1, description="the version of this grammar"
    )
    include: list[str] | None = Field(
        default=None, description="files of the same spec, relative to this one and inside of the spec's folder"
    )
    memories: dict[str, NewMemory] | None = Field(
        default=None, description="memories by name; agents that name one share what it knows"
    )
    agents: list[AgentGrammar] = Field(default=[], description="agents")
    workflows: list[WorkflowEntry] | None = Field(default=None, description="sequences, parallel groups and workflows")
    supervisors: list[SupervisorGrammar] | None = Field(
        default=None, description="who is started together, and restarted after failures"
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_free_keys_out(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        return {key: each for key, each in cast("Mapping[str, object]", value).items() if not key.startswith(FREE)}
