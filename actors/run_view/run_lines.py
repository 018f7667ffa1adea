"""The log lines of a run: that it starts, what its tools and retries do, and how it ends. They hold no words of users or models."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable
from logging import DEBUG, INFO, WARNING

from understudy.diagnostics import emit, is_muted, log
from understudy.errors import ProviderError
from understudy.orchestration.agent.context_state import ContextChange
from understudy.vocabulary.context.ancestry import Link
from understudy.vocabulary.context.run_values import values_of_run
from understudy.vocabulary.messages import ModelTurn, ToolCall
from understudy.vocabulary.runs.callbacks import AgentCallback
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, MoreTurns, NeedsApproval, NeedsInput, TurnOutcome

from .log import Compacted, Finished, Retried, RunLogEntry, Uncompacted


def lines_of(link: Link, callbacks: Iterable[AgentCallback] = (), tools: Container[str] = ()) -> RunLines | None:
    """Return what writes the lines of a run; None if the logger takes none: nothing else is done for these then."""
    if not log.isEnabledFor(INFO) or is_muted():  # the second is for runs inside, which other threads may end
        return None
    return RunLines(link, callbacks, tools)


def tell_late_driver(link: Link, cause: BaseException) -> None:
    """Tell that a driver failed after its run was over or in other hands, so that nobody else hears of it."""
    text = "run %s: a driver failed that no longer had it"
    emit(WARNING, "driver_failed", values_of_run(link), text, link.run_id, exc_info=cause)


class RunLines:
    """Writes the lines of one run.

    Args:
        link: names the run.
        callbacks: those of its runner: some write lines about tool calls, turns and the end themselves.
        tools: names that may be written; a name that a model made up can be any text.
    """

    __slots__ = ("_began", "_is_told", "_tools", "_values")

    def __init__(self, link: Link, callbacks: Iterable[AgentCallback], tools: Container[str]) -> None:
        self._values = values_of_run(link)
        self._is_told = any(each.writes_log for each in callbacks)
        self._tools = tools
        self._began = time.monotonic()

    def started(self) -> None:
        """Tell that the run starts, or goes on after a pause."""
        emit(INFO, "run_started", self._values)

    def take(self, fact: RunLogEntry) -> None:
        """Write the line of a fact, if it has one."""
        match fact:
            case Retried():
                emit(INFO, "retry_scheduled", self._values | self._of_retry(fact))
            case Compacted(change):
                emit(INFO, "context_compacted", self._values | _of_compaction(change))
            case Uncompacted(error):
                emit(WARNING, "compaction_failed", self._values | {"error_type": type(error).__name__})
            case _ if self._is_told:
                pass
            case ToolCall():
                emit(DEBUG, "tool_started", self._values | self._of_call(fact))
            case Finished():
                emit(INFO, "tool_finished", self._values | self._of_call(fact.call) | _of_result(fact))
            case (int() as turn, ModelTurn() as said):
                emit(DEBUG, "turn_finished", self._values | _of_turn(turn, said))
            case BaseException():
                emit(INFO, "run_failed", self._values | _of_error(fact) | {"duration": self._duration})
            case Complete() | Incomplete() | MoreTurns() | NeedsApproval() | NeedsInput():
                emit(INFO, "run_finished", self._values | _of_outcome(fact) | {"duration": self._duration})
            case int() if type(fact) is int:
                emit(DEBUG, "turn_started", self._values | {"turn": fact})
            case _:
                pass

    @property
    def _duration(self) -> float:
        return time.monotonic() - self._began

    def _of_call(self, call: ToolCall) -> dict[str, object]:
        return {"tool": call.name if call.name in self._tools else "", "call_id": call.id}

    def _of_retry(self, fact: Retried) -> dict[str, object]:
        about: dict[str, object] = {} if fact.call is None else self._of_call(fact.call)
        if fact.task:
            about["task"] = fact.task
        return about | {"what": fact.what, "attempt": fact.attempt, "wait": fact.wait} | _of_error(fact.error)


def _of_error(error: BaseException) -> dict[str, object]:
    about: dict[str, object] = {"error_type": type(error).__name__}
    if isinstance(error, ProviderError) and error.request_id:
        about["request_id"] = error.request_id
    return about


def _of_result(fact: Finished) -> dict[str, object]:
    result = fact.result
    return {
        "is_error": result.is_error,
        "error_kind": result.error_kind,
        "attempts": fact.attempts,
        "duration": fact.duration,
    }


def _of_turn(turn: int, said: ModelTurn) -> dict[str, object]:
    return {
        "turn": turn,
        "finish_reason": said.finish_reason,
        "tool_calls": len(said.tool_calls),
        "input_tokens": said.usage.input_tokens,
        "output_tokens": said.usage.output_tokens,
        "model": said.model,
        "request_id": said.request_id,
    }


def _of_compaction(change: ContextChange) -> dict[str, object]:
    return {
        "how": change.kind,
        "messages_before": change.messages_before,
        "messages_after": change.messages_after,
        "tokens_before": change.tokens_before,
        "tokens_after": change.tokens_after,
        "pruned": change.pruned,
    }


def _of_outcome(outcome: TurnOutcome[object]) -> dict[str, object]:
    return {
        "status": outcome.status,
        "turns": outcome.turns,
        "iterations": outcome.iterations,
        "total_tokens": outcome.usage.total_tokens,
    }
