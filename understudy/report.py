"""What the command line says of a run that ended: for people, for programs, and as an exit status."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from understudy.errors import (
    AuthenticationError,
    MaxIterationsExceeded,
    RunCancelled,
    RunError,
    RunTimedOut,
    SpecError,
    UnderstudyError,
)
from understudy.events import Event, ToolFinished, ToolStarted
from understudy.messages import JsonValue, ToolCall, ToolResult
from understudy.outcomes import Complete, Incomplete, NeedsApproval, NeedsInput, Outcome

COMPLETE = 0
FAILED = 1
USAGE = 2
WAITING = 3
INTERRUPTED = 130  # As shells count a process that SIGINT ended: 128 and the signal's number.

SPEC = "FILE.yaml"  # Where nobody knows what the command was.

Report: TypeAlias = "dict[str, JsonValue]"


class UsageMistake(Exception):
    """The command line was called wrongly; the text says how, and what was expected."""


@dataclass(slots=True)
class CallLog:
    """The tool calls of a run and their results, in the order in which they began."""

    calls: list[tuple[ToolCall, ToolResult | None]] = field(default_factory=list[tuple[ToolCall, ToolResult | None]])

    def see(self, event: Event) -> None:
        """Take note of an event."""
        match event:
            case ToolStarted(call=call):
                self.calls.append((call, None))
            case ToolFinished(call=call, result=result):
                # Ids are unique within a turn only, and a call that was refused never started.
                waiting = [i for i, (one, answer) in enumerate(self.calls) if answer is None and one.id == call.id]
                if waiting:
                    self.calls[waiting[-1]] = (call, result)
                else:
                    self.calls.append((call, result))
            case _:
                pass

    def report(self) -> list[JsonValue]:
        """Return the calls as JSON."""
        return [_call_report(call, result) for call, result in self.calls]


def _call_report(call: ToolCall, result: ToolResult | None) -> Report:
    report: Report = {"name": call.name, "arguments": dict(call.arguments), "result": None, "is_error": False}
    if result is not None:
        report |= {"result": result.content, "is_error": result.is_error}
    return report


def status_of(ended: Outcome[object] | BaseException) -> int:
    """Return the exit status that tells how a run ended."""
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
    return json.dumps({**report, "tool_calls": log.report()}, ensure_ascii=False, default=str)


def _outcome_report(outcome: Outcome[object]) -> Report:
    usage = outcome.usage
    report: Report = {
        "outcome": outcome.status,
        "agent": outcome.agent_id,
        "run_id": outcome.run_id,
        "text": outcome.text if isinstance(outcome, Complete) else None,
        "completion_reason": outcome.completion_reason,
        "iterations": outcome.iterations,
        "turns": outcome.turns,
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
        },
    }
    if not isinstance(outcome, Complete) and outcome.token:
        report["token"] = outcome.token
    match outcome:
        case NeedsInput(question=question):
            report["question"] = question
        case NeedsApproval(calls=calls):
            report["waiting"] = [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]
        case Incomplete(last_text=text):
            report["last_text"] = text
        case Complete():
            pass
    return report


def _error_report(error: BaseException, again: str) -> Report:
    kind = "cancelled" if status_of(error) == INTERRUPTED else "error"
    told: Report = {"type": type(error).__name__, "message": explain(error, again)}
    report: Report = {"outcome": kind, "text": None, "error": told}
    if isinstance(error, RunError) and error.token:
        report["token"] = error.token
    return report


def for_people(ended: Outcome[object] | BaseException, again: str = SPEC) -> tuple[str, str]:
    """Return what goes to standard output and what goes to standard error.

    Args:
        ended: how the run ended.
        again: what `understudy resume TOKEN` must be given to find the run and its agent.
    """
    match ended:
        case BaseException():
            return "", f"understudy: {explain(ended, again)}"
        case Complete(text=text):
            return text, ""
        case NeedsInput(question=question, token=token):
            how = go_on(token, again, "--answer TEXT")
            return "", f"understudy: the run waits for an answer to: {question}\n{how}"
        case NeedsApproval(calls=calls, token=token):
            waiting = "\n".join([f"  {shown_call(call)}" for call in calls])
            how = go_on(token, again, "--approve, or --reject REASON")
            return "", f"understudy: the run waits for a person to approve:\n{waiting}\n{how}"
        case Incomplete(completion_reason=reason, last_text=text):
            return text, f"understudy: the run stopped before its end: {reason}"


NO_TOKEN = "It ends here; with --store sqlite:///FILE.db it could be answered later."


def go_on(token: str, again: str, options: str) -> str:
    """Return how to go on with a run that waits."""
    return f"Go on with: understudy resume {token} {again} {options}" if token else NO_TOKEN


HINTS: tuple[tuple[type[BaseException], str], ...] = (
    (AuthenticationError, "keys are read from the environment only; --rehearse runs the agent without one"),
    (MaxIterationsExceeded, "max_iterations and max_turns of the agent in the spec set the limits"),
    (RunTimedOut, "--timeout sets the limit, in seconds"),
)
"""What to do about an error, where the command line knows."""


def explain(error: BaseException, again: str = SPEC) -> str:
    """Return what happened and, where it is known, what to do about it."""
    if isinstance(error, KeyboardInterrupt):
        return "; ".join(["interrupted", *map(str, error.args)])
    name = "" if isinstance(error, UsageMistake | SpecError) else f"{type(error).__name__}: "
    if not isinstance(error, UnderstudyError | UsageMistake):
        name = f"{type(error).__module__}.{name}".removeprefix("builtins.")
    hints = [f"\n  {hint}" for kind, hint in HINTS if isinstance(error, kind)]
    if isinstance(error, MaxIterationsExceeded) and error.token:
        hints.append(f"\n  {go_on(error.token, again, '--max-iterations N')}")
    return f"{name}{error}{''.join(hints)}"


def shown_call(call: ToolCall) -> str:
    """Return a call as one line of code: `find(word='tide')`."""
    if call.bad_arguments is not None:
        return one_line(f"{call.name}({call.bad_arguments})")
    return one_line(f"{call.name}({shown_arguments(call.arguments)})")


def shown_arguments(arguments: Mapping[str, JsonValue]) -> str:
    """Return arguments as they would stand in a call."""
    return ", ".join([f"{name}={value!r}" for name, value in arguments.items()])


WIDEST = 100  # Characters of a line of progress; what is longer is cut, not wrapped.


def one_line(text: str, widest: int = WIDEST) -> str:
    """Return the first line that is not empty, cut to `widest`, without what would steer a terminal."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = "".join([c if c.isprintable() else "�" for c in lines[0]]) if lines else ""
    return first if len(first) <= widest else first[: widest - 1] + "…"
