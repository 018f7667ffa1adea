"""The state of a run: what its events come to. `apply` takes the next event, `due` says what is to be done.

Both ask no clock, thread, store, budget or user code, so a line that is replayed comes to the same state as the run that
wrote it. `apply` is the only place where a line changes it.

An agent's run is its events over the machine `AgentRun`, which is made when the run is opened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, cast

from understudy.errors import ProtocolViolation
from understudy.orchestration.agent.feed_checks import check_turn, fault_of_result
from understudy.orchestration.agent.next_step import admit, check_turn_is_due, current_round, due_step
from understudy.orchestration.agent.rounds import close_if_complete, end_if_failed, put_in_doubt
from understudy.orchestration.agent.rulings import unguarded, unreviewed
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.agent.spec import RunSpec
from understudy.orchestration.agent.state import RunState, ToolRound
from understudy.orchestration.agent.steps import CallModel
from understudy.vocabulary.context.account import Account, copy_of
from understudy.vocabulary.context.budget import Spending, narrowed
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.messages import ModelTurn, ToolCall, ToolResult
from understudy.vocabulary.runs.callbacks import ACCEPTED

from .events import (
    Accepted,
    Answered,
    Asked,
    CallBegan,
    CallRetried,
    CallsCut,
    CallsDoubted,
    CallsGuarded,
    CallsReconciled,
    Changes,
    ChildBegan,
    ChildPaused,
    ChildStopped,
    Closed,
    Ended,
    Extended,
    Failed,
    Migrated,
    Opened,
    Overflowed,
    ResultCame,
    ResultsReviewed,
    ResultsTaken,
    RoundBegan,
    RunEvent,
    RunRuled,
    SessionChanged,
    Spent,
    SummaryBegan,
    SummaryCame,
    SummaryFailed,
    TakenOver,
    TurnBegan,
    TurnCame,
    TurnLost,
    TurnRuled,
    TurnTaken,
)
from .tally import Tally

if TYPE_CHECKING:
    from understudy.orchestration.agent.context_state import ContextState


class Due(NamedTuple):
    """A piece of work that is to be done now. Two with the same kind and key are the same piece."""

    kind: str
    """`open`, `model`, `judge`, `round`, `guard`, `call`, `review`, `child`, `ask`, `finish` or `fail`."""
    key: str = ""
    """The turn, the id of the call, or the position of the child."""


Lookup: TypeAlias = Callable[[str], object]
"""Returns the definition with a digest."""

OpenAccount: TypeAlias = Callable[[Spending], Account]
"""Makes the account that counts in these figures. That of a live run asks prices and budgets, and charges the runs around it."""


def unknown(digest: str) -> object:
    """Refuse a digest: the line needs no definition but its first."""
    raise KeyError(digest)


_BEFORE = Tally()
"""The account of a run before it was accepted: nobody counts in it."""

Handlers: TypeAlias = dict[type[RunEvent], Callable[[Any, Any], None]]


class LineState(ABC):
    """What the state of every kind of run has."""

    table: ClassVar[Handlers]
    """What takes each kind of event; others change nothing."""

    def __init__(self) -> None:
        self._has_begun = False
        self.accepted: Accepted | None = None
        self.account: Account = _BEFORE
        self._session: SessionOverlay | None = None  # most runs have none, and thousands may wait
        self.children: dict[str, str] = {}
        """Place -> the line of the run that is under way there."""
        self.begun: dict[str, ChildBegan] = {}
        """Place -> the run that began there last."""
        self.asked: Asked | None = None
        """The question that waits for a person."""
        self.answered_of = 0
        """The number of the question of the run around it that was answered last."""
        self.ended: Ended | Failed | None = None
        self.context: ContextState | None = None
        """What requests show of a long conversation; its news are those of the last event."""
        self.stays = 1
        """How many stays the run had; each takeover begins one."""

    @property
    def session(self) -> SessionOverlay:
        """The run's view of the session."""
        if self._session is None:
            self._session = SessionOverlay({})
        return self._session

    @abstractmethod
    def due(self) -> list[Due]:
        """Return what is to be done, work that is under way included; nothing if the run is over or waits for a person."""

    def apply(self, event: RunEvent) -> None:
        """Take the next event.

        Raises:
            ProtocolViolation: the event does not fit the state.
            Exception: what the event has does not fit the machine. No error changes anything.
        """
        kind, context = type(event), self.context
        if kind is Accepted or not self._has_begun:
            self._check_first(kind)
        told = 0 if context is None else len(context.news)
        handler = self.table.get(kind)
        if not self.account.is_live:
            self._count(event, cast(Tally, self.account), handler)
        elif handler is not None:
            handler(self, event)
        if told and self.context is not None:
            del self.context.news[:told]
        self._has_begun = True

    def _check_first(self, kind: type[RunEvent]) -> None:
        if self._has_begun or kind not in (Accepted, Migrated):
            place = "in the middle" if self._has_begun else "at the beginning"
            raise ProtocolViolation(f"{kind.__name__} {place} of a line, which begins with Accepted, once")

    def _count(self, event: RunEvent, tally: Tally, handler: Callable[[Any, Any], None] | None) -> None:
        spent: Spent | None = getattr(event, "spent", None)
        if spent is not None:
            tally.expect(spent)
        if handler is not None:
            handler(self, event)
        if spent is not None:
            tally.add(spent)

    def lay(self, changes: Changes | None) -> None:
        """Make what user code changed a part of the session."""
        if changes is None:
            return
        session = self.session
        session.changes.update(changes.values)
        session.removed = (session.removed - changes.values.keys()) | frozenset(changes.removed)
        for key in changes.removed:
            session.changes.pop(key, None)

    def unsaid(self, session: SessionOverlay) -> SessionChanged | None:
        """Return the event of what changed in the session of the run beside what the events before say; None if nothing did."""
        if self._session is None and not session.is_changed:
            return None
        values, removed, as_begun = session.changes_beside(self.session)
        return SessionChanged(Changes(values, removed), as_begun) if values or removed or as_begun else None

    def go_live(self, open_account: OpenAccount) -> None:
        """Count with an account of a live run from here on, which begins with what the events say."""
        self.account = open_account(copy_of(self.account.spending))

    # --- what every kind of run takes

    def child_began(self, event: ChildBegan) -> None:
        self.children[event.place] = event.run
        self.begun[event.place] = event

    def session_changed(self, event: SessionChanged) -> None:
        self.lay(event.changes)
        self.session.undo(event.as_begun)

    def take_asked(self, event: Asked) -> None:
        self.asked = event

    def take_over(self, event: TakenOver) -> None:
        self.stays += 1
        self.asked = self.ended = None
        self.account.add_seconds(event.seconds)
        if event.session is not None:
            self._see(event.session)

    def _see(self, others: Changes) -> None:
        """Show what others changed of the session: it counts as what the run began with, and hides its own changes."""
        before, gone = self.session, frozenset(others.removed)
        below = {key: value for key, value in before.below.items() if key not in gone}
        self._session = seen = SessionOverlay({**below, **others.values})
        hidden = gone | others.values.keys()
        seen.changes = {key: value for key, value in before.changes.items() if key not in hidden}
        seen.removed = before.removed - hidden

    def end(self, event: Ended | Failed) -> None:
        self.ended = event

    def begin_stay(self, event: Answered | Extended) -> None:
        """Note that the run goes on after a question or an end."""
        self.asked = self.ended = None
        if isinstance(event, Answered):
            self.answered_of = event.of


def handlers(*rows: tuple[Callable[[Any, Any], None], *tuple[type[RunEvent], ...]]) -> Handlers:
    """Return a table of what takes each kind of event, from rows of a method and the kinds that it takes."""
    return {kind: take for take, *kinds in rows for kind in kinds}


OF_ALL = handlers(
    (LineState.take_asked, Asked),
    (LineState.take_over, TakenOver),
    (LineState.child_began, ChildBegan),
    (LineState.session_changed, SessionChanged),
    (LineState.end, Ended, Failed),
)


class AgentLineState(LineState):
    """What an agent's run has come to.

    Args:
        definition: the rules that the line is written under.
        definitions: returns the rules with a digest, for lines whose rules changed.
        account: that of a live run; the account of a line that is replayed asks nothing.
    """

    def __init__(self, definition: RunSpec, definitions: Lookup = unknown, account: Account | None = None) -> None:
        super().__init__()
        self._live = account
        if account is not None:
            self.account = account
        self.definition = definition
        self._definitions = definitions
        self.machine: AgentRun | None = None
        self._state: RunState | None = None
        """That of the machine."""
        self.asked_for: CallModel | None = None
        """What the model is asked, or was asked last: a turn, or a summary of the conversation."""
        self.is_shorter = False
        """Whether the next request is shorter than the one that the model refused as too long."""
        self.turn_came: ModelTurn | None = None
        """A turn that is paid for and not judged."""
        self.results: dict[str, ResultCame] = {}
        """Results of the round that the machine has not taken, by call."""
        self.under_way: dict[str, None] = {}
        """Calls that began and have no result, in the order in which they began."""
        self.closed = False
        """Whether callbacks have heard of the outcome."""
        self._open: dict[str, ToolCall] = {}
        """Calls of the round that may run and have no result."""

    def go_live(self, open_account: OpenAccount) -> None:
        super().go_live(open_account)
        if self.machine is not None:
            self.machine.with_account(self.account)

    def go_on_with(self, machine: AgentRun) -> None:
        """Begin with a machine that has come some way already."""
        self._has_begun = True
        self._follow(machine)
        self._look()

    def _follow(self, machine: AgentRun) -> None:
        self.machine, self._state = machine, machine.state
        self.context = self._state.context

    # --- what is to be done

    def due(self) -> list[Due]:
        kind = self.kind_due()
        match kind:
            case "call":
                return [Due(kind, call_id) for call_id in self._open]
            case "model" | "judge":
                return [Due(kind, str(self.running.state.turns + 1))]
            case "guard" | "review" | "round":
                return [Due(kind, str(self.running.state.turns))]
            case _:
                return [Due(kind)] if kind else []

    def kind_due(self) -> str:
        """Return the kind of what is due, which is the same for all of it; empty if nothing is."""
        state = self._state
        if self.ended is not None or self.asked is not None:
            return ""
        if state is None:
            return "open"
        round_ = state.round
        if round_ is not None and self.definition.watched:
            if unguarded(round_):
                return "guard"
            if unreviewed(round_):
                return "review"
        match state.phase:
            case "model":
                return "model" if self.turn_came is None else "judge"
            case "tools":
                assert round_ is not None
                return self._kind_in_round(round_)
            case "input":
                return "ask"
            case "done" | "incomplete":
                return "finish"
            case "failed" | "bad_output":
                return "fail"

    def _kind_in_round(self, round_: ToolRound) -> str:
        if not round_.admitted:
            return "round"
        if self._open:
            return "call"
        if round_.is_complete():  # its last calls were cut off; the request closes it
            return "model"
        return "" if self.results else "ask"

    @property
    def has_open_calls(self) -> bool:
        """Whether calls of the round are due."""
        return bool(self._open)

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls of the round that are due."""
        return list(self._open.values())

    def _look(self) -> None:
        """Close a round that is complete, and note which calls may run; without any, the machine takes the results."""
        state, watched = self._state, self.definition.watched
        assert state is not None
        round_ = state.round
        if round_ is None or not round_.admitted:
            if self._open or self.under_way:
                self._open, self.under_way = {}, {}
            return
        if round_.results and round_.is_complete() and not (watched and unreviewed(round_)):
            if watched:
                end_if_failed(self.definition, state)
            if state.phase == "tools":  # no call of it may run, or all that may were cut off
                close_if_complete(state)
        pending = round_.pending() if state.phase == "tools" and state.round is not None else ()
        self._open = {call.id: call for call in pending if call.id not in self.results}
        if self.under_way:
            self.under_way = {call_id: None for call_id in self.under_way if call_id in self._open}
        if self.results and not self._open and state.phase == "tools":
            self._take_results()

    @property
    def running(self) -> AgentRun:
        """The machine of a run that was opened. Raises `ProtocolViolation` without one; each step asks `machine` first."""
        if self.machine is None:
            raise ProtocolViolation("the run is not open: Opened comes first")
        return self.machine

    def _check_open(self, what: str, *call_ids: str) -> None:
        """Raise unless all of these calls may run and have no result."""
        unknown = [call_id for call_id in call_ids if call_id not in self._open]
        if unknown:
            pending = ", ".join(self._open) or "none"
            raise ProtocolViolation(f"{what} of {unknown[0]!r}, which is no pending call; pending: {pending}")

    # --- the beginning

    def _accept(self, event: Accepted) -> None:
        if self._live is None:
            self.account = Tally(Spending(budget=narrowed(self.definition.budget, event.budget)))
        self.accepted = event
        if event.session:
            self.session.lay_under(event.session)

    def _open_run(self, event: Opened) -> None:
        if self.accepted is None or self.machine is not None:
            raise ProtocolViolation("the run is open already")
        self._follow(
            AgentRun(
                self.definition,
                self.accepted.input,
                history=event.history or self.accepted.history,
                system=event.system,
                account=self.account,
            )
        )
        if event.session:
            self.session.lay_under(event.session)
        if event.changes is not None:
            self.lay(event.changes)

    def _migrated(self, event: Migrated) -> None:
        self._load(event.definition, event.state)

    def _load(self, digest: str, text: str) -> None:
        """Take a text for the state, under the rules with this digest."""
        definition = cast("RunSpec", self._definitions(digest))
        loaded = AgentRun.from_json(text, definition, adopt=True)
        tally = Tally()
        tally.start_with(loaded.state)
        self.definition, self.account = definition, tally
        self._follow(loaded.with_account(tally))
        self._look()

    def _taken_over(self, event: TakenOver) -> None:
        if event.definition:
            self._load(event.definition, self.running.to_json())
        self.take_over(event)
        self.closed = False

    # --- the model

    def _make_request(self, event: RunEvent) -> None:
        """Have the machine make the request: it looks at its size, and may leave older parts out.

        Raises:
            UnderstudyError: a limit or a budget does not allow it.
        """
        machine = self.machine or self.running
        step = due_step(machine.spec, machine.state, self.account)
        self.asked_for = step if isinstance(step, CallModel) else None

    def _turn_came(self, event: TurnCame) -> None:
        machine = self.running
        check_turn_is_due(machine.spec, machine.state)
        check_turn(event.turn)
        self.turn_came = event.turn

    def _turn_taken(self, event: TurnTaken) -> None:
        machine = self.machine or self.running
        judged = event.problems is not None or event.resolutions is not None or event.approvals is not None
        if judged or event.met is not None or event.output_problem is not None:
            machine.model_response(
                event.turn,
                problems=event.problems,
                resolutions=event.resolutions,
                approvals=event.approvals,
                met=event.met,
                output_problem=event.output_problem,
            )
        else:
            machine.checked_response(event.turn)
        self._after_turn(event)

    def _turn_ruled(self, event: TurnRuled) -> None:
        self.running.turn_ruled(event.turn, event.ruling)
        self._after_turn(event)

    def _after_turn(self, event: TurnTaken | TurnRuled) -> None:
        if event.changes is not None:
            self.lay(event.changes)
        self.turn_came = None
        if self.results or self._open or self.under_way:  # of calls that were cut off
            self.results = {}
            self._look()

    def _turn_lost(self, event: TurnLost) -> None:
        self.running.write_off(event.partial)

    def _summary_came(self, event: SummaryCame) -> None:
        self.running.model_response(event.turn)
        self.turn_came = None

    def _summary_failed(self, event: SummaryFailed) -> None:
        self.running.compaction_failed(event.problem)

    def _overflowed(self, event: Overflowed) -> None:
        self.is_shorter = self.running.context_overflow(tokens=event.tokens, limit=event.limit)

    # --- a round of calls

    def _round_began(self, event: RoundBegan) -> None:
        state = (self.machine or self.running).state
        round_ = state.round or current_round(self.definition, state, "a round that began")
        admit(self.definition, state, self.account, round_)
        self._look()

    def _guarded(self, event: CallsGuarded) -> None:
        self.running.guard(event.rulings, approvals=event.approvals)
        self.lay(event.changes)
        self._look()

    def _call_began(self, event: CallBegan) -> None:
        self._check_open("the beginning", event.call_id)
        self.under_way[event.call_id] = None

    def _call_retried(self, event: CallRetried) -> None:
        self.under_way.pop(event.call_id, None)

    def _result_came(self, event: ResultCame) -> None:
        call_id = event.result.call_id
        if fault := fault_of_result(event.result):
            raise TypeError(f"the result of call {call_id!r}{fault}")
        if call_id not in self._open:
            self._check_open("a result", call_id)
        self.results[call_id] = event
        self._left(call_id)

    def _left(self, call_id: str) -> None:
        """Note that a call runs no more; with the last one of the round, the machine takes the results."""
        if self.children:
            self.children.pop(call_id, None)
        if self.under_way:
            self.under_way.pop(call_id, None)
        self._open.pop(call_id, None)
        if not self._open:
            self._take_results()

    def _take_results(self, _: ResultsTaken | None = None) -> None:
        machine = self.machine or self.running
        state = machine.state
        if self.results and state.round is not None:
            results, self.results = self.results, {}
            given = list(results.values())
            if len(given) > 1:
                given = [results[call.id] for call in state.round.calls if call.id in results]
            found: list[ToolResult] = []
            for each in given:
                if each.changes is not None:
                    self.lay(each.changes)
                found.append(each.result)
            machine.checked_results(found)
        if state.round is not None or self._open or self.under_way:
            self._look()

    def _cut(self, event: CallsCut) -> None:
        self._take_results()
        self.running.cut_off(event.call_ids)
        for call_id in event.call_ids:
            self.children.pop(call_id, None)
        self._look()

    def _reviewed(self, event: ResultsReviewed) -> None:
        self.running.review(event.rulings)
        self.lay(event.changes)
        self._look()

    def _doubted(self, event: CallsDoubted) -> None:
        self._check_open("the doubt", *event.call_ids)
        round_ = current_round(self.definition, self.running.state, "calls in doubt")
        put_in_doubt(round_, event.call_ids)
        self._look()

    def _reconciled(self, event: CallsReconciled) -> None:
        self.running.reconcile(event.found)
        self._look()

    # --- runs of sub-agents

    def _child_paused(self, event: ChildPaused) -> None:
        self.running.child_paused(event.place, event.run, event.pauses)
        self._left(event.place)

    def _child_stopped(self, event: ChildStopped) -> None:
        self.running.child_stopped(event.place, event.run)
        self.children.pop(event.place, None)
        self.under_way.pop(event.place, None)

    # --- going on, and the end

    def _answered(self, event: Answered) -> None:
        self.running.respond(event.answers)
        self.begin_stay(event)
        self._look()

    def _extended(self, event: Extended) -> None:
        self.running.extend(**event.limits, budget=event.budget)
        self.begin_stay(event)
        self._look()

    def _ruled(self, event: RunRuled) -> None:
        machine = self.running
        if not isinstance(event.ruling.action, ACCEPTED["before_model_call"]):
            raise ProtocolViolation(f"callback {event.ruling.by!r} answered with an action that ends no run")
        if event.moment == "before_model_call":
            machine.next_step()
        machine.end_by(event.ruling)
        self.lay(event.changes)
        self.results, self.children, self.turn_came = {}, {}, None
        self._look()

    def _close(self, event: Closed) -> None:
        self.lay(event.changes)
        self.closed = True

    table: ClassVar[Handlers] = OF_ALL | handlers(
        (_accept, Accepted),
        (_open_run, Opened),
        (_migrated, Migrated),
        (_taken_over, TakenOver),
        (_make_request, TurnBegan, SummaryBegan),
        (_turn_came, TurnCame),
        (_turn_taken, TurnTaken),
        (_turn_ruled, TurnRuled),
        (_turn_lost, TurnLost),
        (_summary_came, SummaryCame),
        (_summary_failed, SummaryFailed),
        (_overflowed, Overflowed),
        (_round_began, RoundBegan),
        (_guarded, CallsGuarded),
        (_call_began, CallBegan),
        (_call_retried, CallRetried),
        (_result_came, ResultCame),
        (_take_results, ResultsTaken),
        (_cut, CallsCut),
        (_reviewed, ResultsReviewed),
        (_doubted, CallsDoubted),
        (_reconciled, CallsReconciled),
        (_child_paused, ChildPaused),
        (_child_stopped, ChildStopped),
        (_answered, Answered),
        (_extended, Extended),
        (_ruled, RunRuled),
        (_close, Closed),
    )
