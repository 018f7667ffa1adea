"""The table of an agent's phases: whether it is complete, and whether runs keep to it."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.support.phases import METHODS, check_transitions, traced_run
from tests.support.scenarios import SCENARIOS
from tests.support.scenarios.by_hand import play_by_hand
from understudy.errors import ProtocolViolation
from understudy.orchestration import AgentRun, Ruling
from understudy.orchestration.agent.state import PHASES, Phase
from understudy.orchestration.agent.steps import Step
from understudy.vocabulary.runs.callbacks import Abort, OverrideResponse


def run_in(phase: Phase) -> AgentRun:
    """Return a run in this phase, as the first scenario that visits the phase leaves it."""
    found: list[str] = []

    class Seeker(AgentRun):
        def to_json(self) -> str:
            text = super().to_json()
            if self.state.phase == phase:
                found.append(text)
            return text

    for scenario in SCENARIOS:
        play_by_hand(scenario, Seeker)
        if found:
            return AgentRun.from_json(found[0], scenario.agent.run_spec)
    raise AssertionError(f"no scenario visits the phase {phase}")


def test_the_table_has_every_phase_and_names_only_steps_and_methods_that_exist() -> None:
    phases = set(get_args(Phase))

    assert set(PHASES) == phases
    assert {phase for rule in PHASES.values() for after in rule.moves.values() for phase in after} <= phases
    assert {step for rule in PHASES.values() for step in rule.due} == {step.__name__ for step in get_args(Step)}
    assert {method for rule in PHASES.values() for method in rule.moves} <= set(METHODS)


@pytest.mark.parametrize("phase", PHASES)
def test_a_callback_ends_a_run_in_every_phase_where_the_table_says_so(phase: Phase) -> None:
    for action, after in ((Abort("No."), "failed"), (OverrideResponse("Enough."), "done")):
        run = run_in(phase)
        if "end_by" in PHASES[phase].moves:
            run.end_by(Ruling("Guard", action))
            assert (run.state.phase, after in PHASES[phase].moves["end_by"]) == (after, True)
        else:
            with pytest.raises(ProtocolViolation):
                run.end_by(Ruling("Guard", action))


def test_a_checked_turn_leads_where_any_turn_leads() -> None:
    moves = PHASES["model"].moves

    assert moves["checked_response"] == moves["model_response"]


def test_checked_results_lead_where_any_results_lead() -> None:
    moves = PHASES["tools"].moves

    assert moves["checked_results"] == moves["tool_results"]


def test_every_phase_can_be_reached_from_the_first_and_only_done_leads_nowhere() -> None:
    reached: set[Phase] = set()
    found: set[Phase] = {"model"}
    while found - reached:
        reached |= found
        found = {after for phase in reached for phases in PHASES[phase].moves.values() for after in phases}

    assert reached == set(PHASES)
    assert [phase for phase, rule in PHASES.items() if not rule.moves] == ["done"]


def test_the_scenarios_make_only_transitions_of_the_table_and_visit_every_phase() -> None:
    machine, transitions = traced_run()

    for scenario in SCENARIOS:
        play_by_hand(scenario, machine)

    check_transitions(transitions)
    assert {after for _, _, after in transitions} == set(PHASES)
