"""What a model is told of a tool, and what becomes of the arguments it passes."""

import enum
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from threading import Lock
from typing import Annotated, Literal, NamedTuple, Optional, cast
from unittest.mock import Mock
from uuid import UUID

import docstring_parser
import pydantic
import pytest
from typing_extensions import TypedDict

import understudy as us
from tests.vocabulary.string_annotations import Size, pack, unpack
from understudy.vocabulary.messages import JsonObject, JsonValue
from understudy.vocabulary.tools.definition import as_tool
from understudy.vocabulary.tools.parameters import BadArguments
from understudy.vocabulary.tools.schemas import check_arguments


def properties(function: Callable[..., object]) -> Mapping[str, JsonValue]:
    return cast("Mapping[str, JsonValue]", as_tool(function).spec.schema["properties"])


def checked(function: Callable[..., object], **arguments: JsonValue) -> dict[str, object]:
    made = as_tool(function)
    return check_arguments(made.signature, made.name, arguments)


# --- descriptions


def google(sku: str, shop: str = "main") -> int:
    """Count the units of a product.

    Looks on every shelf.

    Args:
        sku: product number,
            such as A-113
        shop (str): which shop

    Returns:
        How many there are.
    """
    return 0


def numpy(sku: str, shop: str = "main") -> int:
    """Count the units of a product.

    Looks on every shelf.

    Parameters
    ----------
    sku : str
        product number,
        such as A-113
    shop : str
        which shop

    Returns
    -------
    int
        How many there are.
    """
    return 0


def sphinx(sku: str, shop: str = "main") -> int:
    """Count the units of a product.

    Looks on every shelf.

    :param sku: product number, such as A-113
    :param str shop: which shop
    :returns: How many there are.
    """
    return 0


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_the_model_is_told_what_signature_and_docstring_say(function: Callable[..., object]) -> None:
    spec = as_tool(function).spec

    assert spec.name == function.__name__
    assert spec.description == "Count the units of a product.\n\nLooks on every shelf."
    assert spec.schema == {
        "type": "object",
        "properties": {
            "sku": {"type": "string", "description": "product number, such as A-113"},
            "shop": {"type": "string", "default": "main", "description": "which shop"},
        },
        "required": ["sku"],
        "additionalProperties": False,
    }


def silent(sku: str) -> None: ...
def empty() -> None: ...


def test_a_docstring_is_parsed_once_for_all_tools_of_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(sku: str) -> int:
        """Count the units.

        Args:
            sku: product number
        """
        return 7

    parse = Mock(wraps=docstring_parser.parse)
    monkeypatch.setattr(docstring_parser, "parse", parse)

    specs = [us.Tool(count, retries=number).spec for number in range(3)]

    parse.assert_called_once()
    assert [spec.description for spec in specs] == ["Count the units."] * 3


def test_tools_of_one_function_may_differ_in_name_and_description() -> None:
    def count(sku: str) -> int:
        """Count the units."""
        return 7

    made = [us.Tool(count), us.Tool(count, name="units"), us.Tool(count, description="How many?"), us.Tool(count)]

    assert [(tool.spec.name, tool.spec.description) for tool in made] == [
        ("count", "Count the units."),
        ("units", "Count the units."),
        ("count", "How many?"),
        ("count", "Count the units."),
    ]


def test_without_a_docstring_there_is_no_description() -> None:
    assert as_tool(silent).spec.description == ""
    assert properties(silent) == {"sku": {"type": "string"}}


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    assert as_tool(empty).spec.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert checked(empty) == {}


def annotated(
    count: Annotated[int, pydantic.Field(ge=1, le=9, description="how many")],
    sku: Annotated[str, pydantic.Field(examples=["A-113"], pattern="^A")] = "A-1",
) -> None:
    """Take.

    Args:
        count: not this
        sku: product number
    """


def test_a_field_in_the_annotation_wins_over_the_docstring() -> None:
    assert properties(annotated) == {
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "description": "how many"},
        "sku": {
            "type": "string",
            "pattern": "^A",
            "examples": ["A-113"],
            "default": "A-1",
            "description": "product number",
        },
    }


@pytest.mark.parametrize(
    "docstring", ["Args:\n  foo", ":param", "Parameters\n----------\na", "@param", "Returns:", ":"]
)
def test_a_docstring_in_no_style_does_not_stop_a_tool(docstring: str) -> None:
    def take(sku: str) -> None: ...

    take.__doc__ = docstring

    assert properties(take) == {"sku": {"type": "string"}}


# --- types


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    title: str = "here"


class Tree(pydantic.BaseModel):
    title: str
    children: list["Tree"] = []


class Options(TypedDict, total=False):
    title: str


class Pair(NamedTuple):
    left: int
    right: str


def kinds(
    color: Color,
    level: Literal["low", "high"],
    point: Point,
    tree: Tree,
    options: Options,
    pair: Pair,
    both: tuple[int, str],
    by_name: dict[str, Point],
    day: date,
    id: UUID,
    where: Path,
    perhaps: Optional[int] = None,  # noqa: UP045  # the spelling is the point
    either: int | str = 3,
) -> None: ...


def test_values_arrive_as_the_types_that_the_function_names() -> None:
    number = "00000000-0000-4000-8000-000000000000"

    given = checked(
        kinds,
        color="red",
        level="low",
        point={"x": 1},
        tree={"title": "a", "children": [{"title": "b"}]},
        options={"title": "c"},
        pair=[1, "r"],
        both=[2, "s"],
        by_name={"p": {"x": 2, "title": "there"}},
        day="2026-01-31",
        id=number,
        where="/tmp/x",
    )

    assert given == {
        "color": Color.RED,
        "level": "low",
        "point": Point(1),
        "tree": Tree(title="a", children=[Tree(title="b")]),
        "options": {"title": "c"},
        "pair": Pair(1, "r"),
        "both": (2, "s"),
        "by_name": {"p": Point(2, "there")},
        "day": date(2026, 1, 31),
        "id": UUID(number),
        "where": Path("/tmp/x"),
        "perhaps": None,
        "either": 3,
    }


def test_titles_made_from_names_are_dropped_and_what_is_called_title_stays() -> None:
    schema = as_tool(kinds).spec.schema
    definitions = cast("Mapping[str, Mapping[str, Mapping[str, JsonValue]]]", schema["$defs"])

    assert '"title": "' not in json.dumps(schema)
    assert definitions["Tree"]["properties"]["title"] == {"type": "string"}
    assert definitions["Point"]["properties"]["title"] == {"type": "string", "default": "here"}
    assert definitions["Options"]["properties"]["title"] == {"type": "string"}
    assert dict(definitions["Color"]) == cast("object", {"type": "string", "enum": ["red", "blue"]})


def test_every_reference_in_a_schema_has_its_definition() -> None:
    schema = as_tool(kinds).spec.schema
    text = json.dumps(schema)

    for name in cast("Mapping[str, JsonValue]", schema["$defs"]):
        text = text.replace(f'"$ref": "#/$defs/{name}"', "")

    assert "$ref" not in text


def defaults(words: dict[str, str] = {"title": "kept"}, sizes: list[int] = [1]) -> None: ...  # noqa: B006  # never changed


def test_a_default_is_shown_as_it_is() -> None:
    assert properties(defaults) == {
        "words": {"type": "object", "additionalProperties": {"type": "string"}, "default": {"title": "kept"}},
        "sizes": {"type": "array", "items": {"type": "integer"}, "default": [1]},
    }


@dataclass
class Range:
    low: float = -math.inf
    high: float = 9.0


def priced(
    top: float = math.inf,
    steps: list[float] = [1.0, math.nan],  # noqa: B006  # never changed
    within: Range = Range(),  # noqa: B008  # never changed
    by_name: dict[Annotated[str, pydantic.Field(pattern="^a")], Range] = {},  # noqa: B006  # never changed
    below: Annotated[float, pydantic.Field(le=math.inf)] = 1.0,
) -> None: ...


def test_a_default_that_is_no_json_is_left_out_and_still_holds() -> None:
    schema = as_tool(priced).spec.schema

    assert json.dumps(schema, allow_nan=False)
    ranges = cast("Mapping[str, Mapping[str, JsonValue]]", schema["$defs"])["Range"]["properties"]
    assert ranges == {"low": {"type": "number"}, "high": {"type": "number", "default": 9.0}}
    assert properties(priced)["top"] == {"type": "number"}
    assert properties(priced)["below"] == {"type": "number", "default": 1.0}
    given = checked(priced)
    assert (given["top"], given["within"]) == (math.inf, Range())


def test_a_default_is_not_shared_between_calls() -> None:
    first = checked(defaults)
    cast("list[int]", first["sizes"]).append(2)

    assert checked(defaults)["sizes"] == [1]


def odd_names(
    copy: int, schema: int, title: str, _x: int, json: int, model_config: int, properties: int, arg_x: int, default: int
) -> None: ...


def test_parameters_may_be_called_what_pydantic_keeps_for_itself() -> None:
    names = ["copy", "schema", "title", "_x", "json", "model_config", "properties", "arg_x", "default"]
    arguments: dict[str, JsonValue] = {name: "1" if name == "title" else 1 for name in names}

    assert list(properties(odd_names)) == names
    assert as_tool(odd_names).spec.schema["required"] == names
    assert properties(odd_names)["title"] == {"type": "string"}
    assert checked(odd_names, **arguments) == arguments


def test_annotations_may_be_strings_and_only_those_of_parameters_are_read() -> None:
    tool = as_tool(pack)

    assert tool.signature.context_parameter == "ctx"
    assert tool.spec.schema["required"] == ["size"]
    assert checked(pack, size={"width": 3}) == {"size": Size(3), "count": None}


class Counter:
    def __call__(self, sku: str) -> int:
        """Count."""
        return len(sku)


def test_an_object_that_can_be_called_may_be_a_tool() -> None:
    counter = us.tool(name="count")(Counter())

    assert counter.spec.schema["required"] == ["sku"]
    assert counter(sku="abc") == 3


# --- what is refused


def with_lock(sku: str, lock: Lock) -> None: ...
def with_function(sku: str, then: Callable[[], None]) -> None: ...


@pytest.mark.parametrize(("function", "parameter"), [(with_lock, "lock"), (with_function, "then")])
def test_a_type_that_json_cannot_carry_is_named_at_first_use_and_not_before(
    function: Callable[..., object], parameter: str
) -> None:
    tool = us.tool(function)

    for _ in range(2):
        with pytest.raises(TypeError, match=rf"tool '{tool.name}': parameter '{parameter}' is of type .*JSON"):
            _ = tool.spec


def test_a_type_that_is_not_there_is_named_with_its_parameter() -> None:
    with pytest.raises(TypeError, match="tool 'unpack': parameter 'size' is annotated 'Event'"):
        _ = as_tool(unpack).spec


# --- checking arguments


NO_STRING = "input should be a valid string"
NO_NUMBER = "input should be a valid integer"
NO_INTEGER = "input should be a valid integer, unable to parse string as an integer"


def take(sku: str, count: int, point: Point | None = None, price: Decimal = Decimal(1)) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 1}, "tool 'take': argument 'sku': field required"),
        (
            {"sku": 3, "count": 1},
            f"tool 'take': argument 'sku': {NO_STRING}, got 3",
        ),
        (
            {"sku": "A", "count": 1, "shop": "main"},
            "tool 'take': argument 'shop': extra inputs are not permitted, got 'main'",
        ),
        (
            {"sku": "A", "count": "many"},
            f"tool 'take': argument 'count': {NO_INTEGER}, got 'many'",
        ),
        (
            {"sku": "A", "count": 1, "point": {"x": "far"}},
            f"tool 'take': argument 'point.x': {NO_INTEGER}, got 'far'",
        ),
        (
            {"sku": None, "count": None},
            f"tool 'take': argument 'sku': {NO_STRING}, got None; argument 'count': {NO_NUMBER}, got None",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_each_named(arguments: JsonObject, message: str) -> None:
    tool = as_tool(take)

    with pytest.raises(BadArguments) as caught:
        check_arguments(tool.signature, tool.name, arguments)

    assert str(caught.value) == message


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(BadArguments) as caught:
        checked(take, sku=["x" * 9000], count=1)

    assert len(str(caught.value)) < 250


def test_numbers_in_strings_are_read_as_models_often_write_them() -> None:
    assert checked(take, sku="A", count="3")["count"] == 3


class Shape(pydantic.BaseModel):
    kind: Literal["shape"]
    corners: list[Point] = []


class Dot(pydantic.BaseModel):
    kind: Literal["dot"]


def nested(
    tree: Tree | None = None,
    sizes: tuple[int, ...] = (),
    options: Options = {},  # noqa: B006  # never changed
    shape: Annotated[Shape | Dot, pydantic.Field(discriminator="kind")] = Dot(kind="dot"),  # noqa: B008  # never changed
    perhaps: int | None = 1,
    words: str | list[str] = "",
    note: Annotated[str, pydantic.Field(max_length=20)] = "",
    tags: Annotated[list[str], pydantic.BeforeValidator(lambda text: text.strip())] = [],  # noqa: B006  # never changed
) -> None: ...


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("tree", '{"title": "a", "children": "[{\\"title\\": \\"b\\"}]"}', Tree(title="a", children=[Tree(title="b")])),
        ("tree", {"title": "a", "children": ['{"title": "b"}']}, Tree(title="a", children=[Tree(title="b")])),
        ("tree", "null", None),
        ("sizes", "[1, 2]", (1, 2)),
        ("sizes", '[1, "2"]', (1, 2)),
        ("options", '{"title": "c"}', {"title": "c"}),
        ("shape", '{"kind": "shape", "corners": "[{\\"x\\": 1}]"}', Shape(kind="shape", corners=[Point(1)])),
        ("perhaps", "null", None),
        ("words", '["a"]', '["a"]'),
        ("note", '{"a": 1}', '{"a": 1}'),
    ],
)
def test_json_in_a_text_is_read_where_the_type_takes_no_text(name: str, given: JsonValue, value: object) -> None:
    assert checked(nested, **{name: given})[name] == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sizes": '["x"]'}, f"argument 'sizes.0': {NO_INTEGER}, got 'x'"),
        ({"sizes": "[1"}, "argument 'sizes': input should be a valid tuple, got '[1'"),
        ({"note": '{"a": "twenty and more"}'}, "argument 'note': string should have at most 20 characters, got '{"),
        ({"perhaps": "seven"}, f"argument 'perhaps': {NO_INTEGER}, got 'seven'"),
        ({"tags": '["a"]'}, "argument 'tags': input should be a valid list, got '[\"a\"]'"),
        ({"sizes": "[1]", "perhaps": "seven"}, f"argument 'perhaps': {NO_INTEGER}, got 'seven'"),
    ],
)
def test_what_does_not_fit_after_its_json_was_read_is_named(arguments: JsonObject, message: str) -> None:
    with pytest.raises(BadArguments) as caught:
        checked(nested, **arguments)

    assert str(caught.value).startswith(f"tool 'nested': {message}")
