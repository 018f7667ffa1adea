"""Every schedule tried keeps what the models promise, and what is wrong on purpose is found."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from .models import MODELS
from .mutants import BOUND, MUTANTS, Mutant
from .search import Granularity, Model, Schedule, follow, kept, search

TRIED: dict[Granularity, int] = {"line": 100, "opcode": 20}  # A minute of CPU time for all models.
MORE = int(os.environ.get("INTERLEAVINGS", "1"))  # How many times as many, from another seed.

KEPT = kept()

each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
each_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


def elsewhere(schedule: Schedule) -> bool:
    """Whether the schedule is told by instructions that this Python does not have."""
    ours = platform.python_version_tuple()[:2]
    return schedule.granularity == "opcode" and tuple(schedule.python.split("."))[:2] != ours


@pytest.mark.timeout(120 * MORE)
@pytest.mark.parametrize("granularity", TRIED)
@each_model
def test_no_schedule_breaks_what_the_model_promises(model: Model, granularity: Granularity) -> None:
    found = search(model, schedules=TRIED[granularity] * MORE, seed=MORE, granularity=granularity)

    if found is not None:
        pytest.fail(f"kept in {found.schedule.keep()}\n{found.story}")


@pytest.mark.parametrize(
    ("mutant", "model"),
    [
        pytest.param(mutant, model, id=f"{mutant.name}-{model.__name__}")
        for mutant in MUTANTS
        for model in mutant.models
    ],
)
def test_the_search_finds_the_mistake(mutant: Mutant, model: Model) -> None:
    with mutant.applied():
        tries = (search(model, schedules=BOUND // 3, seed=seed, granularity=mutant.granularity) for seed in range(3))
        found = next(filter(None, tries), None)

    assert found is not None, f"not in {BOUND} schedules"


@pytest.mark.parametrize("schedule", KEPT, ids=lambda schedule: schedule.mutant or schedule.model)
def test_a_kept_schedule_no_longer_fails(schedule: Schedule) -> None:
    (model,) = [model for model in MODELS if model.__name__ == schedule.model]

    followed = follow(model, schedule)

    assert not followed.failed, followed.story
    assert followed.preempted > 0 or elsewhere(schedule), "the code has changed: record the schedule again, or drop it"


@each_mutant
def test_the_kept_schedule_of_a_mistake_still_fails_with_it(mutant: Mutant) -> None:
    (schedule,) = [schedule for schedule in KEPT if schedule.mutant == mutant.name]
    if elsewhere(schedule):
        pytest.skip(f"told by the instructions of Python {schedule.python}")

    with mutant.applied():
        followed = follow(mutant.models[0], schedule)

    assert followed.failed, "record it again: python -m tests.interleavings"


def test_a_schedule_that_is_kept_and_read_again_is_the_same(tmp_path: Path) -> None:
    with MUTANTS[0].applied():
        found = search(MUTANTS[0].models[0], schedules=BOUND, granularity="line")
    assert found is not None

    path = found.schedule.keep(tmp_path)

    assert kept(tmp_path) == [found.schedule]
    assert path.name.startswith(
        MUTANTS[0].models[0].__name__
    )  # the code as it stands failed, so it is named after the model


def test_each_model_has_a_mistake_that_it_must_find() -> None:
    assert {model for mutant in MUTANTS for model in mutant.models} == set(MODELS)
