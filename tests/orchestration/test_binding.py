"""References in prompts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.messages import JsonValue
from understudy.orchestration.binding import (
    Reference,
    as_text,
    bound,
    from_text,
    holds,
    reference,
    references,
    value_at,
)


def test_a_text_tells_what_it_refers_to() -> None:
    text = "On ${topic}: ${ check.verdict } and ${a-b.c.d}, for $5, $${not}, {nor} $this"

    assert references(text) == [
        Reference("topic"),
        Reference("check", ("verdict",)),
        Reference("a-b", ("c", "d")),
    ]


@pytest.mark.parametrize(
    "text", ["${}", "${1a}", "${a b}", "${a..b}", "${.a}", "${a.}", "${a.0}", "an ${open brace", "${a{b}}"]
)
def test_what_is_no_reference_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no reference: expected \$\{name\}"):
        references(text)


@pytest.mark.parametrize("text", ["", "a", "${a} b", "${a}${b}", "$${a}"])
def test_one_reference_is_all_of_a_text(text: str) -> None:
    assert reference(" ${a.b} ") == Reference("a", ("b",))
    with pytest.raises(ValueError, match="expected one reference"):
        reference(text)


@given(st.text())
def test_a_value_is_inserted_bare_and_never_looked_through_again(value: str) -> None:
    assert bound("<${a}|$${a}|${a}>", lambda _: value) == f"<{value}|${{a}}|{value}>"


@given(st.text())
def test_a_text_without_dollars_is_bound_to_itself(text: str) -> None:
    assert bound(text.replace("$", ""), lambda _: "x") == text.replace("$", "")


def test_keys_lead_into_values_and_into_text_that_is_json() -> None:
    where = Reference("check", ("a", "b"))

    assert value_at({"a": {"b": [1]}}, ("a", "b"), where) == [1]
    assert value_at('{"a": "{\\"b\\": 7}"}', ("a", "b"), where) == 7
    assert value_at('```json\n{"a": {"b": "x"}}\n```', ("a", "b"), where) == "x"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": {"c": 1}}, "has no 'b'; there is: c"),
        ({}, "has no 'a'; there is: nothing"),
        ("words", "no object, but 'words'"),
        ([1], r"no object, but \[1\]"),
        ("[" * 100_000, "no object"),
    ],
)
def test_a_key_that_is_not_there_is_named_with_those_that_are(value: JsonValue, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        value_at(value, ("a", "b"), Reference("check", ("a", "b")))


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), (7, "7"), (None, "null"), ({"é": [1]}, '{"é": [1]}'), (True, "true")]
)
def test_text_is_inserted_as_it_is_and_all_else_as_json(value: JsonValue, text: str) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("text", "value"), [("7", 7), (" [1] ", [1]), ("seven", "seven"), ("", ""), ("```\n[1]\n```", [1])]
)
def test_text_that_is_json_is_read(text: str, value: JsonValue) -> None:
    assert from_text(text) == value


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ("${a}", "yes", True),
        ("${a}", "", False),
        ("${a}", "no", False),
        ("${a}", [], False),
        ("${a}", 0, False),
        ("${a} == spam", "spam", True),
        ("${a} == spam", " spam\n", True),
        ("${a} == 'two words'", "two words", True),
        ("${a}== 7", 7, True),
        ("${a} != spam", "ham", True),
        ("${a} != spam", "spam", False),
        ("${a} == true", True, True),
        ("${a} == ", "", True),
    ],
)
def test_a_condition_compares_a_value_with_a_text(condition: str, value: JsonValue, expected: bool) -> None:
    assert holds(condition, lambda _: value) is expected


@pytest.mark.parametrize("condition", ["", "spam", "${a} = spam", "${a} > 1", "not ${a}", "${}"])
def test_what_is_no_condition_is_refused(condition: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        holds(condition, lambda _: "")
