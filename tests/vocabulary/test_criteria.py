"""What a text must have to end a run."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Iterator, Mapping

import pytest

from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.messages import JsonObject, JsonValue
from understudy.vocabulary.runs.criteria import KeywordCriteria, MaxIterationsCriteria, StructuredOutputCriteria

VERDICT: JsonObject = {
    "type": "object",
    "properties": {"label": {"enum": ["spam", "ham"]}, "score": {"$ref": "#/$defs/share"}},
    "required": ["label"],
    "$defs": {"share": {"type": "number", "maximum": 1}},
}


def context(*, iterations: int = 0, continues: int = 0) -> RunContext:
    return RunContext(
        run_id="r-1",
        agent_id="clerk",
        input="Hi",
        session={},
        deps=None,
        scope=Scope(None, time.monotonic),
        iterations=iterations,
        continues=continues,
    )


@pytest.mark.parametrize(
    ("text", "met"),
    [("All DONE.", "keyword 'DONE' found in response"), ("All done.", False), ("", False), ("D ONE", False)],
)
def test_a_keyword_is_looked_for_as_it_is_written(text: str, met: bool | str) -> None:
    assert KeywordCriteria("DONE")(context(), text) == met


def test_an_empty_keyword_which_every_text_has_is_refused() -> None:
    with pytest.raises(ValueError, match="a keyword must be a string that is not empty"):
        KeywordCriteria("")


@pytest.mark.parametrize(
    ("iterations", "continues", "met"),
    [(0, 0, False), (2, 2, False), (5, 0, True), (0, 5, True), (3, 2, True), (6, 3, True)],
)
def test_rounds_and_continue_messages_count_together(iterations: int, continues: int, met: bool) -> None:
    found = MaxIterationsCriteria(5)(context(iterations=iterations, continues=continues), "Hm.")

    assert found == ("max iterations (5) reached" if met else False)


@pytest.mark.parametrize(("limit", "error"), [(0, ValueError), (-1, ValueError), (True, TypeError), ("5", TypeError)])
def test_a_limit_that_is_no_number_of_rounds_is_refused(limit: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="MaxIterationsCriteria takes a"):
        MaxIterationsCriteria(limit)


RECEIVED = "structured output received"


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ('{"label": "ham"}', True),
        ("  [1, 2]\n", True),
        ("42", True),
        ("null", True),
        ("", False),
        ("Here you are: {}", False),
        ('{"label": "ham"} Anything else?', False),
        ("{'label': 'ham'}", False),
        ('{"score": NaN}', False),
        ("```json\n{}\n```", True),
        ("```JSON\n{}\n```", True),
        ("```\n[]\n```", True),
        ('Here you are:\n\n```json\n{"label": "ham"}\n```\nAnything else?', True),
        ("```python\nprint()\n```\nand\n```json\n{}\n```", True),
        ('```json\n{"code": "```"}\n```', True),
        ("```json\nnot json\n```", False),
        ("```json {} ```", False),
        ("[" * 100_000, False),
        ("1" * 10_000, False),
    ],
)
def test_a_text_is_structured_if_it_or_a_fenced_part_of_it_is_json(text: str, met: bool) -> None:
    assert StructuredOutputCriteria()(context(), text) == (RECEIVED if met else False)


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ('{"label": "ham", "score": 0.5}', True),
        ('{"label": "ham", "score": 2}', False),
        ('{"label": "eggs"}', False),
        ("{}", False),
        ("42", False),
        ('```json\n{"label": "eggs"}\n```\nNo:\n```json\n{"label": "ham"}\n```', True),
    ],
)
def test_with_a_schema_the_json_has_to_fit_it(text: str, met: bool) -> None:
    assert StructuredOutputCriteria(VERDICT)(context(), text) == (RECEIVED if met else False)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "objekt"}, r"the schema\['type'\] is invalid: 'objekt'"),
        ({"properties": {"a": {"minimum": "low"}}}, r"the schema\['properties'\]\['a'\]\['minimum'\] is invalid"),
        ({"$ref": "#/$defs/nothing"}, r"nothing at \$ref '#/\$defs/nothing'"),
        ({"items": {"$ref": "https://example.org/a.json"}}, r"nothing at \$ref 'https://example.org/a.json'"),
        ({"allOf": [{"$ref": "#nowhere"}]}, r"nothing at \$ref '#nowhere'"),
        ({"const": {1, 2}}, "the schema is no JSON"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_when_the_criterion_is_made(schema: JsonObject, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StructuredOutputCriteria(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "object"}}},
        {"$ref": "#here", "$defs": {"a": {"$anchor": "here", "type": "object"}}},
        {"type": "object", "default": {"$ref": "#/not/a/reference"}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
        {"$id": "https://example.org/a", "$ref": "b", "$defs": {"b": {"$id": "b", "type": "object"}}},
        {"type": "object", "properties": {"$ref": {"type": "string"}}},
    ],
)
def test_references_that_lead_somewhere_are_followed(schema: JsonObject) -> None:
    criterion = StructuredOutputCriteria(schema)

    assert criterion(context(), "{}") == RECEIVED
    assert not (criterion(context(), "[]"))


def test_a_schema_that_is_no_mapping_is_a_type_error() -> None:
    text: object = '{"type": "object"}'

    with pytest.raises(TypeError, match="takes a JSON Schema as a mapping"):
        StructuredOutputCriteria(text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] (what is tested)


class Frozen(Mapping[str, JsonValue]):
    """A mapping that is no dict, as settings files are read into."""

    def __init__(self, values: dict[str, JsonValue]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> JsonValue:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def test_a_schema_may_be_any_mapping() -> None:
    criterion = StructuredOutputCriteria(Frozen({"type": "array", "items": Frozen({"type": "string"})}))

    assert criterion(context(), '["a"]') == RECEIVED
    assert not criterion(context(), "[1]")


def test_what_happens_to_a_schema_later_changes_nothing() -> None:
    schema: dict[str, JsonValue] = {"type": "object"}
    criterion = StructuredOutputCriteria(schema)

    schema["type"] = "array"

    assert criterion(context(), "{}") == RECEIVED


def test_criteria_survive_copies() -> None:
    made = StructuredOutputCriteria(VERDICT)

    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again(context(), '{"label": "ham"}') == RECEIVED
        assert not again(context(), "{}")
