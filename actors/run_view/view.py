"""What the rooms below `runs` may see of a run: its record, told by what tools, memories and errors read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from understudy.orchestration import Agent
    from understudy.orchestration.definitions.port import RunOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.vocabulary.context.ancestry import Link
    from understudy.vocabulary.context.scope import Scope
    from understudy.vocabulary.runs.handles import RunPhase

    from .log import RunLog


class RunView(Protocol):
    """A run, of any runner."""

    doing: str
    """What its driver is at, in words."""

    @property
    def run_id(self) -> str:
        """Its id, unique in its system."""
        ...

    @property
    def runner(self) -> Runner[object]:
        """The definition that runs."""
        ...

    @property
    def options(self) -> RunOptions:
        """What the caller said besides the input."""
        ...

    @property
    def scope(self) -> Scope:
        """Its deadline and cancellation."""
        ...

    @property
    def link(self) -> Link:
        """The run in the graph of waits."""
        ...

    @property
    def story(self) -> RunLog:
        """Its log, which listeners read as events."""
        ...

    @property
    def phase(self) -> RunPhase:
        """Whether it runs, is paused or is over."""
        ...


class AgentRunView(RunView, Protocol):
    """A run of an agent."""

    @property
    def agent(self) -> Agent[object]:
        """The agent that runs."""
        ...
