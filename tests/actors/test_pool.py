"""The pool: threads that are started, parked and reused for work."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import cast
from unittest.mock import Mock

import pytest

from understudy.actors.threads import pool as pool_module
from understudy.actors.threads.pool import PoolThread, ThreadPool

WAIT = 10.0  # Seconds after which a test that waits has failed.


class Note:
    """Something to run: notes its thread and says that it ran."""

    def __init__(self) -> None:
        self.ran = threading.Event()
        self.thread: threading.Thread | None = None

    def run_turns(self) -> None:
        self.thread = threading.current_thread()
        self.ran.set()

    def refused(self, cause: RuntimeError) -> None:
        raise AssertionError(cause)


def wait_until_idle(pool: ThreadPool, number: int) -> None:
    """Wait until `number` threads are parked; no event tells it, so ask again, a limited number of times."""
    tries = threading.Event()
    for _ in range(int(WAIT * 1000)):
        if pool.idle >= number:
            return
        tries.wait(0.001)
    pytest.fail(f"{pool.idle} pool threads are idle, expected {number}")


def test_a_thread_still_has_the_event_that_a_pool_thread_exchanges() -> None:
    assert "_started" in vars(threading.Thread())


def test_work_that_fails_against_its_law_is_logged_and_its_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    pool, note = ThreadPool(), Note()

    class Fails(Note):
        def run_turns(self) -> None:
            super().run_turns()
            raise SystemExit("against the law")

    fails = Fails()
    pool.submit(fails)
    wait_until_idle(pool, 1)
    pool.submit(note)

    assert note.ran.wait(WAIT)
    assert note.thread is fails.thread
    assert "against the law" in caplog.text


def test_a_parked_pool_thread_is_reused_before_a_thread_is_started() -> None:
    pool, first, second = ThreadPool(), Note(), Note()

    pool.submit(first)
    assert first.ran.wait(WAIT)
    wait_until_idle(pool, 1)
    pool.submit(second)

    assert second.ran.wait(WAIT)
    assert second.thread is first.thread


def test_pool_threads_are_daemons_with_names() -> None:
    pool, note = ThreadPool(), Note()

    pool.submit(note)

    assert note.ran.wait(WAIT)
    assert note.thread is not None and note.thread.daemon
    assert note.thread.name.startswith("understudy-")


def test_a_parked_pool_thread_keeps_nothing_it_ran_alive() -> None:
    pool, note = ThreadPool(), Note()
    gone = weakref.ref(note)

    pool.submit(note)
    assert note.ran.wait(WAIT)
    del note
    wait_until_idle(pool, 1)

    assert gone() is None


def test_a_pool_thread_that_is_idle_for_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 0.01)
    pool, note = ThreadPool(), Note()

    pool.submit(note)
    assert note.ran.wait(WAIT)
    assert note.thread is not None
    note.thread.join(WAIT)

    assert not note.thread.is_alive()
    assert pool.idle == 0


def test_a_cell_that_is_handed_over_runs_on_the_same_thread_afterwards() -> None:
    pool, after = ThreadPool(), Note()

    class Hands(Note):
        def run_turns(self) -> None:
            pool_module.run_next_here(after)
            assert not after.ran.is_set()
            super().run_turns()

    before = Hands()
    pool.submit(before)

    assert after.ran.wait(WAIT)
    assert after.thread is before.thread


def test_only_the_first_cell_handed_over_waits_for_the_turn_to_end() -> None:
    pool, after, beside = ThreadPool(), Note(), Note()

    class Hands(Note):
        def run_turns(self) -> None:
            pool_module.run_next_here(after)
            pool_module.run_next_here(beside)
            assert beside.ran.wait(WAIT)  # runs while this turn still goes on
            super().run_turns()

    hands = Hands()
    pool.submit(hands)

    assert after.ran.wait(WAIT)
    assert beside.thread is not hands.thread


def test_outside_of_a_pool_thread_a_cell_handed_over_is_submitted() -> None:
    note = Note()

    pool_module.run_next_here(note)

    assert note.ran.wait(WAIT)
    assert note.thread is not threading.current_thread()


def test_a_cell_that_was_handed_on_to_another_pool_thread_is_run_once() -> None:
    pool, after, left = ThreadPool(), Note(), list[bool]()

    class HandsOn(Note):
        def run_turns(self) -> None:
            pool_module.run_next_here(after)
            pool_module.start_next_thread()
            here = pool_module.here()
            left.append(here is not None and here.next is not None)
            super().run_turns()

    hands = HandsOn()
    pool.submit(hands)

    assert hands.ran.wait(WAIT) and after.ran.wait(WAIT)
    assert left == [False]


class Bell:
    """A gate that never blocks, and notes whom its release would wake."""

    def __init__(self, woken: list[str], name: str) -> None:
        self._woken = woken
        self._name = name

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return True

    def release(self) -> None:
        self._woken.append(self._name)


def resting_in(pool: ThreadPool, woken: list[str], *names: str) -> None:
    """Park a pool thread that has not started for each name; the last one is taken first."""
    for name in names:
        resting = PoolThread(pool, Note(), name)
        resting.gate = cast("threading.Lock", Bell(woken, name))
        pool.park(resting, resting.gate)


def test_of_work_submitted_at_once_each_arriving_pool_thread_starts_the_next() -> None:
    pool, woken = ThreadPool(arriving=2), list[str]()
    resting_in(pool, woken, "d", "c", "b", "a")

    for _ in range(4):
        pool.submit(Note())

    assert woken == ["a", "b"]
    pool.arrived()
    assert woken == ["a", "b", "c"]
    pool.arrived()
    assert woken == ["a", "b", "c", "d"]


def test_when_all_have_arrived_submitted_work_wakes_a_pool_thread_at_once() -> None:
    pool, woken = ThreadPool(arriving=1), list[str]()
    resting_in(pool, woken, "b", "a")

    pool.submit(Note())
    pool.arrived()
    pool.submit(Note())

    assert woken == ["a", "b"]


def test_a_pool_thread_that_is_done_takes_queued_work_and_does_not_wait() -> None:
    pool, woken, first, second = ThreadPool(arriving=1), list[str](), Note(), Note()
    resting_in(pool, woken, "a")
    for note in (Note(), first, second):
        pool.submit(note)
    done = PoolThread(pool, Note(), "done")

    assert [(pool.park(done, done.gate), done.given) for _ in range(2)] == [(True, first), (True, second)]
    assert woken == ["a"]  # and it is still on its way: nobody took its place


def test_a_signal_handler_may_submit_while_its_thread_does(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, woken, beside = ThreadPool(arriving=1), list[str](), Note()
    resting_in(pool, woken, "a")
    pool.submit(Note())

    class Queue(deque[Note]):
        """A queue at whose first use a signal handler runs, once the call is done."""

        def append(self, note: Note, /) -> None:
            super().append(note)
            if note is not beside:
                pool.submit(beside)

    queue = Queue()
    monkeypatch.setattr(pool, "_queue", queue)
    submits = threading.Thread(target=lambda: pool.submit(Note()), daemon=True)
    submits.start()
    submits.join(WAIT)

    assert not submits.is_alive()
    assert len(queue) == 2


def test_threads_that_are_started_start_each_other_too() -> None:
    pool, notes = ThreadPool(arriving=1), [Note() for _ in range(20)]

    for note in notes:
        pool.submit(note)

    assert all(note.ran.wait(WAIT) for note in notes)


def test_a_thread_is_started_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    may_begin, begun = threading.Event(), threading.Event()

    def begins() -> None:
        may_begin.wait(WAIT)
        PoolThread(ThreadPool(), Note(), "understudy-0").begin()
        begun.set()

    threading.Thread(target=begins, daemon=True).start()
    starter = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"
    monkeypatch.setattr(threading, starter, Mock())  # as if the new one never came to run
    may_begin.set()

    assert begun.wait(WAIT)


# --- where there are no threads


class Refused(Note):
    """Notes why it was refused."""

    def __init__(self) -> None:
        super().__init__()
        self.causes = list[str]()

    def refused(self, cause: RuntimeError) -> None:
        self.causes.append(str(cause))


def none_left(thread: PoolThread) -> None:
    raise RuntimeError("can't start new thread")


def test_queued_work_is_refused_when_there_is_no_thread_and_its_place_is_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, woken, notes = ThreadPool(arriving=1), list[str](), [Refused() for _ in range(3)]
    resting_in(pool, woken, "a")
    for note in notes:
        pool.submit(note)

    with monkeypatch.context() as patch:
        patch.setattr(PoolThread, "begin", none_left)
        pool.arrived()

    assert [note.causes for note in notes] == [[], ["can't start new thread"], ["can't start new thread"]]
    later = Note()
    pool.submit(later)
    assert later.ran.wait(WAIT)


def test_work_refused_at_once_leaves_its_place_to_queued_work(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, beside = ThreadPool(arriving=1), Refused()

    def none_left_and_one_more(thread: PoolThread) -> None:
        monkeypatch.undo()
        pool.submit(beside)  # as another thread may in that moment
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(PoolThread, "begin", none_left_and_one_more)
    with pytest.raises(RuntimeError, match="can't start"):
        pool.submit(Note())

    assert beside.ran.wait(WAIT)
    assert beside.causes == []


@pytest.mark.parametrize("submit", [pool_module.submit, pool_module.run_next_here], ids=["submitted", "handed over"])
def test_work_submitted_where_there_is_no_thread_is_refused(
    submit: Callable[[Refused], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    note = Refused()
    monkeypatch.setattr(pool_module, "pool", ThreadPool())
    monkeypatch.setattr(PoolThread, "begin", none_left)

    submit(note)

    assert note.causes == ["can't start new thread"]


# --- Ctrl-C


class InterruptedBell(Bell):
    """A gate whose release raises Ctrl-C after the call, as Python does."""

    def release(self) -> None:
        super().release()
        raise KeyboardInterrupt


class InterruptedLock:
    """A pool's lock whose first release raises Ctrl-C."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._interrupts = True

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self._interrupts:
            self._interrupts = False
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", ["the gate", "the lock"])
def test_a_ctrl_c_while_a_pool_thread_is_woken_loses_neither_it_nor_its_place(
    at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, woken, note = ThreadPool(arriving=1), list[str](), Note()
    resting_in(pool, woken, "c", "b")
    interrupted = PoolThread(pool, Note(), "a")
    gate = (InterruptedBell if at == "the gate" else Bell)(woken, "a")
    interrupted.gate = cast("threading.Lock", gate)
    pool.park(interrupted, interrupted.gate)
    if at == "the lock":
        monkeypatch.setattr(pool, "_lock", InterruptedLock())

    with pytest.raises(KeyboardInterrupt):
        pool.submit(note)

    assert (woken, interrupted.given) == (["a"], note)
    pool.submit(Note())
    assert woken == ["a"]  # it has the only place
    pool.arrived()
    assert woken == ["a", "b"]
    pool.arrived()
    pool.submit(Note())
    assert woken == ["a", "b", "c"]  # and gave it back


@pytest.mark.parametrize("begun", [False, True], ids=["before it is started", "after"])
def test_a_ctrl_c_while_a_thread_is_started_leaves_its_place_to_queued_work(
    begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, beside, note, begin = ThreadPool(arriving=1), Note(), Note(), PoolThread.begin

    def interrupted(thread: PoolThread) -> None:
        monkeypatch.undo()
        pool.submit(beside)  # as another thread may in that moment
        if begun:
            begin(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(PoolThread, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pool.submit(note)

    assert beside.ran.wait(WAIT)
    assert note.ran.wait(WAIT if begun else 0) is begun
    later = [Note() for _ in range(3)]
    for one in later:
        pool.submit(one)
    assert all(one.ran.wait(WAIT) for one in later)


def test_a_pool_thread_says_when_it_has_arrived() -> None:
    pool = ThreadPool(arriving=1)

    for _ in range(3):  # the first one starts the thread, and each of the others wakes it
        note = Note()
        pool.submit(note)
        assert note.ran.wait(WAIT)
        wait_until_idle(pool, 1)


def test_a_pool_thread_given_work_as_it_gives_up_waiting_runs_it() -> None:
    pool, note = ThreadPool(), Note()
    resting = PoolThread(pool, note, "resting")

    class GivenTooLate:
        """A gate whose wait ends just as the pool thread is given work."""

        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            if timeout < 0:
                return resting.gate.acquire(timeout=WAIT)
            pool.submit(note)
            return False

    stays = pool.park(resting, cast("threading.Lock", GivenTooLate()))

    assert stays
    assert resting.given is note
