"""How a run takes a model's turn: it becomes a round of tool calls, an answer, a question, a retry, or a failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.errors import ProtocolViolation
from understudy.vocabulary.messages import Message, MetadataPart, ModelTurn, Part, TextPart, ToolCall, user_message
from understudy.vocabulary.tools.questions import MARK, is_question, question_in

from .rounds import (
    calls_of,
    check_verdicts,
    cut_calls,
    find_invalid,
    open_round,
    repair,
    repaired,
    resolutions_for,
    unrun_results,
    with_ids,
)
from .spec import RunSpec
from .state import Failure, RunState, ToolRound, count_turn
from .steps import FailRun, InvalidCall, RepairCall, Resolution, RetryTurn, StopRun, Verdict
from .typed_answers import UNENDED, answer_in, final_call, no_criterion_met, refuse_text, take_final_call, why_not

NO_QUESTION = f"{MARK!r} must be followed by a question. Ask it, or give your answer without this mark."


def take_turn(
    spec: RunSpec,
    state: RunState,
    turn: ModelTurn,
    problems: Mapping[int, str],
    resolutions: Mapping[int, Resolution],
    approvals: Mapping[int, Verdict],
    met: str | None,
    output_problem: str | None,
) -> None:
    """Take the model's turn; the arguments are those of `AgentRun.model_response`.

    Raises:
        ProtocolViolation: a resolution does not fit its call, or the answer was not checked; nothing has changed.
    """
    number = state.turns + 1
    if approvals:
        check_verdicts(approvals)
    allowed = spec.allowed_tools(number)
    parts = with_ids(turn.parts, number)
    calls = calls_of(parts)
    cut = cut_calls(turn, calls) if calls else frozenset[int]()
    invalid = find_invalid(allowed, calls, problems, cut) if calls else ()
    if resolutions:
        _check_resolutions(allowed, invalid, resolutions, cut)
    unchecked = spec.output is not None and output_problem is None and (not spec.criteria or met is not None)
    if unchecked and answer_in(spec, turn) is not None:
        raise ProtocolViolation("an answer that nobody checked; pass output_problem, as Agent.check_output says it")
    if invalid:
        resolutions = resolutions_for(spec, invalid, resolutions)
    count_turn(state, turn)
    state.rejections = 0
    final = None if spec.output is None else final_call(spec, turn, calls)
    if final is not None:
        _append_turn(state, parts, turn.dialect)
        take_final_call(spec, state, turn, calls, final, met, output_problem or "")
    elif calls:
        _take_calls(spec, state, turn, parts, calls, invalid, resolutions, approvals)
    else:
        refused = (TextPart(turn.refusal),) if turn.refusal and not turn.text else ()  # the next run must see it
        _append_turn(state, (*parts, *refused), turn.dialect)
        _take_text(spec, state, turn, met, output_problem or "")


def refusals(state: RunState) -> tuple[int, int]:
    """Return how many answers were refused so far: by the output type, and by the criteria."""
    return len(state.problems), state.continues


def refused_by(before: tuple[int, int], state: RunState) -> str:
    """Return the agent's argument by which an answer was refused since `refusals` returned `before`; or an empty text.

    The last text of a run that ends as incomplete is not refused: its outcome has it.
    """
    by_type, by_criteria = before
    return "output_type" if len(state.problems) > by_type else "criteria" if state.continues > by_criteria else ""


def may_end(spec: RunSpec, turn: ModelTurn) -> bool:
    """Whether the agent's criteria must judge this turn."""
    if turn.tool_calls:
        return spec.criteria and final_call(spec, turn, turn.tool_calls) is not None
    if turn.finish_reason in UNENDED:
        return False
    return spec.criteria and not is_question(turn.text or turn.refusal)


def ask_to_continue(spec: RunSpec, state: RunState) -> None:
    """Append the continue message after a text that met no criterion."""
    state.continues += 1
    state.messages.append(user_message(spec.continue_message))
    state.phase = "model"


def _check_resolutions(
    allowed: frozenset[str],
    invalid: tuple[InvalidCall, ...],
    resolutions: Mapping[int, Resolution],
    cut: frozenset[int],
) -> None:
    by_position = {bad.position: bad for bad in invalid}
    for position, resolution in resolutions.items():
        if position not in by_position:
            raise ProtocolViolation(f"a resolution for call {position}, which is not invalid")
        if isinstance(resolution, RepairCall):
            fixed = repair(by_position[position].call, resolution)
            # Another name does not make the arguments of a cut-off call whole.
            still = find_invalid(allowed, [fixed], {}, (0,) if position in cut and resolution.arguments is None else ())
            if still:
                raise ProtocolViolation(f"the repair of call {position} is invalid too: {still[0].reason}")


def _append_turn(state: RunState, parts: tuple[Part, ...], dialect: str) -> None:
    # Providers refuse an empty message, and get no metadata. Empty text with a signature must be sent back.
    for part in parts:
        if type(part) is MetadataPart:
            continue
        if type(part) is not TextPart or part.text or part.signature is not None:
            state.messages.append(Message("assistant", parts, dialect))
            return


def _take_calls(
    spec: RunSpec,
    state: RunState,
    turn: ModelTurn,
    parts: tuple[Part, ...],
    calls: tuple[ToolCall, ...],
    invalid: tuple[InvalidCall, ...],
    resolutions: Mapping[int, Resolution],
    approvals: Mapping[int, Verdict],
) -> None:
    failure, feedback = None, dict[int, str]()
    if resolutions:
        failure = _failure(invalid, resolutions, state.invalid_retries >= spec.max_invalid_retries)
        feedback = {p: r.feedback for p, r in resolutions.items() if isinstance(r, RetryTurn)}
    if failure is None and not feedback:
        if resolutions:
            # The history has the repaired call, because providers pair a call and its result by name too.
            parts = repaired(parts, resolutions)
            calls = calls_of(parts)
        _append_turn(state, parts, turn.dialect)
        state.round = open_round(spec, turn, calls, invalid, resolutions, approvals)
        state.phase = "tools"
        return
    _append_turn(state, parts, turn.dialect)
    # Every call gets a result, also at the end of a run, because providers refuse other histories.
    results = unrun_results(calls, invalid, feedback)
    if failure is None and spec.watched:  # callbacks see the results first
        state.round = ToolRound(calls, (), {result.call_id: result for result in results}, admitted=True)
        state.phase = "tools"
    else:
        state.messages.append(Message("user", results))
    if failure is not None:
        state.fail(failure)
    else:
        state.invalid_retries += 1


def _failure(invalid: Iterable[InvalidCall], resolutions: Mapping[int, Resolution], exhausted: bool) -> Failure | None:
    for bad in invalid:
        resolution = resolutions.get(bad.position)
        if isinstance(resolution, FailRun) or (isinstance(resolution, RetryTurn) and exhausted):
            why = f"invalid call of {bad.call.name!r} by the model: {bad.reason}"
            return Failure("tool", why, bad.call.name, bad.call.id)
        if isinstance(resolution, StopRun):
            return Failure("cancelled", resolution.reason)
    return None


def _take_text(spec: RunSpec, state: RunState, turn: ModelTurn, met: str | None, output_problem: str) -> None:
    text = turn.text or turn.refusal
    state.text = text
    if turn.finish_reason == "paused":
        return  # the next request ends with this turn, and the model continues it
    if turn.finish_reason == "blocked" and not text:
        word = (turn.raw_finish_reason or "").removeprefix("blocked:")
        state.fail(Failure("blocked", _no_answer(turn), request_id=turn.request_id, reason=word))
    elif turn.finish_reason == "other" or (not text and turn.finish_reason == "length"):
        state.fail(Failure("bad_reply", _no_answer(turn), request_id=turn.request_id))
    elif is_question(text):
        question = question_in(text)
        if question:
            state.question, state.phase = question, "input"
        else:  # a person would read nothing
            state.messages.append(user_message(NO_QUESTION))
    elif (
        (not spec.criteria or met is not None) and spec.output is not None and (fault := why_not(turn, output_problem))
    ):
        refuse_text(spec, state, turn, fault)
    elif not spec.criteria or met is not None:
        state.completion_reason = met if met is not None else _why_text_ends(turn)
        state.phase = "done"
    elif state.continues < state.max_continues:
        ask_to_continue(spec, state)
    else:
        state.completion_reason = no_criterion_met(state)
        state.phase = "incomplete"


def _why_text_ends(turn: ModelTurn) -> str:
    if turn.refusal and not turn.text:
        return "the model refused"
    if turn.finish_reason == "length":
        return "the model's answer was cut off at max_tokens"
    if turn.finish_reason == "blocked":
        return f"the provider ended the model's answer ({turn.raw_finish_reason or 'blocked'})"
    return "the model answered"


def _no_answer(turn: ModelTurn) -> str:
    word = turn.raw_finish_reason or turn.finish_reason
    if turn.finish_reason == "length":
        return f"the model's turn was cut off ({word}) before it said anything; raise settings.max_tokens"
    if turn.finish_reason == "other":
        return f"the model's turn did not come to a known end ({word}), so that what it says is no answer"
    return f"the provider blocked the model's turn ({word}); there is no answer"
