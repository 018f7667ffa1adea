"""The tool calls of a turn: their ids, whether they are valid, resolutions, approvals. Pure functions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import count

from understudy.vocabulary.messages import ModelTurn, Part, ToolCall, ToolErrorKind, ToolResult
from understudy.vocabulary.tools.questions import QUESTION

from .spec import RunSpec
from .state import ToolRound
from .steps import InvalidCall, InvalidKind, RepairCall, Resolution, SkipCall, Verdict

PEER_NOT_RUN = "Not run: another tool call of the same turn was invalid."
CUT_OFF = ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded")
"""Finish reasons of a cut-off turn, in lower case, as providers send them: a turn with calls has no neutral one."""


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


def was_cut_off(turn: ModelTurn) -> bool:
    """Whether the turn ended at a limit of tokens."""
    return turn.finish_reason == "length" or (turn.raw_finish_reason or "").lower() in CUT_OFF


def cut_calls(turn: ModelTurn, calls: Sequence[ToolCall]) -> frozenset[int]:
    """Return the positions of the calls whose arguments may not have come whole; `calls` are those of the turn.

    Models write calls in their order, so the turn can have ended only in the last one. Its arguments may be an object all the
    same: OpenAI sends an empty text then, and Anthropic an object with the arguments that came. Other calls without
    arguments are left out too, for a server may send the calls in another order.
    """
    if not calls or not was_cut_off(turn):
        return frozenset()
    last = len(calls) - 1
    return frozenset(
        at for at, call in enumerate(calls) if at == last or (not call.arguments and call.bad_arguments is None)
    )


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
    for position, call in enumerate(calls):
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


def error_result(call: ToolCall, kind: InvalidKind | ToolErrorKind, reason: str) -> ToolResult:
    """Return the result of a call that has no value."""
    return ToolResult(call.id, reason, is_error=True, error_kind=kind, name=call.name)


def repair(call: ToolCall, resolution: RepairCall) -> ToolCall:
    """Return the call with the name and arguments of the resolution."""
    name = call.name if resolution.name is None else resolution.name
    if resolution.arguments is None:
        return replace(call, name=name)
    return replace(call, name=name, arguments=resolution.arguments, bad_arguments=None)
