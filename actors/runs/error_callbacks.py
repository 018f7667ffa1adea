"""Callbacks that hear how a run ended, and change nothing: of groups and workflows, and of agents whose run was ended from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from logging import ERROR
from typing import Literal

from understudy.diagnostics import emit
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.runs.callbacks import AgentCallback, action_of


def tell_callbacks(
    callbacks: Sequence[AgentCallback],
    moment: Literal["on_error", "on_finish"],
    context: Callable[[], RunContext],
    run_id: str,
    ending: object,
) -> None:
    """Tell each callback of the outcome or the error, whatever another one does; `context` makes what each gets to see."""
    for callback in callbacks:
        try:
            answer = getattr(callback, moment)(context(), ending)
            _, fault = action_of(callback, moment, answer)
            if fault:
                emit(ERROR, "callback_failed", {"run_id": run_id}, "%s (run %s)", fault, run_id)
        except BaseException as failure:  # the run has its ending, and the others should hear of it too
            text, values = f"callback %s failed in {moment} of run %s", {"run_id": run_id}
            emit(ERROR, "callback_failed", values, text, callback.name, run_id, exc_info=failure)
