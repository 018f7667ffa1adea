"""JSON found in what a model said: the one value that is meant, or none."""

from __future__ import annotations

import json

import pytest

from understudy.vocabulary.json_text import json_in

VALUE = '{"label": "spam", "score": 0.5}'


@pytest.mark.parametrize(
    "text",
    [
        VALUE,
        f"\n  {VALUE}\n",
        f"```json\n{VALUE}\n```",
        f"```\n{VALUE}\n```",
        f"Sure! Here it is:\n\n```JSON\n{VALUE}\n```\nAnything else?",
        f"```json\r\n{VALUE}\r\n```",
        f"The verdict is {VALUE}, I think.",
        f"```python\nprint({{}})\n```\n```json\n{VALUE}\n```",
        f"{VALUE}\n```",
        f"<think>no braces</think>\n{VALUE}",
        f"<think>maybe {{x}}, or {{'label': 1}}</think>\n```json\n{VALUE}\n```",
        f"maybe {{x}}, which the template began\n</think>\n\nSo: {VALUE}",
        f"<think>{VALUE} or not</think>{VALUE}",
    ],
)
def test_the_one_value_is_found(text: str) -> None:
    assert json.loads(json_in(text)) == {"label": "spam", "score": 0.5}


@pytest.mark.parametrize("text", ["7", '"spam"', "null", "[1, 2]", "true"])
def test_a_text_that_is_json_may_be_any_value(text: str) -> None:
    assert json_in(text) == text


def test_the_end_of_thoughts_inside_of_a_value_is_a_part_of_it() -> None:
    value = '{"tag": "</think>"}'

    assert json_in(value) == value


def test_backticks_inside_of_a_string_do_not_end_a_block() -> None:
    value = '{"code": "```py\\nx\\n```"}'

    assert json_in(f"```json\n{value}\n```") == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the answer is empty"),
        (" \n", "the answer is empty"),
        (f"<think>perhaps {VALUE}", "ends within its thoughts"),
        (f"<think>perhaps {VALUE}</think>", "the answer is empty"),
        ("Spam, I think.", "the answer is not JSON: Expecting value"),
        (f"{VALUE} or {VALUE}", "more than one JSON value"),
        (f"{VALUE} [1]", "more than one JSON value"),
        (f"```json\n{VALUE}\n```\n```json\n{VALUE}\n```", "holds 2 blocks of JSON"),
    ],
)
def test_what_is_no_value_or_several_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        json_in(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"child": {"label": "spam", "score": 0.5}, "label": "h',
        '```json\n{"child": {"label": "spam", "score": 0.5}, "label": "h',
        '[{"label": "spam", "score": 0.5}, {"label"',
        'Here: {\'label\': {"label": "spam", "score": 0.5}}',
    ],
)
def test_a_piece_of_an_answer_that_was_cut_off_is_not_taken_for_the_answer(text: str) -> None:
    with pytest.raises(ValueError, match="is not JSON"):
        json_in(text)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "Look: " + "[" * 100_000])
def test_brackets_without_end_do_not_exhaust_the_stack(text: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply|is not JSON"):
        json_in(text)
