"""Cells: one message at a time, one fate for each, and a fresh behaviour after a failure."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from typing import Any, SupportsIndex

import pytest

from tests.support.threads import no_threads
from understudy.actors.cells.cell import Cell
from understudy.actors.cells.mailbox import Fate
from understudy.actors.threads import pool
from understudy.errors import AgentCrashed, AgentDown, MailboxFull

WAIT = 10.0


class Counter:
    """Counts what it gets; replies with the count; raises what it is sent."""

    def __init__(self) -> None:
        self.count = 0

    def on_receive(self, message: object) -> object:
        if isinstance(message, BaseException):
            raise message
        if isinstance(message, threading.Event):
            assert message.wait(WAIT)
        self.count += 1
        return self.count


def test_messages_are_handled_in_order_and_one_at_a_time() -> None:
    cell = Cell("counter", Counter)

    replies = [cell.ask(n) for n in range(500)]

    assert all(reply.wait(WAIT) for reply in replies)
    assert [reply.get() for reply in replies] == list(range(1, 501))


def test_many_senders_lose_no_message() -> None:
    cell = Cell("counter", Counter)

    def send() -> None:
        for _ in range(200):
            cell.tell("x", system=True)

    threads = [threading.Thread(target=send) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    last = cell.ask("x")

    assert last.wait(WAIT)
    assert last.get() == 1601


@pytest.mark.parametrize("cause", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_failure_reaches_the_asker_with_its_cause_and_the_next_message_meets_a_fresh_behaviour(
    cause: BaseException,
) -> None:
    cell = Cell("counter", Counter)
    cell.tell("x")

    failed, after = cell.ask(cause), cell.ask("x")

    assert failed.wait(WAIT) and after.wait(WAIT)
    error = failed.error()
    assert isinstance(error, AgentCrashed)
    assert error.__cause__ is cause
    assert after.get() == 1
    assert cell.epoch == 1


def test_a_tell_that_fails_says_so_to_its_sender_if_it_asked_to_hear_of_it() -> None:
    cell, lost = Cell("counter", Counter), threading.Event()
    heard: list[BaseException] = []

    def on_lost(error: BaseException) -> None:
        heard.append(error)
        lost.set()

    cell.tell(ValueError("no"), on_lost=on_lost)

    assert lost.wait(WAIT)
    assert isinstance(heard[0], AgentCrashed)


def test_a_message_that_is_reached_after_its_deadline_is_not_handled() -> None:
    cell, gate = Cell("counter", Counter), threading.Event()
    cell.tell(gate)

    late = cell.ask("x", timeout=0.0)
    gate.set()

    assert late.wait(WAIT)
    assert isinstance(late.error(), TimeoutError)
    after = cell.ask("x")
    assert after.wait(WAIT)
    assert after.get() == 2  # the gate and this one


def test_a_stopped_actor_answers_what_waits_and_what_comes_with_agent_down() -> None:
    cell, gate = Cell("counter", Counter), threading.Event()
    running = cell.ask(gate)
    waiting = cell.ask("x")

    cell.stop()
    cell.stop()
    late = cell.ask("x")
    gate.set()

    assert isinstance(waiting.error(), AgentDown)
    assert isinstance(late.error(), AgentDown)
    assert running.wait(WAIT)


def test_a_full_mailbox_answers_with_mailbox_full() -> None:
    cell, gate = Cell("counter", Counter), threading.Event()
    first = cell.ask(gate)

    replies = [cell.ask("x") for _ in range(1100)]
    refused = [reply for reply in replies if isinstance(reply.error(), MailboxFull)]
    gate.set()

    assert first.wait(WAIT)
    assert all(reply.wait(WAIT) for reply in replies)
    assert 100 <= len(refused) <= 101  # the gate may or may not have left the mailbox by then


def test_where_no_thread_can_be_started_the_sender_hears_of_it_and_a_later_message_is_handled() -> None:
    cell = Cell("counter", Counter)
    with no_threads():
        reply = cell.ask("x")
    after = cell.ask("x")

    assert isinstance(reply.error(), AgentDown)
    assert "thread" in str(reply.error())
    assert after.wait(WAIT)
    assert after.get() == 1


def test_every_message_ends_in_exactly_one_fate() -> None:
    cell, gate = Cell("counter", Counter), threading.Event()
    messages: list[object] = [gate, "x", ValueError("no"), "x", SystemExit(), "x"]

    replies = [cell.ask(message) for message in messages]
    replies.append(cell.ask("late", timeout=0.0))
    gate.set()
    assert all(reply.wait(WAIT) for reply in replies)
    cell.stop()
    replies.append(cell.ask("x"))

    assert sum(cell.counts.values()) == len(replies)
    assert cell.counts == {Fate.HANDLED: 4, Fate.FAILED: 2, Fate.EXPIRED: 1, Fate.CANCELLED: 0, Fate.DEAD: 1}


class ReadTogether(list[int]):
    """Counts of which each is read by two at once, if nothing keeps the second one out."""

    def __init__(self, counts: list[int]) -> None:
        super().__init__(counts)
        self.both = threading.Barrier(2, timeout=0.2)

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        read = super().__getitem__(place)
        with contextlib.suppress(threading.BrokenBarrierError):  # the other one was kept out
            self.both.wait()
        return read


def test_of_two_messages_that_are_refused_at_once_both_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("counter", Counter)
    cell.stop()
    monkeypatch.setattr(cell, "_counts", ReadTogether([0] * len(Fate)))

    senders = [threading.Thread(target=cell.tell, args=(n,)) for n in range(2)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(WAIT)

    assert cell.counts[Fate.DEAD] == 2


def test_a_message_is_handled_in_the_context_it_was_sent_with() -> None:
    colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")
    context = contextvars.copy_context()
    context.run(colour.set, "green")

    class Looks:
        def on_receive(self, message: object) -> object:
            return colour.get()

    reply = Cell("looks", Looks).ask("x", context=context)

    assert reply.wait(WAIT)
    assert reply.get() == "green"
    assert colour.get() == "none"


def test_a_cell_handed_over_does_not_wait_for_messages_that_came_later() -> None:
    ran = threading.Event()

    class Beside:
        def run_turns(self) -> None:
            ran.set()

        def refused(self, cause: RuntimeError) -> None:
            raise AssertionError(cause)

    class HandsOver:
        def on_receive(self, message: object) -> object:
            if message == "hand over":
                assert second_is_there.wait(WAIT)
                pool.run_next_here(Beside())
                return None
            return ran.wait(WAIT)  # would wait for ever if the hand-over waited for this message

    second_is_there = threading.Event()
    cell = Cell("hands over", HandsOver)
    cell.tell("hand over")
    second = cell.ask("wait for it")
    second_is_there.set()

    assert second.wait(2 * WAIT)
    assert second.get() is True


def test_a_forked_pool_starts_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pool.pool
    monkeypatch.setattr(pool, "pool", before)  # put back what the call replaces

    pool.forget_threads()

    assert pool.pool is not before
    assert pool.pool.idle == 0
