"""Reading JSON that others wrote."""

from __future__ import annotations

import json

import pytest

from understudy.vocabulary.json_reading import arguments, arguments_text, parse
from understudy.vocabulary.json_types import JsonObject, JsonValue


@pytest.mark.parametrize(
    "text", ['{"key": "sk-canary', b'"sk-canary \xff"', "[" * 200_000 + '"sk-canary"', '["sk-canary", NaN]']
)
def test_an_error_about_a_text_does_not_hold_the_text(text: str | bytes) -> None:
    with pytest.raises(ValueError) as raised:
        parse(text)

    error: BaseException | None = raised.value
    while error is not None:
        assert "canary" not in f"{error!r} {vars(error)} {getattr(error, 'doc', '')} {getattr(error, 'object', '')}"
        error = error.__cause__ or error.__context__


SPACE = ("", " ", "\t\r\n")
OTHER = ("\xa0", "\x0b", "{}", "1", "}")


@pytest.mark.parametrize("value", ['{"a": 1}', "{}", "[1]", "1"])
@pytest.mark.parametrize("before", SPACE)
@pytest.mark.parametrize("behind", [*SPACE, *OTHER])
def test_only_the_space_of_json_may_stand_around_a_value(before: str, value: str, behind: str) -> None:
    text = before + value + behind
    expected = json.loads(value + behind) if behind in SPACE or (value, behind) == ("1", "1") else None

    for each in (text, text.encode()):
        if expected is None:
            with pytest.raises(ValueError, match="Extra data"):
                parse(each)
        else:
            assert parse(each) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {}),
        ("", {}),
        (" null\n", {}),
        ('{"a": 1}', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('"null"', None),
        ('"a"', None),
        ('"{"', None),
        ("[]", None),
        ([], None),
        (5, None),
        (False, None),
    ],
)
def test_what_a_model_wrote_is_an_object_nothing_or_its_mistake(given: JsonValue, expected: JsonObject | None) -> None:
    found, bad = arguments(given)

    assert (found, bad is None) == (expected or {}, expected is not None)
    assert arguments(arguments_text(given)) == (found, bad)
