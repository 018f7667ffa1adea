"""An agent's run in flight: its machine, and the findings of its works about the step in hand."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, TypeVar

from understudy.actors.journal.call_transaction import StoredCallTransaction
from understudy.actors.memory.conversations import is_stored, recall, remember
from understudy.actors.run_view.errors import note_missing_deps, safely
from understudy.actors.run_view.log import (
    Compacted,
    Dropped,
    Finished,
    RunLines,
    RunLog,
    RunLogEntry,
    Uncompacted,
    lines_of,
)
from understudy.actors.tools.failed_calls import fails_agent
from understudy.actors.tools.tool_call import Executed
from understudy.errors import BadReply, ProviderError, UnderstudyError
from understudy.orchestration.agent.context_state import ContextChange, ContextState
from understudy.orchestration.agent.next_step import messages_so_far
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.definitions.agent import account_of
from understudy.orchestration.journal.places import place_of_call
from understudy.orchestration.runs.events import Migrated, RunEvent
from understudy.orchestration.saving.raised_limits import needs_higher_limit
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.context.artifacts import Artifacts
from understudy.vocabulary.context.overlays import CallSession, SessionOverlay, lasting
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.messages import JsonObject, JsonValue, Message, ModelTurn, Part
from understudy.vocabulary.models import name_of
from understudy.vocabulary.runs.outcomes import Complete, Pause, PauseAnswer

from .host import RunHost
from .ownership import Stale
from .record import RunRecord
from .resumption import extend_agent, why_agent_takes_none
from .run_callbacks import context_of, tell_error_elsewhere
from .stored_session import options_to_go_on
from .sub_agents import DelegatedRuns, run_of_call

if TYPE_CHECKING:
    from understudy.actors.actor.actor_cell import ActorCell
    from understudy.actors.tools.tool_call import CallTransaction, ToolCallTask
    from understudy.orchestration import Agent
    from understudy.orchestration.agent.spec import RunSpec
    from understudy.orchestration.definitions.port import ResumeOptions, RunOptions
    from understudy.orchestration.definitions.sub_agent import SubAgent
    from understudy.orchestration.runs.state import AgentLineState

BY = "compaction"
"""Who dropped a turn, where a callback's name stands otherwise."""


def note_changes(log: RunLog, context: ContextState, error: BaseException | None = None) -> list[RunLogEntry]:
    """Note all changes that were not told yet, under the lock of the run's record, and return them for their lines.

    Args:
        log: of the run.
        context: the part of its state that changed.
        error: why there is no summary, if a model call failed.
    """
    news, context.news = context.news, []
    facts = [_fact_of(change, error) for change in news]
    for fact in facts:
        log.note(fact, with_line=False)
    return facts


def _fact_of(change: ContextChange, error: BaseException | None) -> RunLogEntry:
    match change.kind:
        case "failed":
            why = BadReply(f"the conversation was not summed up: {change.problem}") if error is None else error
            return Uncompacted(why, change.usage)
        case "dropped":
            return Dropped(change.turn, change.text, BY)
        case _:
            return Compacted(change)


T = TypeVar("T")


class AgentRunRecord(RunRecord):
    """One run of an agent.

    Args:
        run_id: unique in its system.
        agent: whose run it is.
        input: the user's message.
        options: the caller's other arguments; a `SessionState` or `dict` gets the changed keys at the end.
        scope: the run's deadline and cancellation; gets the run's account, which draws from the one it had.
        host: keeps the run; told once of its end, on the thread that ends it, before the promise completes.
        cell: the agent's actor.
        machine: the machine of a run that goes on; a new run's is made in its first stay.
    """

    __slots__ = (
        "agent",
        "answered",
        "attempts",
        "before",
        "checked",
        "counted_unfed",
        "delegated",
        "is_streaming",
        "last_turn",
        "machine",
        "raised",
        "step_check",
        "step_order",
        "told_error",
        "unfed",
        "went_on",
    )

    state: AgentLineState

    def __init__(
        self,
        run_id: str,
        agent: Agent[object],
        input: str | Sequence[Part],
        options: RunOptions,
        scope: Scope,
        host: RunHost[RunRecord],
        cell: ActorCell,
        machine: AgentRun | None = None,
    ) -> None:
        account = account_of(agent, options.budget, machine, scope.account)
        super().__init__(run_id, agent, input, options, scope, host, cell, account)
        self.agent = agent
        self.machine = machine
        self.step_order: ToolCallTask | None = None
        """The lone tool call that a work makes."""
        self.step_check: Hashable = None
        """The question, as in `answered`, that a work asks user code now, if the answer has a time limit."""
        self.delegated = DelegatedRuns()
        self.counted_unfed = False
        """Whether the account has the turn in `unfed`, because the run ended first."""
        self.is_streaming = False
        """Whether the model call that is under way shows its turn in pieces."""
        self.unfed: ModelTurn | None = None
        """A turn that was paid for and not fed yet; the next work does not ask for it again."""
        self.answered: dict[Hashable, object] = {}
        """Question -> the answer of user code, until the machine is fed with it; the next work does not ask again."""
        self.checked: dict[int, tuple[JsonObject, dict[str, object]]] = {}
        """Identity of a call's arguments -> the arguments as the model gave them, and as the tool takes them; of the last turn."""
        self.told_error = False
        """Whether callbacks were told of the error with which the run ends."""
        self.attempts: dict[str, int] = {}
        """Call id -> how many attempts timed out."""
        self.before: dict[str, tuple[float, int]] = {}
        """Id of a call that is tried again -> when its first attempt began, and how many there were."""
        self.raised: dict[str, BaseException] = {}
        """Call id -> the exception of the tool, for tools whose errors end the run."""
        self.last_turn: float = inf
        """The number of the turn with which the run's stay here ends."""
        self.went_on = False
        """Whether a later stay has the machine, and its account."""

    @property
    def turns(self) -> int:
        return 0 if self.machine is None else self.machine.state.turns

    @property
    def iterations(self) -> int:
        return 0 if self.machine is None else self.machine.state.iterations

    def saved_machine(self) -> str:
        assert self.machine is not None
        return self.machine.to_json()

    @property
    def line_state(self) -> AgentLineState:
        return self.state

    @property
    def definition(self) -> RunSpec:
        return self.agent.run_spec

    def first_event(self) -> RunEvent:
        if self.machine is not None:
            return Migrated(self.saved_machine(), "")
        assert self.state.accepted is not None, "a run is accepted before it is opened"
        return self.state.accepted

    @property
    def has_unwritten(self) -> bool:
        """Whether the model has answered, and the journal does not have it."""
        return self.turns > 0 and self.journal is not None and self.journal.line.has_news

    @property
    def holds_turns(self) -> bool:
        """Whether a callback wants readers to be shown nothing of a turn before it has seen the turn."""
        return any(callback.hold is not None for callback in self.agent.callbacks)

    @property
    def pauses(self) -> Sequence[Pause]:
        return () if self.machine is None else self.machine.pauses

    def takes_no_answer(self) -> str:
        return "" if self.machine is None else why_agent_takes_none(self.machine)

    def go_on(self, answers: Mapping[str, PauseAnswer], options: ResumeOptions) -> Sequence[Finished]:
        assert self.machine is not None
        extend_agent(self.run_id, self.agent, self.machine, options)
        return self.respond(answers) if answers else ()

    def respond(self, answers: Mapping[str, PauseAnswer]) -> Sequence[Finished]:
        assert self.machine is not None
        round_ = self.machine.state.round
        if round_ is None:
            self.machine.respond(answers)
            return ()
        before = set(round_.results)
        self.machine.respond(answers)
        found = [(call, round_.results.get(call.id)) for call in round_.calls if call.id not in before]
        return [Finished(call, result) for call, result in found if result is not None]

    def is_at_limit(self) -> bool:
        if self.machine is None:
            return False
        return self.delegated.has_stopped() or self.machine.has_stopped or self.machine.at_limit()

    def needs_higher_limit(self) -> bool:
        return self.machine is not None and needs_higher_limit(self.agent, self.machine)

    @property
    def needs_answer(self) -> bool:
        return self.machine is not None and self.machine.waits

    @property
    def may_go_on(self) -> bool:
        return self.machine is not None and self.machine.may_go_on

    @property
    def has_unstored_answer(self) -> bool:
        # Of a turn whose end may be in the store, nobody knows whether its token still stands.
        is_known = self.turn_hold is None or not self.turn_hold.failed
        return is_known and self.machine is not None and self.machine.state.phase == "done"

    @property
    def has_begun(self) -> bool:
        return self.machine is not None

    @property
    def unfed_turn(self) -> ModelTurn | None:
        return self.unfed

    def prepare_to_go_on(self) -> None:
        self._count_unfed()
        if self.machine is not None:
            self.delegated.settle(self, self.machine, self._take)

    @property
    def is_between_turns(self) -> bool:
        return self.turns >= self.last_turn and self.machine is not None and self.machine.is_between_turns

    @property
    def runner_named(self) -> str:
        return f"agent {self.agent.id!r} ({name_of(self.agent.current_model)})"

    def tell_progress(self, error: UnderstudyError, *, from_inside: bool) -> None:
        if not from_inside:
            error.children = ()
        error.messages = () if self.machine is None else messages_so_far(self.machine.state)
        error.session = lasting(self.session)

    def ask(self, epoch: int, question: Callable[[RunContext], T]) -> T:
        """Ask user code that decides about the run; its changes of the session are kept if it returns."""
        session = CallSession(self.session)
        try:
            answer = question(self.context_with(session))
        except BaseException as error:
            note_missing_deps(error, self.options.deps)
            raise
        if session.settle():
            with self.lock:
                self._check(epoch)
                session.commit()
        return answer

    def context_with(self, session: SessionOverlay) -> RunContext:
        """Return the context with a view of its own of the session."""
        typed = self.agent.run_spec.output
        return context_of(
            self,
            session,
            continues=0 if self.machine is None else self.machine.state.continues,
            answer_tool="" if typed is None else typed.tool,
        )

    def transaction_of(self, order: ToolCallTask) -> CallTransaction:
        """Return the transaction of a call."""
        return StoredCallTransaction(self, order)

    def run_of_call(self, order: ToolCallTask, sub_agent: SubAgent, task: str) -> RunRecord:
        """Return the run that a call of a sub-agent is, which has not begun here."""
        with self.lock:
            paused = None if self.machine is None else self.machine.child(order.call.id)
        return run_of_call(self, order, sub_agent, task, paused, self.delegated)

    # --- for the work that holds `epoch`; each raises `Stale` to any other

    @property
    def opens_at_once(self) -> bool:
        """Whether `prepared` asks no store, no memory and no code of users."""
        has_memory = self.lease is not None and self.lease.memory is not None
        return isinstance(self.agent.system_prompt, str) and not has_memory and not self.has_session_to_load

    def prepared(self, epoch: int) -> tuple[Sequence[Message], str]:
        """Load the session, and return the conversation so far and the system prompt. Runs user code, and blocks for stores."""
        self.load_session(epoch)
        prompt, history = self.agent.system_prompt, recall(self, epoch)
        system = prompt if isinstance(prompt, str) else self.ask(epoch, prompt)
        if not isinstance(system, str):
            raise WrongReturn(f"the function given as system_prompt must return a string, got {found_instead(system)}")
        return history, system

    def begin_step(
        self,
        epoch: int,
        doing: str,
        deadline: float = inf,
        order: ToolCallTask | None = None,
        check: Hashable = None,
    ) -> None:
        """Note the step that the work is about to do, and its deadline."""
        with self.lock:
            if epoch != self.epoch or self.phase != "running":  # as `_check`, without a call
                raise Stale
            self.doing = doing
            self.step_since = time.monotonic()
            self.step_order = order
            self.step_check = check
            self.step_deadline = deadline

    def renew_step(self, epoch: int, deadline: float) -> None:
        """Note that the step of the work goes on, and its new deadline."""
        with self.lock:
            self._check(epoch)
            self.step_deadline = deadline

    def refuse_stale(self, epoch: int) -> None:
        """Raise `Stale` to a work that has the run no more."""
        with self.lock:
            self._check(epoch)

    def note_answer(
        self, epoch: int, question: Hashable, answer: object, session: SessionOverlay | None = None
    ) -> None:
        """Keep the answer of user code to a question until it is fed, and commit the changes of its session."""
        with self.lock:
            self._check(epoch)
            if session is not None:
                session.commit()
            self.answered[question] = answer

    def keep(self, turn: ModelTurn) -> ModelTurn:
        """Keep a turn that was paid for until it is fed; if the run is over it is only counted."""
        with self.lock:
            if self.phase == "running":
                self.unfed = turn
                return turn
        self.write_off(turn)
        return turn

    def write_off(self, turn: ModelTurn | None) -> None:
        """Count a model call that is not fed."""
        assert self.machine is not None
        self.machine.write_off(turn, is_late=self.went_on)

    def keep_summary(self, epoch: int, turn: ModelTurn) -> ModelTurn:
        """Keep the answer to a request for a summary until it is fed; the answer to a stale work is only counted."""
        with self.lock:
            if self.is_held_at(epoch):
                self.unfed = turn
                return turn
            self.write_off(turn)
        raise Stale

    def cut_off(self, scope: Scope, error: BaseException, partial: ModelTurn | None = None) -> None:
        """Count a model call that failed, if a part of its turn came or the call was cut short; `scope` is the call's."""
        if self.machine is None:
            return
        partial = error.partial if isinstance(error, ProviderError) else partial
        if partial is not None or scope.cancelled or scope.remaining() == 0.0:
            safely(self, self.write_off, partial)  # the call's own error is the one to tell
        else:
            self.account.forget_ahead()

    def note_turn(self, turn: ModelTurn, refused_by: str) -> list[RunLogEntry]:
        """Note a turn that was fed, and the calls that have their result by it; returns the entries for their lines.

        Args:
            turn: the model's.
            refused_by: the agent's argument that refused its answer, if one did.
        """
        machine = self.machine
        assert machine is not None
        self.unfed = None
        self.answered.clear()
        facts = self._told_of(machine, turn, refused_by)
        for fact in facts:
            self.log.note(fact, with_line=False)
        if machine.state.context is not None:
            facts += note_changes(self.log, machine.state.context)
        return facts

    def _told_of(self, machine: AgentRun, turn: ModelTurn, refused_by: str) -> list[RunLogEntry]:
        """Return the log entries of a turn that was fed: the turn, and the calls that have their result already."""
        if refused_by:
            return self.told_of_refused(turn, refused_by)
        told: list[RunLogEntry] = [(machine.state.turns, turn)]
        round_ = machine.state.round
        if round_ is not None and round_.results:
            for call in round_.calls:
                if call.id in round_.results:
                    told += (call, Finished(call, round_.results[call.id]))
        return told

    def told_of_refused(self, turn: ModelTurn, by: str) -> list[RunLogEntry]:
        """Return the log entries of a turn that was fed and refused; they have none of its text if a callback holds turns."""
        assert self.machine is not None
        number = self.machine.state.turns
        told = replace(turn, parts=(), refusal="") if self.holds_turns else turn
        return [(number, told), Dropped(number, told.text, by)]

    @abstractmethod
    def _take(self, results: Sequence[Executed]) -> None:
        """Take results, and pauses of runs inside; call it under the lock."""

    def commit_changes(self, results: Sequence[Executed]) -> None:
        """Make what calls changed of the session a part of it, in their order; call it under the lock."""
        assert self.machine is not None
        changed = [overlay for _, overlay in results if overlay is not None and overlay.is_changed]
        if len(changed) > 1:  # these calls ran together: none has seen the changes of the others
            before = dict(self.session)
            for overlay in changed:
                overlay.since = before if overlay.since is None else overlay.since
        if changed:
            self.log.note_conflicts([overlay.commit() for overlay in changed])
        if self.journal is not None:
            for came, _ in results:
                self.journal.closed(place_of_call(self.machine.state.turns, came.call_id))

    # --- for anyone

    def take_over(self, epoch: int) -> int | None:
        successor = super().take_over(epoch)
        if successor is not None:
            self.step_order = None
            self.step_check = None
        return successor

    def remember(self, outcome: Complete[object], epoch: int) -> Callable[[], object] | None:
        if self.lease is None:
            return None
        if self.has_unwritten and is_stored(self.lease):
            # Before the memory: a process that goes on with the run must not have another answer than the memory.
            self.write_journal(epoch)
        return remember(self, outcome.messages, epoch)

    def fails_runner(self, cause: BaseException) -> bool:
        return fails_agent(self.agent, cause)

    def lines(self) -> RunLines | None:
        return lines_of(self.link, self.agent.callbacks, self.agent.tools_by_name)

    def tell_error(self, error: BaseException) -> None:
        if self.agent.callbacks and not self.told_error:
            self.told_error = True
            tell_error_elsewhere(self, self.agent.callbacks, self._context_of_its_own, error)

    def _context_of_its_own(self) -> RunContext:
        return self.context_with(CallSession(self.session))

    def _let_go(self, given_up: bool) -> None:
        order, self.step_order = self.step_order, None
        if self.unfed is not None:
            safely(self, self._count_unfed)
        if order is not None:
            safely(self, self._keep_call, order)
        if given_up and order is not None:
            order.leave()  # its scope is inside of the run's, which is cancelled next

    def _count_unfed(self) -> None:
        """Count a turn that was not fed; whoever goes on with the run feeds it, and does not ask the model again."""
        if self.unfed is not None and self.machine is not None and not self.counted_unfed:
            self.counted_unfed = True
            self.machine.prepay(self.unfed)

    def _keep_call(self, order: ToolCallTask) -> None:
        came = order.settled()
        self._keep_finished(() if came is None else (came,), [order.call.id] if came is None else ())

    def _keep_finished(self, results: Sequence[Executed], cut_off: Sequence[str]) -> None:
        """Feed the results that had come when the run ended; a call that was under way then does not run again."""
        with self.lock:
            machine = self.machine
            if machine is None or machine.state.round is None:
                return
            pending = {call.id for call in machine.state.round.pending()}
            self._take([each for each in results if each[0].call_id in pending])
            machine.cut_off([call_id for call_id in cut_off if call_id not in self.delegated])

    def for_one_turn(self) -> AgentRunRecord:
        """Have the stay here end with the turn that is open, or with the next one; returns the record itself."""
        machine = self.machine
        self.last_turn = self.turns + (0 if machine is not None and machine.turn_is_open else 1)
        return self

    def copied(self) -> AgentRunRecord:
        self.prepare_to_go_on()
        assert self.machine is not None
        copy = type(self)(
            self.run_id,
            self.agent,
            self.input,
            options_to_go_on(self, self.options.deps, None),
            Scope(None, time.monotonic),
            self.host,
            self.cell,
            self.machine.copied(),
        )
        copy.follow(self)
        copy.by_error = self.by_error
        copy.artifacts = Artifacts(self.artifacts.snapshot().values())
        copy.unfed, copy.counted_unfed = self.unfed, self.counted_unfed
        return copy

    def continued(self, scope: Scope, deps: object, session: Mapping[str, JsonValue] | None = None) -> AgentRunRecord:
        options = options_to_go_on(self, deps, session)
        record = type(self)(self.run_id, self.agent, self.input, options, scope, self.host, self.cell, self.machine)
        record.follow(self)
        record.unfed, self.went_on = self.unfed, True
        return record
