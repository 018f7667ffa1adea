"""The paused runs of a system: a token claims one, and the answer is fed to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from understudy.actors.pauses.refusals import leased, used
from understudy.actors.pauses.stored_pauses import LastPause, StoredPauses
from understudy.actors.pauses.tokens import Tokens
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.host import RunHost
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.resumption import feed_answer
from understudy.actors.runs.watchdog import Watchdog, scope_of_run
from understudy.actors.stores.database import Sql
from understudy.actors.stores.turn_hold import TurnHold
from understudy.errors import StoreError, UnderstudyError, UnknownToken
from understudy.vocabulary.context.ancestry import current_ancestry
from understudy.vocabulary.runs.stored_runs import WaitingRun

from .directory import Directory
from .run_endings import Journaling

if TYPE_CHECKING:
    from understudy.orchestration.definitions.port import Answer, ResumeOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.orchestration.saving.saved_run import SavedRun


PATIENCE = 1.0  # Seconds for the end of a stay before, which a lent thread is noting.


class PausedRuns:
    """Makes the records with which the paused runs of one system go on. Safe to use from any thread.

    Args:
        host: keeps the runs that go on.
        tokens: where the paused runs are kept.
        actors: those of the system.
        watchdog: looks after the runs in flight.
        lose_turn: ends a run whose turn can no longer be committed.
        journaling: accepts the runs that go on.
    """

    def __init__(
        self,
        host: RunHost[RunRecord],
        tokens: Tokens | StoredPauses,
        actors: Directory,
        watchdog: Watchdog,
        lose_turn: Callable[[AgentRunRecord, UnderstudyError], object],
        journaling: Journaling,
    ) -> None:
        self._journaling = journaling
        self._host = host
        self._tokens = tokens
        self._actors = actors
        self._watchdog = watchdog
        self._lose_turn = lose_turn

    def go_on(
        self, runner: Runner[object], token: str, answer: Answer, options: ResumeOptions, hold: TurnHold | None = None
    ) -> RunRecord:
        """Feed an answer to a paused run, and make the record with which it goes on; the host launches it.

        Args:
            runner: whose run it is.
            token: claims the run.
            answer: of a person; None if the run needs none.
            options: the caller's other arguments.
            hold: of a worker that claims the run for one turn; the token stands under its lease.

        Raises:
            TokenUsed, TokenLeased, UnknownToken, StoreError: the run cannot be claimed.
        """
        self._actors.refuse_if_closed()
        self._watchdog.be_awake()  # before the token is used up: a run that cannot be watched does not go on

        def read(saved: SavedRun) -> RunRecord:
            return self._loaded(saved, runner, options)

        record: RunRecord | None = None

        def accept(take: Callable[[Sql], bool]) -> bool:
            assert record is not None
            if record.keeps_events:  # the events of a stay that was cancelled just now come before those of this one
                self._journaling.late_ends.wait(time.monotonic() + PATIENCE)
            return self._journaling.go_on(record, take)

        accepts = accept if hold is None and self._journaling.is_on and not current_ancestry() else None
        with self._tokens.claimed(token, read, hold, accepts) as paused:
            self._refuse_unended(paused)
            paused.prepare_to_go_on()
            scope = scope_of_run(options.timeout)
            paused.account.enter(scope.account)  # the limits that hold for it are those of the caller who resumes it
            settled = feed_answer(paused, runner, answer, options)
            record = paused.continued(scope, options.deps, options.session)
            record.streams = options.stream
            record.keeps_events = record.keeps_events or options.stream
            record.cell = self._actors.cell_of(paused.runner)  # the one it had may have stopped since
            record.log.note_settled(settled)
        return record

    def _loaded(self, saved: SavedRun, runner: Runner[object], options: ResumeOptions) -> RunRecord:
        try:
            record = self._host.load(saved, runner, options.deps, scope_of_run(None), adopt=options.adopt)
        except (TypeError, ValueError) as error:
            if isinstance(error, UnderstudyError) or saved.runner_id != runner.id:
                raise
            raise _unreadable(saved, str(error)) from error
        machine = record.machine if isinstance(record, AgentRunRecord) else None
        if machine is not None and machine.turn_is_open and not (saved.by_error or record.needs_answer):
            raise _unreadable(saved, "it paused in the midst of a turn and waits for nothing")
        return record

    def go_on_turn(
        self, runner: Runner[object], token: str, answer: Answer, options: ResumeOptions, lease: float
    ) -> AgentRunRecord:
        """Claim a paused run for one turn, as `go_on` does for all of them; the token stands under a lease.

        Raises:
            TokenUsed, TokenLeased, UnknownToken, StoreError: the run cannot be claimed.
        """
        self._tokens.check_leases()
        hold = TurnHold(token, lease)
        record = self.go_on(runner, token, answer, options, hold)
        assert isinstance(record, AgentRunRecord), "only agents have turns"
        record.for_one_turn()
        record.turn_hold = hold
        try:
            hold.begin(partial(self._tokens.renew, hold), partial(self._lose_turn, record))
        except BaseException:  # no thread can be started to renew it
            self._tokens.over(record, again=True)
            raise
        return record

    def _refuse_unended(self, paused: RunRecord) -> None:
        """Refuse the token of a run that has not ended yet: its own code may bring it, such as a callback in `on_error`."""
        run_id = paused.run_id
        live = self._watchdog.find(run_id)
        if live is None or live.phase != "running":
            return
        if 0 < paused.revision <= live.revision:  # it went on since the token was looked up in the store
            raise used(None)
        if live.turn_hold is None:
            raise UnknownToken(f"run {run_id} is not over yet; its token works once it is", run_id=run_id)
        raise leased(time.time())  # the lease of a turn here is over, and it does not know yet

    def since(self, record: RunRecord) -> LastPause | None:
        """Return the pause of a run that no answer was taken for, or the last one after the one it went on from; else None.

        Blocks for the store.
        """
        found = self._tokens.last_pause(record.run_id)
        is_open = found is not None and (found.revision > record.revision or found.waiting is not None)
        return found if is_open else None

    def last(self, run_id: str) -> LastPause | None:
        """Return the last pause of a run; None without one. Blocks for the store."""
        return self._tokens.last_pause(run_id)

    def withdraw(self, token: str) -> None:
        """Use up a token that no caller has; a failure of the store is only logged."""
        self._tokens.revoke(token)

    def waiting(self) -> list[WaitingRun]:
        """Return the runs of the system that wait. Blocks for the store."""
        return self._tokens.waiting(self._host.app)

    def runner_of(self, token: str) -> str:
        """Return the id of the runner whose run waits under a token."""
        return self._tokens.runner_of(token)


def _unreadable(saved: SavedRun, why: str) -> StoreError:
    return StoreError(f"what the store has of run {saved.run_id} cannot be read: {why}")
