"""Models without a network: rehearsal, functions and scripts."""

import contextlib
import enum
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Literal, NamedTuple, cast
from uuid import UUID

import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.machines import asked, completed, make_spec, tool_ids
from tests.support.together import all_at_once
from understudy.errors import ProviderError, RateLimited
from understudy.orchestration import AgentRun
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.providers import FunctionModel, Rehearsal, ScriptedModel
from understudy.providers.offline.doubles import ScriptedPieces, pieces
from understudy.providers.offline.rehearsal import DEEPEST, made_arguments, made_value, word_by_word
from understudy.vocabulary.messages import (
    JsonObject,
    JsonValue,
    Message,
    ModelRequest,
    ModelTurn,
    ReasoningPart,
    Settings,
    TextPart,
    ToolCall,
    ToolResult,
    ToolSpec,
    calls,
    says,
)
from understudy.vocabulary.pieces import CallPiece, Piece, ReasoningPiece, TextPiece, TurnEnd
from understudy.vocabulary.runs.criteria import KeywordCriteria, MaxIterationsCriteria, StructuredOutputCriteria
from understudy.vocabulary.tools.definition import as_tool
from understudy.vocabulary.tools.schemas import check_arguments

HI = [asked("Hi")]
LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]})
FIND = ToolSpec("find", "Finds.", {"type": "object", "properties": {"n": {"type": "integer"}}})


# --- rehearsal


def test_a_rehearsal_calls_every_tool_once_and_in_their_order() -> None:
    turn = Rehearsal().complete(ModelRequest(HI, tools=(LOOK, FIND)))

    assert turn == ModelTurn(
        (ToolCall("", "look", {"sku": "text"}), ToolCall("", "find", {})),
        finish_reason="tool_calls",
        raw_finish_reason="tool_calls",
        model="rehearsal",
    )


def test_after_the_results_a_rehearsal_reports_them() -> None:
    history = [
        *HI,
        Message("assistant", (ToolCall("a", "look", {"sku": "text"}), ToolCall("b", "find"))),
        Message(
            "user",
            (ToolResult("a", "7  units\non the shelf", name="look"), ToolResult("b", "x" * 500, True, name="find")),
        ),
    ]

    turn = Rehearsal().complete(ModelRequest(history, tools=(LOOK, FIND)))

    lines = turn.text.splitlines()
    assert lines[0] == "(rehearsal) 2 of 2 tools were called:"
    assert lines[1] == "- look(sku='text') gave: 7 units on the shelf"
    assert lines[2].startswith("- find() failed: xxx")
    assert lines[2].endswith("…")
    assert len(lines[2]) < 200


@pytest.mark.parametrize(
    "request_",
    [ModelRequest(HI), ModelRequest(HI, tools=(LOOK,), settings=Settings(tool_choice="none"))],
    ids=["no tools", "tools not allowed"],
)
def test_without_tools_a_rehearsal_answers_at_once(request_: ModelRequest) -> None:
    assert Rehearsal().complete(request_).parts == (TextPart("(rehearsal) You said: Hi"),)


def never_met(ctx: object, text: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("criteria", "text"),
    [
        ([KeywordCriteria("DONE")], "(rehearsal) You said: Hi\nDONE"),
        ([KeywordCriteria("said")], "(rehearsal) You said: Hi"),
        ([StructuredOutputCriteria()], '{"text": "(rehearsal) You said: Hi"}'),
        ([MaxIterationsCriteria(3), StructuredOutputCriteria({"enum": [7]}), KeywordCriteria("DONE")], "7"),
        ([never_met], "(rehearsal) You said: Hi"),
    ],
)
def test_an_answer_meets_the_first_criterion_that_says_what_it_demands(criteria: list[object], text: str) -> None:
    assert Rehearsal(criteria).complete(ModelRequest(HI)).text == text


def test_the_report_of_tools_meets_a_criterion_too() -> None:
    history = [
        *HI,
        Message("assistant", (ToolCall("a", "find"),)),
        Message("user", (ToolResult("a", "7", name="find"),)),
    ]

    text = Rehearsal([KeywordCriteria("DONE")]).complete(ModelRequest(history, tools=(FIND,))).text

    assert text == "(rehearsal) 1 of 1 tools were called:\n- find() gave: 7\nDONE"


def test_a_rehearsal_calls_only_the_tool_it_must_call() -> None:
    forced = ModelRequest(HI, tools=(LOOK, FIND), settings=Settings(tool_choice="find"))

    assert [c.name for c in Rehearsal().complete(forced).tool_calls] == ["find"]


@pytest.mark.parametrize("choice", ["auto", "required", "look"])
def test_a_rehearsal_carries_a_run_through(choice: str) -> None:
    run = AgentRun(make_spec("look", tool_choice=choice), "Hi")
    model = Rehearsal()

    run.model_response(model.complete(ModelRequest(run.messages, tools=run.spec.tools, settings=run.spec.settings)))
    run.tool_results([ToolResult(id, "7") for id in tool_ids(run)])
    run.model_response(model.complete(ModelRequest(run.messages, tools=run.spec.tools)))

    assert completed(run).text == "(rehearsal) 1 of 1 tools were called:\n- look() gave: 7"


# --- made values


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "default": "d", "examples": ["e"], "enum": ["f"]}, "d"),
        ({"type": "string", "default": ""}, ""),
        ({"type": "integer", "default": 0}, 0),
        ({"type": "integer", "default": None}, None),
        ({"type": "string", "examples": ["e"], "enum": ["f"]}, "e"),
        ({"type": "string", "enum": ["f", "g"]}, "f"),
        ({"type": "integer", "enum": []}, 1),
        ({"const": "c"}, "c"),
        ({"const": None}, None),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({}, "text"),
        ({"type": "string", "minLength": 6}, "text.."),
        ({"type": "string", "maxLength": 2}, "te"),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "integer"}, 1),
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": "integer", "minimum": -5}, 1),
        ({"type": "integer", "maximum": -5}, -5),
        ({"type": "integer", "exclusiveMinimum": 5}, 6),
        ({"type": "integer", "exclusiveMaximum": 0}, -1),
        ({"type": "integer", "minimum": 1.5}, 2),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
        ({"type": "number", "minimum": 0.25, "maximum": 0.25}, 0.25),
        ({"type": "array", "items": {"type": "integer"}}, [1]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 3}, [1, 1, 1]),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 0}, []),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "maxItems": 2}, [1, "text"]),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1),
        ({"oneOf": [{"type": "boolean"}, {"type": "integer"}]}, True),
        ({"anyOf": [{"type": "null"}]}, None),
        ({"$ref": "#/$defs/Size"}, "small"),
        ({"$ref": "#/$defs/a~1b~0"}, True),
        ({"$ref": "#/$defs/Nobody"}, "text"),
        ({"$ref": "#/$defs/Size", "default": "large"}, "large"),
        ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}, {"a": 1}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {}),
    ],
)
def test_a_value_is_its_default_or_example_or_choice_or_made_from_its_type(
    schema: JsonObject, value: JsonValue
) -> None:
    root: JsonObject = {"$defs": {"Size": {"type": "string", "enum": ["small", "large"]}, "a/b~": {"type": "boolean"}}}

    assert made_value(schema, root) == value


def test_a_schema_that_no_value_can_fit_comes_to_an_end() -> None:
    endless: JsonObject = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}},
        "required": ["next"],
    }

    value: JsonValue = dict(made_arguments(endless))

    depth = 0
    while isinstance(value, Mapping):
        assert list(value) == ["next"]
        value, depth = value["next"], depth + 1
    assert (value, depth) == (None, DEEPEST + 1)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    label: str = "here"


class Tree(pydantic.BaseModel):
    title: str
    left: "Tree | None"
    children: list["Tree"]


class Pair(NamedTuple):
    left: int
    right: Point


TYPES: list[object] = [
    int,
    str,
    bool,
    float,
    date,
    datetime,
    UUID,
    Color,
    Point,
    Tree,
    Pair,
    Literal["low", "high"],
    Annotated[int, pydantic.Field(ge=3, lt=9)],
    Annotated[int, pydantic.Field(gt=-9, le=-3)],
    Annotated[float, pydantic.Field(gt=0, lt=1)],
    Annotated[str, pydantic.Field(min_length=7, max_length=9)],
    Annotated[str, pydantic.Field(max_length=1)],
    Annotated[list[int], pydantic.Field(min_length=2)],
    tuple[int, str],
    tuple[int, ...],
]


def nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    # pyright reads a subscription as one of a type that it knows; these are not known before the test runs
    return st.one_of(
        inner.map(lambda t: list.__class_getitem__(t)),
        inner.map(lambda t: dict.__class_getitem__((str, t))),
        inner.map(lambda t: tuple.__class_getitem__((t, int))),
        inner.map(lambda t: cast(object, t | None) if isinstance(t, type) else t),
    )


types = st.recursive(st.sampled_from(TYPES), nested, max_leaves=3)


def function_of(parameters: dict[str, object]) -> Callable[..., None]:
    """Make a function that takes parameters of these types."""

    def take(**given: object) -> None: ...

    take.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what `inspect.signature` reads first
        [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, annotation=t) for n, t in parameters.items()]
    )
    return take


@given(st.dictionaries(st.sampled_from(["title", "copy", "sku", "properties"]), types, max_size=3))
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_made_arguments_fit_the_tool_they_were_made_for(parameters: dict[str, object]) -> None:
    tool = as_tool(function_of(parameters))

    arguments = made_arguments(tool.spec.schema)

    assert check_arguments(tool.signature, tool.name, arguments).keys() == parameters.keys()


# --- functions


def test_what_the_function_raises_goes_through() -> None:
    def busy(request: ModelRequest) -> ModelTurn:
        raise RateLimited("slow down", retry_after=7.0)

    with pytest.raises(RateLimited) as caught:
        FunctionModel(busy).complete(ModelRequest(HI))

    assert caught.value.retry_after == 7.0


def test_a_function_that_returns_no_turn_is_told_what_to_return() -> None:
    def length(request: ModelRequest) -> int:
        return len(request.text)

    model = FunctionModel(cast(Callable[[ModelRequest], ModelTurn], length))

    with pytest.raises(TypeError, match="must return a ModelTurn"):
        model.complete(ModelRequest(HI))


def test_what_cannot_be_called_is_no_function_model() -> None:
    with pytest.raises(TypeError, match="takes a function of the request, got 3"):
        FunctionModel(cast(Callable[[ModelRequest], ModelTurn], 3))


# --- scripts


def test_a_script_is_said_in_order_and_the_requests_are_kept() -> None:
    model = ScriptedModel([calls("look"), says("Seven.")])
    first, second = ModelRequest(HI), ModelRequest(HI, turn=2)

    turns = [model.complete(first), model.complete(second)]

    assert turns == [calls("look"), says("Seven.")]
    assert model.requests == [first, second]


def test_a_script_counts_the_turns_that_nobody_asked_for() -> None:
    model = ScriptedModel([calls("look"), says("Seven.")])
    counts = [model.left]

    for _ in range(3):
        with contextlib.suppress(ProviderError):  # the third is asked for too much
            model.complete(ModelRequest(HI))
        counts.append(model.left)

    assert counts == [2, 1, 0, 0]


def test_a_script_at_its_end_says_how_long_it_was() -> None:
    model = ScriptedModel([says("Seven.")])
    model.complete(ModelRequest(HI))

    with pytest.raises(ProviderError, match="the script has 1 turn and was asked for turn 2") as caught:
        model.complete(ModelRequest(HI))

    assert caught.value.provider == "scripted"


def test_an_exception_in_a_script_is_raised_in_its_place_and_the_script_goes_on() -> None:
    model = ScriptedModel([RateLimited("slow down"), says("Seven.")])

    with pytest.raises(RateLimited):
        model.complete(ModelRequest(HI))

    assert model.complete(ModelRequest(HI)).text == "Seven."


@pytest.mark.parametrize("script", ["Seven.", says("Seven."), ["Seven."], [says("Seven."), None]])
def test_a_script_holds_turns_and_exceptions_only(script: object) -> None:
    with pytest.raises(TypeError, match="a script"):
        ScriptedModel(script)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake is the point


def test_a_script_does_not_share_the_list_it_was_made_from() -> None:
    lines: list[ModelTurn | Exception] = [says("Seven.")]
    model = ScriptedModel(lines)

    lines.clear()

    assert model.complete(ModelRequest(HI)).text == "Seven."


def test_threads_that_ask_at_once_get_each_line_once() -> None:
    model = ScriptedModel([says(str(i)) for i in range(200)])
    said: list[str] = []

    all_at_once(lambda _: said.extend([model.complete(ModelRequest(HI)).text for _ in range(50)]), range(4))

    assert sorted(said, key=int) == [str(i) for i in range(200)]
    assert len(model.requests) == 200


def test_a_function_of_the_request_returns_a_turn_or_the_text_of_one() -> None:
    request = ModelRequest(HI)

    assert FunctionModel(lambda request: says(f"You said {request.text}")).complete(request).text == "You said Hi"
    assert FunctionModel(lambda request: "Seven.").complete(request) == says("Seven.")


# --- streams


def joined(pieces: Iterable[Piece]) -> ModelTurn:
    assembler = TurnAssembler()
    for piece in pieces:
        assembler.add(piece)
    return assembler.turn()


WORDS = ToolCall("c1", "look", {"word": "two words"}, signature="s")
WHOLE = ModelTurn(
    (ReasoningPart("First\nlook. ", "s1"), TextPart("  Let me\n\nlook.", "s2"), WORDS), finish_reason="stop"
)


def test_a_turn_comes_word_by_word_and_is_the_same_turn() -> None:
    cut = list(word_by_word(WHOLE))

    assert [piece.text for piece in cut if isinstance(piece, ReasoningPiece)] == ["First", "\nlook.", " "]
    assert [piece.text for piece in cut if isinstance(piece, TextPiece)] == ["  Let", " me", "\n\nlook."]
    assert [piece.arguments for piece in cut if isinstance(piece, CallPiece)] == ["", '{"word":', ' "two', ' words"}']
    assert joined(cut) == WHOLE


@given(st.lists(st.text().map(TextPart) | st.text().map(ReasoningPart)))
def test_any_text_is_put_together_again(parts: list[TextPart | ReasoningPart]) -> None:
    turn = ModelTurn(tuple(parts), finish_reason="stop", raw_finish_reason="stop", model="m")

    assert joined(word_by_word(turn)) == turn


@pytest.mark.parametrize("tools", [(), (ToolSpec("find", "", {"type": "object"}),)])
def test_a_rehearsal_streams_the_turn_that_it_would_give(tools: tuple[ToolSpec, ...]) -> None:
    request = ModelRequest(HI, tools=tools)

    assert joined(Rehearsal().stream(request)) == Rehearsal().complete(request)


def test_a_script_with_pieces_streams_them_and_gives_them_as_a_whole() -> None:
    script: list[ModelTurn | ScriptedPieces | Exception] = [
        pieces("Yes: ", "seven."),
        says("Done."),
        pieces(ReasoningPiece("Hm."), "No.", TurnEnd("length")),
    ]
    streamed, whole = ScriptedModel(script), ScriptedModel(script)

    turns = [joined(streamed.stream(ModelRequest(HI))) for _ in script]

    assert [turn.text for turn in turns] == ["Yes: seven.", "Done.", "No."]
    assert turns == [whole.complete(ModelRequest(HI)) for _ in script]
    assert turns[2].finish_reason == "length"
    assert len(streamed.requests) == 3
    assert [piece.text for piece in pieces("Yes: ", "seven.") if isinstance(piece, TextPiece)] == ["Yes: ", "seven."]


def test_a_scripted_stream_fails_where_its_exception_stands() -> None:
    script = [pieces("Yes: ", RateLimited("slow down"))]
    stream = ScriptedModel(script).stream(ModelRequest(HI))

    assert next(stream) == TextPiece("Yes: ")
    with pytest.raises(RateLimited):
        next(stream)
    with pytest.raises(RateLimited):
        ScriptedModel(script).complete(ModelRequest(HI))


def test_a_script_without_pieces_is_asked_for_whole_turns() -> None:
    assert not hasattr(ScriptedModel([says("Done.")]), "stream")


def test_what_makes_no_turn_is_no_pieces() -> None:
    with pytest.raises(TypeError, match="texts, pieces and exceptions, got 7"):
        pieces(cast(str, 7))
    with pytest.raises(ValueError, match="came after its end"):
        pieces(TurnEnd(), "late")
