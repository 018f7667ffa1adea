"""Raises limits inside of a run: in the saved runs of the children and sub-agents that reached one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from understudy.errors import SeveralErrors, UnfinishedRun
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.definitions.agent import Agent
from understudy.orchestration.definitions.groups import Group
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.definitions.sub_agent import SubAgent
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.graph.run import GraphRun
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
    moved: bool = False
    """Whether a run that stood at a limit goes on."""
    stuck: str = ""
    """Which run is incomplete and would stay so, in words; empty if there is none."""

    @property
    def is_empty(self) -> bool:
        """Whether no limit is to be raised."""
        return not self.numbers and self.budget is None

    def check(self) -> None:
        """Raise for a limit that no run took, and if every run would stay incomplete.

        Raises:
            ValueError: a limit is below what it would replace, or nothing would go on.
        """
        if self.stuck and not self.moved and (self.is_empty or "max_continues" in self.numbers):
            raise ValueError(f"{self.stuck}; the token stands")
        for name, value in self.numbers.items():
            if name not in self.taken and name not in self.higher:
                raise ValueError(
                    f"{name} is a limit of agents, and no agent that goes on has reached one; the token stands"
                )
            if name not in self.taken:
                raise ValueError(f"{name} can only be raised: it is {self.higher[name]}, got {value}")


def has_kept_children(machine: Machine) -> bool:
    """Whether the runs of failed children were kept, so that these go on with nothing raised."""
    return any(child.phase == "failed" and child.is_kept for child in machine.state.children)


def has_limited_children(machine: Machine) -> bool:
    """Whether a run that goes on has children whose limits may be raised; other tasks of a workflow may be under way."""
    return machine.at_limit() or (
        isinstance(machine, GraphRun) and any(_has_failed(machine, at) for at in machine.limited)
    )


def raised_in(group: Orchestrator, machine: Machine, wanted: Raising) -> dict[int, str]:
    """Return the runs of the children that stand at a limit, by position, with the limits raised; changes no machine.

    Raises:
        ValueError: a budget would be lowered, or limits dollars that are not known.
    """
    limited = machine.limited.items()
    raised = {at: (runner_at(group, machine, at), text) for at, text in limited if _is_due(group, machine, at, wanted)}
    return {at: _raised(runner, text, wanted) for at, (runner, text) in raised.items()}


def raised_below(agent: Agent[object], run: AgentRun, wanted: Raising) -> dict[str, str]:
    """Return the runs of an agent's sub-agents that stand at a limit, by call id, with the limits raised.

    Changes no machine.

    Raises:
        ValueError: a budget would be lowered, or limits dollars that are not known.
    """
    return {call_id: _raised(runner, text, wanted) for call_id, runner, text in _limited_below(agent, run)}


def _limited_below(agent: Agent[object], run: AgentRun) -> list[tuple[str, Runner[object], str]]:
    """Return call id, runner and saved run of each sub-agent that stands at a limit."""
    round_ = run.state.round
    if round_ is None or not round_.children:
        return []
    limited: list[tuple[str, Runner[object], str]] = []
    for call in round_.calls:
        child, tool = round_.children.get(call.id), agent.tools_by_name.get(call.name)
        if child is None or child.pauses or not isinstance(tool, SubAgent):
            continue
        if _stands_at_limit(tool.runner, child.saved):
            limited.append((call.id, tool.runner, child.saved))
    return limited


def needs_higher_limit(agent: Agent[object], run: AgentRun) -> bool:
    """Whether an agent's run, or that of a sub-agent inside of it, goes on only with a higher limit."""
    return run.at_limit() or bool(_limited_below(agent, run))


def _stands_at_limit(runner: Runner[object], text: str) -> bool:
    from .saved_run import SavedRun

    machine = SavedRun.from_json(text).machine
    if isinstance(runner, Agent):
        return needs_higher_limit(runner, AgentRun.from_json(machine, runner.run_spec, adopt=True))
    assert isinstance(runner, (Group, Workflow))
    return loaded(runner, machine, adopt=True).at_limit()


def _is_due(group: Orchestrator, machine: Machine, position: int, wanted: Raising) -> bool:
    """Whether a child at a limit goes on inside; if nothing is raised, a workflow begins the task of an agent anew.

    Nothing needs to be raised for a child that is incomplete or in which all failed: what is not done in it goes on.
    """
    if not isinstance(machine, GraphRun):
        return True
    if not _has_failed(machine, position):  # another run of the same task is under way
        return False
    if not wanted.is_empty:
        return True
    kind = failure.kind if (failure := machine.state.children[position].failure) is not None else ""
    unraised = (UnfinishedRun.__name__, SeveralErrors.__name__)
    return kind in unraised and not isinstance(runner_at(group, machine, position), Agent)


def _has_failed(machine: GraphRun, position: int) -> bool:
    return machine.state.tasks[machine.task_at(position)].status == "failed"


def _raised(runner: Runner[object], text: str, wanted: Raising) -> str:
    from .saved_run import SavedRun

    saved = SavedRun.from_json(text)
    # Loading the group already compared or adopted the definitions of its children.
    if isinstance(runner, Agent):
        run = AgentRun.from_json(saved.machine, runner.run_spec, adopt=True)
        below = raised_below(runner, run, wanted)
        for call_id, raised_text in below.items():
            run.child_stopped(call_id, raised_text)
        if not below:
            _extend(run, wanted)
        return replace(saved, machine=run.to_json()).to_json()
    assert isinstance(runner, (Group, Workflow))
    inner = loaded(runner, saved.machine, adopt=True)
    wanted.moved |= has_kept_children(inner)
    raised = raised_in(runner, inner, wanted)
    if raised:
        inner.go_on(raised)
    else:
        inner.retry_failed()
        wanted.moved = True
    return replace(saved, machine=inner.to_json()).to_json()


def _extend(run: AgentRun, wanted: Raising) -> None:
    """Raise the limits of one run; not every run needs each limit."""
    is_now = {name: int(getattr(run.state, name)) for name in wanted.numbers}
    fitting = {name: value for name, value in wanted.numbers.items() if value >= is_now[name]}
    stood = run.at_limit()
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
    wanted.moved |= stood and not run.at_limit()
    if run.state.phase == "incomplete":
        wanted.stuck = (
            f"agent {run.spec.agent_id!r} is incomplete, because {run.state.completion_reason}: "
            f"pass max_continues= above {run.state.continues} to go on"
        )
