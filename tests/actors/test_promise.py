"""Promises: completed once, the first writer wins, and every waiting thread gets the answer."""

from __future__ import annotations

import threading

import pytest

from understudy.actors.threads.promise import SLICE, Promise

WAIT = 10.0


def test_the_first_answer_stands() -> None:
    reply: Promise[int] = Promise()

    assert reply.set(1) is True
    assert reply.set(2) is False
    assert reply.fail(ValueError()) is False
    assert reply.get() == 1


def test_an_error_is_raised_to_whoever_gets_it() -> None:
    reply: Promise[int] = Promise()
    reply.fail(ValueError("no"))

    with pytest.raises(ValueError, match="no"):
        reply.get()


def test_a_wait_ends_at_its_timeout_and_leaves_the_reply_open() -> None:
    reply: Promise[int] = Promise()

    assert reply.wait(0.001) is False
    assert reply.wait(0) is False
    reply.set(1)
    assert reply.wait(0) is True


class Gate:
    """A lock that is to be had at the third look; notes how long each look may take."""

    def __init__(self) -> None:
        self.looks: list[float] = []

    def acquire(self, timeout: float) -> bool:
        self.looks.append(timeout)
        return len(self.looks) == 3

    def release(self) -> None:
        """Give it back."""


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_the_main_thread_looks_up_from_its_wait_so_that_no_interrupt_is_missed(
    monkeypatch: pytest.MonkeyPatch, timeout: float | None
) -> None:
    assert threading.current_thread() is threading.main_thread()
    gate = Gate()
    reply: Promise[int] = Promise()
    monkeypatch.setattr(reply, "_gate", gate)

    assert reply.wait(timeout) is True
    assert gate.looks == [SLICE] * 3


def test_all_who_wait_are_woken() -> None:
    reply: Promise[int] = Promise()
    woken = threading.Semaphore(0)

    def wait() -> None:
        if reply.wait(WAIT):
            woken.release()

    threads = [threading.Thread(target=wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    reply.set(1)

    assert all(woken.acquire(timeout=WAIT) for _ in threads)


def test_a_callback_is_called_once_whether_it_comes_early_or_late() -> None:
    reply: Promise[int] = Promise()
    called: list[str] = []

    reply.when_done(lambda: called.append("early"))
    reply.set(1)
    reply.set(2)
    reply.when_done(lambda: called.append("late"))

    assert called == ["early", "late"]


def test_a_callback_that_fails_is_logged_and_keeps_no_other_from_being_called(caplog: pytest.LogCaptureFixture) -> None:
    reply: Promise[int] = Promise()
    called: list[str] = []

    reply.when_done(lambda: 1 / 0)
    reply.when_done(lambda: called.append("second"))
    reply.set(1)

    assert called == ["second"]
    assert [record.name for record in caplog.records] == ["understudy"]


def test_of_many_writers_one_wins() -> None:
    for _ in range(100):
        reply: Promise[int] = Promise()
        go = threading.Barrier(4)
        won: list[int] = []

        def write(n: int, reply: Promise[int] = reply, go: threading.Barrier = go, won: list[int] = won) -> None:
            go.wait(WAIT)
            if reply.set(n):
                won.append(n)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)

        assert won == [reply.get()]
