"""Steps of agents' runs whose time is over: the work that hangs in one loses the run, which goes on in another stay.

The watchdog calls `see_to_step` on a lent thread.
"""

from __future__ import annotations

import time

from understudy.actors.run_view.errors import safely
from understudy.actors.run_view.log import Finished
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.tools.failed_calls import tell_repeated, timeout_result
from understudy.actors.tools.tool_call import ToolCallTask
from understudy.orchestration.supervision.call_time import CallAction, next_look


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
    record.machine.tool_results([result])
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
