"""Callbacks that hear of the error of a run which was ended from outside, and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from logging import ERROR

from understudy.diagnostics import emit
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.runs.callbacks import AgentCallback, action_of


def tell_callbacks(
    callbacks: Sequence[AgentCallback], context: Callable[[], RunContext], run_id: str, error: BaseException
) -> None:
    """Tell each callback of the error, whatever another one does about it; `context` makes what each gets to see."""
    for callback in callbacks:
        try:
            answer = callback.on_error(context(), error)
            _, fault = action_of(callback, "on_error", answer)
            if fault:
                emit(ERROR, "callback_failed", {"run_id": run_id}, "%s (run %s)", fault, run_id)
        except BaseException as failure:  # the run is over, and the others should hear of it too
            text = "callback %s failed in on_error of run %s"
            emit(ERROR, "callback_failed", {"run_id": run_id}, text, callback.name, run_id, exc_info=failure)
