"""How one system goes on with runs that were left: when `recover` is called, and by a thread that looks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from understudy.actors.system.argument_checks import by_id, checked_changed, checked_deps, checked_run_ids

from .parked_runs import ParkedRuns
from .recovery import Recovery
from .takeovers import Takeovers

if TYPE_CHECKING:
    from understudy.actors.journal.run_journals import RunJournals
    from understudy.actors.runs.record import RunRecord
    from understudy.actors.system.argument_checks import Deps, Migrate, Recovering
    from understudy.actors.system.run_manager import RunManager
    from understudy.orchestration.definitions.runner import Runner


class Recoveries:
    """The recoveries of one system, and the runs with which they could not go on. Safe to use from any thread.

    Args:
        runs: of the system.
        spawned: returns the agents that were spawned, by id.
        given: what the system was made with.
        inside: lets code run inside of the system.

    Attributes:
        parked: the runs that could not go on.

    Raises:
        ValueError: the system is to look for runs, and has no journal.
    """

    def __init__(
        self,
        runs: RunManager,
        spawned: Callable[[], Mapping[str, Runner[object]]],
        given: Recovering,
        inside: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._runs = runs
        self._spawned = spawned
        self._given = given
        self.parked = ParkedRuns()
        self._takeovers: Takeovers | None = None
        if given.is_always:
            neighbours = self._journals().neighbours()
            self._takeovers = Takeovers(self._runs.app, neighbours, self.parked, self._known, self._by_thread, inside)

    def _journals(self) -> RunJournals:
        return self._runs.journaling.journals_for("recover")

    def _known(self) -> dict[str, Runner[object]]:
        return {**self._spawned(), **self._given.runners}

    # --- by hand

    def recover(
        self,
        deps: Deps | None,
        runners: Iterable[Runner[Any]],
        run_ids: Iterable[str] | None,
        *,
        adopt: bool,
        migrate: Migrate | None,
    ) -> list[RunRecord]:
        """Return the records of the runs that go on here from now on; arguments and errors are those of `ActorSystem.recover`."""
        checked_deps("recover", deps)
        changed = checked_changed("recover", adopt, migrate)
        named = checked_run_ids(run_ids)
        journals = self._journals()
        known = self._known() | by_id("recover", runners)
        make_deps = self._given.deps if deps is None else deps
        adopt, migrate = changed if adopt or migrate is not None else self._given.changed
        recovery = Recovery(
            self._runs, journals, known, make_deps, self.parked, adopt=adopt, migrate=migrate, named=named
        )
        return recovery.begun()

    # --- by the thread, if the system has one

    def _by_thread(self, known: Mapping[str, Runner[object]]) -> Recovery:
        adopt, migrate = self._given.changed
        return Recovery(
            self._runs, self._journals(), known, self._given.deps, self.parked, adopt=adopt, migrate=migrate
        )

    def await_first_run(self) -> None:
        """Look for runs that were left from `begin` or the first run on: a process that only imports, or forks, takes none."""
        if self._takeovers is not None:
            self._journals().on_first = self._takeovers.begin
            self._takeovers.tell_later()

    def begin(self) -> None:
        """Look from now on, unless that has begun. Raises `AgentDown` when no thread can be started."""
        if self._takeovers is not None:
            self._journals().tell_first()

    def rest(self) -> None:
        """Look no more until `begin` or the next run, in the parent after a fork. Does not block."""
        if self._takeovers is not None and self._takeovers.rest():
            self._journals().on_first = self._takeovers.begin

    @property
    def why_not(self) -> str:
        """Why a system that is to look for runs does not, in words; empty if there is nothing to say."""
        return "" if self._takeovers is None else self._takeovers.why_not

    def end(self) -> None:
        """Take no further run over; does not block."""
        if self._takeovers is not None:
            self._takeovers.end()

    def wait(self, deadline: float) -> None:
        """Wait until the thread has ended, until a moment on the monotonic clock."""
        if self._takeovers is not None:
            self._takeovers.wait(deadline)
