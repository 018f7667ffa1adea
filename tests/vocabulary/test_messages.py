"""Messages, model turns, usage and settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from pydantic import TypeAdapter

from understudy.vocabulary.message_json import without_halves
from understudy.vocabulary.messages import (
    Message,
    ModelRequest,
    ModelTurn,
    Part,
    ReasoningPart,
    Settings,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
    calls,
    says,
    user_message,
)

CALL = ToolCall("a", "look", {"sku": "A-113"})
RESULT = ToolResult("a", "7")


def test_a_message_s_text_is_its_text_parts_and_nothing_else() -> None:
    message = Message("assistant", (ReasoningPart("Hm."), TextPart("Sev"), CALL, TextPart("en.")))

    assert message.text == "Seven."
    assert message.tool_calls == (CALL,)
    assert message.tool_results == ()


def test_a_user_s_message_is_made_from_text_or_from_parts() -> None:
    assert user_message("Hi") == Message("user", (TextPart("Hi"),))
    assert user_message([TextPart("Hi"), RESULT]) == Message("user", (TextPart("Hi"), RESULT))


def test_a_request_brings_the_results_and_the_text_of_its_last_message() -> None:
    first, last = user_message("Hi"), Message("user", (RESULT, TextPart("So?")))

    assert ModelRequest([first, last]).tool_results == (RESULT,)
    assert ModelRequest([first, last]).text == "So?"
    assert ModelRequest([last, first]).tool_results == ()
    assert (ModelRequest([]).text, ModelRequest([]).tool_results) == ("", ())


# --- turns


def test_says_makes_a_turn_of_text() -> None:
    assert says("Seven.", usage=Usage(1, 2)) == ModelTurn((TextPart("Seven."),), Usage(1, 2), "stop", "stop")


def test_calls_makes_a_turn_of_one_call_without_an_id() -> None:
    assert calls("look", sku="A-113", name="x") == ModelTurn(
        (ToolCall("", "look", {"sku": "A-113", "name": "x"}),), Usage(), "tool_calls", "tool_calls"
    )


def test_turns_add_up_to_one() -> None:
    turn = says("Let me look.", usage=Usage(1)) + calls("look") + calls("find")

    assert turn.parts == (TextPart("Let me look."), ToolCall("", "look"), ToolCall("", "find"))
    assert (turn.usage, turn.finish_reason) == (Usage(1), "tool_calls")
    assert (says("a") + says("b")).finish_reason == "stop"
    assert (calls("look") + says("b")).finish_reason == "tool_calls"


def test_parts_may_be_given_as_a_list() -> None:
    turn = ModelTurn([TextPart("Seven.")], Usage(1))
    message = Message("user", cast(Any, [TextPart("Seven.")]))

    assert turn == ModelTurn((TextPart("Seven."),), Usage(1))
    assert (turn.parts, message.parts) == ((TextPart("Seven."),),) * 2
    assert (turn + says("!")).text == "Seven.!"
    assert replace(turn, parts=cast(Any, [TextPart("Six.")])).parts == (TextPart("Six."),)


def test_thinking_is_not_text() -> None:
    turn = ModelTurn((ReasoningPart("H"), TextPart("Seven."), ReasoningPart("m.")))

    assert (turn.thinking, turn.text, turn.tool_calls) == ("Hm.", "Seven.", ())


# --- usage


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Usage(), Usage(), Usage()),
        (Usage(1, 2, 3, 4, 5), Usage(10, 20, 30, 40, 50), Usage(11, 22, 33, 44, 55)),
        (Usage(1), Usage(None, 2), Usage(1, 2)),
        (Usage(0), Usage(None), Usage(0)),
    ],
)
def test_usage_adds_field_by_field_and_what_nobody_reported_stays_none(one: Usage, other: Usage, both: Usage) -> None:
    assert one + other == both
    assert other + one == both


def test_a_sum_has_no_counts_of_a_provider_s_own() -> None:
    assert (Usage(1, raw={"prompt": 1}) + Usage(1, raw={"prompt": 1})).raw == {}


@pytest.mark.parametrize(
    ("usage", "total"),
    [(Usage(), None), (Usage(3), 3), (Usage(None, 4), 4), (Usage(3, 4, 2, 1, 1), 7), (Usage(0, 0), 0)],
)
def test_the_total_is_input_and_output_and_counts_no_token_twice(usage: Usage, total: int | None) -> None:
    assert usage.total_tokens == total


# --- JSON by pydantic, as a memory of a user's own writes it

HALF, KEPT = "caf\udce9", "caf\ufffd"


@pytest.mark.parametrize(
    ("part", "comes_back"),
    [
        (TextPart("é\U0001f600"), TextPart("é\U0001f600")),
        (TextPart(HALF), TextPart(KEPT)),
        (ToolResult("c", HALF, name="look"), ToolResult("c", KEPT, name="look")),
        (ToolCall("c", "look", {HALF: 1}), ToolCall("c", "look", {KEPT: 1})),
        (ToolCall("c", "look", {"a": {HALF: [HALF, 1.5]}}), ToolCall("c", "look", {"a": {KEPT: [KEPT, 1.5]}})),
    ],
)
def test_a_message_is_json_with_a_mark_for_half_a_surrogate_pair(part: Part, comes_back: Part) -> None:
    messages, given = TypeAdapter(list[Message]), [Message("user", (part,), dialect="openai")]

    assert messages.validate_json(messages.dump_json(given)) == [Message("user", (comes_back,), dialect="openai")]
    assert messages.validate_python(messages.dump_python(given)) == given  # only JSON needs the mark
    assert messages.json_schema(mode="serialization") == messages.json_schema(mode="validation")


class Note(TextPart):
    """A subclass of a user's own, which takes something else than its fields."""

    def __init__(self, words: int) -> None:
        super().__init__("word " * words + HALF)


def test_a_part_of_a_subclass_is_json_too_and_a_message_without_a_half_is_not_copied() -> None:
    messages, whole = TypeAdapter(list[Message]), Message("user", (TextPart("é"), RESULT, CALL))

    assert messages.validate_json(messages.dump_json([Message("user", (Note(1),))]))[0].text == f"word {KEPT}"
    assert without_halves(whole) is whole


# --- settings


def test_settings_leave_everything_to_the_provider() -> None:
    settings = Settings()

    assert (settings.temperature, settings.max_tokens, settings.top_p, settings.seed) == (None, None, None, None)
    assert (settings.stop, settings.tool_choice, settings.parallel_tool_calls) == ((), "auto", None)


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_max_tokens_must_be_at_least_one(max_tokens: int) -> None:
    with pytest.raises(ValueError, match=f"max_tokens must be at least 1, got {max_tokens}"):
        Settings(max_tokens=max_tokens)


def test_a_temperature_of_zero_is_one_and_a_negative_one_is_not() -> None:
    assert Settings(temperature=0.0).temperature == 0.0
    with pytest.raises(ValueError, match="temperature must not be negative"):
        Settings(temperature=-0.1)


def test_one_string_is_not_taken_for_a_list_of_letters() -> None:
    with pytest.raises(TypeError, match="stop must be a tuple of strings"):
        Settings(stop="END")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake is the point
