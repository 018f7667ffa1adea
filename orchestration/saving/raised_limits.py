"""Raises limits inside of a group: in the saved runs of the children that reached one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.definitions.agent import Agent
from understudy.orchestration.definitions.groups import Group
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.definitions.workflow import Workflow
from understudy.vocabulary.context.budget import Budget

from .machines import Machine, Orchestrator, loaded, runner_at


@dataclass(slots=True, kw_only=True)
class Raising:
    """The limits to raise, and which runs took them."""

    numbers: dict[str, int]
    """Name of an agent's limit -> its new value."""
    budget: Budget | None
    taken: set[str] = field(default_factory=set[str])
    """Names of the limits that a run took; `budget` if the spent budget was a run's own."""
    higher: dict[str, int] = field(default_factory=dict[str, int])
    """Name -> the present value, in a run that did not take the new one."""

    def check(self) -> None:
        """Raise for a limit that no run took.

        Raises:
            ValueError: one is below what it would replace.
        """
        for name, value in self.numbers.items():
            if name not in self.taken:
                raise ValueError(f"{name} can only be raised: it is {self.higher[name]}, got {value}")


def raised_in(group: Orchestrator, machine: Machine, wanted: Raising) -> dict[int, str]:
    """Return the runs of the children that stand at a limit, by position, with the limits raised; changes no machine.

    Raises:
        ValueError: a budget would be lowered, or limits dollars that are not known.
    """
    return {at: _raised(runner_at(group, machine, at), text, wanted) for at, text in machine.limited.items()}


def _raised(runner: Runner[object], text: str, wanted: Raising) -> str:
    from .saved_run import SavedRun

    saved = SavedRun.from_json(text)
    # Loading the group already compared or adopted the definitions of its children.
    if isinstance(runner, Agent):
        run = AgentRun.from_json(saved.machine, runner.run_spec, adopt=True)
        _extend(run, wanted)
        return replace(saved, machine=run.to_json()).to_json()
    assert isinstance(runner, (Group, Workflow))
    inner = loaded(runner, saved.machine, adopt=True)
    inner.go_on(raised_in(runner, inner, wanted))
    return replace(saved, machine=inner.to_json()).to_json()


def _extend(run: AgentRun, wanted: Raising) -> None:
    """Raise the limits of one run; not every run needs each limit."""
    is_now = {name: int(getattr(run.state, name)) for name in wanted.numbers}
    fitting = {name: value for name, value in wanted.numbers.items() if value >= is_now[name]}
    wanted.taken.update(fitting)
    wanted.higher.update(is_now)
    # Loaded alone, the run has no outer account, so a missing budget is its own.
    budget = wanted.budget if run.over_budget() else None
    if budget is not None:
        wanted.taken.add("budget")
    run.extend(
        max_iterations=fitting.get("max_iterations"),
        max_turns=fitting.get("max_turns"),
        max_continues=fitting.get("max_continues"),
        max_output_retries=fitting.get("max_output_retries"),
        budget=budget,
    )
