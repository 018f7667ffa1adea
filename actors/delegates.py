"""Calls of sub-agents: the run that such a call begins, or goes on with, and what its end is to the run around it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.ancestry import MAX_HOPS, check_permits, next_hops, too_many_hops
from understudy.errors import CircularAgentCall, RunError, UnfinishedRun
from understudy.orchestration import Agent
from understudy.orchestration.port import RunOptions
from understudy.outcomes import Complete, Incomplete, Outcome
from understudy.scope import Scope
from understudy.session import SessionOverlay

from .current import current_system
from .orders import Executed, Paused, RunTool
from .rendering import rendered, result_of
from .runrecord import RunRecord
from .saving import load, saved_run
from .waiting import graph

if TYPE_CHECKING:
    from understudy.orchestration.delegation import SubAgent
    from understudy.orchestration.state import PausedChild

    from .system import ActorSystem


def delegate(order: RunTool, sub_agent: SubAgent, task: str) -> Executed:
    """Carry out a call of a sub-agent on this thread, which waits for the run that the call is.

    Raises:
        CircularAgentCall: the sub-agent would wait for itself.
        DisallowedAgentCall: a sub-agent above does not allow it.
        UnfinishedRun: its model stopped before its answer met a criterion.
        UnderstudyError: whatever else its run ended with.
    """
    system, agent = current_system(), _agent(sub_agent)
    _refuse(system, order, agent)
    with order.record.lock:
        machine = order.record.machine
        paused = None if machine is None else machine.child(order.call.id)
    child = _begun(system, order, agent, task) if paused is None else _continued(system, order, agent, paused)
    child.is_inner = True
    child.errands = order.record.errands
    if sub_agent.permit is not None:
        child.link.permits += (sub_agent.permit,)
    return _executed(order, child, _outcome_of(system, order, child))


def _agent(sub_agent: SubAgent) -> Agent[object]:
    runner = sub_agent.runner
    if not isinstance(runner, Agent):
        raise TypeError(f"expected an agent, got {runner!r}")
    return runner


def _refuse(system: ActorSystem, order: RunTool, agent: Agent[object]) -> None:
    try:
        graph.check(order.record.ancestry, agent)
    except CircularAgentCall as error:
        system.tell_refused(agent, error)
        raise
    check_permits(agent)
    if next_hops() > MAX_HOPS:
        raise RunError(too_many_hops(agent.id))


def _begun(system: ActorSystem, order: RunTool, agent: Agent[object], task: str) -> RunRecord:
    """Return the record of a new run. It has no conversation: each task is one of its own."""
    given = order.record.options
    options = RunOptions(session=order.record.session, user_id=given.user_id, deps=given.deps)
    return system.prepare(agent, task, options)


def _continued(system: ActorSystem, order: RunTool, agent: Agent[object], paused: PausedChild) -> RunRecord:
    """Return the record with which a paused run goes on, and has the answers."""
    from understudy.orchestration.saved import SavedRun

    record = order.record
    saved = SavedRun.from_json(paused.saved)
    below = replace(saved, session=dict(record.session))
    scope = Scope(None, time.monotonic, parent=order.scope)
    cell = system.cell_of(agent)
    # Its definition is part of that of the run around it, which was compared, or adopted, when that one was loaded.
    child = load(below, agent, record.options.deps, scope, record.runs, cell, adopt=True)
    child.session.changes.update(saved.session)
    child.session.removed = frozenset(saved.removed)
    child.respond(paused.answers)
    return child


def _outcome_of(system: ActorSystem, order: RunTool, child: RunRecord) -> Outcome[object]:
    callers = order.record.ancestry
    child.ancestry = (*callers, child.link)
    with graph.waiting(callers, child.link):
        system.launch(child)  # its scope is inside of the call's: it ends at the latest with that
        child.reply.wait()
    return child.reply.get()


def _executed(order: RunTool, child: RunRecord, outcome: Outcome[object]) -> Executed:
    call = order.call
    match outcome:
        case Complete(output=output):
            return result_of(call, order.tool, rendered(output), order.record), _changes(order.record, child)
        case Incomplete(completion_reason=why, last_text=text):
            raise UnfinishedRun(
                f"agent {child.runner.id!r} stopped, as {why}; it said last: {text}", run_id=child.run_id
            )
        case _:
            return Paused(call.id, _saved(child), outcome.pauses), None


def _changes(record: RunRecord, child: RunRecord) -> SessionOverlay:
    """Return what the child changed, as changes to the session of the run around it."""
    overlay = SessionOverlay(record.session)
    overlay.changes.update(child.session.changes)
    overlay.removed = child.session.removed
    return overlay


def _saved(child: RunRecord) -> str:
    """Return a paused child as text: of the session only what it changed, for the rest belongs to the run around it."""
    session = child.session
    changes, removed = session.lasting_changes()
    return replace(saved_run(child), session=changes, removed=tuple(sorted(removed))).to_json()
