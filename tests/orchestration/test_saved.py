"""Paused runs as text."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import datetime
from itertools import count, pairwise
from typing import Any, cast

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


def waiting(*inside: SavedRun, of_agent: bool, **about: Any) -> SavedRun:
    """Return a run that waits because runs inside of it do."""
    children: list[Any] = [{"saved": each.to_json(), "pauses": []} for each in inside]
    if of_agent:
        state: Any = {"round": {"children": {f"c{at}": each for at, each in enumerate(children)}}, "messages": []}
    else:
        state = {"children": [{"paused": None}, *[{"paused": each} for each in children]]}
    machine = json.dumps({"format": 1, "state": state}, ensure_ascii=False, separators=(",", ":"))
    return replace(RUN, machine=machine, **about)


def inside_of(run: SavedRun) -> list[SavedRun]:
    state = json.loads(run.machine)["state"]
    children = state["round"]["children"].values() if "round" in state else [c["paused"] for c in state["children"][1:]]
    return [SavedRun.from_json(each["saved"]) for each in children]


def told(run: SavedRun) -> Any:
    """Return a run with those inside of it, as data."""
    inside = [told(each) for each in inside_of(run)] if '"state"' in run.machine else [run.machine]
    return replace(run, machine=""), inside


@pytest.mark.parametrize("seed", range(20))
def test_runs_that_wait_inside_of_others_come_back_as_they_were(seed: int) -> None:
    chance = random.Random(seed)
    ids = count(1)

    def tree(depth: int) -> SavedRun:
        if not depth or chance.random() < 0.2:
            return replace(RUN, run_id=f"leaf-{next(ids)}", input='quotes "\\" and half \ud83d', session={"inside": []})
        return waiting(*[tree(depth - 1) for _ in range(chance.randint(1, 3))], of_agent=chance.random() < 0.5)

    run = waiting(tree(4), tree(2), of_agent=False)

    again = SavedRun.from_json(run.to_json())

    assert told(again) == told(run)


def test_each_level_adds_about_the_same_to_the_text_of_a_run() -> None:
    run, sizes = RUN, list[int]()
    for depth in range(32):
        run = waiting(run, of_agent=depth % 2 == 0)
        sizes.append(len(run.to_json()))

    assert max(after - before for before, after in pairwise(sizes[1:])) <= 1.2 * (sizes[2] - sizes[1])


@pytest.mark.parametrize("inside", ["1", "[]", "[1]", '[{"run": {}}]', '[{"run": {"machine": "{}"}, "below": "x"}]'])
def test_a_text_whose_runs_inside_are_missing_is_no_saved_run(inside: str) -> None:
    text = waiting(RUN, of_agent=True).to_json()
    start = text.index('"inside":') + len('"inside":')

    with pytest.raises(ValueError, match="not a saved run"):
        SavedRun.from_json(f"{text[:start]}{inside}}}")
