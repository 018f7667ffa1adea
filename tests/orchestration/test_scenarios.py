"""The rules of a run, each driven by hand and by its events."""

from __future__ import annotations

import pytest

from tests.support.scenarios import SCENARIOS
from tests.support.scenarios.by_hand import play_by_hand
from tests.support.scenarios.by_line import play_by_line
from tests.support.scenarios.scenario import Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_machine_keeps_to_the_rule(scenario: Scenario) -> None:
    played = play_by_hand(scenario)

    scenario.check(played)
    scenario.check_history(played.history)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_what_is_due_by_the_events_keeps_to_the_rule(scenario: Scenario) -> None:
    played = play_by_line(scenario)

    scenario.check(played)
    assert played == play_by_hand(scenario)


def test_no_rule_is_told_twice() -> None:
    names = [scenario.name for scenario in SCENARIOS]

    assert len(set(names)) == len(names)
