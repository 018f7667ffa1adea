"""The deadlines of runs: their scopes, and the watchdog, one thread that looks at all of them: no run needs a timer of its own.

A work that hangs in a step whose time is over loses the run, which goes on in another stay: `see_to_step`, on a lent thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from logging import ERROR
from math import inf

from understudy.actors.run_view.errors import safely
from understudy.actors.run_view.log import Finished
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.actors.tools.failed_calls import tell_repeated, timeout_result
from understudy.actors.tools.tool_call import ToolCallTask
from understudy.diagnostics import emit
from understudy.errors import AgentDown
from understudy.orchestration.runs.events import ResultCame, ResultsTaken
from understudy.orchestration.supervision.call_time import CallAction, next_look
from understudy.vocabulary.context.run_values import values_of_run
from understudy.vocabulary.context.scope import Scope, current_scope

from .agent_record import AgentRunRecord
from .record import RunRecord

TICK = 0.02  # Seconds between looks; how late a deadline may be noticed.
RETRIES = 50  # Of a run and all runs inside of it: generous for a healthy run, finite for a looping one.
LINGER = 5.0  # Seconds it goes on ticking after the last run, for the next run is usually near.


class Watchdog:
    """Looks after records from `watch` to `unwatch`.

    Args:
        on_deadline: called when a run's own deadline has passed.
        on_step: called when a step has taken too long.
    """

    def __init__(self, on_deadline: Callable[[RunRecord], object], on_step: Callable[[RunRecord], object]) -> None:
        self._on_deadline = on_deadline
        self._on_step = on_step
        self._lock = threading.Lock()
        """Guards the decision whether the thread ends or goes on."""
        self._ticking = False
        self._ends_soon = False
        self._records: dict[str, RunRecord] = {}
        self._seen_to: set[tuple[str, object]] = set()
        """What a lent thread is doing about which run: a step that is seen to for long keeps no run from its deadline."""

    def watch(self, record: RunRecord) -> None:
        """Look after `record` from now on. Raises `AgentDown` when no thread can be started."""
        self._records[record.run_id] = record
        try:
            self.be_awake()
        except AgentDown:  # a run without a watchdog may hang for ever, so it does not begin
            self.unwatch(record)
            raise

    def be_awake(self) -> None:
        """Have a thread that looks. Raises `AgentDown` when none can be started."""
        if not self._ticking:
            try:
                self._start()
            except RuntimeError as cause:
                raise AgentDown(f"no thread can be started to watch over runs: {cause}") from cause

    def unwatch(self, record: RunRecord) -> None:
        """Forget `record`."""
        self._records.pop(record.run_id, None)

    def end_with_the_last(self) -> None:
        """Linger no longer after the last run: its system has stopped, and no other one comes."""
        self._ends_soon = True

    def find(self, run_id: str) -> RunRecord | None:
        """Return the record of a run that is looked after."""
        return self._records.get(run_id)

    def records(self) -> list[RunRecord]:
        """Return the records looked after."""
        return list(self._records.values())

    def __len__(self) -> int:
        return len(self._records)

    def _start(self) -> None:
        with self._lock:
            if self._ticking:
                return
            threading.Thread(target=self._tick, name="understudy-watchdog", daemon=True).start()
            self._ticking = True  # not before there is a thread

    def _tick(self) -> None:
        idle_since = time.monotonic()
        while True:
            time.sleep(TICK)
            now = time.monotonic()
            if self._records:
                idle_since = now
                self._look_at_all(now)
            elif (self._ends_soon or now - idle_since > LINGER) and self._retire():
                return

    def _retire(self) -> bool:
        with self._lock:
            # Said first and looked second: `watch` enters its record first and then looks whether we tick.
            self._ticking = False
            self._ticking = bool(self._records)
            return not self._ticking

    def _look_at_all(self, now: float) -> None:
        # Not in the loop that goes on ticking: its variable would keep the last run, and all it works with, alive.
        for record in self.records():
            self._look(record, now)

    def _look(self, record: RunRecord, now: float) -> None:
        deadline = record.scope.deadline
        if (inf if deadline is None else deadline) <= now:
            self._see_to(record, self._on_deadline)
        elif record.step_deadline <= now:
            self._see_to(record, self._on_step)

    def _see_to(self, record: RunRecord, what: Callable[[RunRecord], object]) -> None:
        """Have another thread do it: callbacks of the user's may run there, and all other runs need their watchdog."""
        seen_to = (record.run_id, what)
        if seen_to not in self._seen_to:
            self._seen_to.add(seen_to)
            run_elsewhere(partial(self._do, record, what))

    def _do(self, record: RunRecord, what: Callable[[RunRecord], object]) -> None:
        try:
            what(record)
        except BaseException:
            text = "the watchdog failed at run %s"
            emit(ERROR, "watchdog_failed", values_of_run(record.link), text, record.run_id, exc_info=True)
        finally:
            self._seen_to.discard((record.run_id, what))


def scope_of_run(timeout: float | None) -> Scope:
    """Make a run's scope: inside of a run, its deadline and cancellation hold too."""
    deadline = None if timeout is None else time.monotonic() + timeout
    return Scope(deadline, time.monotonic, current_scope(), RETRIES)


def see_to_step(record: AgentRunRecord) -> bool:
    """Do what is due about the present step; False if the run must end."""
    order = record.step_order
    if order is None:
        return _gave_check_up(record)
    now = time.monotonic()
    with record.lock:
        if record.step_order is not order or record.step_deadline > now:
            return True
        action = _action_due(record, order, now)
        if action == "warn":
            record.step_deadline = next_look(order.deadline, order.gives_up_at)
    if action == "warn":
        order.tell_overdue()
        order.warn()
    elif action != "wait":
        take_step_away(record, order, action == "retry")
    return True


def _gave_check_up(record: AgentRunRecord) -> bool:
    """Give up a work in a validator that does not return; the next one takes the arguments to be bad."""
    with record.lock:
        question = record.step_check
        if question is None or record.step_deadline > time.monotonic():
            return question is not None
        hanging, doing, since = record.in_hand, record.doing, record.step_since
        epoch = record.take_over(record.epoch)
        if epoch is None:
            return True
        record.answered[question] = f"{doing} did not end in time"
    if hanging is not None:
        safely(record, record.host.hung.abandon, hanging, record, doing, since)
    drive_on(record, epoch)
    return True


def take_step_away(record: AgentRunRecord, order: ToolCallTask, again: bool) -> None:
    """Give up a work in a call that does not return; the run goes on with a timeout, or makes the call again."""
    if not order.give_up_effect():  # its result is in the store, and comes in a moment
        return
    with record.lock:
        if record.step_order is not order or record.machine is None:
            return
        hanging, since = record.in_hand, record.step_since
        epoch = record.take_over(record.epoch)
        if epoch is None:
            return
        told = list[Finished]()
        failure = None if again else safely(record, _feed_timeout, record, order, told)
    if again:
        safely(record, tell_repeated, order)
    record.log.write_lines(told)
    if hanging is not None:
        safely(record, record.host.hung.abandon, hanging, record, order.doing, since)
    if failure is None:
        drive_on(record, epoch)
    else:
        record.host.endings.cannot_go_on(record, failure, epoch)
    order.abandon()


def drive_on(record: AgentRunRecord, epoch: int) -> None:
    """Have a run go on from `epoch`, or end it."""
    try:
        record.host.drive(record, epoch)
    except BaseException as failure:
        record.host.endings.cannot_go_on(record, failure, epoch)


def _feed_timeout(record: AgentRunRecord, order: ToolCallTask, told: list[Finished]) -> None:
    """Feed the result of a call that did not come back in time; call it under the lock. `told` gets the entry that has no log line yet."""
    assert record.machine is not None
    result = timeout_result(order.call, order.tool.timeout)
    record.tell(ResultCame(result))
    if record.state.results:
        record.tell(ResultsTaken())
    told.append(order.finished(result))
    record.log.note(told[0], with_line=False)


def _action_due(record: AgentRunRecord, order: ToolCallTask, now: float) -> CallAction:
    """Return what is due for a call whose time is over, and keep what its next attempt must know. Call it under the lock."""
    call_id = order.call.id
    timed_out = record.attempts.get(call_id, 0)
    action = order.action_due(now, timed_out)
    if action in ("retry", "warn"):
        record.attempts[call_id] = timed_out + 1
        record.before[call_id] = (order.since, order.attempts)
    return action
