"""A map with a name: an input that has a result in the store has no run, and one whose run was left goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from logging import WARNING
from typing import TYPE_CHECKING

from understudy.actors.runs.outcomes import outcome_of
from understudy.actors.system.recovery.recovery import Recovery
from understudy.diagnostics import emit
from understudy.errors import RunError, SpecChanged, StoreError, TokenLeased, TokenUsed, UnknownToken, in_words
from understudy.orchestration.definitions.port import ResumeOptions
from understudy.vocabulary.context.ancestry import current_ancestry
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.runs.outcomes import Complete, Outcome

if TYPE_CHECKING:
    from understudy.actors.journal.map_claims import NamedMaps
    from understudy.actors.pauses.stored_pauses import LastPause
    from understudy.actors.runs.record import RunRecord
    from understudy.actors.stores.database import Sql
    from understudy.actors.stores.maps.map_table import MapClaim
    from understudy.actors.system.recovery.parked_runs import ParkedRuns
    from understudy.actors.system.run_manager import RunManager
    from understudy.orchestration.definitions.port import MapOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.orchestration.saving.saved_run import SavedRun


class NamedMap:
    """One call of a map with a name. For the thread that iterates; `close` may come from another one.

    Args:
        maps: of the system.
        runs: of the system.
        runner: whose map it is.
        options: what the caller said; there is a name.
        parked: the runs that could not go on in this system.
    """

    def __init__(
        self, maps: NamedMaps, runs: RunManager, runner: Runner[object], options: MapOptions, parked: ParkedRuns
    ) -> None:
        from understudy.orchestration.journal.input_keys import InputKeys  # loads pydantic

        assert options.name is not None
        self._maps = maps
        self._runs = runs
        self._runner = runner
        self._options = options
        self._parked = parked
        self._name = options.name
        self._claim: MapClaim | None = None
        self.keys = InputKeys()

    @property
    def is_open(self) -> bool:
        """Whether this call has the map."""
        return self._claim is not None

    def open(self) -> None:
        """Take the map, if this call does not have it yet. Blocks for the store; raises as `NamedMaps.claim`.

        Raises:
            ValueError: this is inside of a run.
        """
        if current_ancestry():
            raise ValueError(inside_of_run(self._name))
        if self._claim is None:
            self._claim = self._maps.claim(self._name, self._runner.id, self._options.user_id)

    def close(self) -> None:
        """Give the map back. Blocks for the store; if that fails, other processes get the map when this one ends."""
        claim, self._claim = self._claim, None
        if claim is None:
            return
        try:
            self._maps.release(self._name, claim)
        except StoreError:
            text = "map %r could not be given back, and is this process's until it ends"
            emit(WARNING, "map_not_given_back", {"map": self._name}, text, self._name, exc_info=True)

    def begin(self, item: str, prepare: Callable[[], RunRecord]) -> Outcome[object] | RunRecord | None:
        """Return the outcome that an input has, or its run, which is under way here from now on.

        Args:
            item: names the input.
            prepare: makes the record of a new run.

        Returns:
            None if the run of the input is under way elsewhere: ask again later.

        Raises:
            LeaseLost: another process has the map, or it was closed.
            StoreError: the store failed.
            Exception: what is wrong with this input, or with its run.
        """
        claim = self._claim
        if claim is None:  # closed by another thread, or while the input was taken
            raise self._maps.lost(self._name)
        self._maps.refuse_if_lost(self._name, claim)
        known = self._maps.table.item(claim, item)
        if known is None:
            return self._new(claim, item, prepare)
        if known.result is not None:
            return self._stored(known.run_id, known.result)
        if known.state == "going":
            return self._left(known.run_id)
        pause = self._runs.paused.last(known.run_id)
        if pause is not None and pause.waiting is not None:
            found = self._waiting(pause, pause.waiting)
            if not isinstance(found, _BeginAnew):
                return found
        return self._new(claim, item, prepare, known.run_id)

    def _new(self, claim: MapClaim, item: str, prepare: Callable[[], RunRecord], before: str = "") -> RunRecord | None:
        """Begin a run; None if the run `before` has gone on meanwhile."""
        record, table = prepare(), self._maps.table
        is_held = True

        def assign(sql: Sql) -> bool:
            nonlocal is_held
            is_held = table.is_held(sql, claim)
            return is_held and table.assign(sql, claim, item, record.run_id, before)

        self._runs.journaling.begin(record, assign)
        if not is_held:
            raise self._maps.lost(self._name)
        if record.journal is None:
            return None
        self._runs.launch(record)
        return record

    def _stored(self, run_id: str, result: str) -> Outcome[object]:
        from understudy.orchestration.saving.saved_run import SavedRun

        try:
            outcome = outcome_of(self._read(SavedRun.from_json(result)))
        except Exception as error:
            raise self._unreadable(run_id, in_words(error)) from error
        if not isinstance(outcome, Complete):
            raise self._unreadable(run_id, "it is of a run that is not complete")
        return outcome

    def _unreadable(self, run_id: str, why: str) -> RunError:
        return RunError(
            f"map {self._name!r} has a result that cannot be read with the present definition of {self._runner.id!r}: {why}; "
            "use another name, or forget the map",
            run_id=run_id,
        )

    def _read(self, saved: SavedRun) -> RunRecord:
        """Return the record of a run that nobody drives, with an account of its own."""
        scope = Scope(None, time.monotonic, None)
        return self._runs.load(saved, self._runner, self._options.deps, scope, adopt=True)

    def _left(self, run_id: str) -> RunRecord | None:
        journals = self._runs.journaling.journals
        assert journals is not None, "a map with a name has journals"
        left = journals.left_run(run_id)
        if left is None:
            return None
        recovery = Recovery(self._runs, journals, {}, None, self._parked)
        return recovery.taken_up(left, self._runner, self._options.deps)

    def _waiting(self, pause: LastPause, saved: SavedRun) -> Outcome[object] | RunRecord | _BeginAnew | None:
        """Go on after an error that may pass; a run that waits for a person, or is incomplete, goes on waiting."""
        record = self._read(saved)
        if not saved.by_error or record.needs_answer:
            found = outcome_of(record)
            return found if isinstance(found, Complete) else replace(found, token=pause.token)
        if not record.needs_higher_limit():
            try:
                return self._again(pause.token)
            except (TokenUsed, TokenLeased, UnknownToken):
                return None  # somebody else goes on with it
            except SpecChanged:
                raise
            except ValueError:
                pass  # a run inside of it is incomplete and would stay so: it has read well, and no limit is raised
        self._runs.paused.withdraw(pause.token)
        return _BeginAnew()

    def _again(self, token: str) -> RunRecord:
        options = ResumeOptions(deps=self._options.deps, timeout=self._options.timeout)
        record = self._runs.paused.go_on(self._runner, token, None, options)
        self._runs.launch(record)
        return record


class _BeginAnew:
    """The run of an input is over, and a new one begins."""


def inside_of_run(name: str) -> str:
    """Return why a map with a name cannot be carried out inside of a run."""
    return (
        f"map(…, name={name!r}) is for code outside of runs and actors: a run that a tool or an actor begins has no journal; leave "
        "name= out"
    )
