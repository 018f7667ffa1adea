"""The pool of threads, and the only file that uses private parts of Pykka: a pool thread is a Pykka actor without a mailbox.

A Pykka actor owns its thread and its inbox and dies with its first failure. Actors of this package must outlive failures,
so a cell has their mailbox and behaviour, and is lent a thread. A pool thread takes a cell from its slot, runs it until its
mailbox is empty, and parks. It uses Pykka's `_actor_loop`, and sets itself the attributes that Pykka's constructor sets and
the event that `threading.Thread.start` waits for; tests hold all three to the form that is used here.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from itertools import count
from typing import Protocol

import pykka

from .forked import Stage, at_fork

IDLE_SECONDS = 10.0  # The threads of a burst are kept for the next burst, not for ever.
ARRIVING = 2  # Threads that are started or woken at once; more would only wait for the interpreter lock.


class Runnable(Protocol):
    """Work for a pool thread: a cell, the driver of a run, an alarm, or a function."""

    def run_turns(self) -> object:
        """Handle messages until there are none; must not raise."""
        ...

    def refused(self, cause: RuntimeError) -> object:
        """Take note that no thread can be had, on the thread that found out; must not raise."""
        ...


class _Slot:
    """The inbox of a pool thread: room for one piece of work, and a lock to park on. It is also the envelope for Pykka's loop.

    Attributes:
        message: the work that the thread does now.
        reply_to: always None: nobody waits for a reply.
    """

    __slots__ = ("gate", "given", "message", "pool", "thread")
    reply_to = None

    def __init__(self, thread: PoolThread, pool: ThreadPool) -> None:
        self.gate = threading.Lock()
        self.gate.acquire()
        self.given: Runnable | None = None
        self.message: Runnable | None = None
        self.thread = thread
        self.pool = pool

    def put(self, envelope: object, /) -> None:
        raise RuntimeError("a pool thread takes work from its pool, not messages")

    def empty(self) -> bool:
        return True  # Pykka drains its inbox at the end; the mailbox of a cell is none of its business.

    def get(self) -> _Slot:
        thread, pool = self.thread, self.pool
        self.message = None  # a parked thread keeps no cell alive
        if thread.next is not None:
            self.message, thread.next = thread.next, None
        elif pool.park(thread, self.gate):
            self.message, self.given = self.given, None
        else:
            thread.actor_stopped.set()
        return self


class _Flag:
    """A `threading.Event` without waiters: one object instead of six, for a burst makes hundreds."""

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def wait(self, timeout: float | None = None) -> bool:
        return True  # `Thread.start` would wait here for the thread to run

    def _at_fork_reinit(self) -> None:
        """There is no lock to make anew."""


_excepthook = vars(threading.Thread(name="understudy")).get("_invoke_excepthook")
"""The function that a thread calls with an uncaught exception. Each thread makes one, and all of them do the same, so one is
shared. None if a later Python has no such attribute.
"""


class PoolThread(pykka.ThreadingActor):
    """One thread, lent to one cell at a time.

    Args:
        pool: where it parks.
        first: its first work.
        name: the name of the thread, unique in the process.

    Attributes:
        next: work that this thread does after its present work, without waking another thread.
        slot: its inbox.
    """

    use_daemon_thread = True  # A tool that hangs must not keep the process from ending.

    def __init__(self, pool: ThreadPool, first: Runnable, name: str) -> None:
        # Without Pykka's constructor, which draws a random name: at that system call another thread gets the interpreter
        # lock. In a burst of new threads that would be most of the cost beyond the threads themselves.
        self.next: Runnable | None = first
        self.slot = _Slot(self, pool)
        self.actor_urn = name
        self.actor_inbox = self.slot  # type: ignore[assignment]  # Pykka types its own queue here
        self.actor_stopped = _Flag()  # type: ignore[assignment]  # Pykka types an event here, and asks whether it is set

    @property
    def _actor_ref(self) -> pykka.ActorRef[PoolThread]:  # type: ignore[override]  # Pykka's own is made with the actor
        return pykka.ActorRef(self)  # used once, at the end

    def begin(self) -> None:
        """Start the thread, and go on before it runs. Raises `RuntimeError` when the system has none left."""
        thread = threading.Thread(target=self._actor_loop, name=self.actor_urn, daemon=True)
        thread._started = _Flag()  # type: ignore[attr-defined]  # `start` waits for it: two more waits for the interpreter lock
        if _excepthook is not None:
            thread._invoke_excepthook = _excepthook  # type: ignore[attr-defined]
        thread.start()

    def on_start(self) -> None:
        _here.thread = self
        self.slot.pool.arrived()

    def on_receive(self, message: object) -> None:
        if message is not None:
            message.run_turns()  # type: ignore[attr-defined]  # the slot holds only runnables


class _Here(threading.local):
    thread: PoolThread | None = None


_here = _Here()


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
                    thread.slot.given = cell
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
                thread.slot.gate.release()

    def arrived(self) -> None:
        """Bring the next thread; called by a thread that has arrived and has the interpreter lock now."""
        while True:
            thread: PoolThread | None = None
            with self._lock:
                if not self._queue:
                    self._places = min(self._places + 1, self._arriving)
                    return
                cell = self._queue.popleft()
                if self._idle:
                    thread = self._idle.pop()
                    thread.slot.given = cell
            if thread is not None:
                return thread.slot.gate.release()
            try:
                return self._start(cell)
            except RuntimeError as cause:
                cell.refused(cause)

    def _start(self, cell: Runnable) -> None:
        PoolThread(self, cell, f"understudy-{next(self._numbers)}").begin()

    def park(self, thread: PoolThread, gate: threading.Lock) -> bool:
        """Give the calling thread queued work, or wait until it is lent again; False if it waited for too long."""
        with self._lock:
            if self._queue:
                thread.slot.given = self._queue.popleft()
                return True
            self._idle.append(thread)
        if not gate.acquire(timeout=IDLE_SECONDS):
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
    thread = _here.thread
    if thread is None or thread.next is not None:
        submit(cell)
    else:
        thread.next = cell


def on_a_pool_thread() -> bool:
    """Whether the calling thread belongs to the runtime, and so must not wait for room in a mailbox."""
    return _here.thread is not None


def here() -> PoolThread | None:
    """Return the pool thread that calls this, or None on any other thread."""
    return _here.thread


def start_next_thread() -> None:
    """Have another thread take the next work of the calling one, whose present work goes on for longer than it seemed."""
    thread = _here.thread
    if thread is not None and thread.next is not None:
        with contextlib.suppress(RuntimeError):  # no other thread can be had: this one keeps it
            pool.submit(thread.next)
            thread.next = None


def forget_threads() -> None:
    """Begin anew in a forked child, where the parent's threads do not exist."""
    global pool
    pool = ThreadPool()
    _here.thread = None


at_fork(Stage.THREADS, forget_threads)
