"""The alarm clock: each alarm rings once, at its time, on a thread of the clock's own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from tests.support.scripts import WAIT, eventually, finished, scripted
from understudy.actors.threads.alarms import SWEEP_FROM, AlarmClock
from understudy.testing import says

NEVER = 3600.0


def in_order(clock: AlarmClock, moments: list[float]) -> list[float]:
    """Set alarms at `moments` from now, and return these as the alarms were rung."""
    rung, all_rung, now = list[float](), threading.Semaphore(0), time.monotonic()

    def ring(moment: float) -> None:
        rung.append(moment)
        all_rung.release()

    for moment in moments:
        clock.ring_at(now + moment, partial(ring, moment))
    assert all(all_rung.acquire(timeout=WAIT) for _ in moments)
    return rung


def test_each_alarm_rings_once_and_an_earlier_one_set_later_rings_first() -> None:
    asleep = threading.Event()

    def now() -> float:
        asleep.set()  # asked under the lock that setting an alarm takes, and given up only to wait
        return time.monotonic()

    clock = AlarmClock(now)
    clock.ring_at(time.monotonic() + NEVER, lambda: pytest.fail("its time has not come"))
    assert asleep.wait(WAIT)

    assert in_order(clock, [0.3, 0.02]) == [0.02, 0.3]
    assert len(clock) == 1


def test_an_alarm_that_was_called_off_does_not_ring() -> None:
    clock, rung, later = AlarmClock(), list[str](), threading.Event()
    now = time.monotonic()

    alarm = clock.ring_at(now + 1.0, lambda: rung.append("called off"))
    clock.ring_at(now + 1.01, later.set)
    alarm.call_off()

    assert later.wait(WAIT)
    assert rung == []
    assert not alarm.is_set


def test_an_alarm_whose_function_hangs_delays_no_other() -> None:
    clock, entered, gate, rung = AlarmClock(), threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        gate.wait(3 * WAIT)

    clock.ring_at(time.monotonic(), hang)
    assert entered.wait(WAIT)
    clock.ring_at(time.monotonic(), rung.set)

    assert rung.wait(WAIT)
    gate.set()


@pytest.mark.parametrize("error", [LookupError, SystemExit])
def test_an_alarm_that_fails_harms_no_other(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    clock, raised = AlarmClock(), threading.Event()
    agent = scripted(says("one"), says("two"))
    agent.run("go")

    def fail() -> None:
        raised.set()
        raise error

    clock.ring_at(time.monotonic(), fail)
    assert raised.wait(WAIT)

    assert in_order(clock, [0.0, 0.01]) == [0.0, 0.01]
    assert finished(agent.run("go")).text == "two"
    eventually(lambda: [record.name for record in caplog.records] == ["understudy"], "the failure was logged")


def test_alarms_that_were_called_off_do_not_pile_up() -> None:
    clock, far = AlarmClock(), time.monotonic() + NEVER
    kept = [clock.ring_at(far, lambda: None) for _ in range(10)]

    for _ in range(10_000):
        clock.ring_at(far, lambda: None).call_off()

    assert len(clock) <= SWEEP_FROM
    assert all(alarm.is_set for alarm in kept)


def test_the_thread_goes_when_there_is_nothing_to_ring_and_comes_back() -> None:
    clock = AlarmClock(linger=0.01)

    for _ in range(3):
        assert in_order(clock, [0.0]) == [0.0]
        eventually(lambda: not clock.ticking, "the thread went")


def test_without_a_thread_an_alarm_is_refused_and_the_next_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    clock = AlarmClock()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            clock.ring_at(time.monotonic() + NEVER, lambda: None)

    assert len(clock) == 0
    assert in_order(clock, [0.0]) == [0.0]


FORKS = """
import os, threading, time
from understudy.actors.threads.alarms import ring_at

rung = threading.Event()
ring_at(time.monotonic() + 3600, print)
child = os.fork()
ring_at(time.monotonic(), rung.set)
ok = rung.wait(20)
if child == 0:
    print("child", ok, flush=True)
    os._exit(0)
os.waitpid(child, 0)  # so that the two do not write at once
print("parent", ok)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_an_alarm_clock_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["child True", "parent True"]
