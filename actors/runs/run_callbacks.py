"""User code that a run calls: the context that it gets, and how callbacks hear of an end that they cannot change.

Groups and workflows have only such callbacks, and so have agents whose run was ended from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from logging import ERROR
from typing import Literal

from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.diagnostics import emit
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.context.scope import Origin, named_after
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.runs.callbacks import AgentCallback, action_of

from .record import RunRecord


def context_of(run: RunRecord, session: SessionOverlay, *, continues: int = 0, answer_tool: str = "") -> RunContext:
    """Return the context of user code, with a view of its own of the session."""
    return RunContext(
        run_id=run.run_id,
        parent_run_id=run.parent_run_id,
        agent_id=run.runner.id,
        input=run.input_text,
        session=session,
        deps=run.options.deps,
        scope=run.scope,
        user_id=run.options.user_id,
        conversation_id=run.options.conversation_id,
        turns=run.turns,
        iterations=run.iterations,
        continues=continues,
        answer_tool=answer_tool,
    )


def tell_error_elsewhere(
    run: RunRecord, callbacks: Sequence[AgentCallback], context: Callable[[], RunContext], error: BaseException
) -> None:
    """Tell the callbacks of the error that ended a run, on a lent thread."""
    tell = partial(tell_callbacks, callbacks, "on_error", context, run.run_id, error)
    run_elsewhere(named_after(Origin(run.ancestry, None), tell))


def tell_callbacks(
    callbacks: Sequence[AgentCallback],
    moment: Literal["on_error", "on_finish"],
    context: Callable[[], RunContext],
    run_id: str,
    ending: object,
) -> None:
    """Tell each callback of the outcome or the error, whatever another one does; `context` makes a context for each."""
    for callback in callbacks:
        try:
            answer = getattr(callback, moment)(context(), ending)
            _, fault = action_of(callback, moment, answer)
            if fault:
                emit(ERROR, "callback_failed", {"run_id": run_id}, "%s (run %s)", fault, run_id)
        except BaseException as failure:  # the run has its ending, and the others should hear of it too
            text, values = f"callback %s failed in {moment} of run %s", {"run_id": run_id}
            emit(ERROR, "callback_failed", values, text, callback.name, run_id, exc_info=failure)
