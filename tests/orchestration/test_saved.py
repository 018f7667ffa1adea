"""Paused runs as text."""

from __future__ import annotations

from typing import cast

import pytest

from understudy.messages import JsonValue
from understudy.orchestration.saved import SavedRun

RUN = SavedRun(
    run_id="shop-1",
    runner_id="clerk",
    input="Refund order 7",
    machine='{"format": 1}',
    session={"customer": "ada", "basket": [1, 2.5, None, {"sku": "é\u2028"}]},
    user_id="u-1",
    conversation_id="c-42",
)


def test_a_saved_run_comes_back_as_it_was() -> None:
    assert SavedRun.from_json(RUN.to_json()) == RUN


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the text"),
        ("[]", "the text"),
        ('{"run_id": "r"}', "runner_id"),
        (RUN.to_json().replace('"format":1', '"format":2', 1), "format 2; this version reads format 1"),
    ],
)
def test_text_that_is_no_saved_run_says_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SavedRun.from_json(text)


def test_a_session_that_json_cannot_carry_is_refused_by_the_runs_name() -> None:
    run = SavedRun(run_id="shop-1", runner_id="clerk", input="", machine="", session={"db": cast(JsonValue, object())})

    with pytest.raises(TypeError, match="run shop-1: its session cannot be saved"):
        run.to_json()
