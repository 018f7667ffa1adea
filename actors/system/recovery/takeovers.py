"""A system that looks after its neighbours: a thread looks for processes that are gone, and goes on with their runs here."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from logging import ERROR, WARNING
from math import inf
from typing import TYPE_CHECKING

from understudy.actors.stores.runs import StoredRun
from understudy.actors.threads.alarms import Alarm, ring_at
from understudy.diagnostics import emit
from understudy.errors import AgentDown, StoreError, in_words

from .parked_runs import ParkedRuns
from .recovery import SHARE, Recovery

if TYPE_CHECKING:
    from understudy.actors.journal.neighbours import Neighbour, Neighbours
    from understudy.orchestration.definitions.runner import Runner

LOOK = 0.25  # Seconds between two looks.
AHEAD = 0.5  # Seconds for which runs of one process are claimed before the first of them goes on.
HOLD = 5.0  # Seconds after which runs that are claimed and do not go on are given back.
LONGEST_PAUSE = 5.0  # Seconds between two looks while the store fails.
TELL = 60.0  # Seconds after which the log says that no look has begun.
HOW = "expected a run here, `with system:`, or system.start() in each process that is to look"
LATER = (
    "understudy.orchestration.journal.accepted_run",
    "understudy.orchestration.journal.put_together",
    "understudy.vocabulary.tools.schemas",
)
"""Modules that a run needs when it is taken over. They load pydantic, which takes some tenths of a second."""


class Takeovers:
    """Goes on with the runs of neighbours that are gone, from `begin` to `end`; after a fork it rests until the next `begin`.

    Args:
        app: the name of the system.
        neighbours: those of the system.
        parked: notes the runs that cannot go on.
        runners: returns the agents, groups and workflows that are known now, by id; without one, nothing is looked for.
        recovery: takes up runs with given runners.
        inside: lets code run inside of the system.
    """

    def __init__(
        self,
        app: str,
        neighbours: Neighbours,
        parked: ParkedRuns,
        runners: Callable[[], Mapping[str, Runner[object]]],
        recovery: Callable[[Mapping[str, Runner[object]]], Recovery],
        inside: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._app = app
        self._neighbours = neighbours
        self._parked = parked
        self._runners = runners
        self._recovery = recovery
        self._inside = inside
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._is_looking = False
        self._alarm: Alarm | None = None
        """Rings if no look has begun by then."""
        self._known: Mapping[str, Runner[object]] = {}
        """The runners at the last look."""
        self._parked_of: dict[str, frozenset[str]] = {}
        """Name of each process that is gone -> the runs of it that were parked at the last look."""
        self._is_failing = False

    # --- the thread

    def tell_later(self) -> None:
        """Have the log say in a while that no look has begun, unless one has."""
        with suppress(RuntimeError):  # there is no thread for it; `why_not` says the same
            self._alarm = ring_at(time.monotonic() + TELL, self._tell_not_begun)

    def _tell_not_begun(self) -> None:
        if self.why_not:
            self._tell_why_not("takeovers_not_begun")

    def _tell_why_not(self, event: str) -> None:
        emit(WARNING, event, {}, "system %s takes over no run of another process: %s", self._app, self.why_not)

    @property
    def why_not(self) -> str:
        """Why nothing is looked for, in words; empty if it is, or the system has stopped."""
        if self._is_looking or self._ended.is_set():
            return ""
        return f"it {'has not begun in this process' if self._thread is None else 'rests after a fork'}; {HOW}"

    def begin(self) -> None:
        """Look from now on, also after a rest. Raises `AgentDown` when no thread can be started."""
        if self._thread is None:
            for name in LATER:  # not on the thread: a child that is forked during an import hangs in it
                import_module(name)
            thread = threading.Thread(target=self._tick, name="understudy-takeovers", daemon=True)
            try:
                thread.start()
            except RuntimeError as cause:
                raise AgentDown(f"no thread can be started to look for runs that were left: {cause}") from cause
            self._thread = thread
        self._is_looking = True
        self._call_off()

    def _call_off(self) -> None:
        if self._alarm is not None:
            self._alarm.call_off()

    def rest(self) -> bool:
        """Take no further run until `begin`, in the parent after a fork; return whether it was looking. Does not block."""
        was, self._is_looking = self._is_looking and not self._ended.is_set(), False
        self._call_off()  # the children tell it
        if was:
            self._tell_why_not("takeovers_rest")
        return was

    def end(self) -> None:
        """Take no further run; does not block."""
        self._ended.set()
        self._call_off()

    def wait(self, deadline: float) -> None:
        """Wait until the thread has ended, until a moment on the monotonic clock; never on that thread."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, deadline - time.monotonic()))

    def _tick(self) -> None:
        pause = LOOK
        with self._inside():
            while not self._ended.wait(pause):
                pause = self._look_safely(pause) if self._is_looking else LOOK

    def _look_safely(self, pause: float) -> float:
        """Look, whatever fails, and return the pause before the next look."""
        try:
            self.look()
        except BaseException as error:  # also SystemExit from code of the user: this thread is nobody else's
            self._tell(error)
            self._neighbours.begin_anew()
            return min(2 * pause, LONGEST_PAUSE)
        self._is_failing = False
        return LOOK

    def _tell(self, error: BaseException) -> None:
        """Log a failure, once until a look succeeds."""
        if self._is_failing or self._ended.is_set():
            return
        self._is_failing = True
        text = "no run of another process can be taken over until this succeeds: %s"
        if isinstance(error, StoreError):
            emit(WARNING, "takeovers_failed", {}, text, in_words(error))
        else:
            emit(ERROR, "takeovers_failed", {}, text, in_words(error), exc_info=error)

    # --- one look

    def look(self) -> None:
        """Look at all neighbours once. If one is gone, its runs go on here.

        Raises:
            StoreError: the store failed; the next look finds the runs that are left.
        """
        known = dict(self._runners())
        if not known:  # the system is being set up
            return
        if known.keys() != self._known.keys() or any(known[name] is not self._known[name] for name in known):
            self._parked.try_all()
            with suppress(Exception):  # it is told of a run that cannot go on
                for runner in known.values():
                    runner.fingerprint()  # the first time takes a tenth of a second, and the runs of a dead process do not wait
        self._known = known
        gone = self._neighbours.gone()
        self._parked_of = {each.owner: self._parked_of.get(each.owner, frozenset()) for each in gone}
        for each in gone:
            if not self._is_settled(each):
                self._take_over(each, known)
        self._parked.keep(frozenset[str]().union(*self._parked_of.values()))

    def _is_settled(self, gone: Neighbour) -> bool:
        """Whether all runs of a neighbour are parked, and none is to be tried again now."""
        parked = self._parked_of[gone.owner]
        return gone.runs == len(parked) and all(map(self._parked.is_resting, parked))

    def _take_over(self, gone: Neighbour, known: Mapping[str, Runner[object]]) -> None:
        recovery = self._recovery(known)
        left = sorted(self._neighbours.left_by(gone), key=lambda run: run.takeovers)  # last, what processes may die of
        rest, due = deque([run for run in left if not self._parked.is_resting(run.run_id)]), deque[StoredRun]()
        if gone.silent_at is not None:  # it keeps runs if it beats before they can go on
            rest, due = due, rest
        begin_at, until = time.monotonic() + AHEAD, inf
        try:
            while (rest or due) and self._is_looking and not self._ended.is_set() and time.monotonic() < until:
                if rest and (not due or time.monotonic() < begin_at):
                    claim_at = time.monotonic() + SHARE
                    due.extend(recovery.claim(rest))
                    self._ended.wait(claim_at - time.monotonic() if rest else 0.0)
                else:
                    until = min(until, time.monotonic() + HOLD)
                    _take(recovery, due.popleft(), gone.silent_at)
        finally:
            recovery.give_back()
        self._parked_of[gone.owner] = frozenset([run.run_id for run in left if run.run_id in self._parked])


def _take(recovery: Recovery, run: StoredRun, silent_at: int | None) -> None:
    try:
        recovery.taken(run, silent_at)
    except StoreError:
        raise
    except BaseException as error:  # SystemExit from code of the user: the other runs go on
        recovery.park(run, in_words(error), error)
