"""How a run takes a model's turn: it becomes a round of tool calls, an answer, a question, a retry, or a failure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import count

from understudy.errors import ProtocolViolation
from understudy.vocabulary.messages import (
    Message,
    MetadataPart,
    ModelTurn,
    Part,
    TextPart,
    ToolCall,
    ToolResult,
    user_message,
)
from understudy.vocabulary.tools.questions import MARK, QUESTION, is_question, question_in

from .rounds import cut_calls, error_result, repair
from .spec import RunSpec
from .state import Failure, RunState, ToolRound
from .steps import FailRun, InvalidCall, RepairCall, Resolution, RetryTurn, SkipCall, StopRun, Verdict
from .typed_answers import UNENDED, answer_in, final_call, no_criterion_met, refuse_text, take_final_call, why_not

PEER_NOT_RUN = "Not run: another tool call of the same turn was invalid."
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


def count_turn(state: RunState, turn: ModelTurn) -> None:
    """Count one model call."""
    state.turns += 1
    state.finish_reason = turn.raw_finish_reason
    state.model, state.response_id, state.request_id = turn.model, turn.response_id, turn.request_id


# --- the calls of a turn: their ids, whether they are valid, resolutions, approvals


def with_ids(parts: tuple[Part, ...], turn: int) -> tuple[Part, ...]:
    """Give a new id to each call whose id is empty, repeats that of an earlier call, or cannot be written as UTF-8."""
    taken = {
        part.id for part in parts if type(part) is ToolCall
    }  # later ids too: a new id must not take one of a provider's
    if not taken:  # as in every turn that answers
        return parts
    seen: set[str] = set()
    fixed: list[Part] = []
    changed = False
    for position, part in enumerate(parts):
        if type(part) is ToolCall:
            if not part.id or part.id in seen or not (part.id.isascii() or _can_be_saved(part.id)):
                id = _new_id(f"call-{turn}-{position}", taken)
                part = ToolCall(id, part.name, part.arguments, part.bad_arguments, True, part.signature)
                taken.add(part.id)
                changed = True
            seen.add(part.id)
        fixed.append(part)
    return tuple(fixed) if changed else parts


def _can_be_saved(id: str) -> bool:
    return id.encode("utf-8", "replace").decode() == id


def _new_id(id: str, taken: Container[str]) -> str:
    while id in taken:
        id += "-again"
    return id


def find_invalid(
    allowed: frozenset[str], calls: Iterable[ToolCall], problems: Mapping[int, str], cut: Container[int] = ()
) -> tuple[InvalidCall, ...]:
    """Return the calls that cannot run: names not allowed, arguments not a JSON object, and those in `problems`.

    `cut` are the positions of the calls that were cut off, as `cut_calls` returns them.
    """
    found: list[InvalidCall] = []
    for position, call in enumerate(calls):
        if call.name not in allowed:
            found.append(InvalidCall(position, call, "unknown_tool", _unknown(call.name, allowed)))
        elif position in cut:
            found.append(InvalidCall(position, call, "bad_json", _cut_off(call)))
        elif call.bad_arguments is not None:
            found.append(InvalidCall(position, call, "bad_json", _not_json(call)))
        elif position in problems:
            found.append(InvalidCall(position, call, "bad_arguments", problems[position]))
    return tuple(found)


def _unknown(name: str, allowed: frozenset[str]) -> str:
    if not allowed:
        return f"there is no tool {name!r}; no tools can be called now"
    near = get_close_matches(name, allowed, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"there is no tool {name!r}{hint}; the tools are: {', '.join(sorted(allowed))}"


def _cut_off(call: ToolCall) -> str:
    got = f", got: {_short(call.bad_arguments)}" if call.bad_arguments else ""
    return (
        f"the call of {call.name!r} was cut off at the limit of tokens (max_tokens) and did not run, because its arguments may "
        f"be incomplete; call it again, with less text in the turn{got}"
    )


def _not_json(call: ToolCall) -> str:
    return f"the arguments of {call.name!r} must be a JSON object, got: {_short(call.bad_arguments or '')}"


def _short(given: str) -> str:
    return given if len(given) <= 120 else given[:117] + "..."


def calls_of(parts: Iterable[Part]) -> tuple[ToolCall, ...]:
    return tuple([part for part in parts if type(part) is ToolCall])


def repaired(parts: tuple[Part, ...], resolutions: Mapping[int, Resolution]) -> tuple[Part, ...]:
    """Return the parts of a turn, with each call repaired for which there is a `RepairCall`."""
    repairs = {position: r for position, r in resolutions.items() if isinstance(r, RepairCall)}
    if not repairs:
        return parts
    positions = count()
    fixed: list[Part] = []
    for part in parts:
        if type(part) is ToolCall and (resolution := repairs.get(next(positions))):
            part = repair(part, resolution)
        fixed.append(part)
    return tuple(fixed)


def unrun_results(
    calls: Iterable[ToolCall], invalid: Iterable[InvalidCall], feedback: Mapping[int, str]
) -> tuple[ToolResult, ...]:
    """Return a result for every call of a turn that does not run: an invalid call gets the feedback or the reason."""
    bad = {found.position: found for found in invalid}
    results: list[ToolResult] = []
    for position, call in enumerate(calls):
        if position in bad:
            words = feedback.get(position, bad[position].reason)
            results.append(error_result(call, bad[position].kind, words))
        else:
            results.append(error_result(call, "not_run", PEER_NOT_RUN))
    return tuple(results)


def open_round(
    spec: RunSpec,
    turn: ModelTurn,
    calls: tuple[ToolCall, ...],
    invalid: Iterable[InvalidCall],
    resolutions: Mapping[int, Resolution],
    approvals: Mapping[int, Verdict],
) -> ToolRound:
    """Return the round of a turn's calls: each has a result already, waits for a person, or is to run.

    `calls` are the calls after repair; `resolutions` and `approvals` are keyed by position.
    """
    results: dict[str, ToolResult] = {}
    for bad in invalid:
        resolution = resolutions.get(bad.position)
        if isinstance(resolution, RepairCall):
            continue
        if isinstance(resolution, SkipCall):
            results[bad.call.id] = ToolResult(bad.call.id, resolution.reason, error_kind="skipped", name=bad.call.name)
        else:
            results[bad.call.id] = error_result(bad.call, bad.kind, bad.reason)
    if turn.finish_reason == "blocked":
        why = f"Not run: the provider ended the turn with {turn.raw_finish_reason or 'a block'}."
        for call in calls:
            results.setdefault(call.id, error_result(call, "not_run", why))
    questions: dict[str, str] = {}
    for call in calls if spec.asks else ():
        if call.name not in spec.asks or call.id in results:
            continue
        question = question_of(call)
        if question:
            questions[call.id] = question
        else:
            results[call.id] = error_result(call, "bad_arguments", f"{call.name} needs a {QUESTION}: text, not empty")
    waiting: list[str] = []
    for position, call in enumerate(calls) if spec.approvals else ():
        if call.id in results or call.id in questions:
            continue
        verdict = verdict_on(spec, call, approvals.get(position, True))
        if isinstance(verdict, str):
            results[call.id] = error_result(call, "blocked", verdict)
        elif verdict:
            waiting.append(call.id)
    return ToolRound(calls, tuple(waiting), results, questions)


def question_of(call: ToolCall) -> str:
    """Return the question in a call of `ask_user`; empty if there is none."""
    given = call.arguments.get(QUESTION)
    return given.strip() if isinstance(given, str) else ""


def verdict_on(spec: RunSpec, call: ToolCall, said: Verdict) -> Verdict:
    """Return whether a person must agree to a call; `said` is the verdict if the tool's rule is a function.

    Callers pass True if the rule was not evaluated: then a person is asked.
    """
    rule = spec.approvals.get(call.name, False)
    return said if rule is None else rule


def check_verdicts(approvals: Mapping[int, Verdict] | Mapping[str, Verdict]) -> None:
    """Raise for a verdict of another type: None or 0 must not let a call run.

    Raises:
        TypeError: a verdict is neither a bool nor a text.
    """
    for key, verdict in approvals.items():
        if not isinstance(verdict, (bool, str)):
            raise TypeError(
                f"approvals: call {key!r}: expected True, False, or a text that says why the call does not run; "
                f"got {verdict!r}"
            )


def resolutions_for(
    spec: RunSpec, invalid: Sequence[InvalidCall], resolutions: Mapping[int, Resolution]
) -> Mapping[int, Resolution]:
    """Return the resolutions, plus `FailRun` for each unresolved invalid call of a tool whose errors end the run."""
    ending: dict[int, Resolution] = {bad.position: FailRun() for bad in invalid if spec.raises(bad.call.name)}
    return {**ending, **resolutions} if ending else resolutions
