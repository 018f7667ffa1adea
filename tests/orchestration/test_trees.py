"""Random trees of runners, driven by hand: saved and loaded at every step, at every level, they come to the same."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.support.tree_plays import Played, answers_for, play
from tests.support.tree_runners import GIVEN, runner_of, tally
from tests.support.trees import Node, trees
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, Pause, PauseAnswer

FAST = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def some_of(chance: Random, pauses: tuple[Pause, ...]) -> dict[str, PauseAnswer]:
    """Answer some of what is asked, at least one thing."""
    chosen = [pause for pause in pauses if chance.random() < 0.5] or [chance.choice(pauses)]
    return answers_for(chosen)


def played(tree: Node, seed: int, *, saving: bool) -> Played:
    chance = Random(seed)
    return play(runner_of(tree), seed, lambda pauses: some_of(chance, pauses), session={GIVEN: 1}, saving=saving)


@FAST
@given(trees(), st.integers(0, 1_000_000))
def test_a_tree_that_is_saved_and_loaded_after_every_step_comes_to_the_same(tree: Node, seed: int) -> None:
    plain, reloading = played(tree, seed, saving=False), played(tree, seed, saving=True)

    event(type(plain.end).__name__)
    event(f"pauses: {min(len(plain.pauses), 3)}")
    assert (type(plain.end), str(plain.end)) == (type(reloading.end), str(reloading.end))
    if isinstance(plain.end, (Complete, Incomplete)) and isinstance(reloading.end, (Complete, Incomplete)):
        assert plain.end == reloading.end
        assert tally(plain.end.tasks) == tally(reloading.end.tasks)
    assert plain.pauses == reloading.pauses
    assert plain.session == reloading.session
    assert (plain.usage, plain.turns) == (reloading.usage, reloading.turns)
    assert plain.told == reloading.told
