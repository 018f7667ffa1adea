"""The rules of a run, each on threads."""

from __future__ import annotations

import pytest

from tests.support.scenarios import SCENARIOS
from tests.support.scenarios.by_hand import play_by_hand
from tests.support.scenarios.on_threads import play_on_threads
from tests.support.scenarios.scenario import Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_run_on_threads_comes_to_what_its_machine_comes_to(scenario: Scenario) -> None:
    by_hand, played = play_by_hand(scenario), play_on_threads(scenario)

    scenario.check(played)
    if played.error is None:
        assert played == by_hand
    else:
        assert played.history == by_hand.history[: len(played.history)]
        assert played.steps == by_hand.steps
