"""The pool of threads. Its threads are plain ones, lent to work that cannot wait: a cell, a run, an alarm.

A cell has a mailbox and a behaviour of its own and outlives failures, so no thread belongs to it. A pool thread takes a cell,
runs it until its mailbox is empty, and parks.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Protocol

from understudy.diagnostics import emit

from .forked import Stage, at_fork


class Work(Protocol):
    """A piece of work that was given up while it ran."""

    returned: bool
    """Whether it has returned since."""


IDLE_SECONDS = 10.0  # The threads of a burst are kept for the next burst, not for ever.
ARRIVING = 2  # Threads that are started or woken at once; more would only wait for the interpreter lock.


class Runnable(Protocol):
    """Work for a pool thread: a cell, the turn or a work of a run, an alarm, or a function."""

    def run_turns(self) -> object:
        """Handle messages until there are none; must not raise."""
        ...

    def refused(self, cause: RuntimeError) -> object:
        """Take note that no thread can be had, on the thread that found out; must not raise."""
        ...


class _Flag:
    """A `threading.Event` without waiters, so that a thread which starts another one does not wait until that one runs."""

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def wait(self, timeout: float | None = None) -> bool:
        return True

    def _at_fork_reinit(self) -> None:
        """There is no lock to make anew."""


class PoolThread:
    """One thread, lent to one cell at a time.

    Args:
        pool: where it parks.
        first: its first work.
        name: the name of the thread, unique in the process.

    Attributes:
        gate: the lock that it parks on.
        given: the work that it was woken for.
        next: work that this thread does after its present work, without waking another thread.
    """

    __slots__ = ("_name", "_pool", "gate", "given", "next")

    def __init__(self, pool: ThreadPool, first: Runnable, name: str) -> None:
        self._pool = pool
        self._name = name
        self.gate = threading.Lock()
        self.gate.acquire()
        self.given: Runnable | None = None
        self.next: Runnable | None = first

    def begin(self) -> None:
        """Start the thread, and go on before it runs. Raises `RuntimeError` when the system has none left."""
        # A daemon: a tool that hangs must not keep the process from ending.
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        thread._started = _Flag()  # type: ignore[attr-defined]  # `start` waits for it: two more waits for the interpreter lock
        thread.start()

    def _run(self) -> None:
        of_thread.thread = self
        self._pool.arrived()
        while (work := self._next_work()) is not None:
            try:
                work.run_turns()
            except BaseException:  # a fault of the runtime's, for work must not raise; the next work is not to blame
                emit(logging.ERROR, "work_failed", {}, "a thread of the pool goes on after an error", exc_info=True)
            del work  # a parked thread keeps no cell alive

    def _next_work(self) -> Runnable | None:
        """Return the next work; wait for it in the pool, and return None if there is none for too long."""
        work = self.next
        if work is not None:
            self.next = None
        elif self._pool.park(self, self.gate):
            work, self.given = self.given, None
        return work


class _OfThread(threading.local):
    """What the runtime keeps for each thread; one class, for each that a thread uses costs it three objects."""

    thread: PoolThread | None = None
    """The thread itself, if it is of the pool."""
    after: list[Callable[[], object]] = []  # noqa: RUF012 - none is added here: see `RunTurns`
    """What the thread does once it is at a message of a run no more, because code of users may run there."""


of_thread = _OfThread()


class ThreadPool:
    """Idle threads, last in, first out. The pool grows on demand, and a thread ends after `IDLE_SECONDS` without work.

    The number of threads has no limit: concurrency is limited where it costs, and in a pool that can run out nested work
    would wait for itself. Only the number of threads that arrive at the same time is limited, that is, are started or woken
    and do not run yet. Work beyond that is queued: a thread that has arrived brings the next one, and a thread that has
    done its work takes the next piece itself.

    Args:
        arriving: how many threads may arrive at once.
    """

    def __init__(self, arriving: int = ARRIVING) -> None:
        self._numbers = count(1)
        self._lock = threading.RLock()
        """Guards all below: work that is queued just when the last thread arrives would never be done. A signal handler or
        a finalizer may submit work while its own thread is inside, so all of it is consistent wherever a call ends."""
        self._idle: list[PoolThread] = []
        self._arriving = arriving
        self._places = arriving
        """How many more threads may arrive; nothing is queued unless this is 0."""
        self._queue: deque[Runnable] = deque()
        """Work queued until a starting thread is free to take it."""

    def submit(self, cell: Runnable) -> None:
        """Have some thread run `cell`, now.

        A Ctrl-C is raised where a call ends. It loses no thread and no place; at worst one thread more arrives at once.

        Raises:
            RuntimeError: no thread is idle and none can be started.
        """
        thread: PoolThread | None = None
        starts = False
        try:
            with self._lock:
                if not self._places:
                    self._queue.append(cell)
                    return
                self._places -= 1
                if self._idle:
                    thread = self._idle[-1]
                    del self._idle[-1]
                    thread.given = cell
                else:
                    starts = True
            if starts:
                self._start(cell)
        except BaseException:
            if starts:
                self.arrived()  # in place of the thread that did not start
            raise
        finally:
            if thread is not None:
                thread.gate.release()

    def arrived(self) -> None:
        """Bring the next thread; called by a thread that has arrived and has the interpreter lock now."""
        while True:
            thread: PoolThread | None = None
            with self._lock:
                if not self._queue:
                    if self._places < self._arriving:
                        self._places += 1
                    return
                cell = self._queue.popleft()
                if self._idle:
                    thread = self._idle.pop()
                    thread.given = cell
            if thread is not None:
                return thread.gate.release()
            try:
                return self._start(cell)
            except RuntimeError as cause:
                cell.refused(cause)

    def _start(self, cell: Runnable) -> None:
        PoolThread(self, cell, f"understudy-{next(self._numbers)}").begin()

    def park(self, thread: PoolThread, gate: threading.Lock) -> bool:
        """Give the calling thread queued work, or wait until it is lent again; False if it waited for too long."""
        self._lock.acquire()  # `with` takes twice as long, and is needed only where a Ctrl-C is raised, in the main thread
        try:
            if self._queue:
                thread.given = self._queue.popleft()
                return True
            self._idle.append(thread)
        finally:
            self._lock.release()
        if not gate.acquire(True, IDLE_SECONDS):  # a named argument takes twice as long
            with self._lock:
                if thread in self._idle:
                    self._idle.remove(thread)
                    return False
            gate.acquire()  # lent in this very moment: the cell comes at once
        self.arrived()
        return True

    @property
    def idle(self) -> int:
        """How many threads are parked."""
        return len(self._idle)


pool = ThreadPool()


def submit(cell: Runnable) -> None:
    """Have some thread run `cell`, now, or tell the cell that none can be had."""
    try:
        pool.submit(cell)
    except RuntimeError as cause:
        cell.refused(cause)


def run_next_here(cell: Runnable) -> None:
    """Have the calling pool thread run `cell` after its present work; another thread, if it has a next already or is no pool thread.

    Only for work that is about to end: until then the cell waits.
    """
    thread = of_thread.thread
    if thread is None or thread.next is not None:
        submit(cell)
    else:
        thread.next = cell


def on_a_pool_thread() -> bool:
    """Whether the calling thread belongs to the runtime, and so must not wait for room in a mailbox."""
    return of_thread.thread is not None


def here() -> PoolThread | None:
    """Return the pool thread that calls this, or None on any other thread."""
    return of_thread.thread


def start_next_thread() -> None:
    """Have another thread take the next work of the calling one, whose present work goes on for longer than it seemed."""
    thread = of_thread.thread
    if thread is not None and thread.next is not None:
        with contextlib.suppress(RuntimeError):  # no other thread can be had: this one keeps it
            pool.submit(thread.next)
            thread.next = None


def forget_threads() -> None:
    """Begin anew in a forked child, where the parent's threads do not exist."""
    global pool
    pool = ThreadPool()
    of_thread.thread = None


at_fork(Stage.THREADS, forget_threads)
