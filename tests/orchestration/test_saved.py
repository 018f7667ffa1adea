"""Paused runs as text."""

from __future__ import annotations

from datetime import datetime
from typing import cast

import pytest

from understudy.orchestration.saving.saved_run import SavedRun
from understudy.vocabulary.context.artifacts import Artifact
from understudy.vocabulary.messages import JsonValue

RUN = SavedRun(
    run_id="shop-1",
    runner_id="clerk",
    input="Refund order 7",
    machine='{"format": 1}',
    session={"customer": "ada", "basket": [1, 2.5, None, {"sku": "é\u2028"}]},
    user_id="u-1",
    conversation_id="c-42",
    artifacts=(Artifact("artifact-2", "pages", "call-1", "long"), Artifact("artifact-3", "pages", "call-2", "longer")),
)


def test_a_saved_run_comes_back_as_it_was() -> None:
    assert SavedRun.from_json(RUN.to_json()) == RUN


def test_a_run_that_was_saved_before_artifacts_were_has_none() -> None:
    text = '{"format": 1, "run_id": "shop-1", "runner_id": "clerk", "input": "go", "machine": "{}"}'

    assert SavedRun.from_json(text).artifacts == ()


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


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), r"session\['db'\] is of type object"),
        ({"at": datetime.now()}, r"session\['db'\]\['at'\] is of type datetime"),
        ([1, {"a": b"raw"}], r"session\['db'\]\[1\]\['a'\] is of type bytes"),
        ({1: "one"}, r"session\['db'\] has the key 1"),
        ([float("nan")], r"session\['db'\]\[0\] is nan"),
        (CIRCLE, r"session\['db'\].* is nested more than 100 deep"),
    ],
)
def test_a_session_that_json_cannot_carry_is_refused_by_its_key(value: object, says: str) -> None:
    run = SavedRun(run_id="shop-1", runner_id="clerk", input="", machine="", session={"db": cast(JsonValue, value)})

    with pytest.raises(TypeError, match=f"run shop-1: {says}.*, which JSON cannot carry"):
        run.to_json()


def test_half_a_surrogate_pair_comes_back_as_it_was() -> None:
    session: dict[str, JsonValue] = {"word": "\ud83d", "\udc80": ["\udc80", {"a": 1.5}]}
    run = SavedRun(run_id="shop-1", runner_id="clerk", input="caf\udce9", machine="{}", session=session)

    assert SavedRun.from_json(run.to_json()) == run


def test_two_halves_side_by_side_are_refused_for_json_would_join_them() -> None:
    run = SavedRun(run_id="shop-1", runner_id="clerk", input="", machine="{}", session={"word": "\ud83d\ude00"})

    with pytest.raises(ValueError, match="two halves of a surrogate pair"):
        run.to_json()
