"""`AgentRun`: every decision of an agent's run, without a thread, clock or network.

The runtime, or code of your own, asks for the `next_step`, does it, and feeds the result back. Until then `next_step`
returns the same step, also in another process after `to_json` and `from_json`. A feed that was not asked for raises
`ProtocolViolation` and changes nothing. A run at a limit has not ended: `next_step` raises until `extend` raises the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from understudy.errors import ProtocolViolation
from understudy.vocabulary.checks import checked_text
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import PARTS_PER_DOLLAR, Budget, narrowed
from understudy.vocabulary.messages import Message, ModelTurn, Part, ToolCall, ToolResult, Usage, user_message
from understudy.vocabulary.runs.outcomes import Decision, Pause, PauseAnswer

from .compaction.decisions import fail_summary, note_turn, overflowed
from .compaction.summaries import due_summary
from .compaction.turns import charge_summary, counted, take_context_turn
from .context_state import ContextState
from .feed_checks import (
    check_pauses,
    check_resolutions,
    check_results,
    check_ruling,
    check_rulings,
    check_spent,
    check_text_or_none,
    check_texts,
    check_turn,
    checked_history,
    checked_input,
)
from .next_step import (
    RUN_ENDED,
    Raised,
    admitted_round,
    at_limit,
    check_turn_is_due,
    current_round,
    due_step,
    extend,
    new_messages,
    out_of_order,
    over_budget,
)
from .pauses import (
    check_answers,
    has_stopped,
    note_child,
    note_stopped,
    pauses_of,
    sort_answers,
    take_answers,
    waits_for_person,
)
from .rounds import close_if_complete, cut_calls, cut_off, end_if_failed, settle_doubts, take_decisions, take_results
from .rulings import Ruling, end_run, guard_calls, replace_turn, review_results, unguarded, unreviewed
from .spec import RunSpec
from .state import PausedChild, RunState, ToolRound, Transcript, check_answered
from .steps import InvalidCall, Resolution, Step, Verdict
from .turns import find_invalid, take_turn
from .typed_answers import answer_in


def _check_spec(given: object) -> None:
    if not isinstance(given, RunSpec):
        raise TypeError(f"a run is made with RunSpec.of(agent), got {given!r}")


class AgentRun:
    """One run of one agent; not safe to use from two threads at once.

    Args:
        spec: the agent's rules and limits, as data.
        input: the user's message: text, or parts.
        history: earlier messages, oldest first.
        system: the system prompt, if a function of the agent's makes it.
        budget: a limit for this run, besides the spec's budget.
        account: the account that the run spends from, made by the runtime; it has the budgets already.

    Attributes:
        spec: the agent's rules and limits.
        state: the run's state, for reading only.

    Raises:
        TypeError: the input holds something other than parts, the history something other than messages, or the system
            prompt is no text.
        ValueError: the input is empty, a message has a role other than `user` and `assistant`, a call in the history has no
            result, or the budget limits dollars and the model has no price.
    """

    __slots__ = ("_account", "spec", "state")

    def __init__(
        self,
        spec: RunSpec,
        input: str | Sequence[Part],
        *,
        history: Iterable[Message] = (),
        system: str | None = None,
        budget: Budget | None = None,
        account: Account | None = None,
    ) -> None:
        _check_spec(spec)
        messages = checked_history(history)
        if messages:
            check_answered(messages)
        start = len(messages)
        messages.append(user_message(checked_input(input)))
        check_text_or_none("system", system)
        self.spec = spec
        self.state = RunState(
            messages=messages,
            start=start,
            system=(spec.system or "") if system is None else system,
            max_iterations=spec.max_iterations,
            max_turns=spec.max_turns,
            max_continues=spec.max_continues,
            max_output_retries=spec.max_output_retries,
            context=None if spec.compaction is None else ContextState(),
        )
        if account is None:
            self.state.budget = narrowed(spec.budget, budget)
            self._account = Account(spec.agent_id, spec.priced_as, self.state)
        else:
            self._account = account
            account.keep_in(self.state)

    # --- what to do next

    def next_step(self) -> Step:
        """Return the step that is due; the same step until its result is fed.

        Raises:
            MaxIterationsExceeded: a limit is reached; `extend` raises it.
            BudgetExceeded: the budget is spent, that of this run or of a run around it.
            ToolError: an invalid call was resolved with `FailRun`, or its retries are used up; or a call failed, and the
                spec says that this ends the run.
            RunCancelled: an invalid call was resolved with `StopRun`.
            BadReply: the model's last turn was cut off or blocked, and has no answer.
            CallbackAbort: a callback ended the run.
            InvalidOutput: no answer fits the output type; `extend` lets the model try again.
        """
        return due_step(self.spec, self.state, self._account)

    # --- the model's answer

    def invalid_calls(self, turn: ModelTurn, problems: Mapping[int, str] | None = None) -> tuple[InvalidCall, ...]:
        """Return the calls of `turn` that cannot run as they are; changes nothing.

        Args:
            turn: a turn that has not been fed yet.
            problems: position of a call among the turn's calls -> why its arguments do not fit the schema.
        """
        if self.state.context is not None and due_summary(self.spec, self.state) is not None:
            return ()
        allowed, calls = self.spec.allowed_tools(self.state.turns + 1), turn.tool_calls
        return find_invalid(allowed, calls, problems or {}, cut_calls(turn, calls))

    def answer_in(self, turn: ModelTurn) -> str | None:
        """Return the text of `turn` that must fit the output type; changes nothing.

        None if there is nothing to check: no output type, or the turn calls tools, asks a person, says nothing, or is the
        answer to a request for a summary.
        """
        if self.state.context is not None and due_summary(self.spec, self.state) is not None:
            return None
        return answer_in(self.spec, turn)

    def model_response(
        self,
        turn: ModelTurn,
        *,
        problems: Mapping[int, str] | None = None,
        resolutions: Mapping[int, Resolution] | None = None,
        approvals: Mapping[int, Verdict] | None = None,
        met: str | None = None,
        output_problem: str | None = None,
    ) -> None:
        """Take the model's turn.

        Args:
            turn: the model's answer to the pending `CallModel`.
            problems: position of a call -> why its arguments do not fit the tool's schema.
            resolutions: position of an invalid call -> what to do with it; without one, the model reads the reason.
            approvals: position of a call -> whether a person must agree, for tools whose rule is a function; or a text:
                then the call does not run, and the model reads the text as an error.
            met: why the text ends the run, for an agent with criteria; None if it meets none.
            output_problem: the problem that `Agent.check_output` found in `answer_in(turn)`, empty if there is none.
                Required if `answer_in` is not None, ignored otherwise.

        Raises:
            ProtocolViolation: no model call is pending, a resolution does not fit its call, or the answer was not
                checked.
            TypeError: an argument is of the wrong type.
        """
        check_turn_is_due(self.spec, self.state)
        check_turn(turn)
        if problems or resolutions:
            check_texts("problems", problems or {})
            check_resolutions(resolutions or {})
        check_text_or_none("met", met)
        check_text_or_none("output_problem", output_problem)
        self._take_turn(turn, problems or {}, resolutions or {}, approvals or {}, met, output_problem)

    def checked_response(self, turn: ModelTurn) -> None:
        """Take a turn in which `fault_of_turn` found no fault, without problems, resolutions or approvals.

        Like `model_response`, but does not check the turn again; for code that checked it before.

        Raises:
            ProtocolViolation: no model call is pending, or the answer was not checked.
        """
        check_turn_is_due(self.spec, self.state)
        self._take_turn(turn, {}, {}, {}, None, None)

    def _take_turn(
        self,
        turn: ModelTurn,
        problems: Mapping[int, str],
        resolutions: Mapping[int, Resolution],
        approvals: Mapping[int, Verdict],
        met: str | None,
        output_problem: str | None,
    ) -> None:
        if self.state.context is not None and take_context_turn(self.spec, self.state, self._account, turn):
            return
        usage = self._usage_of(turn)  # before the turn is in the history
        before = len(self.state.messages)
        take_turn(self.spec, self.state, turn, problems, resolutions, approvals, met, output_problem)
        self._account.charge_turn(usage)
        if self.state.context is not None:
            note_turn(self.state, self.state.context, turn, before)

    # --- long conversations

    def compaction_failed(self, problem: str) -> None:
        """Say that the pending request for a summary got no answer; the run goes on without the summary.

        Raises:
            ProtocolViolation: no summary is pending.
            TypeError: the problem is no text.
        """
        checked_text("problem", problem)
        if self.state.context is None or due_summary(self.spec, self.state) is None:
            raise ProtocolViolation("a failed compaction, and no request for a summary is pending")
        fail_summary(self.spec, self.state, self.state.context, problem)

    def context_overflow(self, *, tokens: int | None = None, limit: int | None = None) -> bool:
        """Say that the model refused the pending request as longer than its context window.

        Args:
            tokens: how long the request was, if the provider said so.
            limit: how long it may be, if the provider said so.

        Returns:
            Whether `next_step` has a shorter request now, or one for a summary. Otherwise the run cannot go on by itself,
            and the refusal ends it; after `extend` the same turn is tried once more.

        Raises:
            ProtocolViolation: no model call is pending.
        """
        check_turn_is_due(self.spec, self.state)
        context = self.state.context
        if context is None:
            return False
        if due_summary(self.spec, self.state) is not None:
            fail_summary(self.spec, self.state, context, "the request for a summary was too long")
            return True
        return overflowed(self.spec, self.state, context, tokens, limit)

    def prepay(self, turn: ModelTurn) -> None:
        """Count a turn that is fed later, when the run goes on; it is not counted again then."""
        self._account.prepay(self._usage_of(turn))

    def is_prepaid(self, turn: ModelTurn) -> None:
        """Note of a loaded run that a turn was counted by `prepay` before the run was saved."""
        self._account.is_prepaid(self._usage_of(turn))

    def _usage_of(self, turn: ModelTurn) -> Usage:
        return counted(self.spec, self.state, turn) if self._account.counts_tokens() else turn.usage

    def write_off(self, turn: ModelTurn | None, *, is_late: bool = False) -> None:
        """Count a model call that will not be fed, because the run ended first.

        Args:
            turn: the model's answer; None for a call that was cut off: its prompt is paid for, and its tokens are
                estimated if a budget needs them.
            is_late: whether the run has gone on since: what was counted ahead is for another call then.
        """
        if turn is None and not self._account.counts_tokens():
            return
        due = None if self.state.context is None else due_summary(self.spec, self.state)
        if due is not None:
            charge_summary(self.spec, self._account, due.request, turn)
        else:
            lost = self._usage_of(turn or ModelTurn(()))
            (self._account.charge_lost if is_late else self._account.charge_turn)(lost)

    # --- what callbacks decide

    def turn_ruled(self, turn: ModelTurn, ruling: Ruling) -> None:
        """Take a turn about which a callback decided: it overrides the turn, rejects it with feedback, or ends the run.

        The turn and its tokens count; its text is not kept.

        Raises:
            ProtocolViolation: no model call is pending, or the action does not apply to turns.
            TypeError: the turn is no turn, or the ruling no ruling.
        """
        check_turn_is_due(self.spec, self.state)
        check_turn(turn)
        check_ruling(ruling)
        if self.state.context is not None and due_summary(self.spec, self.state) is not None:
            raise ProtocolViolation("a ruling about the answer to a request for a summary, which callbacks do not see")
        usage = self._usage_of(turn)
        replace_turn(self.spec, self.state, turn, ruling)
        self._account.charge_turn(usage)

    def end_by(self, ruling: Ruling) -> None:
        """End the run with a callback's text or error, in any phase but `done`.

        Calls without a result are answered as not run. A failed run can end with a text, too.

        Raises:
            ProtocolViolation: the run is done, or the action does not end runs.
        """
        if self.state.phase == "done":
            raise out_of_order(self.spec, self.state, "the end of the run", "model")
        check_ruling(ruling)
        end_run(self.state, ruling)

    def unguarded(self) -> tuple[ToolCall, ...]:
        """Return the calls that callbacks must decide about, in call order; `guard` takes the decisions.

        A call that a person approved is returned a second time. Calls run without `guard` if it is never called.
        """
        return () if self.state.round is None else unguarded(self.state.round)

    def guard(self, rulings: Mapping[str, Ruling], *, approvals: Mapping[str, Verdict] | None = None) -> None:
        """Take the decisions of callbacks about the `unguarded` calls, by call id; other calls do not change.

        Args:
            rulings: the decisions. `RequireApproval` has no effect on a call that a person approved.
            approvals: call id -> whether a person must agree to a rewritten call, for tools whose rule is a function; or a
                text: then the call does not run.

        Raises:
            ProtocolViolation: there is no round of calls, or a ruling does not fit.
        """
        round_ = current_round(self.spec, self.state, "rulings about calls")
        check_rulings(rulings)
        guard_calls(self.spec, self.state, round_, rulings, approvals or {})

    def unreviewed(self) -> tuple[tuple[ToolCall, ToolResult], ...]:
        """Return the results that callbacks have not seen, in call order; none while calls are pending."""
        return () if self.state.round is None else unreviewed(self.state.round)

    def review(self, rulings: Mapping[str, Ruling]) -> None:
        """Mark the `unreviewed` results as seen by callbacks, and take their decisions, by call id.

        Raises:
            ProtocolViolation: there is no round of calls, or a ruling does not fit.
        """
        round_ = current_round(self.spec, self.state, "rulings about results")
        check_rulings(rulings)
        review_results(self.state, round_, rulings)
        end_if_failed(self.spec, self.state)

    # --- tools and people

    def tool_results(self, results: Iterable[ToolResult]) -> None:
        """Take the results of one or more pending calls, in any order.

        Raises:
            ProtocolViolation: no calls are pending, there are no results, or an id is unknown or already answered.
            TypeError: a value is no result.
        """
        round_ = admitted_round(self.spec, self.state, "tool results")
        given = list(results)
        check_results(given)
        self._take_results(round_, given)

    def checked_results(self, given: Sequence[ToolResult]) -> None:
        """Take results that are well-formed. Raises `ProtocolViolation` as `tool_results` does."""
        self._take_results(admitted_round(self.spec, self.state, "tool results"), given)

    def _take_results(self, round_: ToolRound, given: Sequence[ToolResult]) -> None:
        take_results(round_, given)
        if not self.spec.watched:  # otherwise callbacks see the results first, and may change them
            end_if_failed(self.spec, self.state)
            close_if_complete(self.state)

    def decisions(self, decisions: Mapping[str, Decision]) -> None:
        """Take a person's decisions about some or all waiting calls, by call id.

        Raises:
            ProtocolViolation: no calls wait, there are no decisions, or a call does not wait.
            TypeError: a value is no decision.
        """
        round_ = admitted_round(self.spec, self.state, "decisions")
        if round_.children:
            return self.respond(sort_answers(self.pauses, decisions))
        take_decisions(round_, decisions)
        self._close_unless_watched()
        return None

    @property
    def in_doubt(self) -> tuple[ToolCall, ...]:
        """The calls that were under way when the run's process died, and that nobody has decided about."""
        round_ = self.state.round
        return () if round_ is None else tuple([call for call in round_.calls if call.id in round_.in_doubt])

    def reconcile(self, found: Mapping[str, ToolResult | None]) -> None:
        """Take what is known of calls in doubt, by call id; the other ones wait for a person.

        Args:
            found: the result of a call that happened; None for a call that did not happen, which becomes pending.

        Raises:
            ProtocolViolation: a call is not in doubt.
        """
        round_ = admitted_round(self.spec, self.state, "what is known of calls in doubt")
        settle_doubts(round_, found)
        self._close_unless_watched()

    def answer(self, text: str) -> None:
        """Take a person's answer to the first open question, which is that of the pending `AwaitInput`.

        Raises:
            ProtocolViolation: no question is open.
        """
        questions = [pause.id for pause in self.pauses if pause.question is not None]
        if not questions:
            raise out_of_order(self.spec, self.state, "an answer", "input")
        self.respond({questions[0]: text})

    def respond(self, answers: Mapping[str, PauseAnswer]) -> None:
        """Take a person's answers to some or all of the `pauses`, by their ids.

        Raises:
            ProtocolViolation: there are no answers, or an id is unknown.
            TypeError: an answer is of another kind than its pause.
        """
        check_answers(self.pauses, answers)
        take_answers(self.state, answers)
        self._close_unless_watched()

    def child_paused(self, call_id: str, saved: str, pauses: Sequence[Pause]) -> None:
        """Note that the child run of a pending call paused; its pauses become pauses of this run.

        Args:
            call_id: the call.
            saved: the child's run as text, which `child` returns.
            pauses: the child's pauses, at least one.

        Raises:
            ProtocolViolation: the call is not pending, or the child has no pause.
        """
        round_ = admitted_round(self.spec, self.state, "a child's pause")
        check_pauses(saved, pauses)
        note_child(round_, call_id, PausedChild(saved, tuple(pauses)))

    def child_stopped(self, call_id: str, saved: str) -> None:
        """Note that the child run of a pending call was stopped; it goes on from there, without an answer.

        Args:
            call_id: the call.
            saved: the child's run as text, which `child` returns.

        Raises:
            ProtocolViolation: the call is not pending.
        """
        round_ = admitted_round(self.spec, self.state, "a child that was stopped")
        check_pauses(saved, ())
        note_stopped(round_, call_id, saved)

    def cut_off(self, call_ids: Iterable[str]) -> None:
        """Answer calls that were under way when the run was ended, as not run to their end; ids of other calls are ignored.

        A tool that was cut off may have done half of its work, so a run that goes on does not make the call again.
        """
        if self.state.round is not None and self.state.round.admitted:
            cut_off(self.state.round, call_ids, RUN_ENDED)

    def child(self, call_id: str) -> PausedChild | None:
        """Return the child of a pending call that paused or was stopped; None if the call has not begun."""
        return None if self.state.round is None else self.state.round.children.get(call_id)

    @property
    def pauses(self) -> tuple[Pause, ...]:
        """The open pauses: the run's own, then its children's in call order. Tool calls may be pending as well."""
        return pauses_of(self.spec.agent_id, self.state)

    @property
    def may_go_on(self) -> bool:
        """Whether the run can go on from here; a failure that `next_step` raises for good cannot be undone."""
        return self.state.phase != "failed"

    @property
    def has_stopped(self) -> bool:
        """Whether the run of a sub-agent was stopped, and goes on with this one."""
        return has_stopped(self.state)

    @property
    def waits(self) -> bool:
        """Whether nothing is left to do before a person answers."""
        return waits_for_person(self.state)

    def _close_unless_watched(self) -> None:
        """Close the round if it is complete; if callbacks see the results first, `next_step` closes it."""
        if not self.spec.watched:
            close_if_complete(self.state)

    # --- limits and reports

    def extend(
        self,
        *,
        max_iterations: int | None = None,
        max_turns: int | None = None,
        max_continues: int | None = None,
        budget: Budget | None = None,
        max_output_retries: int | None = None,
    ) -> None:
        """Raise limits, so that a run that reached one can go on. The numbers count from the run's start.

        Raises:
            TypeError: a limit is no whole number.
            ValueError: a number is lower than the present limit, or the budget limits dollars and the price is unknown.
        """
        raised = Raised(
            max_iterations=max_iterations,
            max_turns=max_turns,
            max_continues=max_continues,
            max_output_retries=max_output_retries,
        )
        extend(self.spec, self.state, self._account, raised, budget)

    def at_limit(self) -> bool:
        """Whether the run can only go on after `extend`."""
        return at_limit(self.state, self._account)

    @property
    def is_between_turns(self) -> bool:
        """Whether the next step is to call the model, and no limit stands before it."""
        return self.state.phase == "model" and not self.at_limit()

    @property
    def turn_is_open(self) -> bool:
        """Whether calls of the model's last turn still run or wait."""
        return self.state.round is not None

    def over_budget(self) -> bool:
        """Whether the budget does not allow the next step."""
        return over_budget(self.state, self._account)

    def charge(
        self,
        usage: Usage | None = None,
        cost_usd: float | None = None,
        *,
        turns: int = 0,
        tool_calls: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """Charge the run's budget with spending that its machine does not see.

        For machines driven by hand: `run.charge(outcome.usage, outcome.cost_usd)` after a tool ran another agent, and
        `run.charge(seconds=…)` for time, because a machine has no clock. Tokens without a cost make the cost unknown.
        """
        check_spent(usage, cost_usd, turns, tool_calls, seconds)
        cost = None if usage is not None else 0
        if cost_usd is not None:
            cost = round(cost_usd * PARTS_PER_DOLLAR)
        self._account.charge(usage or Usage(), cost, turns=turns, tool_calls=tool_calls)
        self._account.add_seconds(seconds)

    @property
    def account(self) -> Account:
        """The account that the run spends from; for the runtime."""
        return self._account

    @property
    def messages(self) -> Sequence[Message]:
        """The whole history: the messages that the run was given, and those it added."""
        return Transcript(self.state.messages, len(self.state.messages))

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """The messages that the run added to the history, its input first."""
        return new_messages(self.state)

    @property
    def usage(self) -> Usage:
        """Tokens of all model calls so far, including those of runs inside of this one."""
        return self.state.usage

    # --- saving and loading

    def with_account(self, account: Account) -> AgentRun:
        """Have another account count what the run spends; returns the run itself."""
        account.keep_in(self.state)
        self._account = account
        return self

    def copied(self) -> AgentRun:
        """Return a copy of the run, with an account of its own: what is fed to one of them does not change the other."""
        self._account.settle()
        run = AgentRun.__new__(AgentRun)
        run.spec = self.spec
        run.state = self.state.copied()
        run._account = Account(self.spec.agent_id, self.spec.priced_as, run.state)
        return run

    def to_json(self) -> str:
        """Return the run as text. It holds the whole conversation; functions and classes stay in the spec."""
        from .snapshot import dump

        self._account.settle()
        return dump(self.state, self.spec)

    @classmethod
    def from_json(cls, text: str, spec: RunSpec, *, adopt: bool = False) -> AgentRun:
        """Load a run that `to_json` made, in this process or another.

        Args:
            text: the text from `to_json`.
            spec: the present definition.
            adopt: go on even if the run was saved with another definition.

        Raises:
            SpecChanged: the run was saved with another definition, and `adopt` is false.
            TypeError: `spec` is no `RunSpec`.
            ValueError: the text is no saved run of a known format.
        """
        from .snapshot import load

        _check_spec(spec)
        run = cls.__new__(cls)
        run.spec = spec
        run.state = load(text, spec, adopt)
        if spec.compaction is not None and run.state.context is None:
            run.state.context = ContextState()
        run._account = Account(spec.agent_id, spec.priced_as, run.state)
        return run
