"""Recovery: goes on with the runs that processes which died have left in the store."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from logging import ERROR, WARNING
from typing import TYPE_CHECKING

from understudy.actors.journal.run_journal import JournalPart
from understudy.actors.runs.watchdog import scope_of_run
from understudy.actors.stores.runs import MAX_TAKEOVERS, RunRow, StoredRun
from understudy.actors.system.migrations import Migration
from understudy.actors.system.run_endings import keep_events
from understudy.actors.system.run_manager import RunManager
from understudy.diagnostics import emit
from understudy.errors import StoreError, UnderstudyError, in_words
from understudy.vocabulary.runs.stored_runs import ChangedRun, LeftRun

from .parked_runs import ParkedRuns

if TYPE_CHECKING:
    from understudy.actors.journal.run_journal import RunJournal
    from understudy.actors.journal.run_journals import RunJournals
    from understudy.actors.runs.record import RunRecord
    from understudy.orchestration.definitions.runner import Runner

AT_ONCE = 64  # Runs that are claimed at once.
SOUND = 1  # Takeovers after which a run is claimed alone: a process that dies of one run has taken over all that it claimed.
SHARE = 0.02  # Seconds from one claim to the next, so that other processes claim some of the runs.


class Recovery:
    """Takes up runs that were left, for one call of `recover`.

    Args:
        runs: of the system.
        journals: of the system.
        runners: id -> the definition with which a run goes on.
        deps: returns the dependencies of a run; None for none.
        parked: notes the runs that cannot go on; one that it knows already is not logged again.
        adopt: go on with runs that have another definition.
        migrate: returns the new state of a run that has another definition.
        named: ids of the only runs to go on with, however many processes have died while they drove them; None for all runs.
    """

    def __init__(
        self,
        runs: RunManager,
        journals: RunJournals,
        runners: Mapping[str, Runner[object]],
        deps: Callable[[LeftRun], object] | None,
        parked: ParkedRuns,
        *,
        adopt: bool = False,
        migrate: Callable[[ChangedRun], str | None] | None = None,
        named: Collection[str] | None = None,
    ) -> None:
        self._runs = runs
        self._journals = journals
        self._runners = runners
        self._deps = deps
        self._parked = parked
        self._noted: set[str] = set()
        """Ids of the runs that were parked here."""
        self._adopt = adopt
        self._migrate = migrate
        self._named = named
        self._claims: dict[str, tuple[StoredRun, RunJournal]] = {}
        """Id of each run that is claimed and does not go on yet -> the run as it was found, and its journal."""
        self._made: dict[str, object] = {}  # Id of each such run -> its dependencies.

    def begun(self) -> list[RunRecord]:
        """Return the records of the runs that go on here from now on.

        Raises:
            StoreError: the store failed before any run went on. If it fails later, the others are left, and the log says so.
        """
        found: list[RunRecord] = []
        self._parked.begin_anew()
        for left in self._journals.left():
            if self._named is not None and left.run_id not in self._named:
                continue
            try:
                record = self.taken(left)
            except StoreError as error:
                if not found:
                    raise
                _tell_left(left, in_words(error), error)
                return found
            if record is not None:
                found.append(record)
        self._parked.keep(self._noted)
        return found

    def taken_up(self, left: StoredRun, runner: Runner[object], deps: object) -> RunRecord | None:
        """Return the record of one run, which goes on here from now on; None if somebody else was first, or the run ends.

        Raises:
            Exception: what keeps it from going on; it is left as it is.
        """
        if self._ends(left, None):
            return None
        if left.takeovers >= MAX_TAKEOVERS:
            raise UnderstudyError(
                f"run {left.run_id}: {left.takeovers} processes have died while they drove it, maybe of it"
            )
        return self._claimed(left, runner, deps, None)

    def taken(self, left: StoredRun, silent_at: int | None = None) -> RunRecord | None:
        """Return the record with which a run goes on here; None if it is parked, or another process was first.

        Args:
            left: the run.
            silent_at: the number of beats of its owner, if only its lease is over: if it beats again, it keeps the run.

        Raises:
            StoreError: the store failed.
        """
        if self._ends(left, silent_at):
            return None
        runner = self._runners.get(left.runner_id)
        if runner is None:
            known = ", ".join(self._runners) or "none"
            why = f"no runner {left.runner_id!r} is known here (known: {known}): spawn it, or pass runners="
            return self.park(left, why, is_known=False)
        if left.takeovers >= MAX_TAKEOVERS and (self._named is None or left.run_id not in self._named):
            why = f"{left.takeovers} processes have died while they drove it, maybe of it: recover(run_ids=[...]) goes on with it"
            return self.park(left, why)
        try:
            deps = self._deps_of(left)
        except Exception as error:
            return self.park(left, f"deps of recover: {in_words(error)}", error)
        try:
            return self._claimed(left, runner, deps, silent_at)
        except StoreError:
            raise
        except Exception as error:  # what is wrong with one run must not keep the others
            return self.park(left, in_words(error), error)

    def claim(self, dead: deque[StoredRun]) -> list[StoredRun]:
        """Take the first runs out of those of a dead process, and claim at once the ones that are likely to go on here.

        Returns the runs to take now: none that somebody else has claimed. Raises `StoreError`.
        """
        until = time.monotonic() + SHARE  # if dependencies take long, few runs are claimed
        some, likely = list[StoredRun](), list[StoredRun]()
        while dead and len(some) < AT_ONCE and (not likely or time.monotonic() < until):
            left = dead.popleft()
            try:
                if self._is_likely(left):
                    self._made[left.run_id] = self._deps_of(left)
                    likely.append(left)
                some.append(left)
            except BaseException as error:  # SystemExit from code of the user: the other runs go on
                self.park(left, f"deps of recover: {in_words(error)}", error)
        self._claim(likely)
        return [each for each in some if each.run_id in self._claims or each not in likely]

    def _claim(self, left: Sequence[StoredRun], silent_at: int | None = None) -> bool:
        found = self._journals.claim(left, silent_at)
        self._claims.update({each.run_id: (each, found[each.run_id]) for each in left if each.run_id in found})
        return bool(found)

    def _is_likely(self, left: StoredRun) -> bool:
        runner = self._runners.get(left.runner_id)
        if runner is None or left.run_id in self._parked or left.takeovers > SOUND or left.cancel_requested:
            return False
        with suppress(Exception):  # the run tells of it when it is taken
            return self._adopt or not left.definition or self._print_of(left.definition) == runner.fingerprint()
        return False

    @staticmethod
    @lru_cache(maxsize=32)
    def _print_of(definition: str) -> str:
        from understudy.orchestration.journal.line_rows import fingerprint_of  # loads pydantic

        return fingerprint_of(definition)

    def _deps_of(self, left: StoredRun) -> object:
        if left.run_id in self._made:
            return self._made.pop(left.run_id)
        told = LeftRun(left.run_id, left.runner_id, left.user_id, left.conversation_id, left.takeovers)
        return None if self._deps is None else self._deps(told)

    def give_back(self, run_ids: Collection[str] | None = None) -> None:
        """Leave claimed runs that do not go on, those of some ids or all, as if nobody had claimed them."""
        ids = self._claims.keys() & (self._claims if run_ids is None else run_ids)
        if ids:
            self._journals.give_back([self._claims.pop(each) for each in ids])

    def _ends(self, left: StoredRun, silent_at: int | None) -> bool:
        """End a run that is to be cancelled, because its process died before it saw the request; returns whether it is."""
        if left.cancel_requested is None:
            return False
        self._journals.end_left(left, silent_at, partial(self._withdraw_pause, left.run_id))
        return True

    def _withdraw_pause(self, run_id: str) -> None:
        """Close the pause that a run has stored last, and that nobody was told."""
        pause = self._runs.paused.last(run_id)
        if pause is not None and pause.waiting is not None:
            self._runs.paused.withdraw(pause.token)

    def park(
        self, left: StoredRun, why: str, error: BaseException | None = None, *, is_known: bool = True
    ) -> RunRecord | None:
        """Note that a run cannot go on here, in the log too; returns None. `is_known` says whether its agent is known."""
        self.give_back([left.run_id])  # before somebody learns that it is parked, and tries it
        self._noted.add(left.run_id)
        if self._parked.park(left, why, why if error is None else type(error), is_known=is_known):
            _tell_left(left, why, error)
        return None

    def _claimed(
        self, left: StoredRun, runner: Runner[object], deps: object, silent_at: int | None
    ) -> RunRecord | None:
        journal: RunJournal | None = None
        try:
            rows = self._journals.rows(left)
            migration = None if self._migrate is None else Migration(self._migrate)
            try:  # before it is claimed, if it is not yet: with another definition, nothing changes
                record = self._record(left, rows, runner, deps, migration)
            except Exception:
                if left.run_id in self._claims or self._journals.is_left(left):
                    raise
                return None  # another process has taken it, and may have ended it already
            if left.run_id not in self._claims:
                if not self._claim([left], silent_at):
                    return None
                now = self._journals.rows(left)
                if now != rows:  # a process that lost its lock while it lives has written meanwhile
                    rows, record = now, self._record(left, now, runner, deps, migration)
            record = self._since_pause(record, deps)
            self._runs.conversations.take_over(record)
            _, journal = self._claims.pop(left.run_id)
            journal.has({row.path for row in rows})
            record.journal = JournalPart(journal, record.account)
            if record.keeps_events:
                # The process that died may have shown a part of the turn that is due.
                record.log.asked_before = (record.turns + 1, journal.stay - 1)
                record.log.begun_before = self._journals.begun(left)
                record.streams = True
                keep_events(record, record.journal)
            self._launch(record)
        except BaseException:
            self.give_back([left.run_id])
            if journal is not None:
                self._journals.ended(journal)  # another call may go on with it
            raise
        self._parked.release(left.run_id)
        return record

    def _since_pause(self, record: RunRecord, deps: object) -> RunRecord:
        """Return the record with which a run goes on whose process died between a pause and the end of its journal.

        A run that waits for a person only tells it again, with the same token. A run that ended with an error, which nobody
        was told, goes on without the token of that error.
        """
        pause = self._runs.paused.since(record)
        if pause is None:
            return record
        if pause.waiting is not None and pause.waiting.by_error:
            self._runs.paused.withdraw(pause.token)
        elif pause.waiting is not None:
            # It only tells its pause: the store keeps the text for the token, and `resume` may adopt it.
            adopt = self._adopt or self._migrate is not None
            record = self._runs.load(pause.waiting, record.runner, deps, scope_of_run(None), adopt=adopt)
            record.issued = pause.token
        record.revision = pause.revision
        return record

    def _launch(self, record: RunRecord) -> None:
        values = {"run_id": record.run_id, "agent": record.runner.id}
        emit(WARNING, "run_recovered", values, "run %s goes on here", record.run_id)
        self._runs.launch(record)

    def _record(
        self, left: StoredRun, rows: list[RunRow], runner: Runner[object], deps: object, migration: Migration | None
    ) -> RunRecord:
        from understudy.orchestration.journal.accepted_run import accepted_of
        from understudy.orchestration.journal.put_together import by_path, put_together

        saved = put_together(runner, "", by_path(rows), adopt=self._adopt, migrate=migration)
        accepted = accepted_of(left.accepted) if left.accepted else None
        if saved is None:
            if accepted is None:
                raise UnderstudyError("its journal has neither rows nor what it was begun with")
            return self._runs.prepare(runner, accepted.input, accepted.options(deps), left.run_id)
        timeout = None if accepted is None else accepted.timeout
        record = self._runs.load(saved, runner, deps, scope_of_run(timeout), adopt=self._adopt)
        record.revision = saved.revision
        return record


def _tell_left(left: StoredRun, why: str, error: BaseException | None = None) -> None:
    expected = error is None or isinstance(error, UnderstudyError)
    values = {"run_id": left.run_id, "agent": left.runner_id}
    text = "run %s is left as it is: %s"
    emit(ERROR, "run_not_recovered", values, text, left.run_id, why, exc_info=None if expected else error)
