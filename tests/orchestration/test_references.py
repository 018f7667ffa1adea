"""References in prompts, and conditions on them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.orchestration.graph.conditions import references_in
from understudy.orchestration.graph.references import (
    Reference,
    as_text,
    bound,
    from_text,
    reference,
    references,
    value_at,
)
from understudy.orchestration.graph.task_values import holds
from understudy.vocabulary.messages import JsonValue


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
        ("${a} == ''", "", True),
        ("${a} == needs  review", "needs  review", True),
        ("${a} == it's", "it's", True),
        ("'yes' == ${a}", "yes", True),
        ("${a}", "[]", False),
        ("${a}", "No\n", False),
        ("${a}", "0.0", False),
        ("not ${a}", "no", True),
        ("not not ${a}", "no", False),
        ("${a} == True", True, True),
        ("${a} == true", "True", True),
        ("${a} == false", 0, False),
        ("${a} == null", None, True),
    ],
)
def test_a_condition_compares_a_value_with_a_text(condition: str, value: JsonValue, expected: bool) -> None:
    assert holds(condition, lambda _: value) is expected


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ("${a} == 3", "3.0\n", True),
        ("${a} == 3", True, False),
        ("${a} == 3", "three", False),
        ("${a} != 3", "three", True),
        ("${a} == '3'", 3, True),
        ("${a} == '3'", "3.0", False),
        ("${a} == 007", "7", False),
        ("${a} == 007", "007", True),
        ("${a} < 10", "9", True),
        ("${a} >= 9", 9.0, True),
        ("${a} <= -1e2", -100, True),
        ("5 > ${a}", 10**400, False),
        ("${a} == ${a.same}", "1.0", True),
    ],
)
def test_numbers_are_compared_as_numbers_and_quoted_ones_as_text(
    condition: str, value: JsonValue, expected: bool
) -> None:
    assert holds(condition, lambda where: 1 if where.keys else value) is expected


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ("${a} in [spam, 'ham', 3]", "ham", True),
        ("${a} in [spam, 'ham', 3]", "3.0", True),
        ("${a} not in [spam, ham]", "eggs", True),
        ("spam in ${a}", ["ham", "spam"], True),
        ("3 in ${a}", "[1, 2, 3]", True),
        ("spam in ${a}", {"spam": 1}, True),
        ("'a refund' in ${a}", "They want a refund.", True),
        ("refund not in ${a}", "They want a refund.", False),
    ],
)
def test_membership_is_that_of_a_list_of_keys_or_of_a_text_in_a_text(
    condition: str, value: JsonValue, expected: bool
) -> None:
    assert holds(condition, lambda _: value) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("${t} and ${f}", False),
        ("${t} or ${f} and ${f}", True),
        ("(${t} or ${f}) and ${f}", False),
        ("not ${f} and ${t}", True),
        ("not (${t} and ${f}) AND ${t}", True),
        ("${label} == spam and ${n} == 3", True),
        ("${label} == spam and ${n} == 4 or not ${label} in [ham]", True),
        ("${f} and ${missing}", False),
        ("${t} or ${missing}", True),
    ],
)
def test_not_binds_more_than_and_and_and_more_than_or_and_what_decides_ends_it(condition: str, expected: bool) -> None:
    values: dict[str, JsonValue] = {"t": True, "f": "no", "label": "spam", "n": 3}

    assert holds(condition, lambda where: values[where.name]) is expected


def test_all_references_of_a_condition_are_known_before_anything_runs() -> None:
    found = references_in("${a.x} == 1 and (not ${b} or ${c} in [${d}, e])")

    assert [str(each) for each in found] == ["${a.x}", "${b}", "${c}", "${d}"]


@pytest.mark.parametrize(
    ("condition", "says"), [("${a} < 3", "'<' compares numbers; ${a} is 'many'"), ("1 in ${n}", "is 7")]
)
def test_values_that_cannot_be_compared_so_are_an_error_and_not_false(condition: str, says: str) -> None:
    values: dict[str, JsonValue] = {"a": "many", "n": 7}

    with pytest.raises(ValueError, match=re.escape(says)):
        holds(condition, lambda where: values[where.name])


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("", "expected ${name}, text or a number, got the end at character 1"),
        ("spam", "expected a comparison of a reference such as ${check.label}, got 'spam' at character 1"),
        ("check.label == spam", "expected a comparison of a reference such as ${check.label}, got 'check.label' at"),
        ("${a} ==", "expected ${name}, text or a number, got the end at character 8"),
        ("${a} = spam", "expected 'and', 'or' or the end, got '=' at character 6"),
        (
            "${a} == spam and ham",
            "expected a comparison of a reference such as ${check.label}, got 'ham' at character 18",
        ),
        ("${a} == spam OR ham", "got 'ham' at character 17"),
        ("${a} == spam && ${b}", "expected ==, !=, <, <=, >, >=, in, and, or, not, got '&&' at character 14"),
        ("!${a}", "got '!' at character 1"),
        ("${a} is spam", "expected 'and', 'or' or the end, got 'is'"),
        ("${a} == not done", "expected ${name}, text or a number, got 'not' at character 9"),
        ("${a} == yes, please", "expected 'and', 'or' or the end, got ','"),
        ("1 < ${a} < 5", "expected 'and', 'or' or the end, got '<' at character 10"),
        ("${a} < high", "expected numbers on both sides of '<'"),
        ("${a} < '3'", "expected numbers on both sides of '<'"),
        ("${a} == [1, 2]", "expected a list after 'in' or 'not in' only"),
        ("${a} in spam", "expected a reference or a list such as [spam, ham] after 'in'"),
        ("[${a}] in ${b}", "expected one value before 'in'"),
        ("${a} in []", "expected ${name}, text or a number, got ']'"),
        ("${a} in [x", "expected ',' or ']', got the end"),
        ("(${a}", "expected 'and', 'or' or ')', got the end"),
        ("${a})", "expected 'and', 'or' or the end, got ')'"),
        ("${a} == 'spam", "the quote at character 9 is never closed"),
        ("${a == spam", "the '${' at character 1 is not closed"),
        ("(" * 51 + "${a}" + ")" * 51, "expected at most 50 brackets in one another"),
        ("${}", "'${}' is no reference: expected"),
    ],
)
def test_what_is_no_condition_is_refused_with_the_place(condition: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        references_in(condition)
