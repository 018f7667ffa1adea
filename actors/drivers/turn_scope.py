"""The scope of a model call: retries of the model's client in it become events of the run."""

from __future__ import annotations

from understudy.actors.run_view.log import Retried, RunLog
from understudy.actors.run_view.tracebacks import let_go
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.messages import ModelTurn


class TurnScope(Scope):
    """The scope of a model call that a run makes.

    Attributes:
        log: of the run.
        turn: which call it is; None for a summary of the conversation.
        is_streamed: whether its turn comes in pieces.
        partial: what came of a streamed turn that failed; None before that, and if nothing came.
    """

    # Filled by the driver: an `__init__` would cost every turn a call more.
    __slots__ = ("is_streamed", "log", "partial", "turn")

    log: RunLog
    turn: int | None
    is_streamed: bool
    partial: ModelTurn | None

    def tell_retry(self, attempt: int, wait: float, error: BaseException) -> None:
        if not self.cancelled:  # else the call was given up, and another one may be under way
            let_go(error)
            self.log.note(Retried(what="model", attempt=attempt, wait=wait, error=error, turn=self.turn))
