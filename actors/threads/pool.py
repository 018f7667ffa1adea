"""The only file that touches Pykka's insides: a shell is a Pykka actor whose thread is lent to one cell after another.

A Pykka actor owns its thread and its inbox and dies with its first failure. Ours must outlive failures, so the mailbox
and the behaviour live in a cell, and a shell only brings the thread: it takes a cell from its slot, runs the cell's
messages until there are none, and parks. Of Pykka it uses `_actor_loop`, and what Pykka's constructor sets it sets itself,
as it does with the event that `threading.Thread.start` waits for; tests hold all three to the shape that is used here.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from itertools import count
from typing import Protocol

import pykka

IDLE_SECONDS = 10.0  # A burst's threads are kept for the next burst, not for ever.
ARRIVING = 2  # Threads that are started or woken at once; more only stand in line for the interpreter lock.


class Runnable(Protocol):
    """What a shell runs: a cell, a run's driver, an alarm, or an errand."""

    def run_turns(self) -> object:
        """Handle messages until there are none; must not raise."""
        ...

    def refused(self, cause: RuntimeError) -> object:
        """Hear that no thread can be had to run on, on the thread that found out; must not raise."""
        ...


class _Slot:
    """A shell's inbox: room for one thing to run, and a lock to park on; and what Pykka's loop takes from it, an envelope.

    Attributes:
        message: what the shell runs now.
        reply_to: nobody wants a reply.
    """

    __slots__ = ("gate", "given", "message", "pool", "shell")
    reply_to = None

    def __init__(self, shell: PoolThread, pool: ThreadPool) -> None:
        self.gate = threading.Lock()
        self.gate.acquire()
        self.given: Runnable | None = None
        self.message: Runnable | None = None
        self.shell = shell
        self.pool = pool

    def put(self, envelope: object, /) -> None:
        raise RuntimeError("a shell takes cells from its pool, not messages")

    def empty(self) -> bool:
        return True  # Pykka drains its inbox at the end; what waits in a cell's mailbox is not for it to drain.

    def get(self) -> _Slot:
        shell, pool = self.shell, self.pool
        self.message = None  # a parked thread keeps no cell alive
        if shell.next is not None:
            self.message, shell.next = shell.next, None
        elif pool.park(shell, self.gate):
            self.message, self.given = self.given, None
        else:
            shell.actor_stopped.set()
        return self


class _Flag:
    """A `threading.Event` that nobody waits for, in one object instead of six: a burst makes hundreds."""

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
"""What threads call about an exception that nobody catches; each makes one of its own, and all do the same. None where
a later Python has it no more.
"""


class PoolThread(pykka.ThreadingActor):
    """One thread, lent to one cell at a time.

    Args:
        pool: where it parks.
        first: what it runs first.
        name: its thread's, unique in the process.

    Attributes:
        next: a cell that this shell runs after the one it is running, without waking another thread.
        slot: its inbox.
    """

    use_daemon_thread = True  # A tool that hangs must not keep the process from ending.

    def __init__(self, pool: ThreadPool, first: Runnable, name: str) -> None:
        # Not by Pykka's constructor: it draws a random name, and at that system call the interpreter goes to whoever
        # waits for it. In a burst of new threads that is most of what a shell would cost beyond its thread.
        self.next: Runnable | None = first
        self.slot = _Slot(self, pool)
        self.actor_urn = name
        self.actor_inbox = self.slot  # type: ignore[assignment]  # Pykka types its own queue here
        self.actor_stopped = _Flag()  # type: ignore[assignment]  # Pykka types an event here, and asks whether it is set

    @property
    def _actor_ref(self) -> pykka.ActorRef[PoolThread]:  # type: ignore[override]  # Pykka's own is made with the actor
        return pykka.ActorRef(self)  # asked for once, at the end

    def begin(self) -> None:
        """Start the thread, and go on before it runs. Raises `RuntimeError` when the system has none left."""
        thread = threading.Thread(target=self._actor_loop, name=self.actor_urn, daemon=True)
        thread._started = _Flag()  # type: ignore[attr-defined]  # what `start` waits for: twice in line for the lock
        if _excepthook is not None:
            thread._invoke_excepthook = _excepthook  # type: ignore[attr-defined]
        thread.start()

    def on_start(self) -> None:
        _here.shell = self
        self.slot.pool.arrived()

    def on_receive(self, message: object) -> None:
        if message is not None:
            message.run_turns()  # type: ignore[attr-defined]  # only runnables come out of the slot


class _Here(threading.local):
    shell: PoolThread | None = None


_here = _Here()


class ThreadPool:
    """Shells with nothing to do, last in, first out; grows on demand and shrinks after `IDLE_SECONDS`.

    There is no upper limit: where concurrency costs, it is limited there, and a pool that can run out makes nested
    work wait for itself. Only how many are on their way at the same time is limited: of what is lent beyond that, each
    shell that arrives brings the next, and each that is done takes the next itself.

    Args:
        arriving: how many may be on their way at once, from the start of a thread, or the end of its wait.
    """

    def __init__(self, arriving: int = ARRIVING) -> None:
        self._numbers = count(1)
        self._lock = threading.RLock()
        """Guards all below: what is put in line just as the last one arrives would never be run. A signal's handler or a
        finalizer may lend while its own thread is inside, for which all holds wherever a call ends."""
        self._idle: list[PoolThread] = []
        self._arriving = arriving
        self._places = arriving
        """How many more may be on their way; nothing is in line unless this is 0."""
        self._line: deque[Runnable] = deque()
        """What nobody is on the way for yet."""

    def submit(self, cell: Runnable) -> None:
        """Have some shell run `cell`, now.

        A Ctrl-C comes where a call ends. It loses no shell and no place, but at worst lets one more be on its way.

        Raises:
            RuntimeError: no shell is idle and no thread can be started.
        """
        shell: PoolThread | None = None
        starts = False
        try:
            with self._lock:
                if not self._places:
                    self._line.append(cell)
                    return
                self._places -= 1
                if self._idle:
                    shell = self._idle[-1]
                    del self._idle[-1]
                    shell.slot.given = cell
                else:
                    starts = True
            if starts:
                self._start(cell)
        except BaseException:
            if starts:
                self.arrived()  # in the place of the one that was to
            raise
        finally:
            if shell is not None:
                shell.slot.gate.release()

    def arrived(self) -> None:
        """Bring the next shell, on the thread of one that was on its way and has the interpreter lock now."""
        while True:
            shell: PoolThread | None = None
            with self._lock:
                if not self._line:
                    self._places = min(self._places + 1, self._arriving)
                    return
                cell = self._line.popleft()
                if self._idle:
                    shell = self._idle.pop()
                    shell.slot.given = cell
            if shell is not None:
                return shell.slot.gate.release()
            try:
                return self._start(cell)
            except RuntimeError as cause:
                cell.refused(cause)

    def _start(self, cell: Runnable) -> None:
        PoolThread(self, cell, f"understudy-{next(self._numbers)}").begin()

    def park(self, shell: PoolThread, gate: threading.Lock) -> bool:
        """Have the calling shell given what is in line, or wait until it is lent; False if it waited for too long."""
        with self._lock:
            if self._line:
                shell.slot.given = self._line.popleft()
                return True
            self._idle.append(shell)
        if not gate.acquire(timeout=IDLE_SECONDS):
            with self._lock:
                if shell in self._idle:
                    self._idle.remove(shell)
                    return False
            gate.acquire()  # lent in this very moment: the cell is on its way
        self.arrived()
        return True

    @property
    def idle(self) -> int:
        """How many shells wait."""
        return len(self._idle)


pool = ThreadPool()


def submit(cell: Runnable) -> None:
    """Have some thread run `cell`, now, or have it hear that there is none."""
    try:
        pool.submit(cell)
    except RuntimeError as cause:
        cell.refused(cause)


def run_next_here(cell: Runnable) -> None:
    """Have the calling shell run `cell` when it is done with its own; another one, if it already has a next or is none.

    Only for a turn that is about to end: until then the cell waits.
    """
    shell = _here.shell
    if shell is None or shell.next is not None:
        submit(cell)
    else:
        shell.next = cell


def on_a_pool_thread() -> bool:
    """Whether the calling thread belongs to the runtime, and so must not wait for room in a mailbox."""
    return _here.shell is not None


def here() -> PoolThread | None:
    """Return the shell whose thread this is, or None on a thread of somebody else's."""
    return _here.shell


def start_next_thread() -> None:
    """Have another shell run what was handed over to the calling one, which has more to do than it thought."""
    shell = _here.shell
    if shell is not None and shell.next is not None:
        with contextlib.suppress(RuntimeError):  # no other thread can be had: it stays this one's
            pool.submit(shell.next)
            shell.next = None


def forget_threads() -> None:
    """Begin anew in a forked child, where the parent's threads do not exist."""
    global pool
    pool = ThreadPool()
    _here.shell = None
