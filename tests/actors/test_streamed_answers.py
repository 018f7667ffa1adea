"""Typed answers that are shown while the model writes them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

import understudy as us
from tests.support.scripts import WAIT
from tests.support.streaming import Tap, streaming_clerk, text_turn


class Order(BaseModel):
    sku: str
    notes: list[str] = []


LINES = ['{"sku": "A', '-113", "not', 'es": ["to', "day", '", "quick"]}']


def in_step(turn: Sequence[us.Piece], **options: Any) -> list[object]:
    """Run a typed agent whose model waits for the reader after each piece; return the answers that it showed."""
    tap = Tap(turn)
    tap.let()
    handle = streaming_clerk(tap, **options).submit("go")
    shown: list[object] = []
    for event in handle.events():
        if isinstance(event, us.PartialOutput):
            shown.append(event.output)
        if isinstance(event, us.TextDelta | us.ToolCallDelta):
            tap.let()
    return [*shown, handle.result(WAIT).output]


@pytest.mark.parametrize(
    ("output_type", "texts", "expected"),
    [
        (
            Order,
            LINES,
            [
                Order(sku="A"),
                Order(sku="A-113"),
                Order(sku="A-113", notes=["to"]),
                Order(sku="A-113", notes=["today"]),
                Order(sku="A-113", notes=["today", "quick"]),
            ],
        ),
        (list[int], ['{"answer": [1', "2, 3", "]}"], [[1], [12, 3]]),
        (
            us.JsonSchema({"type": "object", "required": ["a"]}),
            ['{"b": 1,', '"a": "x', 'y"}'],
            [{"b": 1, "a": "x"}, {"b": 1, "a": "xy"}],
        ),
    ],
)
@pytest.mark.parametrize("mode", ["native", "tool"])
def test_an_answer_is_shown_as_far_as_it_fits_its_type(
    output_type: Any, texts: list[str], expected: list[object], mode: Any
) -> None:
    as_text: list[us.Piece] = [*(us.TextPiece(text) for text in texts), us.TurnEnd()]
    as_call: list[us.Piece] = [
        us.CallPiece(name="final_answer"),
        *(us.CallPiece(0, text) for text in texts),
        us.TurnEnd(),
    ]

    told = in_step(as_text if mode == "native" else as_call, output_type=output_type, output_mode=mode)

    assert [each for n, each in enumerate(told) if each not in told[:n]] == expected


def test_thoughts_before_an_answer_are_no_part_of_it() -> None:
    told = in_step(text_turn("<think>maybe {x}", "</think>", '{"sku": "A', '-113"}'), output_type=Order)

    assert [each for n, each in enumerate(told) if each not in told[:n]] == [Order(sku="A"), Order(sku="A-113")]


def test_a_validator_that_fails_at_a_part_of_an_answer_shows_nothing() -> None:
    class Strict(BaseModel):
        sku: Annotated[str, AfterValidator(lambda sku: sku if sku == "A-113" else 1 / 0)]

    assert in_step(text_turn('{"sku": "A', "-1", '13"', "}"), output_type=Strict)[-1] == Strict(sku="A-113")


def test_a_turn_without_text_that_is_rejected_is_taken_back() -> None:
    rail = us.OutputGuardrail("polite", lambda _, text: "rude" if "A-1" in text else None)
    turn = [us.CallPiece(name="final_answer"), us.CallPiece(0, '{"sku": "A-1"}'), us.TurnEnd()]
    handle = streaming_clerk(turn, output_type=Order, output_mode="tool", callbacks=[rail]).submit("go")

    assert isinstance(handle.exception(WAIT), us.CallbackAbort)
    assert [event.by for event in handle.events() if isinstance(event, us.TurnDropped)] == ["polite"]


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, KeyboardInterrupt, BaseException])
def test_a_validator_that_raises_an_exit_does_not_end_the_loop_of_a_reader(kind: type[BaseException]) -> None:
    """As in a blocking run, only the whole answer counts. A Ctrl-C is delivered to the main thread, which is let through there."""

    def check(sku: str) -> str:
        if sku != "A-113":
            raise kind
        return sku

    class Strict(BaseModel):
        sku: Annotated[str, AfterValidator(check)]

    shown: list[object] = []
    reader = threading.Thread(
        target=lambda: shown.extend(in_step(text_turn('{"sku": "A', "-1", '13"', "}"), output_type=Strict))
    )
    reader.start()
    reader.join(WAIT)

    assert shown[-1] == Strict(sku="A-113")
