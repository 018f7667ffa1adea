"""A run that notes how each of its methods changes its phase, and the check of such notes against the table of phases."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction

from understudy.orchestration import AgentRun
from understudy.orchestration.agent.state import PHASES, Phase

Transition = tuple[Phase, str, Phase]
"""The phase before, the method, the phase after."""

METHODS = [name for name, member in vars(AgentRun).items() if isfunction(member) and not name.startswith("_")]


def traced_run() -> tuple[type[AgentRun], set[Transition]]:
    """Return a subclass of `AgentRun`, and the set in which its runs note their transitions."""
    transitions: set[Transition] = set()
    traced = type("TracedRun", (AgentRun,), {name: _traced(name, transitions) for name in METHODS})
    return traced, transitions


def _traced(name: str, transitions: set[Transition]) -> Callable[..., object]:
    def method(run: AgentRun, *args: object, **named: object) -> object:
        before = run.state.phase
        try:
            returned: object = getattr(AgentRun, name)(run, *args, **named)
        finally:
            transitions.add((before, name, run.state.phase))
        if name == "next_step":
            assert type(returned).__name__ in PHASES[run.state.phase].due, (run.state.phase, returned)
        return returned

    return method


def check_transitions(transitions: set[Transition]) -> None:
    """Compare transitions with the table; a method that the table does not name must not change the phase."""
    strange = [each for each in sorted(transitions) if each[2] not in PHASES[each[0]].moves.get(each[1], {each[0]})]
    assert not strange, strange
