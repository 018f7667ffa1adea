"""The state of an agent's run: its events over the machine `AgentRun`, which is made when the run is opened."""

from __future__ import annotations

from typing import ClassVar, cast

from understudy.errors import ProtocolViolation
from understudy.orchestration.agent.feed_checks import check_turn, fault_of_result
from understudy.orchestration.agent.next_step import admit, check_turn_is_due, current_round
from understudy.orchestration.agent.rounds import close_if_complete, end_if_failed, put_in_doubt
from understudy.orchestration.agent.rulings import unguarded, unreviewed
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.agent.spec import RunSpec
from understudy.orchestration.agent.state import RunState, ToolRound
from understudy.orchestration.agent.steps import CallModel
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Spending, narrowed
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.messages import ModelTurn, ToolCall, ToolResult
from understudy.vocabulary.runs.callbacks import ACCEPTED

from .events import (
    Accepted,
    Answered,
    CallBegan,
    CallRetried,
    CallsCut,
    CallsDoubted,
    CallsGuarded,
    CallsReconciled,
    ChildPaused,
    ChildStopped,
    Closed,
    Extended,
    Migrated,
    Opened,
    Overflowed,
    ResultCame,
    ResultsReviewed,
    ResultsTaken,
    RoundBegan,
    RunEvent,
    RunRuled,
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
from .state import OF_ALL, Due, Handlers, LineState, Lookup, OpenAccount, Tally, handlers, unknown


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
        self.session = SessionOverlay(event.session)

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
        step = (self.machine or self.running).next_step()
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
        self.results, self.turn_came = {}, None
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
