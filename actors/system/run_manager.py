"""The runs of a system: their records are made and launched here, and found until they end.

`Admission` says how many runs may be under way at once that nobody inside of a run began. The others wait without a thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from understudy.actors.cells.event_stream import EventStream
from understudy.actors.journal.map_claims import NamedMaps
from understudy.actors.journal.run_journals import RunJournals
from understudy.actors.journal.run_owners import RunOwners
from understudy.actors.memory.conversations import Conversations
from understudy.actors.memory.memories import Memories
from understudy.actors.pauses.stored_pauses import StoredPauses
from understudy.actors.pauses.tokens import Tokens
from understudy.actors.run_view.errors import named, safely
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.factory import CallRun, loaded_record, new_record
from understudy.actors.runs.host import RunHost
from understudy.actors.runs.ownership import AbandonedWork
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.watchdog import Watchdog, scope_of_run
from understudy.actors.stores.database import Outage
from understudy.actors.system.directory import Directory
from understudy.actors.system.late_saves import LateSaves
from understudy.actors.system.paused_runs import PausedRuns
from understudy.actors.system.run_crashes import RunCrashes
from understudy.actors.system.run_endings import Journaling, SystemRunEndings
from understudy.actors.threads.slots import Slots, Taken
from understudy.actors.tools.executor import Executors
from understudy.actors.waiting.awaited import Place
from understudy.actors.waiting.graph import graph
from understudy.actors.waiting.waits import Wait
from understudy.diagnostics import is_in_handler, mute
from understudy.errors import CircularAgentCall, LeaseLost
from understudy.vocabulary.context.ancestry import Link, next_hops
from understudy.vocabulary.context.scope import Scope, current_scope
from understudy.vocabulary.messages import Part, ToolCall
from understudy.vocabulary.runs.conversations import NO_USER, Erased

if TYPE_CHECKING:
    from understudy.actors.journal.run_journal import RunJournal
    from understudy.actors.stores.store import Store
    from understudy.orchestration import Agent
    from understudy.orchestration.definitions.port import RunOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.orchestration.saving.saved_run import SavedRun

IN_LINE = "waiting to be admitted"


class Admission:
    """A number of places and a line before them. Safe to use from any thread.

    Only runs that are begun outside of runs and actors stand in line. What is begun inside of another run is always
    admitted: that one may wait for it, and would keep its place for ever.

    Args:
        places: how many runs may be under way; None for any number.
        start: starts a run, quickly; called on the thread that brings the run, or on the one that ends another.
    """

    def __init__(self, places: int | None, start: Callable[[RunRecord], object]) -> None:
        self._places: Slots[RunRecord] | None = None if places is None else Slots(places)
        self._start = start
        self._waits: dict[RunRecord, Wait] = {}
        """Of those in line, in the graph of who waits for whom: what is under way may wait for one that has no place."""

    def enter(self, record: RunRecord) -> None:
        """Start a run as soon as there is a place for it."""
        places = self._places
        if places is None or record.link.begun_in:
            self._start(record)
            return
        record.doing = IN_LINE
        if places.take(record, partial(self._admit, record)) is Taken.NOW:
            self._start(record)
        else:
            self._waits[record] = graph.begin_unawaited(record.link, Place(places, record), record.scope)
            if not places.has_in_line(record):  # its turn has come meanwhile
                self._out_of_line(record)
        if record.phase != "running":  # its end may have come before it stood here, and nobody would take it out
            self.leave(record)

    def leave(self, record: RunRecord) -> None:
        """Give the place of a run that is over to the first in line; one that stands in line goes out of it."""
        if self._places is not None:
            self._places.release(record)
            self._out_of_line(record)

    def _admit(self, record: RunRecord) -> None:
        self._out_of_line(record)
        self._start(record)

    def _out_of_line(self, record: RunRecord) -> None:
        wait = self._waits.pop(record, None)
        if wait is not None:
            graph.end(wait)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What a system was made with, as far as its runs need it."""

    app: str
    """The system's name, which conversations belong to."""
    max_hops: int
    """How many runs may have led to a run."""
    max_runs: int | None
    """How many outermost runs may be under way at once; None for any number."""
    store: Store
    """Where the system keeps paused runs, conversations and session values."""
    owners: RunOwners | None
    """The processes that drive runs in the store; None if runs have no journal. Made once: a forked child asks no database."""
    lease: float
    """Seconds without a beat after which others take the runs of this process."""
    store_patience: float
    """Seconds for which a run asks a store that fails again, before it is left."""
    require_user: bool
    """Whether a run that remembers a conversation is refused without a user id."""


class RunManager(RunHost[RunRecord]):
    """Keeps the runs of one system. Its parts end them, let paused ones go on, and deal with crashes.

    Args:
        prefix: what run ids begin with.
        start: has an agent's actor begin a run, or go on with it, at an epoch; the actor calls `drive`, on this thread if that
            has nothing more to do, which the last argument says.
        actors: the actors of the system.
        events: where crashes are told.
        hung: counts work that is given up.
        settings: what the system was made with.
    """

    def __init__(
        self,
        prefix: str,
        start: Callable[[RunRecord, int, bool], object],
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
        self.outage = Outage(settings.app, settings.store_patience)
        self.conversations = Conversations(settings.app, self.memories, settings.store, self.outage)
        self._admission = Admission(settings.max_runs, self._admitted)
        pauses = settings.store.pauses
        self._tokens = Tokens() if pauses is None else StoredPauses(pauses)
        self.late_saves = LateSaves()
        """Stores the session values of runs that were ended from outside."""
        self.journaling = _journaling(settings)
        endings = SystemRunEndings(self._tokens, self.late_saves, hung, self.journaling)
        self.endings = endings
        self._lose, self._hurry = endings.lose, endings.hurry
        self._watchdog = Watchdog(endings.deadline_passed, endings.step_overdue)
        self._crashes = RunCrashes(events, endings, self._begin)
        self.paused = PausedRuns(self, self._tokens, actors, self._watchdog, endings.lose, self.journaling)
        self.app = settings.app
        self.sessions = settings.store.sessions
        self.stores = pauses is not None
        """Whether paused runs are written down, so that sessions must be JSON."""
        self.executors = Executors(settings.app, events)
        if self.journaling.journals is not None:
            self.journaling.journals.on_cancel = self._cancel_requested
            self.journaling.journals.on_lost = self._lost
        self.is_of_parent = False
        self._why_all_cancelled = ""
        """Why every run is cancelled; empty until they are."""

    # --- beginning and going on

    def prepare(
        self, runner: Runner[object], input: str | Sequence[Part], options: RunOptions, run_id: str = ""
    ) -> RunRecord:
        """Make the record of a new run; `launch` starts it. One that begins anew after its process died keeps its id."""
        cell = self._actors.cell_of(runner)
        run_id = run_id or f"{self._prefix}-{next(self._numbers)}"
        record = new_record(run_id, runner, input, options, scope_of_run(options.timeout), self, cell)
        record.lease = self.conversations.lease(record)
        if self._require_user and record.lease is not None and options.user_id is None:
            raise ValueError(
                f"{named(runner)} remembers conversation {options.conversation_id!r}, and no user_id says whose it is: "
                "with require_user=True, pass user_id=…"
            )
        return record

    def tell_refused(self, runner: Runner[object], error: CircularAgentCall) -> None:
        """Tell subscribers that a run was refused because it would have waited for itself."""
        self.events.refused(self._actors.address_of(runner), error)

    def root_of(self, link: Link) -> str:
        """Return the id of the outermost run here that a run was begun in, or its own."""
        for run_id in link.begun_in:
            outer = self._watchdog.find(run_id)
            if outer is not None:
                return outer.root
        return link.run_id

    def prepare_call(self, agent: Agent[object], call: ToolCall, options: RunOptions) -> CallRun:
        """Make the record of one call of an agent's tool; `launch` starts it."""
        run_id = f"{self._prefix}-{next(self._numbers)}"
        return CallRun(run_id, agent, call, options, scope_of_run(options.timeout), self, self._actors.cell_of(agent))

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

    def launch(self, record: RunRecord, *, last: bool = False) -> None:
        """Start a run that was prepared. Blocks for the store if the run has a journal, and raises `StoreError` then."""
        self.journaling.begin(record)
        record.started_in = copy_context()
        record.started_in.run(record.enter, next_hops())
        if is_in_handler():
            record.started_in.run(mute)
        elif (lines := record.lines()) is not None:
            record.log.line_writer = record.writer_of(lines)
            lines.started()
        self._watchdog.watch(record)  # before the tie: that one may end the run at once, and the end unwatches it
        if record.phase != "running":  # it ended before it was watched, so its end could not unwatch it
            self._watchdog.unwatch(record)
        outer = current_scope()
        if outer is not None:
            record.detach = outer.on_cancel_at_once(record.outer_cancelled)
            if record.phase != "running":  # it ended meanwhile, so its end could not undo the tie
                record.detach()
        if self._why_all_cancelled and not self.is_inside_run():
            # It was accepted before all were cancelled: its actor may have stopped, and would end it for good. A run around it goes
            # first, and takes this one with it.
            self.journaling.leave(record)
            self.endings.cancel(record, self._why_all_cancelled, kept=self.stores)
            return
        if last and record.is_inner and record.lease is None:  # it stands in no line, so it begins at once
            self._begin(record, record.epoch, last=True)
        else:
            self._admission.enter(record)

    def _admitted(self, record: RunRecord) -> None:
        # The conversation comes after the place: a run in line with its conversation in hand could block a run under way.
        begin = partial(self._begin, record, record.epoch)
        try:
            self.conversations.enter(record, begin)
        except BaseException as failure:
            self.endings.cannot_go_on(record, failure, record.epoch)

    def _begin(self, record: RunRecord, epoch: int, *, last: bool = False) -> None:
        """Have a run begin, or go on from `epoch`, or end it."""
        try:
            self._start(record, epoch, last)
        except BaseException as failure:
            self.endings.cannot_go_on(record, failure, epoch)

    def drive(self, record: RunRecord, epoch: int, *, last: bool = False) -> None:
        """Have a run begin, or go on; not if it is over or in other hands."""
        if record.take_up(epoch):
            record.begin(last=last)

    # --- crashes and ends

    def crashed(self, record: RunRecord, cause: BaseException, epoch: int) -> None:
        """Fail the runner's actor, and have the run go on, or end it."""
        self._crashes.handle(record, cause, epoch)

    def cancel_all(self, why: str, deadline: float) -> list[str]:
        """Cancel every run in flight, and return the ids of those that are over because of it.

        With a store, each is left there with a token; the store is waited for until `deadline`, on the monotonic clock.
        A run goes before the run that it waits for, or it could go on with that one's error. Of the others the last one
        goes first, so that no run in line gets the place of a cancelled one.
        """
        if not self.stores:
            why += ", and has no store, which would have kept the run"
        until = self._hurry(deadline)
        self._why_all_cancelled = why  # before they are looked for, so that none is missed
        records = self.in_flight()
        records.reverse()
        records.sort(key=self._count_waiting)
        # All of them first: the end of one may have others cancelled.
        ending = [record for record in records if not self.journaling.leave(record)]
        for record in ending:  # the store has its end, or is about to
            if not record.promise.wait(max(0.0, until - time.monotonic())):
                self.journaling.leave(record, at_its_end=True)
        for record in records:
            # Without a store, a token works only while the system runs, and the system stops.
            safely(record, partial(self.endings.cancel, kept=self.stores), record, why)
        return [record.run_id for record in records if record.phase == "cancelled"]

    def _count_waiting(self, record: RunRecord) -> int:
        """Return how many runs wait for a run, or for one that it was begun in; a run that waits for another one has less."""
        around = [outer.link for run_id in record.link.begun_in if (outer := self.find(run_id)) is not None]
        return graph.count_waiting(record.link, *around)

    def _cancel_requested(self, run_id: str) -> None:
        """Cancel a run for good, because another process asks for that."""
        record = self.find(run_id)
        if record is not None:
            safely(record, self.endings.cancel, record, "another process asked for it")

    def _lost(self, journal: RunJournal, error: LeaseLost) -> None:
        """End a run here, because another process has it."""
        record = self.find(journal.run_id)
        if record is not None and record.journal is not None and record.journal.journal is journal:
            safely(record, self._lose, record, error)

    def ended(self, record: RunRecord) -> None:
        """Take a run off the books, even if a part of that fails; its record calls this once."""
        if record.detach is not None:
            safely(record, record.detach)
        safely(record, self._watchdog.unwatch, record)
        if record.lease is not None:
            safely(record, self.conversations.leave, record)
        if not record.link.begun_in:  # else it took no place
            safely(record, self._admission.leave, record)
        if record.journal is not None:
            self.journaling.ended(record)

    def find(self, run_id: str) -> RunRecord | None:
        """Return the record of a run that is under way here."""
        return None if self.is_of_parent else self._watchdog.find(run_id)

    def is_inside_run(self) -> bool:
        """Whether this code is part of a run under way here, also by way of an actor: it ends at the latest with that run."""
        scope, of_runs = current_scope(), {id(record.scope) for record in self.in_flight()}
        while scope is not None and id(scope) not in of_runs:
            scope = scope.parent
        return scope is not None

    @property
    def is_stopping(self) -> bool:
        """Whether the system stops, or has stopped: it ends the runs in flight, or leaves them."""
        return self._actors.closed

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


def owners_in(store: Store, *, journal: bool) -> RunOwners | None:
    """Return the processes that drive runs in a store, if runs there have a journal; blocks for the database.

    Args:
        store: of a system.
        journal: whether the system writes journals, where the store is durable.

    Raises:
        StoreError: the tables cannot be made.
    """
    return None if not journal or store.runs is None or store.database is None else RunOwners(store.database)


def _journaling(settings: RunSettings) -> Journaling:
    store, app, owners = settings.store, settings.app, settings.owners
    if owners is None or store.runs is None or store.maps is None or store.locks is None:
        return Journaling(None, None, store.maps)
    journals = RunJournals(store.runs, owners, store.locks, app, settings.lease)
    return Journaling(journals, NamedMaps(store.maps, store.locks, app), store.maps)
