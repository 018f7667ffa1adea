"""`LoadedSpec`: the definitions made from one spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from understudy.errors import SpecError
from understudy.orchestration import Agent, ParallelAgent, SequentialAgent, Workflow
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.supervision.supervisor import Supervisor
from understudy.specs.reading.problems import did_you_mean, listed

R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class LoadedSpec:
    """The definitions made from one spec, the same as Python code would have made.

    Attributes:
        source: the file, or `<text>`.
        runners: agents, groups and workflows by id, in the order of the text; nested runners are included.
        supervisors: by id.
        not_loaded: tools that the spec names as `FILE.py:FUNCTION` in files that the loader was not allowed to run.
    """

    source: str
    runners: Mapping[str, Runner[object]]
    supervisors: Mapping[str, Supervisor] = field(default_factory=dict[str, Supervisor])
    not_loaded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "runners", MappingProxyType(dict(self.runners)))
        object.__setattr__(self, "supervisors", MappingProxyType(dict(self.supervisors)))

    @property
    def agents(self) -> Mapping[str, Agent[object]]:
        """The agents among the runners."""
        return {id: runner for id, runner in self.runners.items() if isinstance(runner, Agent)}

    def agent(self, id: str) -> Agent[object]:
        """Return the agent with this id.

        Raises:
            SpecError: there is none; the message lists the known ids. The methods below raise it too.
        """
        return self._find(id, self.agents, "agent")

    def sequential(self, id: str) -> SequentialAgent:
        """Return the sequence with this id."""
        made = {one.id: one for one in self.runners.values() if isinstance(one, SequentialAgent)}
        return self._find(id, made, "sequence")

    def parallel(self, id: str) -> ParallelAgent:
        """Return the parallel group with this id."""
        made = {one.id: one for one in self.runners.values() if isinstance(one, ParallelAgent)}
        return self._find(id, made, "parallel group")

    def workflow(self, id: str) -> Workflow:
        """Return the workflow with this id."""
        made = {one.id: one for one in self.runners.values() if isinstance(one, Workflow)}
        return self._find(id, made, "workflow")

    def runner(self, id: str) -> Runner[object]:
        """Return the agent, group or workflow with this id."""
        if id in self.supervisors:
            raise SpecError(
                f"{self.source}: {id!r} is a supervisor, which a system spawns and nothing runs; "
                f"there are the runners {listed(self.runners, 'none')}"
            )
        return self._find(id, self.runners, "runner")

    def supervisor(self, id: str) -> Supervisor:
        """Return the supervisor with this id."""
        return self._find(id, self.supervisors, "supervisor")

    def _find(self, id: str, made: Mapping[str, R], kind: str) -> R:
        if id in made:
            return made[id]
        there = listed(made, f"no {kind}s")
        raise SpecError(f"{self.source}: no {kind} {id!r}; it has {there}{did_you_mean(id, made)}")
