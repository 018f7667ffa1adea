"""What holds for merged futures whatever becomes of their members, in whatever order; next to a model of a few lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from tests.support.promises import FakeFuture, promises

Told: TypeAlias = int | str
"""What became of a promise: its value, which is its number, or the words of its error."""

Verdict: TypeAlias = Told | Sequence[Told] | None
"""What became of a merged future; None while it is open."""


@dataclass(frozen=True)
class Event:
    """Something that happens to one of the promises, or to the whole."""

    promise: int
    kind: Literal["value", "error", "cancel", "cancel the whole"]


@dataclass(frozen=True)
class Case:
    """Which promise stands in which place, what happened before they were merged, and what happens then."""

    number: int
    places: list[int]
    before: list[Event]
    after: list[Event]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    number = draw(st.integers(1, 5))
    some = st.integers(0, number - 1)
    own = st.builds(Event, some, st.sampled_from(["value", "value", "error", "cancel"]))
    any_ = st.builds(Event, some, st.sampled_from(["value"] * 3 + ["error"] * 3 + ["cancel", "cancel the whole"]))
    return Case(
        number,
        draw(st.lists(some, min_size=1, max_size=7)),
        draw(st.lists(own, max_size=5)),
        draw(st.lists(any_, max_size=10)),
    )


# --- the models: from what is known of each place, in order; one thing happens at a time


def collected(told: Sequence[Told | None]) -> Verdict:
    errors = [one for one in told if isinstance(one, str)]
    return errors[0] if errors else with_errors(told)


def with_errors(told: Sequence[Told | None]) -> Verdict:
    known = [one for one in told if one is not None]
    return known if len(known) == len(told) else None


def raced(told: Sequence[Told | None]) -> Verdict:
    values = [one for one in told if isinstance(one, int)]
    return values[0] if values else with_errors(told)


def follow(model: dict[int, Told], event: Event) -> None:
    """Let an event happen in the model; the first one stands."""
    told: dict[str, Told] = {"value": event.promise, "error": f"error {event.promise}", "cancel": "cancelled"}
    model.setdefault(event.promise, told[event.kind])


# --- the real ones, in the models' words


def collect(parts: list[FakeFuture[int]]) -> us.Future[object]:
    return us.collect(parts)


def collect_with_errors(parts: list[FakeFuture[int]]) -> us.Future[object]:
    return us.collect(parts, keep_errors=True)


def first(parts: list[FakeFuture[int]]) -> us.Future[object]:
    return us.first(parts)


def happen(parts: list[FakeFuture[int]], event: Event) -> None:
    part = parts[event.promise]
    match event.kind:
        case "value":
            part.set(event.promise)
        case "error":
            part.fail(LookupError(f"error {event.promise}"))
        case _:
            part.cancel()


def words(error: BaseException) -> str:
    return "cancelled" if isinstance(error, CancelledError) else str(error)


def told_of(part: FakeFuture[int]) -> Told | None:
    if not part.done():
        return None
    error = part.exception(0)
    return part.result(0) if error is None else words(error)


def verdict_of(whole: us.Future[object]) -> Verdict:
    if not whole.done():
        return None
    error = whole.exception(0)
    if isinstance(error, BaseExceptionGroup):
        return [words(cause) for cause in cast("BaseExceptionGroup[BaseException]", error).exceptions]
    if error is not None:
        return words(error)
    value = whole.result(0)
    if isinstance(value, int):
        return value
    return [words(one) if isinstance(one, BaseException) else one for one in cast("list[int | BaseException]", value)]


@pytest.mark.parametrize(
    ("merge", "model"),
    [
        (collect, collected),
        (collect_with_errors, with_errors),
        (first, raced),
    ],
    ids=["collect", "collect with errors", "first"],
)
@settings(deadline=None, max_examples=40)  # how long an example takes says something about the machine only
@given(case=cases())
def test_a_merged_future_does_what_its_model_does(
    merge: Callable[[list[FakeFuture[int]]], us.Future[object]],
    model: Callable[[Sequence[Told | None]], Verdict],
    case: Case,
) -> None:
    parts, known, heard = promises(case.number), dict[int, Told](), list[Verdict]()
    expected: Verdict = None

    def settle(verdict: Verdict) -> None:
        """End the whole in the model, unless it has ended: whoever is not done is cancelled."""
        nonlocal expected
        if expected is None and verdict is not None:
            expected = verdict
            for place in case.places:
                known.setdefault(place, "cancelled")

    for event in case.before:
        happen(parts, event)
        follow(known, event)
    whole = merge([parts[place] for place in case.places])
    whole.add_done_callback(lambda future: heard.append(verdict_of(future)))
    settle(model([known.get(place) for place in case.places]))

    for event in case.after:
        if event.kind == "cancel the whole":
            assert whole.cancel() is (expected is None)
            settle("cancelled")
        else:
            happen(parts, event)
            follow(known, event)
            settle(model([known.get(place) for place in case.places]))

        assert verdict_of(whole) == expected
        assert [told_of(part) for part in parts] == [known.get(n) for n in range(case.number)]

    assert heard == ([] if expected is None else [expected])
