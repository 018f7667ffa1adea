"""The grammar of criteria: when a text of an agent ends its run."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from understudy.vocabulary.messages import JsonValue

from .grammar import Grammar, form, forms
from .named import NamedGrammar


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
