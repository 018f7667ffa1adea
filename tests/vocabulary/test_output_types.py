"""Output types: their schemas, the answers that fit them, and what a model is told of those that do not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, NewType, TypeAlias

import pydantic
import pytest
from typing_extensions import TypedDict

from understudy.errors import InvalidOutput
from understudy.vocabulary.answers.output_type import OutputType
from understudy.vocabulary.messages import JsonObject


class Verdict(pydantic.BaseModel):
    """Whether a text is spam."""

    label: Literal["spam", "ham"]
    score: float


class Node(pydantic.BaseModel):
    name: str
    children: list[Node] = []


@dataclass
class Point:
    x: int
    y: int = 0


class Place(TypedDict):
    city: str


Shape: TypeAlias = "Annotated[Point | Verdict, pydantic.Field(description='either')]"
Sku = NewType("Sku", str)


def read(form: object, text: str) -> object:
    return OutputType(form, "agent 'judge'").check(text).value


def problem(form: object, text: str) -> str:
    return OutputType(form, "agent 'judge'").check(text).problem


def schema_of(form: object) -> JsonObject:
    return OutputType(form, "agent 'judge'").spec.schema


# --- schemas


def test_a_class_is_told_by_its_name_fields_and_docstring() -> None:
    spec = OutputType(Verdict, "agent 'judge'").spec

    assert spec.name == "Verdict"
    assert spec.tool == ""
    assert spec.schema == {
        "type": "object",
        "description": "Whether a text is spam.",
        "properties": {"label": {"type": "string", "enum": ["spam", "ham"]}, "score": {"type": "number"}},
        "required": ["label", "score"],
    }


def test_a_recursive_type_is_an_object_at_its_root() -> None:
    schema = schema_of(Node)

    assert schema["type"] == "object"
    assert "$ref" not in schema


@pytest.mark.parametrize(
    ("form", "about"),
    [
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Annotated[int, pydantic.Field(ge=1)], {"type": "integer", "minimum": 1}),
        (bool, {"type": "boolean"}),
        (Sku, {"type": "string"}),
    ],
)
def test_what_is_no_object_is_wrapped_in_one(form: object, about: JsonObject) -> None:
    spec = OutputType(form, "agent 'judge'").spec

    assert spec.name == "answer"
    assert spec.schema == {
        "type": "object",
        "properties": {"answer": about},
        "required": ["answer"],
        "additionalProperties": False,
    }


def test_a_name_holds_only_what_providers_take() -> None:
    class Bøx(pydantic.BaseModel):
        x: int

    assert OutputType(Bøx, "agent 'judge'").spec.name == "B_x"


# --- answers that fit


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (Verdict, '{"label": "spam", "score": 1}', Verdict(label="spam", score=1.0)),
        (Verdict, 'So: ```json\n{"label": "ham", "score": 0}\n```', Verdict(label="ham", score=0.0)),
        (Point, '{"x": 3}', Point(3, 0)),
        (Place, '{"city": "Oslo"}', {"city": "Oslo"}),
        (Node, '{"name": "a", "children": [{"name": "b"}]}', Node(name="a", children=[Node(name="b")])),
        (dict[str, int], '{"answer": 3}', {"answer": 3}),
        (list[int], '{"answer": [1, 2]}', [1, 2]),
        (list[int], "[1, 2]", [1, 2]),
        (tuple[int, str], '{"answer": [1, "a"]}', (1, "a")),
        (Literal["a", "b"], '{"answer": "a"}', "a"),
        (Literal["a", "b"], '"a"', "a"),
        (int | None, '{"answer": null}', None),
        (Point | Verdict, '{"answer": {"x": 3}}', Point(3)),
        (Node, '{"name": "a", "children": "[{\\"name\\": \\"b\\"}]"}', Node(name="a", children=[Node(name="b")])),
        (list[int], '{"answer": "[1, 2]"}', [1, 2]),
        (str, '{"answer": "[1, 2]"}', "[1, 2]"),
        (Point | Verdict, '{"label": "ham", "score": 0}', Verdict(label="ham", score=0.0)),
    ],
)
def test_an_answer_is_read_as_its_type(form: object, text: str, value: object) -> None:
    assert read(form, text) == value
    assert type(read(form, text)) is type(value)


# --- answers that do not


@pytest.mark.parametrize(
    ("form", "text", "complaint"),
    [
        (Verdict, '{"label": "eggs"}', "'label': input should be 'spam' or 'ham', got 'eggs'; 'score': field required"),
        (Verdict, "[1]", "input should be an object, got [1]"),
        (Verdict, "Spam.", "the answer is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (Verdict, "", "the answer is empty"),
        (list[int], '{"answer": ["x"]}', "'answer.0': input should be a valid integer"),
        (list[int], '["x"]', "'0': input should be a valid integer"),
        (list[int], '{"answer": [1], "more": 2}', "'more': extra inputs are not permitted"),
    ],
)
def test_what_does_not_fit_is_said_by_place_and_value(form: object, text: str, complaint: str) -> None:
    assert problem(form, text).startswith(complaint)


def test_an_answer_with_a_hundred_faults_does_not_fill_the_next_request() -> None:
    told = problem(list[int], str(["x"] * 100).replace("'", '"'))

    assert told.endswith("; and 80 more")


def test_half_a_surrogate_pair_is_a_problem_and_no_failure() -> None:
    assert problem(Place, '{"city": "\ud83d"}') != ""


def test_the_value_of_an_answer_that_does_not_fit_is_never_handed_out() -> None:
    checked = OutputType(int | None, "agent 'judge'").check("x")

    with pytest.raises(InvalidOutput) as caught:
        _ = checked.value
    assert (caught.value.text, caught.value.problems) == ("x", (checked.problem,))


def test_what_a_validator_objects_to_is_a_problem_and_what_else_it_raises_is_raised() -> None:
    class Even(pydantic.BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def check(cls, number: int) -> int:
            if number == 13:
                raise RuntimeError("unlucky")
            if number % 2:
                raise ValueError("must be even")
            return number

    assert read(Even, '{"number": 2}') == Even(number=2)
    assert problem(Even, '{"number": 3}') == "'number': value error, must be even, got 3"
    with pytest.raises(RuntimeError, match="unlucky"):
        read(Even, '{"number": 13}')


# --- what is no output type


@pytest.mark.parametrize("form", ["Verdict", {"type": "object"}, 7, Verdict(label="ham", score=0), len, [int]])
def test_what_is_no_type_is_refused_before_pydantic_is_asked(form: object) -> None:
    with pytest.raises(TypeError, match="agent 'judge': output_type must be a type, such as a class or list"):
        OutputType(form, "agent 'judge'")


class Opaque:
    pass


@pytest.mark.parametrize("form", [Opaque, list[Opaque], threading.Event, Callable[[int], int]])
def test_a_type_without_json_schema_is_named_at_its_first_use(form: object) -> None:
    output = OutputType(form, "agent 'judge'")

    with pytest.raises(TypeError, match=r"agent 'judge': output_type .* has no JSON Schema: "):
        _ = output.spec
