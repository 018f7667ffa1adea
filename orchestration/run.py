"""`AgentRun`: every decision of an agent's run, without a thread, clock or network.

A driver asks for the `next_step`, does it, and feeds the result back; asked again before that, the machine gives the
same step again, also in another process after `to_json` and `from_json`. What it did not ask for is a
`ProtocolViolation` and changes nothing. A limit is not an end: `next_step` raises until `extend` raises the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from understudy.errors import MaxIterationsExceeded, ProtocolViolation
from understudy.messages import (
    Message,
    ModelRequest,
    ModelTurn,
    Part,
    TextPart,
    ToolResult,
    Usage,
    user_message,
)
from understudy.outcomes import Approve, Complete, Decision, Incomplete, Reject

from .calls import (
    calls_of,
    error_result,
    find_invalid,
    open_round,
    repair,
    repaired,
    unrun_results,
    with_ids,
)
from .spec import RunSpec
from .state import Failure, Phase, Round, RunState
from .steps import (
    AwaitApproval,
    AwaitInput,
    CallModel,
    CallTools,
    Done,
    FailRun,
    InvalidCall,
    RepairCall,
    Resolution,
    RetryTurn,
    Step,
    StopRun,
)
from .transcript import Transcript

ASK_USER = "__ask_user__:"  # A text that begins so is a question to a person, not an answer.


class AgentRun:
    """One run of one agent; not safe to use from two threads at once.

    Args:
        spec: what the run decides by.
        input: what the user says: text, or parts.
        history: messages that went before, oldest first.
        system: the system prompt, where the agent makes it with a function.
    """

    __slots__ = ("_spec", "_state")

    def __init__(
        self,
        spec: RunSpec,
        input: str | Sequence[Part],
        *,
        history: Iterable[Message] = (),
        system: str | None = None,
    ) -> None:
        messages = list(history)
        start = len(messages)
        messages.append(user_message(input))
        self._spec = spec
        self._state = RunState(
            messages=messages,
            start=start,
            system=(spec.system or "") if system is None else system,
            max_iterations=spec.max_iterations,
            max_turns=spec.max_turns,
            max_continues=spec.max_continues,
        )

    # --- what to do next

    def next_step(self) -> Step:
        """Return what the driver must do now; the same again until it is fed.

        Raises:
            MaxIterationsExceeded: a limit is reached; `extend` raises it.
            ToolError: an invalid call was resolved with `FailRun`, or its retries are used up.
            RunCancelled: an invalid call was resolved with `StopRun`.
            BadReply: the model's last turn was cut off or blocked and holds no answer.
        """
        state = self._state
        if state.phase == "tools" and state.round is not None:
            step = self._work_round(state.round)
            if step is not None:
                return step
        if state.phase == "model":
            return self._call_model()
        if state.phase == "input":
            return AwaitInput(state.question)
        if state.failure is not None:
            raise state.failure.to_error()
        return Done(self._outcome())

    def _call_model(self) -> CallModel:
        state, spec = self._state, self._spec
        if state.turns >= state.max_turns:
            raise MaxIterationsExceeded(
                f"agent {spec.agent_id!r} used its {state.max_turns} model turns (max_turns) without an answer",
                limit=state.max_turns,
                what="max_turns",
            )
        turn = state.turns + 1
        view = Transcript(state.messages, len(state.messages))
        return CallModel(ModelRequest(view, state.system, spec.tools, spec.settings_for(turn), turn))

    def _work_round(self, round_: Round) -> CallTools | AwaitApproval | None:
        state = self._state
        if not round_.admitted:
            if state.iterations >= state.max_iterations:
                raise MaxIterationsExceeded(
                    f"agent {self._spec.agent_id!r} used its {state.max_iterations} rounds of tool calls "
                    "(max_iterations) and asked for another; nothing of it ran",
                    limit=state.max_iterations,
                )
            round_.admitted = True
            state.iterations += 1
            self._close_if_complete(round_)
            if state.round is None:
                return None
        pending = round_.pending()
        return CallTools(pending) if pending else AwaitApproval(round_.waiting_calls())

    def _close_if_complete(self, round_: Round) -> None:
        if round_.is_complete():
            self._state.messages.append(round_.message())
            self._state.round = None
            self._state.phase = "model"

    # --- the model's answer

    def invalid_calls(self, turn: ModelTurn, problems: Mapping[int, str] | None = None) -> tuple[InvalidCall, ...]:
        """Return the calls of `turn` that cannot run as they are; changes nothing.

        Args:
            turn: a turn that has not been fed yet.
            problems: position of a call among the turn's calls -> what its schema says is wrong with its arguments.
        """
        return find_invalid(self._allowed(), turn.tool_calls, problems or {})

    def model_response(
        self,
        turn: ModelTurn,
        *,
        problems: Mapping[int, str] | None = None,
        resolutions: Mapping[int, Resolution] | None = None,
        approvals: Mapping[int, bool] | None = None,
        met: str | None = None,
    ) -> None:
        """Take the model's turn.

        Args:
            turn: what the model answered to the pending `CallModel`.
            problems: position of a call -> why its arguments do not fit the tool's schema.
            resolutions: position of an invalid call -> what to do with it; without one, the model reads the reason.
            approvals: position of a call -> whether a person must agree, for tools whose rule is a function.
            met: why the text ends the run, for an agent with criteria; None if it meets none.

        Raises:
            ProtocolViolation: no model call is pending, or a resolution does not fit its call.
        """
        state = self._state
        if state.phase != "model":
            raise self._violation("a model response", "model")
        if state.turns >= state.max_turns:
            raise ProtocolViolation(f"a model response beyond the run's {state.max_turns} model turns (max_turns)")
        parts = with_ids(turn.parts, state.turns + 1)
        calls = calls_of(parts)
        invalid = find_invalid(self._allowed(), calls, problems or {}) if calls else ()
        self._check_resolutions(invalid, resolutions or {})
        state.turns += 1
        state.usage = state.usage + turn.usage if state.turns > 1 else replace(turn.usage, raw={})
        state.finish_reason = turn.raw_finish_reason
        if calls:
            self._take_calls(turn, parts, invalid, resolutions or {}, approvals or {})
        else:
            self._append_turn(parts, turn.dialect)
            self._take_text(turn, met)

    def _allowed(self) -> frozenset[str]:
        return self._spec.allowed_tools(self._state.turns + 1)

    def _append_turn(self, parts: tuple[Part, ...], dialect: str) -> None:
        # An empty turn is no message: providers refuse one. Text that is empty but signed must go back.
        if any(not (type(p) is TextPart and not p.text and p.signature is None) for p in parts):
            self._state.messages.append(Message("assistant", parts, dialect))

    def _take_calls(
        self,
        turn: ModelTurn,
        parts: tuple[Part, ...],
        invalid: tuple[InvalidCall, ...],
        resolutions: Mapping[int, Resolution],
        approvals: Mapping[int, bool],
    ) -> None:
        state = self._state
        failure = self._failure(invalid, resolutions)
        feedback = {p: r.feedback for p, r in resolutions.items() if isinstance(r, RetryTurn)}
        if failure is None and not feedback:
            # The history shows a repaired call as it runs: providers pair a call and its result by name too.
            parts = repaired(parts, resolutions)
            self._append_turn(parts, turn.dialect)
            state.round = open_round(self._spec, turn, calls_of(parts), invalid, resolutions, approvals)
            state.phase = "tools"
            return
        self._append_turn(parts, turn.dialect)
        # Every call is answered, also at the end of a run, so that the history stays one a provider accepts.
        state.messages.append(Message("user", unrun_results(calls_of(parts), invalid, feedback)))
        if failure is not None:
            self._fail(failure)
        else:
            state.invalid_retries += 1

    def _failure(self, invalid: Iterable[InvalidCall], resolutions: Mapping[int, Resolution]) -> Failure | None:
        exhausted = self._state.invalid_retries >= self._spec.max_invalid_retries
        for bad in invalid:
            resolution = resolutions.get(bad.position)
            if isinstance(resolution, FailRun) or (isinstance(resolution, RetryTurn) and exhausted):
                why = f"invalid call of {bad.call.name!r} by the model: {bad.reason}"
                return Failure("tool", why, bad.call.name, bad.call.id)
            if isinstance(resolution, StopRun):
                return Failure("cancelled", resolution.reason)
        return None

    def _take_text(self, turn: ModelTurn, met: str | None) -> None:
        state = self._state
        text = turn.text or turn.refusal
        state.text = text
        if not text and turn.finish_reason in ("length", "blocked"):
            return self._fail(Failure("bad_reply", _no_answer(turn)))
        if text.strip().startswith(ASK_USER):
            state.question = text.strip().removeprefix(ASK_USER).strip()
            state.phase = "input"
        elif not self._spec.criteria or met is not None:
            state.completion_reason = met if met is not None else _why_text_ends(turn)
            state.phase = "done"
        elif state.continues < state.max_continues:
            self._continue()
        else:
            state.completion_reason = f"no criterion was met after {state.continues} continue messages"
            state.phase = "incomplete"
        return None

    def _continue(self) -> None:
        self._state.continues += 1
        self._state.messages.append(user_message(self._spec.continue_message))
        self._state.phase = "model"

    def _fail(self, failure: Failure) -> None:
        self._state.failure = failure
        self._state.phase = "failed"

    def _check_resolutions(self, invalid: tuple[InvalidCall, ...], resolutions: Mapping[int, Resolution]) -> None:
        by_position = {bad.position: bad for bad in invalid}
        for position, resolution in resolutions.items():
            if position not in by_position:
                raise ProtocolViolation(f"a resolution for call {position}, which is not invalid")
            if isinstance(resolution, RepairCall):
                fixed = repair(by_position[position].call, resolution)
                still = find_invalid(self._allowed(), [fixed], {})
                if still:
                    raise ProtocolViolation(f"the repair of call {position} is invalid too: {still[0].reason}")

    # --- tools and people

    def tool_results(self, results: Iterable[ToolResult]) -> None:
        """Take results of pending calls, in any order and any number but none.

        Raises:
            ProtocolViolation: no tools are pending, nothing was given, or an id is unknown or already answered.
        """
        given = list(results)
        round_ = self._admitted_round("tool results")
        pending = {call.id: call for call in round_.pending()}
        for result in given:
            if pending.pop(result.call_id, None) is None:
                raise ProtocolViolation(
                    f"a result for {result.call_id!r}, which is not a pending call or was answered twice; "
                    f"pending: {', '.join(c.id for c in round_.pending()) or 'none'}"
                )
        if not given:
            raise ProtocolViolation("no tool results were given; expected at least one")
        names = {call.id: call.name for call in round_.calls}
        for result in given:
            named = result if result.name else replace(result, name=names[result.call_id])
            round_.results[result.call_id] = named
        self._close_if_complete(round_)

    def decisions(self, decisions: Mapping[str, Decision]) -> None:
        """Take a person's decisions about waiting calls, by call id; some or all of them.

        Raises:
            ProtocolViolation: no calls wait, nothing was given, or an id does not wait.
            TypeError: something is no decision.
        """
        round_ = self._admitted_round("decisions")
        unknown = [call_id for call_id in decisions if call_id not in round_.waiting]
        if unknown or not decisions:
            waiting = ", ".join(round_.waiting) or "none"
            raise ProtocolViolation(f"decisions for {unknown or 'no call'}; waiting calls: {waiting}")
        for call_id, decision in decisions.items():
            if not isinstance(decision, (Approve, Reject)):  # a slip such as False or Reject must not run the call
                raise TypeError(f"call {call_id!r}: expected Approve or Reject, got {decision!r}")
        round_.waiting = tuple([i for i in round_.waiting if i not in decisions])
        calls = list(round_.calls)
        for position, call in enumerate(calls):
            match decisions.get(call.id):
                case Reject(reason=reason):
                    words = f"Rejected: {reason or 'a person decided that this call must not run'}"
                    round_.results[call.id] = error_result(call, "rejected", words)
                case Approve(arguments=arguments) if arguments is not None:
                    calls[position] = repair(call, RepairCall(arguments=arguments))
                case _:
                    pass
        round_.calls = tuple(calls)
        self._close_if_complete(round_)

    def answer(self, text: str) -> None:
        """Take a person's answer to the question of the pending `AwaitInput`.

        Raises:
            ProtocolViolation: no question is open.
        """
        if self._state.phase != "input":
            raise self._violation("an answer", "input")
        self._state.messages.append(user_message(text))
        self._state.question = ""
        self._state.phase = "model"

    def _admitted_round(self, what: str) -> Round:
        round_ = self._state.round
        if round_ is None or not round_.admitted:
            raise self._violation(what, "tools")
        return round_

    def _violation(self, what: str, phase: Phase) -> ProtocolViolation:
        return ProtocolViolation(
            f"{what} came out of order: the run of agent {self._spec.agent_id!r} is in phase {self._state.phase!r}, "
            f"and that belongs to phase {phase!r}; ask next_step() what is due"
        )

    # --- limits and reports

    def extend(
        self,
        *,
        max_iterations: int | None = None,
        max_turns: int | None = None,
        max_continues: int | None = None,
    ) -> None:
        """Raise limits, so that a run that reached one can go on. The numbers count from the run's beginning.

        Raises:
            ValueError: a number is below what it replaces.
        """
        state = self._state
        given = {"max_iterations": max_iterations, "max_turns": max_turns, "max_continues": max_continues}
        for name, value in given.items():
            if value is not None and value < getattr(state, name):
                raise ValueError(f"{name} can only be raised: it is {getattr(state, name)}, got {value}")
        for name, value in given.items():
            if value is not None:
                setattr(state, name, value)
        if state.phase == "incomplete" and state.continues < state.max_continues:
            self._continue()

    def at_limit(self) -> bool:
        """Whether the run can only go on after `extend`."""
        state = self._state
        if state.phase == "tools" and state.round is not None and not state.round.admitted:
            return state.iterations >= state.max_iterations
        return state.phase == "incomplete" or (state.phase == "model" and state.turns >= state.max_turns)

    @property
    def spec(self) -> RunSpec:
        return self._spec

    @property
    def state(self) -> RunState:
        """The run's state, to read; only the machine changes it."""
        return self._state

    @property
    def messages(self) -> Sequence[Message]:
        """The whole history: what the run was given and what it added."""
        return Transcript(self._state.messages, len(self._state.messages))

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """What the run added to the history, its input first."""
        return tuple(self._state.messages[self._state.start :])

    @property
    def usage(self) -> Usage:
        """Tokens of all model calls so far."""
        return self._state.usage

    def _outcome(self) -> Complete[str] | Incomplete:
        state = self._state
        if state.phase == "incomplete":
            return Incomplete(
                agent_id=self._spec.agent_id,
                completion_reason=state.completion_reason,
                iterations=state.iterations,
                turns=state.turns,
                usage=state.usage,
                messages=self.new_messages,
                last_text=state.text,
            )
        return Complete(
            agent_id=self._spec.agent_id,
            completion_reason=state.completion_reason,
            iterations=state.iterations,
            turns=state.turns,
            usage=state.usage,
            messages=self.new_messages,
            text=state.text,
            output=state.text,
            finish_reason=state.finish_reason,
        )

    # --- saving and loading

    def to_json(self) -> str:
        """Return the run as text. It holds the whole conversation; functions and classes stay in the spec."""
        from .snapshot import dump

        return dump(self._state, self._spec.fingerprint())

    @classmethod
    def from_json(cls, text: str, spec: RunSpec, *, adopt: bool = False) -> AgentRun:
        """Load a run that `to_json` made, in this process or another.

        Args:
            text: what `to_json` returned.
            spec: the definition to go on with.
            adopt: go on even if the run was made with another definition.

        Raises:
            SpecChanged: the run was made with another definition, and `adopt` is false.
            ValueError: the text is no saved run of a known format.
        """
        from .snapshot import load

        run = cls.__new__(cls)
        run._spec = spec
        run._state = load(text, spec.fingerprint(), spec.agent_id, adopt)
        return run


def _why_text_ends(turn: ModelTurn) -> str:
    if not turn.text and turn.refusal:
        return "the model refused"
    return "the model answered" if turn.finish_reason != "length" else "the model's answer was cut off at max_tokens"


def _no_answer(turn: ModelTurn) -> str:
    word = turn.raw_finish_reason or turn.finish_reason
    if turn.finish_reason == "length":
        return f"the model's turn was cut off ({word}) before it said anything; raise settings.max_tokens"
    return f"the provider blocked the model's turn ({word}); there is no answer"
