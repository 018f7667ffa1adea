"""Strict schemas: closed, in the subset that providers know, and never wider than bounds and patterns make them."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import pydantic
import pytest

from understudy.vocabulary.answers.output_type import OutputType
from understudy.vocabulary.answers.strict_schemas import strict_schema
from understudy.vocabulary.messages import JsonObject


class Inner(pydantic.BaseModel):
    size: int = 3


class Outer(pydantic.BaseModel):
    kind: Literal["outer"]
    inner: Inner = pydantic.Field(description="what is in it")
    many: list[Inner] = []
    score: Annotated[float, pydantic.Field(ge=0, le=1, description="how sure")] = 0.5


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Owner(pydantic.BaseModel):
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


class Node(pydantic.BaseModel):
    children: list[Node] = []


class Tolerant(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: int


def schema_of(form: object) -> JsonObject:
    return OutputType(form, "agent 'judge'").spec.schema


def test_objects_are_closed_all_the_way_down_and_bounds_become_words() -> None:
    size = {"type": "integer"}
    inner = {"type": "object", "properties": {"size": size}, "required": ["size"], "additionalProperties": False}

    assert strict_schema(schema_of(Outer), all_required=True) == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "const": "outer"},
            "inner": {**inner, "description": "what is in it"},
            "many": {"type": "array", "items": {"$ref": "#/$defs/Inner"}},
            "score": {"type": "number", "description": "how sure (maximum: 1; minimum: 0)"},
        },
        "required": ["kind", "inner", "many", "score"],
        "additionalProperties": False,
        "$defs": {"Inner": inner},
    }


def test_a_definition_that_leads_to_itself_is_never_copied() -> None:
    class Tree(pydantic.BaseModel):
        below: list[Node] = []
        root: Node = pydantic.Field(description="the one on top")

    strict = strict_schema(schema_of(Tree), all_required=True)

    assert strict is not None
    assert json.loads(json.dumps(strict))["properties"]["root"] == {"$ref": "#/$defs/Node"}


def test_what_may_be_left_out_stays_so_where_that_is_allowed() -> None:
    strict = strict_schema(schema_of(Outer))

    assert strict is not None
    assert strict["required"] == ["kind", "inner"]


def test_a_discriminated_union_is_any_of_its_members() -> None:
    strict = strict_schema(schema_of(Owner), all_required=True)

    assert strict is not None
    assert "oneOf" not in json.dumps(strict)
    assert "discriminator" not in json.dumps(strict)


@pytest.mark.parametrize(
    "form", [dict[str, int], Tolerant, tuple[int, str], list[object], dict[str, object], list[dict[str, int]]]
)
def test_what_no_strict_schema_can_say_has_none(form: object) -> None:
    assert strict_schema(schema_of(form), all_required=True) is None


def test_a_recursive_schema_is_strict_only_where_recursion_is_allowed() -> None:
    assert strict_schema(schema_of(Node)) is not None
    assert strict_schema(schema_of(Node), recursive=False) is None
    assert strict_schema(schema_of(Outer), recursive=False) is not None


def test_the_schema_that_was_given_stays_as_it_is() -> None:
    schema = schema_of(Outer)
    before = json.dumps(schema)

    strict_schema(schema, all_required=True)

    assert json.dumps(schema) == before


@pytest.mark.parametrize("word", ["not", "if", "patternProperties", "dependentRequired", "prefixItems", "contains"])
def test_a_word_that_strict_schemas_lack_is_not_left_out_in_silence(word: str) -> None:
    assert strict_schema({"type": "object", "properties": {}, word: {}}) is None
