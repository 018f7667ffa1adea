"""The pieces of a streamed turn, put together."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy as us

WORDS = st.text(max_size=20)
SIGNATURES = st.none() | st.text(min_size=1, max_size=5)
ARGUMENTS = st.dictionaries(WORDS, st.none() | st.booleans() | st.integers() | WORDS, max_size=3)
CITATIONS = st.lists(st.builds(us.Citation, WORDS), max_size=3).map(tuple)
TEXTS = st.builds(us.TextPart, WORDS, SIGNATURES, citations=CITATIONS)
REASONINGS = st.builds(us.ReasoningPart, WORDS, SIGNATURES, SIGNATURES)
CALLS = st.builds(us.ToolCall, WORDS, st.text(min_size=1, max_size=5), ARGUMENTS, signature=SIGNATURES)
WHOLES = st.builds(us.OpaquePart, ARGUMENTS) | st.builds(us.MetadataPart, ARGUMENTS)
USAGE = us.Usage(10, 5)


def cut(text: str, at: list[int]) -> list[str]:
    """Return the text in pieces, some of them empty."""
    places = sorted({min(each, len(text)) for each in at})
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def pieces_of(part: us.Part, number: int, at: list[int]) -> list[us.Piece]:
    match part:
        case us.TextPart(text, signature, citations=citations):
            words: list[us.Piece] = [us.TextPiece(each, number, signature) for each in cut(text, at)]
            return [*words, *[us.TextPiece("", number, citations=(each,)) for each in citations]]
        case us.ReasoningPart(text, signature, redacted):
            *first, last = cut(text, at)
            signed = us.ReasoningPiece(last, number, signature, redacted)
            return [*(us.ReasoningPiece(each, number) for each in first), signed]
        case us.ToolCall():
            texts = cut(json.dumps(part.arguments), at)
            named = us.CallPiece(number, id=part.id, name=part.name, signature=part.signature)
            return [named, *(us.CallPiece(number, each) for each in texts)]
        case us.OpaquePart() | us.MetadataPart():
            return [us.WholePiece(part, number)]
        case _:
            raise AssertionError(part)


@given(
    parts=st.lists(TEXTS | REASONINGS | CALLS | WHOLES, max_size=5),
    at=st.lists(st.integers(0, 30), max_size=6),
    shuffled=st.randoms(use_true_random=False),
)
def test_pieces_give_the_turn_that_was_cut_into_them(parts: list[us.Part], at: list[int], shuffled: Any) -> None:
    lines = [pieces_of(part, number, at) for number, part in enumerate(parts)]
    assembler = us.TurnAssembler()

    while any(lines):  # pieces of different parts may come in turns
        assembler.add(shuffled.choice([line for line in lines if line]).pop(0))
    assembler.add(us.TurnEnd(usage=USAGE, model="large", response_id="r-1", dialect="openai"))

    reason: Literal["tool_calls", "stop"] = (
        "tool_calls" if any(isinstance(part, us.ToolCall) for part in parts) else "stop"
    )
    assert assembler.turn() == us.ModelTurn(
        tuple(parts), USAGE, reason, reason, dialect="openai", model="large", response_id="r-1"
    )


def test_parts_of_one_number_stand_with_reasoning_first_then_text_then_calls() -> None:
    assembler = us.TurnAssembler()

    for piece in (us.CallPiece(name="look"), us.TextPiece("Let me see."), us.ReasoningPiece("Hm."), us.TurnEnd()):
        assembler.add(piece)

    assert assembler.turn().parts == (us.ReasoningPart("Hm."), us.TextPart("Let me see."), us.ToolCall("", "look"))


@pytest.mark.parametrize(
    ("last", "counted"),
    [(us.TurnEnd(), us.Usage(7, 3)), (us.TurnEnd(usage=us.Usage(8, 4)), us.Usage(8, 4))],
)
def test_the_last_count_of_tokens_holds(last: us.TurnEnd, counted: us.Usage) -> None:
    assembler = us.TurnAssembler()

    for piece in (us.UsagePiece(us.Usage(7, 1)), us.TextPiece("a"), us.UsagePiece(us.Usage(7, 3)), last):
        assembler.add(piece)

    assert assembler.turn().usage == counted


def test_a_call_is_complete_when_a_piece_of_another_part_or_the_end_came() -> None:
    assembler = us.TurnAssembler(tools={"look"})
    found: list[tuple[str, ...]] = []

    for piece in (
        us.CallPiece(0, name="look"),
        us.CallPiece(0, "{}"),
        us.CallPiece(1, name="fly"),
        us.CallPiece(2, '{"a', name="look"),
        us.TurnEnd(),
    ):
        assembler.add(piece)
        found.append(tuple(f"{call.name}" for call in assembler.complete_calls()))

    assert found == [(), (), ("look",), ("look", "fly"), ("look", "fly", "look")]
    assert [(call.name, call.bad_arguments) for call in assembler.invalid_calls()] == [("fly", None), ("look", '{"a')]


def test_a_call_of_an_unknown_tool_is_told_once_its_name_came() -> None:
    assembler = us.TurnAssembler(tools=["look"])
    told: list[int] = []

    for piece in (us.CallPiece(0, '{"a', "1"), us.CallPiece(0, name="fly"), us.CallPiece(1, "{", name="look")):
        assembler.add(piece)
        told.append(len(assembler.invalid_calls()))

    assert told == [0, 1, 1]
    assert us.TurnAssembler().invalid_calls() == ()


def test_a_partial_turn_is_an_answer_if_its_reader_says_so() -> None:
    assembler = us.TurnAssembler()
    assembler.add(us.TextPiece("Hel"))
    spec = us.RunSpec.of(us.Agent("clerk", model="rehearsal"))

    run, refused = us.AgentRun(spec, "Hi"), us.AgentRun(spec, "Hi")
    run.model_response(replace(assembler.partial(), finish_reason="stop"))
    refused.model_response(assembler.partial())

    step = run.next_step()
    assert isinstance(step, us.Done)
    assert step.outcome.text == "Hel"
    with pytest.raises(us.BadReply, match="did not come to a known end"):
        refused.next_step()


def test_a_partial_turn_has_what_came_but_no_call_that_is_still_written() -> None:
    assembler = us.TurnAssembler()

    for piece in (
        us.UsagePiece(USAGE),
        us.TextPiece("I loo"),
        us.CallPiece(0, "{}", "1", "look"),
        us.CallPiece(1, '{"x"'),
    ):
        assembler.add(piece)

    assert not assembler.is_complete
    assert assembler.partial("openai") == us.ModelTurn(
        (us.TextPart("I loo"), us.ToolCall("1", "look")), USAGE, "other", dialect="openai"
    )


@pytest.mark.parametrize(("texts", "text"), [(("\ud83d", "\ude00"), "\U0001f600"), (("a\ud83d", "b"), "a\ud83db")])
def test_the_two_halves_of_a_character_are_joined(texts: tuple[str, ...], text: str) -> None:
    assembler = us.TurnAssembler()
    for each in texts:
        assembler.add(us.TextPiece(each))
    assembler.add(us.TurnEnd())

    assert assembler.turn().text == text


def test_a_turn_without_its_end_is_no_turn() -> None:
    assembler = us.TurnAssembler()
    assembler.add(us.TextPiece("The answer is 4"))

    with pytest.raises(ValueError, match="the turn has no end: a TurnEnd must be the last piece"):
        assembler.turn()


def test_a_call_that_never_got_a_name_is_an_error() -> None:
    assembler = us.TurnAssembler()
    assembler.add(us.CallPiece(arguments="{}"))
    assembler.add(us.TurnEnd())

    with pytest.raises(ValueError, match="a call of the turn has no name"):
        assembler.turn()


def test_nothing_is_added_after_the_end() -> None:
    assembler = us.TurnAssembler()
    assembler.add(us.TurnEnd())

    with pytest.raises(ValueError, match="the turn has ended, and TextPiece came after its end"):
        assembler.add(us.TextPiece("more"))


WRONG: list[Any] = [
    None,
    "Hello",
    us.TextPart("Hello"),
    us.TextPiece(None),  # type: ignore[arg-type]
    us.TextPiece("a", signature=b"s"),  # type: ignore[arg-type]
    us.TextPiece("a", "first"),  # type: ignore[arg-type]
    us.TextPiece("a", citations=[us.Citation()]),  # type: ignore[arg-type]
    us.TextPiece("a", citations=({"url": "u"},)),  # type: ignore[arg-type]
    us.ReasoningPiece(1),  # type: ignore[arg-type]
    us.ReasoningPiece("a", redacted=1),  # type: ignore[arg-type]
    us.CallPiece(arguments={"a": 1}),  # type: ignore[arg-type]
    us.CallPiece(name=None),  # type: ignore[arg-type]
    us.UsagePiece({"input_tokens": 1}),  # type: ignore[arg-type]
    us.TurnEnd(usage=None),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_what_is_no_piece_is_refused_and_changes_nothing(wrong: Any) -> None:
    assembler = us.TurnAssembler()
    assembler.add(us.TextPiece("Hello"))

    with pytest.raises(TypeError, match=r"got|must be"):
        assembler.add(wrong)

    assert not assembler.is_complete
    assert assembler.partial().text == "Hello"


def test_names_of_tools_are_a_collection() -> None:
    with pytest.raises(TypeError, match="a collection of names, got the text 'look'"):
        us.TurnAssembler("look")
