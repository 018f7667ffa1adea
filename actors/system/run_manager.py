"""The runs of a system: how they begin, pause, go on and end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import count
from logging import WARNING
from typing import TYPE_CHECKING

from understudy.actors.cells.event_stream import EventStream
from understudy.actors.drivers.call_run import CallRecord
from understudy.actors.drivers.factory import driver_of, loaded_record, new_record
from understudy.actors.memory.conversations import Conversations
from understudy.actors.memory.memories import Memories
from understudy.actors.pauses.stored_pauses import StoredPauses
from understudy.actors.pauses.tokens import Tokens
from understudy.actors.run_view.errors import named
from understudy.actors.run_view.failsafe import safely
from understudy.actors.run_view.run_lines import tell_late_driver
from understudy.actors.runs.abandoned import AbandonedWork
from understudy.actors.runs.admission import Admission
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.host import RunHost
from understudy.actors.runs.late_saves import LateSaves
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.watchdog import Watchdog
from understudy.actors.tools.executors import Executors
from understudy.diagnostics import emit
from understudy.errors import (
    AgentCrashed,
    CircularAgentCall,
    UnderstudyError,
    had_its_retries,
    in_words,
)
from understudy.vocabulary.actors.system_events import RunCrashed
from understudy.vocabulary.checks import WrongReturn
from understudy.vocabulary.context.ancestry import Link, next_hops
from understudy.vocabulary.context.run_values import values_of_run
from understudy.vocabulary.context.scope import Scope, current_scope
from understudy.vocabulary.messages import Part, ToolCall
from understudy.vocabulary.runs.conversations import NO_USER, Erased

from .directory import Directory
from .paused_runs import PausedRuns
from .run_endings import SystemRunEndings
from .run_scope import scope_of_run

if TYPE_CHECKING:
    from understudy.actors.stores.store import Store
    from understudy.orchestration import Agent
    from understudy.orchestration.definitions.port import RunOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.orchestration.saving.saved_run import SavedRun

POISON = 3  # Crashes of a run's drivers after which the run itself is taken for the cause.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What a system was made with, as far as its runs need it."""

    app: str
    """The system's name, which conversations belong to."""
    max_hops: int
    """How many runs may have led to a run."""
    max_runs: int | None
    """How many runs that nothing inside of a run began may be under way at once; None for any number."""
    store: Store
    """Where the system keeps what outlives a run."""
    require_user: bool
    """Whether a run is refused that would remember a conversation of nobody in particular."""


class RunManager(RunHost[RunRecord]):
    """Keeps the runs of one system, and carries out what their drivers and the watchdog decide.

    Args:
        prefix: what run ids begin with.
        start: has an agent's actor start a driver for a run at an epoch; `drive` is what it calls.
        actors: those of the system.
        events: where crashes are told.
        hung: counts work that is given up.
        settings: what the system was made with.
    """

    def __init__(
        self,
        prefix: str,
        start: Callable[[RunRecord, int], object],
        actors: Directory,
        events: EventStream,
        hung: AbandonedWork,
        settings: RunSettings,
    ) -> None:
        self._actors = actors
        self.events = events
        self.hung = hung
        self.max_hops = settings.max_hops
        self._require_user = settings.require_user
        self._prefix = prefix
        self._start = start
        self._numbers = count(1)
        self.memories = Memories(settings.app, events, settings.store)
        self.conversations = Conversations(settings.app, self.memories, settings.store)
        self._admission = Admission(settings.max_runs, self._admitted)
        pauses = settings.store.pauses
        self._tokens = Tokens() if pauses is None else StoredPauses(pauses)
        self.late_saves = LateSaves()
        """Session values of runs that were ended from outside."""
        endings = SystemRunEndings(self._tokens, self.late_saves, hung)
        self.endings = endings
        self._watchdog = Watchdog(endings.deadline_passed, endings.step_overdue)
        self.paused = PausedRuns(self, self._tokens, actors, self._watchdog, endings.lose_turn)
        self.app = settings.app
        self.sessions = settings.store.sessions
        self.stores = pauses is not None
        """Whether paused runs are written down, so that sessions must be JSON."""
        self.executors = Executors(settings.app, events)
        self._why_all_cancelled = ""
        """Why every run is cancelled; empty until they are."""

    # --- beginning and going on

    def prepare(self, runner: Runner[object], input: str | Sequence[Part], options: RunOptions) -> RunRecord:
        """Make the record of a new run; `launch` starts it."""
        cell = self._actors.cell_of(runner)
        run_id = f"{self._prefix}-{next(self._numbers)}"
        record = new_record(run_id, runner, input, options, scope_of_run(options.timeout), self, cell)
        record.lease = self.conversations.lease(record)
        if self._require_user and record.lease is not None and options.user_id is None:
            raise ValueError(
                f"{named(runner)} remembers conversation {options.conversation_id!r}, and no user_id says whose it is: "
                "with require_user=True, pass user_id=…"
            )
        return record

    def tell_refused(self, runner: Runner[object], error: CircularAgentCall) -> None:
        """Tell who subscribes of a run that would have waited for itself."""
        self.events.refused(self._actors.address_of(runner), error)

    def root_of(self, link: Link) -> str:
        """Return the id of the outermost run here that a run was begun in, or its own."""
        for run_id in link.begun_in:
            outer = self._watchdog.find(run_id)
            if outer is not None:
                return outer.root
        return link.run_id

    def prepare_call(self, agent: Agent[object], call: ToolCall, options: RunOptions) -> CallRecord:
        """Make the record of one call of a tool of an agent's; `launch` starts it."""
        run_id = f"{self._prefix}-{next(self._numbers)}"
        return CallRecord(
            run_id, agent, call, options, scope_of_run(options.timeout), self, self._actors.cell_of(agent)
        )

    def prepare_turn(self, runner: Runner[object], input: str | Sequence[Part], options: RunOptions) -> AgentRunRecord:
        """Make the record of a new run that ends its stay after one turn."""
        self._tokens.check_leases()  # before anything is paid: nobody could go on with its token
        record = self.prepare(runner, input, options)
        assert isinstance(record, AgentRunRecord), "only agents have turns"
        return record.for_one_turn()

    def load(
        self, saved: SavedRun, runner: Runner[object], deps: object, scope: Scope, *, adopt: bool = False
    ) -> RunRecord:
        """Return the record with which a run that was saved as text goes on.

        Raises:
            SpecChanged: the run was saved with another definition of the runner, and `adopt` is false.
            ValueError: what was saved is no run, or one of another runner.
        """
        record = loaded_record(saved, runner, deps, scope, self, self._actors.cell_of(runner), adopt=adopt)
        record.lease = self.conversations.lease(record, was_saved=True)
        return record

    def launch(self, record: RunRecord) -> None:
        """Start a run that was prepared."""
        record.started_in = copy_context()
        record.started_in.run(record.enter, next_hops())
        lines = record.lines()
        if lines is not None:
            record.log.line_writer = lines.take
            lines.started()
        self._watchdog.watch(record)  # before the tie: it may end the run at once, and that ends the watch
        if record.phase != "running":  # it ended before it was watched, and its end undid no watch
            self._watchdog.unwatch(record)
        outer = current_scope()
        if outer is not None:
            record.detach = outer.on_cancel_at_once(record.outer_cancelled)
            if record.phase != "running":  # it ended meanwhile, and its end undid no tie
                record.detach()
        self._admission.enter(record)
        if self._why_all_cancelled:  # it was prepared before all were cancelled
            self.endings.cancel(record, self._why_all_cancelled, kept=self.stores)

    def _admitted(self, record: RunRecord) -> None:
        # In this order: a run that waits for a place has no conversation, which what is under way may wait for.
        begin = partial(self._begin, record, record.epoch)
        try:
            self.conversations.enter(record, begin)
        except BaseException as failure:
            self.endings.cannot_go_on(record, failure, record.epoch)

    def _begin(self, record: RunRecord, epoch: int) -> None:
        """Have a run that nobody drives driven from `epoch` on, or end."""
        try:
            self._start(record, epoch)
        except BaseException as failure:
            self.endings.cannot_go_on(record, failure, epoch)

    def drive(self, record: RunRecord, epoch: int, *, last: bool = False) -> None:
        """Start a driver for `record`; none if the run is over or in other hands."""
        driver = driver_of(record, epoch)
        if record.give_to(driver, epoch):
            driver.begin(last=last)

    # --- crashes and ends

    def crashed(self, record: RunRecord, cause: BaseException, epoch: int) -> None:
        """Fail the agent, and let the run go on from its record once that is dealt with; too many failures end the run.

        A function of the user's that returned something else than it should would do so again: it fails the run alone.
        """
        wrong = isinstance(cause, WrongReturn)
        crashes, successor = 0, None
        with record.lock:
            if record.is_held_at(epoch):
                record.crashes += (cause,)
                crashes = len(record.crashes)
                successor = record.take_over(epoch) if not wrong and _may_go_on(record, cause) else None
        if not crashes:  # the run is over or in other hands, so nobody else hears of it
            return tell_late_driver(record.link, cause)
        safely(record, self._tell_crashed, record, cause, crashes, successor is None)
        if not wrong:
            safely(record, record.fail_agent, cause)
        if successor is not None:
            text = "run %s: its driver failed, and the run goes on"
            emit(WARNING, "run_crashed", values_of_run(record.link), text, record.run_id, exc_info=cause)
            self._begin(record, successor)
            return
        if crashes < POISON and isinstance(cause, UnderstudyError):
            self.endings.fail(
                record, cause, epoch
            )  # it was named, but no retry is left: it ends the run as if it were not
        else:
            self.endings.fail(record, _poison(record, cause, crashes), epoch)

    def _tell_crashed(self, record: RunRecord, cause: BaseException, crashes: int, poison: bool) -> None:
        if self.events.wants(RunCrashed):
            address = record.cell.address
            self.events.publish(
                RunCrashed(address=address, run_id=record.run_id, error=cause, crashes=crashes, poison=poison)
            )

    def cancel_all(self, why: str) -> list[str]:
        """Cancel every run in flight, and return the ids of those that are over because of it.

        What waits goes before what it waits for, or it could go on with that one's error; and of others the last one
        first, so that none that stands in line is admitted in the place of another.
        """
        self._why_all_cancelled = why  # before they are looked for, so that none is missed
        records = self.in_flight()
        records.reverse()
        records.sort(key=lambda record: len(record.link.begun_in))
        for record in records:
            # Without a store a token would be good for as long as the system runs, which stops.
            safely(record, partial(self.endings.cancel, kept=self.stores), record, why)
        return [record.run_id for record in records if record.phase == "cancelled"]

    def ended(self, record: RunRecord) -> None:
        """Take a run off the books, whatever fails of it; its record calls this once."""
        safely(record, record.detach)
        safely(record, self._watchdog.unwatch, record)
        safely(record, self.conversations.leave, record)
        safely(record, self._admission.leave, record)

    def in_flight(self) -> list[RunRecord]:
        """Return the runs that are under way."""
        return self._watchdog.records()

    def erase(self, user: str) -> Erased:
        """Erase a user from memories, stores and the paused runs of this process; see `ActorSystem.erase`."""
        under_way = [each.run_id for each in self.in_flight() if (each.options.user_id or NO_USER) == user]
        if under_way:
            raise RuntimeError(
                f"user {user!r} has runs under way, which would store their turns afterwards: {', '.join(under_way)}; wait for them "
                "or cancel them first"
            )
        return self.memories.erase(user) + Erased(pauses=self._tokens.erase(user))

    def rest(self) -> None:
        """Keep no thread beyond the runs in flight, for no other one comes."""
        self._watchdog.end_with_the_last()


def _poison(record: RunRecord, cause: BaseException, crashes: int) -> AgentCrashed:
    """Make the error of a run that its drivers fail of."""
    times = "once" if crashes == 1 else f"{crashes} times"
    error = AgentCrashed(
        f"{named(record.runner)} failed {times} in run {record.run_id}, the last time of {in_words(cause)}",
        actor=record.runner.id,
        causes=record.crashes,
    )
    error.__cause__ = cause
    error.retries_used_up = True
    return error


def _may_go_on(record: RunRecord, cause: BaseException) -> bool:
    """Whether a run gets another driver after one failed; if so, takes one of its retries."""
    had_enough = len(record.crashes) >= POISON or (had_its_retries(cause) and not record.fails_runner(cause))
    return not had_enough and record.scope.take_retry(cause)
