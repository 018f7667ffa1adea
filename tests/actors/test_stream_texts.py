"""The text of a streamed run in a plain loop."""

from __future__ import annotations

from typing import Any

import pytest

import understudy as us
from tests.support.streaming import streaming_clerk, text_turn
from tests.support.tools import look

ANSWER: list[us.Piece] = [us.CallPiece(0, '{"answer": 5}', name="final_answer"), us.TurnEnd()]


@pytest.mark.parametrize(
    ("turns", "options", "expected"),
    [
        ([text_turn("Yes: ", "seven.")], {}, ["Yes: seven."]),
        (
            [
                [us.TextPiece("Let me look."), us.CallPiece(0, '{"word": "x"}', "c1", "look"), us.TurnEnd()],
                text_turn("x."),
            ],
            {"tools": [look]},
            ["Let me look.", "x."],
        ),
        ([text_turn("12"), text_turn("34")], {"criteria": [us.KeywordCriteria("D")], "max_continues": 1}, ["12", "34"]),
        ([ANSWER], {"output_type": int, "output_mode": "tool"}, ['{"answer": 5}']),
    ],
    ids=["one turn", "a tool", "incomplete", "a typed answer"],
)
def test_the_text_of_a_run_is_a_plain_loop(turns: Any, options: Any, expected: list[str]) -> None:
    with streaming_clerk(*turns, **options).stream("go") as events:
        told = "".join(events.text())

    assert told.split("\n") == expected


def test_the_text_of_a_group_comes_at_its_end_and_that_of_a_failed_run_with_its_error() -> None:
    group = us.SequentialAgent("g", [streaming_clerk(text_turn("in ", "the end"))])
    assert "".join(group.stream("go", inner=True).text()) == "in the end"

    told: list[str] = []
    with pytest.raises(us.BadReply):
        told.extend(streaming_clerk([us.TextPiece("half"), 3]).stream("go").text())
    assert told == ["half"]
