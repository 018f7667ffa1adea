"""A run in flight, of any runner: its state, and its end."""

from __future__ import annotations

import contextvars
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Self, TypeVar

from understudy.actors.run_view.errors import safely
from understudy.actors.run_view.event_count import next_seq
from understudy.actors.run_view.log import Finished, RunLines, RunLog, RunLogEntry, lines_of
from understudy.actors.stores.database import may_pass
from understudy.actors.threads.pool import start_next_thread
from understudy.actors.threads.promise import Promise
from understudy.errors import CircularAgentCall, StoreError, UnderstudyError
from understudy.orchestration.journal.places import key_of_call
from understudy.orchestration.saving.resumable import GoesOn, goes_on
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.ancestry import Ancestry, Link, enter_ancestry
from understudy.vocabulary.context.artifacts import Artifacts
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.context.scope import Scope, enter_scope
from understudy.vocabulary.messages import JsonValue, ModelTurn, Part, join_text
from understudy.vocabulary.runs.handles import RunPhase, RunStatus
from understudy.vocabulary.runs.outcomes import Complete, Outcome, Pause, PauseAnswer

from .error_facts import describe
from .host import RunHost
from .ownership import InHand, Ownership
from .stored_session import StoredSession, follow_session, hand_back, has_to_save, is_updated, load, save, values_of

if TYPE_CHECKING:
    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.actors.journal.run_journal import JournalPart
    from understudy.actors.memory.conversation_queue import Lease
    from understudy.actors.stores.turn_hold import TurnHold
    from understudy.actors.tools.batch_call import CallerThreadCalls
    from understudy.orchestration.definitions.port import ResumeOptions, RunOptions
    from understudy.orchestration.definitions.runner import Runner
    from understudy.orchestration.journal.rows import JournalRow
    from understudy.orchestration.runs.definitions import Definition
    from understudy.orchestration.runs.events import RunEvent
    from understudy.orchestration.runs.state import LineState

T = TypeVar("T")

NO_CONTEXT = contextvars.Context()
LOOK = 0.05  # Seconds in which a run that waits for the store sees that it is over.
WAITING = "waiting for the store"


class RunRecord(Ownership, ABC):
    """One run. The lock guards machine, epoch, phase, step and session; no user code and no model runs under it.

    Args:
        run_id: unique in its system.
        runner: whose run it is.
        input: the user's message.
        options: the caller's other arguments; a `SessionState` or `dict` gets the changed keys at the end.
        scope: the run's deadline and cancellation; gets the run's account.
        host: keeps the run; told once of its end, on the thread that ends it, before the promise completes.
        cell: the runner's actor.
        account: counts what the run spends.
    """

    __slots__ = (
        "account",
        "ancestry",
        "artifacts",
        "by_error",
        "caller_calls",
        "cell",
        "crashes",
        "detach",
        "ending",
        "host",
        "in_resumed",
        "input",
        "is_inner",
        "issued",
        "journal",
        "keeps",
        "keeps_events",
        "lease",
        "link",
        "log",
        "options",
        "promise",
        "revision",
        "root",
        "run_id",
        "runner",
        "scope",
        "session",
        "started_in",
        "stored",
        "streams",
        "turn_hold",
        "writing",
    )

    phase: RunPhase  # said again: pyright takes what `end` assigns for any string

    def __init__(
        self,
        run_id: str,
        runner: Runner[object],
        input: str | Sequence[Part],
        options: RunOptions,
        scope: Scope,
        host: RunHost[RunRecord],
        cell: ActorCell,
        account: Account,
    ) -> None:
        super().__init__()
        self.run_id = run_id
        self.runner = runner
        self.input = input
        self.options = options
        self.scope = scope
        self.account = scope.account = account
        self.host = host
        self.cell = cell
        self.link = Link(runner, run_id, options.conversation_id)
        self.ancestry: Ancestry = (self.link,)
        """The runs and actors that wait for the work of this run, outermost first; the run itself is the last."""
        self.root = host.root_of(self.link)
        """Id of the outermost run it was begun in, or its own."""
        self.lease: Lease | None = None
        """Its claim to the conversation that its agent's memory knows."""
        self.streams = options.stream
        """Whether somebody may read its turns while they are written."""
        self.keeps_events = options.stream
        """Whether its journal keeps its events: somebody may read it now, or might have before it paused."""
        self.started_in: contextvars.Context = NO_CONTEXT
        """The context variables of the code that began the run, and the run's own; each stay gets a copy."""
        self.caller_calls: CallerThreadCalls | None = None
        """Tool calls for the thread that waits for the run; None if no thread waits, or no tool needs it."""
        self.is_inner = False
        """Whether the run is a part of another run, which alone goes on with it after a pause."""
        self.in_resumed = False
        """Whether a run around it was resumed."""
        self.detach: Callable[[], None] | None = None
        """Ends the tie to the cancellation of the run that this one was begun in; None without one."""
        self.crashes: tuple[BaseException, ...] = ()
        """The exceptions at which its works crashed, one after another."""
        self.ending: Outcome[object] | BaseException | None = None
        """How it ended, for its journal; None before that."""
        self.issued = ""
        """The token of the error with which the run ends or is about to end, or of a pause that is told again; else empty."""
        self.writing: Promise[str] | None = None
        """That token, while it is written into a store."""
        self.journal: JournalPart | None = None
        """What the store has of the run while it is under way; None without a journal."""
        self.by_error = False
        """Whether it is kept because of an error: its caller has heard of no pause."""
        self.keeps = False
        """Whether the call that ended the run wanted a token."""
        self.revision = 0
        """The number of the pause that it went on from, if a store has it; 0 for none."""
        self.turn_hold: TurnHold | None = None
        """Its hold on the token that it was claimed with, if it was claimed for one turn."""
        given = options.session
        self.session = SessionOverlay({} if given is None else values_of(given))
        self.stored: StoredSession | None = None
        """What it knows of the session values in the store; None before they are loaded, and if there were none."""
        self.artifacts = Artifacts()
        """Results of tools that were too long for the model."""
        self.promise: Promise[Outcome[object]] = Promise()
        self.log = RunLog(run_id, runner.id, self.parent_run_id)

    @property
    def parent_run_id(self) -> str | None:
        """Id of the run that this one was begun in; None outside of runs."""
        return self.link.begun_in[-1] if self.link.begun_in else None

    # --- what each kind of runner has of its own

    @property
    @abstractmethod
    def turns(self) -> int:
        """Model calls so far."""

    @property
    @abstractmethod
    def iterations(self) -> int:
        """Rounds of tool calls so far."""

    @abstractmethod
    def saved_machine(self) -> str:
        """Return the machine as text."""

    @abstractmethod
    def tell(self, event: RunEvent) -> None:
        """Have the state take an event, and the journal, if there is one, write it with the next ones.

        Raises:
            Exception: the event does not fit; nothing has changed.
        """

    @property
    @abstractmethod
    def line_state(self) -> LineState:
        """What the events of this stay have come to."""

    @property
    @abstractmethod
    def definition(self) -> Definition:
        """What the run goes by, as data."""

    @abstractmethod
    def first_event(self) -> RunEvent:
        """Return the event with which the line of this stay begins."""

    @property
    @abstractmethod
    def pauses(self) -> Sequence[Pause]:
        """The decisions and answers of a person that the run waits for."""

    @abstractmethod
    def takes_no_answer(self) -> str:
        """Return why the run, paused here, takes no answer, and how it goes on; empty if it takes one."""

    @abstractmethod
    def go_on(self, answers: Mapping[str, PauseAnswer], options: ResumeOptions) -> Sequence[Finished]:
        """Raise the limits and feed a person's answers to the machine, or change nothing; returns what `respond` does.

        Raises:
            ValueError: a limit would be lowered, or the run would stop where it stands.
        """

    @abstractmethod
    def respond(self, answers: Mapping[str, PauseAnswer]) -> Sequence[Finished]:
        """Feed a person's answers, by the ids of the pauses; returns the calls that have their result by them."""

    @abstractmethod
    def is_at_limit(self) -> bool:
        """Whether the run stopped where it may go on once a limit is raised."""

    def needs_higher_limit(self) -> bool:
        """Whether the run goes on only with a higher limit, its own or one inside of it; with none raised, it would stop again."""
        return self.is_at_limit()

    @property
    @abstractmethod
    def needs_answer(self) -> bool:
        """Whether the run has nothing to do before a person answers."""

    @property
    @abstractmethod
    def may_go_on(self) -> bool:
        """Whether the run has begun, and can go on from its present state."""

    @property
    def has_begun(self) -> bool:
        """Whether there is a machine, so that the run goes on from its present state; else it begins anew."""
        return True

    @property
    def unfed_turn(self) -> ModelTurn | None:
        """A model's turn that is paid for, and that the machine has not taken yet."""
        return None

    @property
    def is_resumed(self) -> bool:
        """Whether a token was used up for the run or one around it; that of a single turn is held until the turn is committed."""
        return (self.log.first_seq > 0 and self.turn_hold is None) or self.in_resumed

    def way_on(self, error: BaseException) -> GoesOn:
        """Return how the run goes on after an error, as far as the error tells."""
        return goes_on(error, resumed=self.is_resumed or self.has_unstored_answer)

    @property
    def has_unstored_answer(self) -> bool:
        """Whether the run has its answer, and ends with an error that nothing but its storing can have."""
        return False

    def goes_on_after(self, error: BaseException) -> bool:
        """Whether the run can be resumed after an error that ends it."""
        how = self.way_on(error)
        return self.is_at_limit() if how == "limit" else how == "again" and self.may_go_on

    @abstractmethod
    def prepare_to_go_on(self) -> None:
        """Take the work into the machine that was under way when an error ended the run: the run is about to be saved, or goes on.

        Raises:
            TypeError: JSON cannot carry the session of a run inside.
        """

    def retry_failed(self) -> None:
        """Let the runs inside that failed go on; this run is resumed as a part of another one."""

    @property
    def is_between_turns(self) -> bool:
        """Whether the stay ends because its last turn is over, and not the run: nobody is told."""
        return False

    def copied(self) -> RunRecord:
        """Return a copy, for one turn that may have to be done again from this record.

        Raises:
            ValueError: the runner is no agent.
        """
        raise ValueError(
            f"run {self.run_id} belongs to {self.runner.id!r}, which is no agent and has no turns: resume it"
        )

    @abstractmethod
    def continued(self, scope: Scope, deps: object, session: Mapping[str, JsonValue] | None = None) -> Self:
        """Return the record with which this run, paused here, goes on; `session` has values that it sees from now on."""

    def follow(self, before: RunRecord) -> None:
        """Take over from the run's record before a pause all that outlives the pause."""
        self.revision = before.revision
        self.keeps_events = before.keeps_events
        self.artifacts = before.artifacts
        self.log.first_seq = next_seq(before.log, is_inner=before.is_inner)
        self.lease = None if before.lease is None else before.lease.renewed()
        self.stored = StoredSession({}) if before.stored is None else before.stored
        follow_session(self, before)

    @property
    @abstractmethod
    def runner_named(self) -> str:
        """The runner, as an error names where it comes from."""

    @abstractmethod
    def tell_progress(self, error: UnderstudyError, *, from_inside: bool) -> None:
        """Write on the error that ended the run what the run had until then.

        Args:
            error: gets messages, session and children.
            from_inside: whether the error is of a run inside of this one, and has what that one had.
        """

    def write_journal(self, epoch: int) -> None:
        """Write into the journal, if the run has one, what changed since the last time; for the work that holds `epoch`.

        Blocks for the store.

        Args:
            epoch: the work's.

        Raises:
            Stale: the run is over or in other hands.
            LeaseLost: another process has taken the run over.
            StoreError: the store failed, and the run is left.
            TypeError: JSON cannot carry a value of the session.
        """
        part = self.journal
        if part is None:
            return
        with part.lock:
            with self.lock:
                self._check(epoch)
                self.step_deadline = inf
                rows, count = self.rows_for(part)
                closed = part.take_closed()
            self.through_outage(epoch, partial(part.commit, rows, closed))
            with self.lock:
                self._check(epoch)
                part.line.written(count)

    def through_outage(self, epoch: int, do: Callable[[], T]) -> T:
        """Return what `do` returns, which asks a store, for the work that holds `epoch`. Blocks for the store.

        A run with a journal asks again while the store fails, and is left when its patience is over.

        Raises:
            Stale: the run is over or in other hands.
            StoreError: the store failed; if the run is left, the error has its id.
            BaseException: what `do` raises else.
        """
        if self.journal is None:
            return do()
        doing = self.doing
        try:
            return self.host.outage.through(do, partial(self._await_store, epoch))
        except StoreError as error:
            if not may_pass(error):
                raise
            raise self.journal.journal.fail(error) from error
        finally:
            if self.doing == WAITING:
                with self.lock:
                    if self.is_held_at(epoch):
                        self.doing = doing

    def _await_store(self, epoch: int, seconds: float) -> bool:
        """Wait for another attempt; False if there is to be none. Raises `Stale` as soon as the run is over."""
        until = time.monotonic() + seconds
        while True:
            with self.lock:
                self._check(epoch)
                self.doing, self.step_deadline = WAITING, inf
            if self.host.outage.is_stopping or self.left_error is not None:
                return False
            left = until - time.monotonic()
            if left <= 0.0:
                return True
            time.sleep(min(left, LOOK))

    @property
    def left_error(self) -> StoreError | None:
        """A new error that says that the run is left, because the store failed for too long; None if it is not."""
        return None if self.journal is None else self.journal.journal.left_error()

    @property
    def waits_for_store(self) -> bool:
        """Whether the run asks again when a store fails."""
        return self.journal is not None

    def rows_for(self, part: JournalPart) -> tuple[list[JournalRow], int]:
        """Return what is not in the journal yet, and how many events that is; nobody changes the run meanwhile.

        Raises:
            TypeError: JSON cannot carry a value of the session.
        """
        from understudy.actors.journal.run_rows import check_session, next_event, run_rows  # loads pydantic

        part.line.begin(self.first_event)
        changed = self.line_state.unsaid(self.session)
        if changed is not None:
            check_session(self.run_id, changed.changes.values)
            part.line.take(changed, self.line_state.apply, self.first_event)
        rows, count = part.line.rows(self.definition, next_event(self, part))
        return [*rows, *run_rows(self, part)], count

    @property
    def has_session_to_load(self) -> bool:
        """Whether the store may have values for the session, and nobody has looked."""
        return self.stored is None and not self.is_inner and self.host.sessions.has_values

    def load_session(self, epoch: int) -> None:
        """Have the run begin with what the store has for it, once; for the work that holds `epoch`.

        Raises:
            Stale: the run is over or in other hands.
            StoreError: the store failed; a run with a journal is left.
        """
        if not self.has_session_to_load:
            return
        if not self.host.sessions.is_quick:
            self.begin_step(epoch, "loading its session")
        stored, values = self.through_outage(epoch, partial(load, self, self.host))
        with self.lock:
            self._check(epoch)
            self.session.lay_under(values)
            self.stored = stored
            self.doing = "starting"

    def save_session(self, *, yields: bool = False) -> None:
        """Store what the run changed in its session; blocks for the store. Nobody changes the session meanwhile.

        Args:
            yields: leave what others changed unseen as it is: the run is over, and can tell no more.
        """
        if not self.is_inner and has_to_save(self):
            self.stored = save(self, self.host, yields=yields)

    @property
    def waits_to_save(self) -> bool:
        """Whether there are session values to store, and that may block."""
        return not self.is_inner and not self.host.sessions.is_quick and has_to_save(self)

    def remember(self, outcome: Complete[object], epoch: int) -> Callable[[], object] | None:
        """Store what the runner's memory keeps of a run that is done, for the work that holds `epoch`.

        Returns:
            A function to call at the moment in which the run ends; None if there is nothing left to do.
        """
        return None

    def fails_runner(self, cause: BaseException) -> bool:
        """Whether the runner's definition names the error as one that fails its actor."""
        return False

    def writer_of(self, lines: RunLines) -> Callable[[RunLogEntry], object]:
        """Return what writes the lines of facts, where code of users may run."""
        return lines.take

    def lines(self) -> RunLines | None:
        """Return what writes the log lines of the run; None if the logger takes none."""
        return lines_of(self.link)

    def tell_error(self, error: BaseException) -> None:
        """Tell callbacks, on a lent thread, of the error of a run that was ended from outside."""

    def _let_go(self, given_up: bool) -> None:
        """Let go of the step in hand when the run ends; `given_up` says whether a work is still at it."""

    # --- for code that is part of the run

    def call_key(self, call_id: str) -> str:
        """Return what names a call of this run for ever, also in another process that goes on with the run."""
        return key_of_call(self.run_id, self.turns, call_id)

    def enter(self, hops: int) -> None:
        """Make the code of the current context part of this run, which has `hops`."""
        enter_ancestry(self.ancestry, hops + 1)
        enter_scope(self.scope)

    @property
    def input_text(self) -> str:
        """What the user said, as text."""
        return self.input if isinstance(self.input, str) else join_text(self.input)

    # --- for anyone

    @abstractmethod
    def begin(self, *, last: bool) -> None:
        """Begin, or go on after a crash; with `last` the calling thread has nothing more to do and may be used."""

    def take_up(self, epoch: int) -> bool:
        """Have the time of the run count; False if the run has ended, or was taken over since `epoch`."""
        with self.lock:
            if epoch != self.epoch or self.phase != "running":
                return False
            self.account.start(time.monotonic)
            return True

    def end(
        self,
        ending: Outcome[object] | BaseException,
        phase: RunPhase,
        *,
        epoch: int | None = None,
        overdue: float | None = None,
        commit: Callable[[], object] | None = None,
        keep: Callable[[], object] | None = None,
    ) -> bool:
        """End the run, or its stay here, and complete the promise; its works become stale.

        A work that did not end the run itself is counted as given up until it comes back.

        Args:
            ending: the outcome, or the error.
            phase: what the run is from now on.
            epoch: end it only if this is still the epoch.
            overdue: end it only if the step in hand was due by then.
            commit: called if it is ended, under the lock and before anybody can hear of it.
            keep: called if it is ended, when nothing changes the machine any more and before anybody can hear of the end.

        Returns:
            Whether this call ended it.
        """
        stopped = self._stop(phase, epoch, overdue, commit, keeps=keep is not None)
        if stopped is None:
            return False
        doing, in_hand = stopped
        # From here on nothing may keep the promise from completing: nobody else would ever complete it.
        try:
            safely(self, self._wind_up, ending, doing, in_hand if epoch is None else None, keep)
        finally:  # also at a Ctrl-C, which comes where a call ends
            self.complete(ending)
        if epoch is None:
            start_next_thread()  # a run around it may be next on this thread, and what that is at may go on for long
        return True

    def _stop(
        self,
        phase: RunPhase,
        epoch: int | None,
        overdue: float | None,
        commit: Callable[[], object] | None,
        *,
        keeps: bool,
    ) -> tuple[str, InHand | None] | None:
        """Have the run go on no more; returns what it was doing and its last work, or None if it is not to end."""
        with self.lock:
            stale = epoch is not None and epoch != self.epoch
            in_time = overdue is not None and self.step_deadline > overdue
            # Once the store has its end, nothing but the work that wrote that ends it here.
            is_written = epoch is None and self.journal is not None and self.journal.journal.over and not self.is_inner
            if self.phase != "running" or stale or in_time or is_written:
                return None
            if commit is not None:
                commit()
            self.epoch += 1
            self.phase = phase
            self.keeps = keeps
            doing, self.doing = self.doing, ""
            self.step_deadline = inf
            self.link.over = True  # first of all: code that hears of the end is no longer inside of the run
            self.link.drop = None
            # It refers to us: a run that is over should go at once, not at a garbage collection.
            in_hand, self.in_hand = self.in_hand, None
            return doing, in_hand

    def complete(self, ending: Outcome[object] | BaseException) -> None:
        """Complete the promise: done callbacks of users run here."""
        if isinstance(ending, BaseException):
            self.promise.fail(ending)
        else:
            self.promise.set(ending)

    def _wind_up(
        self,
        ending: Outcome[object] | BaseException,
        doing: str,
        in_hand: InHand | None,
        keep: Callable[[], object] | None,
    ) -> None:
        """Let go of all that the run holds, even if a part of that fails; the work `in_hand` may still be at it."""
        safely(self, self.account.stop)
        given_up = in_hand is not None and not in_hand.returned
        if given_up and in_hand is not None:
            safely(self, self.host.hung.abandon, in_hand, self, doing, self.step_since)
        safely(self, self._let_go, given_up)
        given = self.options.session
        if given is not None and is_updated(given):
            safely(self, hand_back, self.session, given)
        if self.session.is_changed and self.host.sessions.is_quick:
            safely(self, self.save_session)
        if isinstance(ending, BaseException):
            safely(self, describe, self, ending)
        if keep is not None:
            safely(self, self.log.seal)  # before `keep`, which stores the number of the next event
            safely(self, keep)
        self.ending = ending
        # Before the log: a reader may take the token from the last event and go on with the run, under the same id.
        safely(self, self.host.ended, self)
        safely(self, self.log.end, ending)

    def forget_changes(self) -> None:
        """Drop the changes of the session: another worker has the turn of this run now."""
        self.session.changes.clear()
        self.session.removed = frozenset()

    def fail_agent(self, cause: BaseException) -> Promise[None]:
        """Have the runner's actor fail; there, all failures in one outermost run count as one.

        Returns:
            A promise that is done when it is decided whether the actor is restarted.
        """
        self.cell.count_failure()
        return self.cell.fail(cause, self.root)

    def outer_cancelled(self) -> None:
        """End the run because the one that it was begun in was cancelled."""
        self.host.endings.cancel(self, "the run it was begun in was cancelled")

    def lost(self, error: BaseException) -> None:
        """End the run because the message that was to start it could not be handled."""
        self.host.endings.fail(self, error, self.epoch)
        start_next_thread()  # as at an end from outside

    def must_not_wait(self, error: BaseException) -> None:
        """End the run because it may not wait for its conversation; if a store cannot be asked, a run with a journal is left."""
        if isinstance(error, CircularAgentCall):
            self.host.events.refused(self.cell.address, error)
        if self.journal is not None and may_pass(error):
            error = self.journal.journal.fail(error)
        self.lost(error)

    def status(self) -> RunStatus:
        """Return where the run stands, without waiting for anything but the lock."""
        return RunStatus(
            run_id=self.run_id,
            agent_id=self.runner.id,
            phase=self.phase,
            turns=self.turns,
            iterations=self.iterations,
            doing=self.doing,
        )
