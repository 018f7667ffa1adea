"""Reports how a run ended: as text for people, as JSON for programs, and as an exit status."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import cast

from understudy.errors import (
    AuthenticationError,
    BudgetExceeded,
    InvalidOutput,
    MaxIterationsExceeded,
    RunCancelled,
    RunTimedOut,
    SpecError,
    UnderstudyError,
    notes_of,
    place_note,
)
from understudy.vocabulary.messages import JsonValue, ToolCall
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, NeedsApproval, NeedsInput, Outcome, Pause

from .call_log import CallLog, Report

COMPLETE = 0
FAILED = 1
USAGE = 2
WAITING = 3
INTERRUPTED = 130  # A shell's status of a process ended by SIGINT: 128 plus the signal's number.

SPEC = "FILE.yaml"  # A placeholder if the command's file is not known.


class UsageMistake(Exception):
    """The command line was called wrongly; the text tells the mistake and what was expected."""


def status_of(ended: Outcome[object] | BaseException) -> int:
    """Return the exit status for the end of a run."""
    match ended:
        case Complete():
            return COMPLETE
        case NeedsInput() | NeedsApproval():
            return WAITING
        case KeyboardInterrupt() | RunCancelled():
            return INTERRUPTED
        case SpecError() | UsageMistake():
            return USAGE
        case _:
            return FAILED


def as_json(ended: Outcome[object] | BaseException, log: CallLog, again: str = SPEC) -> str:
    """Return the one line that `--json` prints."""
    report = _error_report(ended, again) if isinstance(ended, BaseException) else _outcome_report(ended)
    return json.dumps({**report, **log.report()}, ensure_ascii=False, default=str)


def _outcome_report(outcome: Outcome[object]) -> Report:
    """Return `outcome.to_dict()` with the inner runs of the log, which include unfinished ones."""
    told = outcome.to_dict()
    told.pop("children", None)
    report: Report = {"outcome": told.pop("status"), "agent": told.pop("agent_id"), **told}
    if isinstance(outcome, NeedsApproval):
        del report["calls"]
        report["waiting"] = [{"name": call.name, "arguments": dict(call.arguments)} for call in outcome.calls]
    return report


def _error_report(error: BaseException, again: str) -> Report:
    kind = "cancelled" if status_of(error) == INTERRUPTED else "error"
    told: Report = {"type": type(error).__name__, "message": explain(error, again)}
    if isinstance(error, UnderstudyError) and error.path:
        told["path"] = list(error.path)
    report: Report = {"outcome": kind, "text": None, "error": told}
    if token := token_of(error):
        report["token"] = token
    return report


def for_people(ended: Outcome[object] | BaseException, again: str = SPEC) -> tuple[str, str]:
    """Return the texts for standard output and standard error.

    Args:
        ended: the outcome, or the error.
        again: arguments that `understudy resume TOKEN` needs to find the run and its agent.
    """
    match ended:
        case BaseException():
            return "", f"understudy: {explain(ended, again)}"
        case Complete(text=text):
            return text, ""
        case NeedsInput() | NeedsApproval():
            return "", f"understudy: {_waits(ended, again)}"
        case Incomplete(completion_reason=reason, last_text=text):
            return text, f"understudy: the run stopped before its end: {reason}{_failed_tasks(ended, again)}"


def closing(ended: Outcome[object] | BaseException, calls: int, seconds: float) -> str:
    """Return one line with a run's turns, tool calls, tokens, money and time; empty if the run is not complete.

    Args:
        ended: the outcome, or the error.
        calls: the number of its tool calls, inner runs included.
        seconds: the duration of the run.
    """
    if not isinstance(ended, Complete):
        return ""
    told = [_counted(ended.turns, "turn")]
    if calls:
        told.append(_counted(calls, "tool call"))
    tokens = ended.usage.total_tokens
    if tokens:
        told.append(f"{'about ' if ended.usage.estimated else ''}{_counted(tokens, 'token')}")
    if ended.cost_usd:
        told.append(f"${ended.cost_usd:.4f}")
    return ", ".join([*told, f"{seconds:.1f} s"])


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


NO_TOKEN = "It ends here; with --store sqlite:///FILE.db it could be answered later."


def go_on(token: str, again: str, *options: str) -> str:
    """Return the commands that continue a paused run, one for each possible answer."""
    if not token:
        return NO_TOKEN
    commands = [f"understudy resume {token} {again} {option}".rstrip() for option in options or ("",)]
    return "\n".join([f"Go on with: {commands[0]}", *(f"  or with:  {command}" for command in commands[1:])])


def _waits(outcome: NeedsInput | NeedsApproval, again: str) -> str:
    """Return a text with the pauses of a run, and the commands to type next."""
    pauses = outcome.pauses or (_only_pause(outcome),)
    if len(pauses) == 1:
        return f"{_one_pause(pauses[0])}\n{go_on(outcome.token, again, *how_to_answer(pauses[0]))}"
    lines = [f"the run waits for {len(pauses)} things"]
    options: list[str] = []
    for pause in pauses:
        lines += [f"  {' > '.join(pause.path)}: {shown_pause(pause)}"]
        ways = how_to_answer(pause, pauses)
        options.append(ways[0])
        if outcome.token:
            lines += [f"    {' or '.join(ways)}"]
    if outcome.token:
        lines.append("Answer one of them, or several at once:")
    return "\n".join([*lines, go_on(outcome.token, again, " ".join(options))])


def _only_pause(outcome: NeedsInput | NeedsApproval) -> Pause:
    if isinstance(outcome, NeedsInput):
        return Pause(id="", question=outcome.question)
    return Pause(id="", calls=outcome.calls)


def _one_pause(pause: Pause) -> str:
    where = f", in {' > '.join(pause.path)}," if len(pause.path) > 1 else ""
    if pause.question is not None:
        return f"the run waits{where} for an answer to: {pause.question}"
    waiting = "\n".join([f"  {line}" for line in _calls_of(pause)])
    return f"the run waits{where} for a person to approve:\n{waiting}"


def shown_pause(pause: Pause) -> str:
    """Return the reason of a pause on one line."""
    if pause.question is not None:
        return f"an answer to: {one_line(pause.question)}"
    return f"an approval of {'; '.join(_calls_of(pause))}"


def _calls_of(pause: Pause) -> list[str]:
    reasons = {call_id: f" ({one_line(why)})" for call_id, why in pause.reasons.items()}
    return [f"{shown_call(call, WIDEST_ASKED)}{reasons.get(call.id, '')}" for call in pause.calls]


def how_to_answer(pause: Pause, pauses: Sequence[Pause] = ()) -> tuple[str, ...]:
    """Return the options of `resume` that answer a pause, one for each possible answer; `pauses` are all of its run.

    Of several pauses, each answer names its own: calls in two of them may have one id.
    """
    which = f"--pause {shlex.quote(pause.id)} " if len(pauses) > 1 else ""
    if pause.in_doubt:  # each of its calls is named: what may have happened is not decided together with others
        ways = ("--approve {}", "--reject {}=REASON", "--happened {}=RESULT")
        doubted = [" ".join([which + way.format(shlex.quote(each)) for each in pause.in_doubt]) for way in ways]
        others = [f" {which}--approve {shlex.quote(call.id)}" for call in pause.calls if call.id not in pause.in_doubt]
        return tuple([f"{way}{''.join(others)}" for way in doubted])
    of_all = ('--answer "TEXT"',) if pause.question is not None else ("--approve", '--reject "REASON"')
    return tuple([which + way for way in of_all])


def _failed_tasks(outcome: Incomplete, again: str) -> str:
    failed = [task for task in outcome.tasks.values() if task.status == "failed"]
    if not failed:
        return f"\n{go_on(outcome.token, again, '--max-continues 10')}" if outcome.token and not outcome.tasks else ""
    lines = "".join([f"\n  task {task.name} failed: {one_line(task.reason)}" for task in failed])
    return f"{lines}\n{go_on(outcome.token, again, '') if outcome.token else NO_TASKS}"


NO_TASKS = "With --store sqlite:///FILE.db, the failed tasks could be begun anew later."


HINTS: tuple[tuple[type[BaseException], str], ...] = (
    (AuthenticationError, "keys are read from the environment only; --rehearse runs the agent without one"),
    (MaxIterationsExceeded, "max_iterations and max_turns of the agent in the spec set the limits"),
    (RunTimedOut, "--timeout sets the limit, in seconds"),
)
"""Class of error -> advice for the user."""


def token_of(error: BaseException) -> str:
    """Return the token of a run that an error ended, or that an interrupt cancelled; empty if it cannot go on."""
    ended = error.__cause__ if isinstance(error, KeyboardInterrupt) else error
    return ended.token if isinstance(ended, UnderstudyError) else ""


def _raised_by(error: BaseException) -> str:
    """Return the option of `resume` that doubles the limit a run has reached; empty for other errors, which may pass."""
    match error:
        case MaxIterationsExceeded(what=what, limit=limit):
            return f"--{what.replace('_', '-')} {_doubled(limit)}"
        case BudgetExceeded(what=what, limit=limit):
            return f"--budget {what}={_doubled(limit)}"
        case InvalidOutput(problems=problems):
            return f"--max-output-retries {_doubled(len(problems))}"
        case _:
            return ""


def _doubled(limit: float) -> str:
    return f"{max(1, 2 * limit):.12g}"  # no exponent for large numbers, no digits of rounding for small ones


def explain(error: BaseException, again: str = SPEC) -> str:
    """Return the error's text, its notes, such as the errors of models that were asked before, and advice if there is any."""
    if isinstance(error, KeyboardInterrupt):
        told = "; ".join(["interrupted", *map(str, error.args)])
        return f"{told}\n  {go_on(token, again)}" if (token := token_of(error)) else told
    name = "" if isinstance(error, UsageMistake | SpecError) else f"{type(error).__name__}: "
    if not isinstance(error, UnderstudyError | UsageMistake):
        name = f"{type(error).__module__}.{name}".removeprefix("builtins.")
    place = place_note(error)
    hints = [f"\n  {' '.join(note.split())}" for note in notes_of(error)]
    hints += [f"\n  {hint}" for kind, hint in HINTS if isinstance(error, kind)]
    if token := token_of(error):
        hints.append(f"\n  {go_on(token, again, _raised_by(error))}")
    if isinstance(error, BaseExceptionGroup):
        causes = cast("BaseExceptionGroup[BaseException]", error).exceptions
        hints += [f"\n  {one_line(explain(one))}" for one in causes]
    return f"{name}{'' if place is None else f'{place}: '}{error}{''.join(hints)}"


WIDEST = 100  # Characters of a line of progress; a longer line is cut, not wrapped.
WIDEST_ASKED = 20_000  # Characters of a call that needs an approval: the person must see all of it.


def shown_call(call: ToolCall, widest: int = WIDEST) -> str:
    """Return a call as one line of code: `find(word='tide')`."""
    if call.bad_arguments is not None:
        return one_line(f"{call.name}({call.bad_arguments})", widest)
    return one_line(f"{call.name}({shown_arguments(call.arguments)})", widest)


def shown_arguments(arguments: Mapping[str, JsonValue]) -> str:
    """Return arguments as in a call: `word='tide'`."""
    return ", ".join([f"{name}={value!r}" for name, value in arguments.items()])


STEERING = {code: "�" for code in (*range(32), *range(127, 160), 0x202D, 0x202E) if chr(code) not in "\n\t"}
"""Characters that could move a terminal's cursor, clear its screen, type for its user, or reverse the text."""


def for_terminal(text: str) -> str:
    """Return a text without a terminal's control characters; line ends and tabs stay."""
    return text.replace("\r\n", "\n").translate(STEERING)


def one_line(text: str, widest: int = WIDEST) -> str:
    """Return the first line that is not empty, cut to `widest`, without control characters.

    If that line ends in a colon the next one is added, because the first alone tells nothing.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = " ".join(lines[:2]) if lines and lines[0].endswith(":") else "".join(lines[:1])
    first = "".join([c if c.isprintable() else "�" for c in told])
    return first if len(first) <= widest else first[: widest - 1] + "…"
