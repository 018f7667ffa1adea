"""The heartbeat of a process in a store: a thread that beats while the process drives runs there."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from logging import ERROR, WARNING

from understudy.actors.stores.database import Sql
from understudy.actors.stores.process_locks import Locks
from understudy.actors.threads.forked import Stage, at_fork
from understudy.diagnostics import emit
from understudy.errors import AgentDown, StoreError, in_words

from .run_journal import RunJournal
from .run_owners import RunOwners, Standing

BEATS = 5  # In the time of a lease.
AGAIN = 0.5  # Seconds, at most, from a beat that failed to the next one.
LONGEST = 60.0  # Seconds between two beats, however long the lease is.
A_LOOK = 0.05  # Seconds for which the end of the thread is waited for before a look whether another run has come.
LINGER = 10.0  # Seconds for which the thread waits for another run; it does not beat meanwhile.


class Heartbeat:
    """Beats under the name of a process, from the first run that it drives to the last. Safe to use from any thread.

    Args:
        owners: where it beats.
        locks: have the name.
    """

    def __init__(self, owners: RunOwners, locks: Locks) -> None:
        self._owners = owners
        self._locks = locks
        self._lease = 0.0
        self.begin_anew()

    def begin_anew(self) -> None:
        """Drive nothing, in a forked child: the parent beats for its own runs."""
        self._lock = threading.Lock()
        """Guards the decision whether the thread ends or goes on."""
        self._is_on = False
        self._is_resting = False
        """Whether the thread ends with the last run, because a system has stopped."""
        self._wake = threading.Event()
        """Ends the pause of the thread."""
        self._thread: threading.Thread | None = None
        """The last one that was started."""
        self._driven: set[object] = set()
        self._is_failing = False
        self._beaten_as = ""
        """The name under which the process has beaten, and not removed its row since."""
        self._is_first = threading.Lock()
        """Held by the thread whose transaction has the first beat: the beats of several would be in each other's way."""

    def keep_for(self, lease: float) -> None:
        """Let others wait so many seconds for a beat; of several leases, the longest one holds."""
        self._lease = max(self._lease, lease)

    def drive(self, run: object) -> None:
        """Beat until the process leaves a run. Raises `AgentDown` when no thread can be started."""
        self._driven.add(run)
        if not self._is_on:
            try:
                self._start()
            except RuntimeError as cause:
                self.leave(run)
                raise AgentDown(f"no thread can be started to beat for this process: {cause}") from cause

    @contextmanager
    def first_beat(self, name: str) -> Generator[Callable[[Sql], object] | None]:
        """Yield what beats in the transaction in which the process takes a run; None if it has beaten, or is about to.

        So others know at once in which life of the server it has its lock. If the server starts again before the thread
        has beaten, the process keeps its run.
        """
        if self._beaten_as == name or not self._is_first.acquire(blocking=False):
            yield None
            return
        try:
            yield partial(self._owners.beat_in, owner=name, lease=self._lease)
            self._beaten_as = name
        finally:
            self._is_first.release()

    def leave(self, run: object) -> None:
        """Note that the process drives a run no longer."""
        self._driven.discard(run)
        if self._is_resting and not self._driven:
            self._wake.set()

    def rest(self, until: float) -> None:
        """End the thread at once if the process drives no run, or with the last one: a system has stopped.

        Without runs it waits for the last write, until a moment on the monotonic clock: the folder may go next.
        """
        self._is_resting = True
        thread = self._thread
        if self._driven or thread is None:
            return
        self._wake.set()
        while thread.is_alive() and not self._driven and (left := until - time.monotonic()) > 0:
            thread.join(min(left, A_LOOK))

    def _start(self) -> None:
        with self._lock:
            if not self._is_on:
                self._is_resting = False
                self._wake.clear()
                thread = threading.Thread(
                    target=self._tick, args=(self._thread,), name="understudy-heartbeat", daemon=True
                )
                thread.start()
                self._thread = thread
                self._is_on = True  # not before there is a thread

    # --- on the thread

    def _tick(self, before: threading.Thread | None) -> None:
        pause, idle = min(self._interval, AGAIN), 0.0  # the transaction of the first run has the first beat
        if before is not None:
            before.join()  # it may be about to remove the row of that beat
            pause = self.beat()
        self._sweep()
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if self._driven:
                pause, idle = self.beat(), 0.0
                continue
            idle += pause
            if (self._is_resting or idle >= LINGER) and self._retire():
                return
            pause = self._interval

    @property
    def _interval(self) -> float:
        return min(self._lease / BEATS, LONGEST)

    def beat(self) -> float:
        """Beat once, and return the pause before the next beat. A failure is logged, once until a beat succeeds."""
        driven = [(run, number) for run in list(self._driven) if isinstance(run, RunJournal) and (number := run.number)]
        try:
            name = self._locks.name()
            found = self._owners.beat(name, self._lease, [number for _, number in driven])
        except BaseException as error:  # whatever it is: without beats, others take the runs
            if not self._is_failing:
                self._is_failing = True
                text = "others may take over the runs of this process in %g s, because it cannot tell them that it lives: %s"
                unexpected = None if isinstance(error, StoreError) else error
                emit(WARNING, "beat_failed", {}, text, self._lease, in_words(error), exc_info=unexpected)
            return min(self._interval, AGAIN)
        self._is_failing, self._beaten_as = False, name
        for run, number in driven:
            _heed(run, found.get(number))
        return self._interval

    def _sweep(self) -> None:
        """Remove the rows of owners that are gone."""
        with suppress(Exception):  # the rows do no harm, and without this thread others take the runs
            own = self._locks.name()
            for owner, is_held in self._owners.all():
                if owner != own and not (self._locks.lives(owner) if is_held is None else is_held):
                    self._owners.remove(owner)

    def _retire(self) -> bool:
        with self._lock:
            # Said first and looked second: `drive` enters its run first and then looks whether we tick.
            self._is_on = False
            self._is_on = bool(self._driven)
            if self._is_on:
                return False
            name, self._beaten_as = self._beaten_as, ""
        if name:  # not asked of the locks: they would make a folder anew that somebody removes
            with suppress(StoreError):
                self._owners.remove(name)
        return True


def _heed(run: RunJournal, standing: Standing | None) -> None:
    try:
        run.heed(standing)
    except BaseException as error:  # without this thread, others take the runs
        text = "run %s could not be ended here, although another process has it or asks for its end: %s"
        emit(ERROR, "cancel_failed", {"run_id": run.run_id}, text, run.run_id, in_words(error), exc_info=error)


_heartbeats: weakref.WeakValueDictionary[int, Heartbeat] = weakref.WeakValueDictionary()
"""Identity of the locks -> the heartbeat, which keeps them. Systems that have a name in common have one heartbeat."""
_lock = threading.Lock()
"""Guards the table."""


def heartbeat_of(owners: RunOwners, locks: Locks, lease: float) -> Heartbeat:
    """Return the heartbeat under the name that some locks have; of several leases, the longest one holds."""
    with _lock:
        found = _heartbeats.get(id(locks))
        if found is None:
            found = _heartbeats[id(locks)] = Heartbeat(owners, locks)
        found.keep_for(lease)
    return found


def _begin_anew_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    for each in list(_heartbeats.values()):
        each.begin_anew()


at_fork(Stage.STORES, _begin_anew_in_child)
