"""How the runs of a system end or pause: a run is stored first, as far as it must be kept, and then its end is told."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from understudy.actors.drivers.overdue_steps import see_to_step
from understudy.actors.pauses.error_tokens import ErrorTokens
from understudy.actors.run_view.errors import cancelled, named, step_timeout, timed_out
from understudy.actors.run_view.failsafe import safely
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.host import RunEndings
from understudy.actors.runs.ownership import Stale
from understudy.actors.runs.record import RunRecord
from understudy.actors.threads import cancel_hooks
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.errors import (
    AgentCrashed,
    AgentDown,
    CircularAgentCall,
    ContextOverflow,
    LeaseLost,
    RunCancelled,
    RunError,
    StoreError,
    UnderstudyError,
    in_words,
)
from understudy.orchestration.saving.resumable import goes_on
from understudy.vocabulary.context.overlays import lasting
from understudy.vocabulary.runs.handles import RunPhase
from understudy.vocabulary.runs.outcomes import (
    Complete,
    Incomplete,
    MoreTurns,
    NeedsApproval,
    NeedsInput,
    Outcome,
    stamp,
)

if TYPE_CHECKING:
    from understudy.actors.pauses.stored_pauses import StoredPauses
    from understudy.actors.pauses.tokens import Tokens
    from understudy.actors.runs.abandoned import AbandonedWork

    from .journaling import Journaling
    from .late_saves import LateSaves


class SystemRunEndings(RunEndings[RunRecord]):
    """Ends the runs of one system. Safe to use from any thread.

    Args:
        tokens: where runs are kept that may go on.
        late_saves: stores the session values of runs that were ended from outside.
        hung: counts work that is given up.
        journaling: is told of the end before anybody hears of it.
    """

    def __init__(
        self, tokens: Tokens | StoredPauses, late_saves: LateSaves, hung: AbandonedWork, journaling: Journaling
    ) -> None:
        self._journaling = journaling
        self._tokens = tokens
        self._error_tokens = ErrorTokens(tokens)
        self._late_saves = late_saves
        self._hung = hung

    # --- called by the driver that holds the run

    def complete(self, record: RunRecord, outcome: Complete[object] | Incomplete, epoch: int) -> None:
        stamp(outcome, record.run_id, lasting(record.session), record.artifacts.snapshot())
        if isinstance(outcome, Incomplete):
            self.park(record, outcome, epoch)
        else:
            self._check_hold(record)
            commit = record.remember(outcome, epoch)
            self._save_session(record, epoch)
            if not record.hold(epoch) or not self._journaling.may_end(record):
                return
            self._tokens.finish(record)
            self._journaling.end_complete(record, outcome, epoch)
            safely(record, self._tokens.over, record)
            safely(record, record.cell.worked)
            record.end(outcome, "complete", epoch=epoch, commit=commit)

    def park(self, record: RunRecord, outcome: NeedsApproval | NeedsInput | Incomplete, epoch: int) -> None:
        self._check_hold(record)
        self._save_session(record, epoch)
        token = "" if record.is_inner else self._keep(record, outcome, epoch)
        self._leave(record, replace(outcome, token=token), outcome.status, epoch)

    def end_turn(self, record: RunRecord, outcome: MoreTurns, epoch: int) -> None:
        self._check_hold(record)
        self._save_session(record, epoch)
        told = replace(outcome, token=self._keep(record, outcome, epoch))
        # Only `run_turn` asks for one turn, and it takes an outcome of this type.
        self._leave(record, cast("Outcome[object]", told), outcome.status, epoch)

    def _leave(self, record: RunRecord, outcome: Outcome[object], phase: RunPhase, epoch: int) -> None:
        token: str = getattr(outcome, "token", "")
        if not self._journaling.may_end(record):  # what cancels the run takes the token for its error
            return
        self._journaling.end(record, phase, outcome, epoch)
        safely(record, record.cell.worked)
        ended = record.end(outcome, phase, epoch=epoch)
        if token and not ended and record.turn_hold is None:
            safely(record, self._error_tokens.drop, record, token)

    def _check_hold(self, record: RunRecord) -> None:
        """Raise `StoreError` if the run is left, and `LeaseLost` if another worker has its token, before anything is stored."""
        if record.left_error is not None:
            raise record.left_error
        if record.turn_hold is not None and not self._tokens.renew(record.turn_hold):
            raise record.turn_hold.lost_error()

    def _save_session(self, record: RunRecord, epoch: int) -> None:
        """Store the session values of a run before its end, if that may block; values in memory are stored by the end itself."""
        if record.waits_to_save:
            record.begin_step(epoch, "storing its session")
            record.through_outage(epoch, record.save_session)

    def _keep(self, record: RunRecord, outcome: NeedsApproval | NeedsInput | Incomplete | MoreTurns, epoch: int) -> str:
        if record.keeps_events:  # first: a token is no use to readers who do not know what it is for
            record.write_journal(epoch)
        record.begin_step(epoch, "keeping what it needs to go on")
        issue = self._tokens.issue_for_limit if isinstance(outcome, Incomplete) else self._tokens.issue
        return self._error_tokens.keep(record, partial(issue, epoch=epoch))

    def fail(self, record: RunRecord, error: BaseException, epoch: int) -> bool:
        if not record.hold(epoch):
            return False
        if not self._journaling.may_end(record):
            return True
        safely(record, record.log.end_children)  # first: the number of the next event is stored with the run
        if isinstance(error, LeaseLost):
            record.forget_changes()
        token = ""
        try:
            if record.left_error is None:
                token = self._keep_failed(record, error, epoch)
        except Stale:
            return False
        except StoreError:  # the run is left, and how it would have ended is not written
            pass
        left = record.left_error
        if left is not None:  # it is not over: neither its callbacks nor the store are told of an end
            record.end(left, "failed", epoch=epoch)
            return True
        ended = record.end(error, "cancelled" if isinstance(error, RunCancelled) else "failed", epoch=epoch)
        if token and not ended and not record.keeps:  # another thread ended the run, and has no use for the token
            self._revoke(record, token)
        if ended:
            safely(record, record.tell_error, error)
        return True

    def _keep_failed(self, record: RunRecord, error: BaseException, epoch: int) -> str:
        """Store the session, the token and the end of a run that ends with an error; return the token, or ''.

        Raises:
            StoreError: the store failed for too long, and the run is left.
            Stale: the run is over or in other hands.
        """
        if record.waits_to_save:
            record.through_outage(epoch, record.save_session)
        token = self.give_token(record, error, epoch)
        if record.left_error is not None:
            return ""
        if not token and not record.is_inner:
            safely(record, self._note_over, record, error)
        if isinstance(error, (RunError, ContextOverflow)):
            error.run_id = record.run_id
        self._journaling.end(record, type(error).__name__, error, epoch)
        return token

    def give_token(self, record: RunRecord, error: BaseException, epoch: int) -> str:
        failure = safely(record, self._error_tokens.give, record, error, epoch)
        return error.token if failure is None and isinstance(error, UnderstudyError) else ""

    def withdraw_token(self, record: RunRecord, error: UnderstudyError) -> None:
        safely(record, self._error_tokens.withdraw, record, error)

    def _note_over(self, record: RunRecord, error: BaseException) -> None:
        """Tell where the run is kept that it is over; the token of a turn stands if the turn is to be done again."""
        refused = isinstance(error, CircularAgentCall) and record.may_go_on
        again = refused or goes_on(error) == "again" or isinstance(error, (StoreError, AgentDown))
        self._tokens.over(record, again=again)

    def _revoke(self, record: RunRecord, token: str) -> None:
        """Forget a token that no caller got; that of a committed turn stands, for a caller with the token before it is told it."""
        if record.turn_hold is None:
            safely(record, self._tokens.revoke, token, record)

    # --- called by anyone

    def hurry(self, deadline: float) -> float:
        """Wait less for the store, because the system stops; returns until when, on the monotonic clock as `deadline` is."""
        return self._error_tokens.hurry(deadline)

    def cannot_go_on(self, record: RunRecord, failure: BaseException, epoch: int) -> None:
        error = AgentCrashed(f"run {record.run_id} of {named(record.runner)} cannot go on: {in_words(failure)}")
        error.actor, error.causes, error.__cause__ = record.runner.id, (failure,), failure
        self.fail(record, error, epoch)

    def cancel(self, record: RunRecord, why: str = "", *, kept: bool = False) -> bool:
        return self._abandon(record, cancelled(record, why), "cancelled", kept=kept)

    def refuse(self, record: RunRecord, circle: UnderstudyError) -> None:
        self._abandon(record, circle, "failed", kept=False)

    def lose(self, record: RunRecord, error: UnderstudyError) -> None:
        if record.end(error, "failed", commit=record.forget_changes):
            self._tell_cancelled(record, error)

    def deadline_passed(self, record: RunRecord) -> None:
        """End a run whose own deadline has passed; for the watchdog."""
        self._abandon(record, timed_out(record), "failed", kept=True)

    def step_overdue(self, record: RunRecord) -> None:
        """Do what is due about a step that takes too long, or end its run; for the watchdog."""
        assert isinstance(record, AgentRunRecord), "only steps of an agent's run have a time limit of their own"
        if not see_to_step(record):
            self._abandon(record, step_timeout(record), "failed", kept=True, overdue=time.monotonic())

    def _abandon(
        self, record: RunRecord, error: UnderstudyError, phase: RunPhase, *, kept: bool, overdue: float | None = None
    ) -> bool:
        """End a run from outside; its driver, if it is at work, is waited for no longer."""
        keep = partial(self._error_tokens.give, record, error) if kept and not record.is_inner else None
        if not record.end(error, phase, overdue=overdue, keep=keep):
            return False
        if (record.revision or record.turn_hold is not None) and not error.token:
            # On another thread: the run may be in a store, which may block.
            safely(record, run_elsewhere, lambda: safely(record, self._note_over, record, error))
        if record.waits_to_save:
            safely(record, self._late_saves.begin, record)
        self._tell_cancelled(record, error)
        return True

    def _tell_cancelled(self, record: RunRecord, error: UnderstudyError) -> None:
        """Cancel the work inside of a run that was ended from outside, and tell its callbacks of the error."""
        safely(record, cancel_hooks.cancel, record.scope, self._hung.give_up)
        self._hung.told_at = time.monotonic()
        safely(record, record.tell_error, error)
