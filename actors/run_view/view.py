"""What the rooms below `runs` may see of a run: its record, told by what tools, memories and errors read of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from understudy.actors.threads.pool import Work
    from understudy.orchestration import Agent
    from understudy.orchestration.definitions.port import RunOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.vocabulary.context.ancestry import Link
    from understudy.vocabulary.context.scope import Scope
    from understudy.vocabulary.runs.handles import RunPhase

    from .log import RunLog


class ActorView(Protocol):
    """The actor of a runner."""

    @property
    def address(self) -> str:
        """Its address in the system."""
        ...


class RunView(Protocol):
    """A run, of any runner."""

    doing: str
    """What it is at, in words."""

    @property
    def run_id(self) -> str:
        """Its id, unique in its system."""
        ...

    @property
    def runner(self) -> Runner[object]:
        """The definition that runs."""
        ...

    @property
    def cell(self) -> ActorView:
        """The actor of its runner."""
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
    def log(self) -> RunLog:
        """Its log, which listeners read as events."""
        ...

    @property
    def phase(self) -> RunPhase:
        """Whether it runs, is paused or is over."""
        ...


class AgentRunView(RunView, Protocol):
    """A run of an agent."""

    @property
    def is_streaming(self) -> bool:
        """Whether the model call that is under way shows its turn in pieces."""
        ...

    @property
    def agent(self) -> Agent[object]:
        """The agent that runs."""
        ...


class AbandonedWorkLog(Protocol):
    """Where the work of a system that is given up is counted and told."""

    def give_up(self, work: Work) -> None:
        """Count work until it comes back."""
        ...

    def abandon(self, work: Work, record: RunView, what: str, since: float) -> None:
        """Give up work of a run, and tell of it: what it is at, and since when on the monotonic clock."""
        ...

    def tell_overdue(self, record: RunView, what: str, since: float, stack: Callable[[], str]) -> None:
        """Tell of work of a run whose time is over; `stack` says where it is."""
        ...


class HostView(Protocol):
    """What keeps the runs of a system."""

    @property
    def hung(self) -> AbandonedWorkLog:
        """Where work that is given up is told."""
        ...

    @property
    def stores(self) -> bool:
        """Whether paused runs are written down, so that sessions must be JSON."""
        ...
