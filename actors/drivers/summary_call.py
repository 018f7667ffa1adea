"""The model call for a summary: its failure is told, and the run goes on without the summary."""

from __future__ import annotations

import time
from math import inf

from understudy.actors.run_view.errors import checked_turn
from understudy.actors.run_view.log import RunLogEntry
from understudy.actors.run_view.tracebacks import let_go
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.context_changes import note_changes
from understudy.actors.runs.ownership import Stale
from understudy.errors import ContextOverflow, ProviderTimeout, in_words
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.supervision.call_time import GRACE
from understudy.vocabulary.checks import Unset
from understudy.vocabulary.context.scope import Scope, enter_scope, leave_scope
from understudy.vocabulary.messages import ModelRequest, ModelTurn
from understudy.vocabulary.models import Model, timeout_of

from .turn_scope import TurnScope

SUMMING = "summing up the conversation"
QUESTION = ("summary",)
"""The record keeps under this question that a call was late; the next driver reads it."""


def sum_up(record: AgentRunRecord, epoch: int, model: Model, request: ModelRequest, *, is_own: bool) -> None:
    """Ask for a summary and feed it, or say that there is none. Raises `Stale` to a driver without the run."""
    answer = summary(record, epoch, model, request, is_own=is_own)
    if isinstance(answer, BaseException):
        return _failed(record, epoch, answer)
    facts = record.feed(epoch, lambda machine: _feed(record, machine, answer))
    return record.log.write_lines(facts)


def summary(
    record: AgentRunRecord, epoch: int, model: Model, request: ModelRequest, *, is_own: bool
) -> ModelTurn | BaseException:
    """Ask for a summary, and return it, or why there is none. Raises `Stale` to a driver without the run.

    Args:
        record: the run's.
        epoch: the driver's.
        model: the model that answers.
        request: the request.
        is_own: whether it is the agent's own model, whose calls are charged at the price of the agent.
    """
    late = record.answered.get(QUESTION)
    if late is not None:
        return ProviderTimeout(f"{record.agent.id!r}: {late}")
    if record.unfed is not None:
        return record.unfed
    own = record.agent.model_timeout
    try:
        limit = timeout_of(model) if isinstance(own, Unset) else own
    except BaseException as error:  # of a property of the model object
        return error
    scope = TurnScope(None if limit is None else time.monotonic() + limit, time.monotonic, record.scope)
    scope.is_turn, scope.log, scope.turn, scope.is_streamed, scope.partial = is_own, record.log, None, False, None
    deadline = inf if scope.deadline is None else scope.deadline + GRACE
    record.begin_step(epoch, SUMMING, deadline, None, QUESTION)
    try:
        return record.keep_summary(epoch, _asked(record, model, request, scope))
    except Stale:
        raise
    except BaseException as error:
        record.cut_off(scope, error)
        if record.scope.cancelled or record.scope.remaining() == 0.0:
            raise
        return error


def _asked(record: AgentRunRecord, model: Model, request: ModelRequest, scope: Scope) -> ModelTurn:
    token = enter_scope(scope)
    try:
        return checked_turn(record, model.complete(request))
    finally:
        leave_scope(token)


def _feed(record: AgentRunRecord, machine: AgentRun, turn: ModelTurn) -> list[RunLogEntry]:
    machine.model_response(turn)
    record.unfed = None
    return _noted(record, machine)


def _failed(record: AgentRunRecord, epoch: int, error: BaseException) -> None:
    let_go(error)

    def feed(machine: AgentRun) -> list[RunLogEntry]:
        machine.compaction_failed(in_words(error))
        return _noted(record, machine, error)

    record.log.write_lines(record.feed(epoch, feed))


def shortened(record: AgentRunRecord, epoch: int, error: ContextOverflow) -> bool:
    """Whether the run has a shorter request, or one for a summary, after the model refused the present one."""

    def feed(machine: AgentRun) -> tuple[bool, list[RunLogEntry]]:
        is_shorter = machine.context_overflow(tokens=error.tokens, limit=error.limit)
        return is_shorter, _noted(record, machine)

    is_shorter, facts = record.feed(epoch, feed)
    record.log.write_lines(facts)
    return is_shorter


def _noted(record: AgentRunRecord, machine: AgentRun, error: BaseException | None = None) -> list[RunLogEntry]:
    context = machine.state.context
    return [] if context is None else note_changes(record.log, context, error)
