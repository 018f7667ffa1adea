"""`CallLog`: collects a run's tool calls and inner runs from its events, for the report of `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from understudy.vocabulary.messages import JsonValue, Message, ToolCall, ToolResult
from understudy.vocabulary.runs.events import ChildFinished, ChildStarted, Event, ToolFinished, ToolStarted
from understudy.vocabulary.runs.outcomes import Complete

Report: TypeAlias = "dict[str, JsonValue]"


@dataclass(slots=True)
class _Call:
    run_id: str
    path: tuple[str, ...]
    call: ToolCall
    result: ToolResult | None = None

    def report(self) -> Report:
        report: Report = {
            "name": self.call.name,
            "arguments": dict(self.call.arguments),
            "result": None,
            "is_error": False,
        }
        if self.result is not None:
            report |= {"result": self.result.content, "is_error": self.result.is_error}
        return report | _path(self.path)


def _path(path: tuple[str, ...]) -> Report:
    return {"path": list(path)} if len(path) > 1 else {}


class CallLog:
    """The tool calls of a run with their results, and its inner runs, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._children: dict[str, Report] = {}
        """Run id -> report of the inner run."""

    @property
    def calls(self) -> int:
        """The number of calls."""
        return len(self._calls)

    def see(self, event: Event) -> None:
        """Record an event."""
        match event:
            case ToolStarted(run_id=run_id, path=path, call=call):
                if self._open(run_id, call) is None:  # a sub-agent's call continues after a pause
                    self._calls.append(_Call(run_id, path, call))
            case ToolFinished(run_id=run_id, path=path, call=call, result=result):
                begun = self._open(run_id, call)
                if begun is None:  # a refused call has a result without a start
                    self._calls.append(_Call(run_id, path, call, result))
                else:
                    begun.result = result
            case ChildStarted() | ChildFinished():
                self._children.setdefault(event.child_run_id, {}).update(_child_report(event))
            case _:
                pass

    def _open(self, run_id: str, call: ToolCall) -> _Call | None:
        """Return the open record of a call: ids are unique within a turn only, so finished calls do not match."""
        for one in reversed(self._calls):
            if one.result is None and (one.run_id, one.call.id) == (run_id, call.id):
                return one
        return None

    def put_first(self, messages: Sequence[Message]) -> None:
        """Record calls that a run made before the log received its events.

        Args:
            messages: messages that the run added to its history; of equal calls, the last ones came as events.
        """
        heard = [one.call for one in self._calls if len(one.path) < 2]  # by value: later turns may reuse ids
        before: list[_Call] = []
        results: dict[str, ToolResult] = {}
        for message in reversed(messages):
            results |= {result.call_id: result for result in message.tool_results}
            for call in reversed(message.tool_calls):
                result = results.pop(call.id, None)
                if call in heard:
                    heard.remove(call)
                elif result is not None:  # without a result the call is still pending
                    before.append(_Call("", (), call, result))
        self._calls[:0] = reversed(before)

    def report(self) -> Report:
        """Return the calls as JSON, and the inner runs if there were any."""
        report: Report = {"tool_calls": [one.report() for one in self._calls]}
        return report | ({"children": list(self._children.values())} if self._children else {})


def _child_report(event: ChildStarted | ChildFinished) -> Report:
    report: Report = {"path": [*event.path, event.runner_id], "run_id": event.child_run_id}
    if event.task:
        report["task"] = event.task
    if isinstance(event, ChildStarted):
        return {**report, "status": "running", "text": None}
    ended = event.outcome
    if ended is None:
        return {**report, "status": "failed", "error": _told(event.error)}
    return {**report, "status": ended.status, "text": ended.text if isinstance(ended, Complete) else None}


def _told(error: BaseException | None) -> Report:
    return {"type": type(error).__name__, "message": str(error)}
