"""How the runs of a system end or pause: a run is stored first, as far as it must be kept, and then its end is told.

`Journaling` says which runs have a journal, and when it begins and ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from logging import ERROR, WARNING
from math import inf
from typing import TYPE_CHECKING, cast

from understudy.actors.journal.kept_events import KeptEvents
from understudy.actors.journal.run_journals import RunJournals
from understudy.actors.pauses.error_tokens import AT_HAND, ErrorTokens
from understudy.actors.run_view.errors import cancelled, named, safely, step_timeout, timed_out
from understudy.actors.run_view.log import Diverged
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.child_runs import save
from understudy.actors.runs.factory import CallRun
from understudy.actors.runs.group_record import GroupRunRecord
from understudy.actors.runs.host import RunEndings
from understudy.actors.runs.ownership import Stale
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.watchdog import see_to_step
from understudy.actors.stores.database import may_pass
from understudy.actors.system.late_ends import LateEnds
from understudy.actors.threads import cancel_hooks
from understudy.actors.threads.run_elsewhere import run_elsewhere
from understudy.diagnostics import emit
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
from understudy.vocabulary.context.run_values import values_of_run
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
    from understudy.actors.journal.map_claims import NamedMaps
    from understudy.actors.journal.run_journal import JournalPart
    from understudy.actors.pauses.stored_pauses import EndsRun, StoredPauses
    from understudy.actors.pauses.tokens import Tokens
    from understudy.actors.runs.ownership import AbandonedWork
    from understudy.actors.stores.database import Sql
    from understudy.actors.stores.maps.map_table import MapTable
    from understudy.actors.stores.pauses import Check
    from understudy.actors.system.late_saves import LateSaves
    from understudy.orchestration.journal.rows import JournalRow
    from understudy.vocabulary.runs.outcomes import Outcome

PAUSE = 0.5  # Seconds until the end of a run is tried again whose store failed for longer than runs wait.


class Journaling:
    """The journals of the runs of one system; does nothing without a durable store. Safe to use from any thread.

    A run has a journal if nothing that is part of a run began it: a run that a tool begins belongs to the call of that tool,
    which is in doubt as a whole. A run that ends its stay after one turn has none, because its token stands.

    Args:
        journals: those of the system; None without a durable store.
        maps: those with a name; there are some if there are journals.
        results: where maps keep their results: also those of runs that go on from a token without a journal.
    """

    def __init__(self, journals: RunJournals | None, maps: NamedMaps | None, results: MapTable | None) -> None:
        self.journals = journals
        self._maps = maps
        self._results = results
        self.late_ends = LateEnds()

    @property
    def is_on(self) -> bool:
        """Whether runs have a journal."""
        return self.journals is not None

    def journals_for(self, what: str) -> RunJournals:
        """Return the journals. Raises `ValueError` if there are none, and names what needs them."""
        if self.journals is None:
            raise _needs_journal(what)
        return self.journals

    def maps_for(self, what: str) -> NamedMaps:
        """Return the maps with a name; raises as `journals_for`."""
        if self._maps is None:
            raise _needs_journal(what)
        return self._maps

    def rest(self, until: float) -> None:
        """Keep no thread beyond the runs in flight, for no other one comes; waits as `RunJournals.rest` does."""
        if self.journals is not None:
            self.journals.rest(until)

    def begin(self, record: RunRecord, also: Callable[[Sql], bool] | None = None) -> None:
        """Accept a run that is about to begin, if it has a journal. Blocks for the store.

        Args:
            record: of the run. It has a journal afterwards, unless `also` returned False.
            also: what else is done in the transaction; if it returns False, nothing is done.

        Raises:
            TypeError: JSON cannot carry the session.
            StoreError: the store failed; the run is not accepted.
        """
        if self.journals is None or record.journal is not None or not _is_journaled(record):
            return
        from understudy.orchestration.journal.accepted_run import accepted_text

        given = record.input if isinstance(record.input, str) else tuple(record.input)
        try:
            accepted = accepted_text(given, record.options, lasting(record.session))
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{named(record.runner)}: {error}, and the run has a journal; name the key 'temp:…', or make the system with "
                "journal=False"
            ) from None
        self._accept(record, accepted, also)

    def go_on(self, record: RunRecord, take: Callable[[Sql], bool]) -> bool:
        """Accept a run that goes on from a token. Blocks for the store.

        Args:
            record: of the run, with the answers.
            take: uses the token up, in the transaction; False if another caller was first.

        Returns:
            Whether the token was used up.

        Raises:
            TypeError: JSON cannot carry the session.
            StoreError: the store failed; the token stands.
        """
        return self._accept(record, "", take, goes_on=True)

    def _accept(
        self, record: RunRecord, accepted: str, also: Callable[[Sql], bool] | None, *, goes_on: bool = False
    ) -> bool:
        assert self.journals is not None
        named_ = self.journals.named(record.run_id, record.runner.id, record.options)
        part = self.journals.begin(record.run_id, record.account)
        is_accepted = False
        try:
            rows, count = record.rows_for(part) if goes_on else ([], 0)
            with self.journals.first_beat(named_) as beat:
                is_accepted = part.journal.accept(named_, accepted, rows, also, beat, keeps_events=record.keeps_events)
        finally:
            if not is_accepted:
                self.journals.ended(part.journal)
        if is_accepted:
            part.line.written(count)
            record.journal = part
            if record.keeps_events:
                keep_events(record, part)
        return is_accepted

    def end(self, record: RunRecord, ending: str, told: Outcome[object] | BaseException, epoch: int) -> None:
        """Note that a run is about to end, for a work of it. Blocks for the store; another failure than its own is logged.

        Args:
            record: of the run.
            ending: how it ends, in a word.
            told: its outcome or its error.
            epoch: of the work.

        Raises:
            StoreError: the store failed for too long, and the run is left.
            Stale: the run is over or in other hands.
        """
        if record.journal is None or record.is_inner or record.journal.journal.over:
            return
        rows = _last_events(record, told)
        try:
            record.through_outage(epoch, partial(record.journal.journal.end, ending, None, rows))
        except Exception as failure:
            if record.left_error is not None:
                raise
            text = "run %s: its end could not be noted: %s"
            emit(ERROR, "run_ending_failed", {"run_id": record.run_id}, text, record.run_id, failure, exc_info=failure)

    def ends_with_pause(self, record: RunRecord, told: NeedsApproval | NeedsInput | Incomplete) -> EndsRun | None:
        """Return what ends the journal of a run that is about to wait, in the transaction in which it is kept.

        Between the two, no process can die. None for a run without a journal of its own, and for one that is left.
        """
        part = record.journal
        if part is None or record.is_inner or not part.journal.may_end():
            return None

        def ends(token: str) -> Check:
            rows = _last_events(record, replace(told, token=token))
            return lambda sql: part.journal.end_in(sql, told.status, rows)

        return ends

    def end_complete(self, record: RunRecord, told: Complete[object], epoch: int) -> None:
        """Note that a run is about to end with its answer, and keep the answer of a run of a map.

        Raises:
            LeaseLost: another process goes on with the run.
            RunError: the answer of a run of a map cannot be written down.
            StoreError: the store failed for too long, and the run is left; or it cannot keep the answer of a run of a map.
            Stale: the run is over or in other hands.
        """
        try:
            if record.options.of_map and self._results is not None:
                self._keep_result(record, self._results, epoch)
            else:
                self.end(record, "complete", told, epoch)
            if record.journal is not None and not record.is_inner:
                record.journal.journal.refuse_if_lost()
        except BaseException:  # it ends with an error, or goes on because a callback says so
            record.log.unseal()
            raise

    def _keep_result(self, record: RunRecord, maps: MapTable, epoch: int) -> None:
        try:
            keep = maps.keeping(record.run_id, save(record))
        except (TypeError, ValueError) as error:
            raise RunError(
                f"the result of run {record.run_id} of {named(record.runner)} cannot be kept for its map: {error}",
                run_id=record.run_id,
            ) from error
        if record.journal is None:  # it went on from a token inside of a run, or without a journal
            maps.write(keep)
        else:
            record.through_outage(epoch, partial(record.journal.journal.end, "complete", keep))

    def leave(self, record: RunRecord, *, at_its_end: bool = False) -> bool:
        """Leave a run for a later process, because the system stops and is about to cancel it; False if a work ends it."""
        return record.journal is None or record.journal.journal.leave(at_its_end=at_its_end)

    def await_end(self, record: RunRecord) -> None:
        """Wait a moment for an end that a work is noting."""
        if record.journal is not None and not record.is_inner:
            record.journal.journal.await_end(AT_HAND)

    def may_end(self, record: RunRecord) -> bool:
        """Whether a run, which a work is about to end, is not left; else it is about to be cancelled."""
        return record.journal is None or record.is_inner or record.journal.journal.may_end()

    def ended(self, record: RunRecord) -> None:
        """Note that a run has ended. Does not block."""
        if self.journals is None or record.journal is None or record.is_inner:
            return
        journal = record.journal.journal
        if journal.over or journal.failed or journal.is_left:
            self.journals.ended(journal)
        else:  # it was ended from outside
            safely(record, self.late_ends.begin, partial(safely, record, partial(self._end_late, record)))

    def _end_late(self, record: RunRecord) -> None:
        assert self.journals is not None and record.journal is not None
        journal = record.journal.journal
        end = partial(journal.end, record.phase, None, _last_events(record, record.ending))
        try:
            while True:  # also beyond the patience of runs: a run that is taken for left would come back to life
                try:
                    return record.host.outage.through(end, self.late_ends.pause)
                except StoreError as error:
                    if not may_pass(error) or not self.late_ends.pause(PAUSE):
                        text = (
                            "the end of run %s, %s, is not in the store, so that recover() may go on with the run: %s"
                        )
                        values = values_of_run(record.link)
                        emit(WARNING, "run_end_not_stored", values, text, record.run_id, record.phase, error)
                        return None
        finally:
            self.journals.ended(journal)


def keep_events(record: RunRecord, part: JournalPart) -> None:
    """Have the journal of a run keep its events from now on; their numbers follow those that the store has."""
    if part.journal.next_event is not None:
        record.log.first_seq = part.journal.next_event
        part.events = None
    part.kept = KeptEvents(record.log)
    record.log.hold_back(part.flush)


def _last_events(record: RunRecord, told: Outcome[object] | BaseException | None) -> Sequence[JournalRow]:
    """Return the rows of the last events of a run, which tells nothing more but its end."""
    kept = None if record.journal is None else record.journal.kept
    if kept is None or told is None:
        return ()
    if isinstance(told, Complete) and record.lease is not None and record.lease.came_between:
        record.log.note(Diverged(record.lease.came_between))  # its memory notes it later, when nothing more is taken
    record.log.seal()
    rows: Sequence[JournalRow] = ()

    def read() -> None:
        nonlocal rows
        rows = kept.last_rows(told)

    safely(record, read)
    return rows


def _needs_journal(what: str) -> ValueError:
    return ValueError(
        f"{what} needs a durable store and the journal: ActorSystem(store='sqlite:///shop.db'), without journal=False; on an "
        "operating system without record locks, such as Windows, only PostgreSQL has a journal"
    )


def _is_journaled(record: RunRecord) -> bool:
    if record.is_inner or record.link.begun_in or record.turn_hold is not None:
        return False
    if isinstance(record, AgentRunRecord):
        return record.last_turn == inf and not isinstance(record, CallRun)
    return isinstance(record, GroupRunRecord)


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

    # --- called by the work that holds the run

    def complete(self, record: RunRecord, outcome: Complete[object] | Incomplete, epoch: int) -> None:
        stamp(outcome, record.run_id, lasting(record.session), record.artifacts.snapshot())
        if isinstance(outcome, Incomplete):
            return self.park(record, outcome, epoch)
        if record.journal is not None or record.turn_hold is not None:
            self._check_hold(record)
        commit = record.remember(outcome, epoch)
        self._save_session(record, epoch)
        if not record.hold(epoch):
            return None
        if record.journal is not None and not self._journaling.may_end(record):
            return None
        self._tokens.finish(record)
        if record.journal is not None or record.options.of_map:
            self._journaling.end_complete(record, outcome, epoch)
        safely(record, self._tokens.over, record)
        safely(record, record.cell.worked)
        record.end(outcome, "complete", epoch=epoch, commit=commit)
        return None

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
        ends = None if isinstance(outcome, MoreTurns) else self._journaling.ends_with_pause(record, outcome)
        try:
            return self._error_tokens.keep(record, partial(issue, epoch=epoch, ends=ends))
        except BaseException:  # it ends with an error
            record.log.unseal()
            raise

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
        if self._end(record, error, "failed", commit=record.forget_changes):
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
        """End a run from outside; its work, if one is under way, is waited for no longer."""
        if not self._error_tokens.store_hangs:
            self._journaling.await_end(record)
        keep = partial(self._error_tokens.give, record, error) if kept and not record.is_inner else None
        if not self._end(record, error, phase, overdue=overdue, keep=keep):
            return False
        if (record.revision or record.turn_hold is not None) and not error.token:
            # On another thread: the run may be in a store, which may block.
            safely(record, run_elsewhere, lambda: safely(record, self._note_over, record, error))
        if record.waits_to_save:
            safely(record, self._late_saves.begin, record)
        self._tell_cancelled(record, error)
        return True

    def _end(
        self,
        record: RunRecord,
        error: UnderstudyError,
        phase: RunPhase,
        *,
        overdue: float | None = None,
        commit: Callable[[], object] | None = None,
        keep: Callable[[], object] | None = None,
    ) -> bool:
        """End a run from outside as `RunRecord.end` does; what is inside of it hears of that before done callbacks, which may block."""
        cancel = partial(self._cancel_inside, record, error)
        record.promise.when_done(cancel, first=True)
        is_ended = record.end(error, phase, overdue=overdue, commit=commit, keep=keep)
        if not is_ended:
            record.promise.forget(cancel)
        return is_ended

    def _cancel_inside(self, record: RunRecord, error: UnderstudyError) -> None:
        """Cancel the work inside of a run, if this error has ended the run; a second call does nothing."""
        if record.ending is error:
            safely(record, cancel_hooks.cancel, record.scope, self._hung.give_up)

    def _tell_cancelled(self, record: RunRecord, error: UnderstudyError) -> None:
        """Cancel the work inside of a run that was ended from outside, and tell its callbacks of the error."""
        safely(record, cancel_hooks.cancel, record.scope, self._hung.give_up)  # if the end of the run failed half-way
        self._hung.told_at = time.monotonic()
        safely(record, record.tell_error, error)
