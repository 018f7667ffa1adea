"""What the command line notes of a run while it goes on, for the report that `--json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from understudy.events import ChildFinished, ChildStarted, Event, ToolFinished, ToolStarted
from understudy.messages import JsonValue, ToolCall, ToolResult
from understudy.outcomes import Complete

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
    """The tool calls of a run and their results, and the runs inside of it, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._children: dict[str, Report] = {}
        """Run id -> what is to be said of it."""

    def see(self, event: Event) -> None:
        """Take note of an event."""
        match event:
            case ToolStarted(run_id=run_id, path=path, call=call):
                self._calls.append(_Call(run_id, path, call))
            case ToolFinished(run_id=run_id, path=path, call=call, result=result):
                # Ids are unique within a turn only, and a call that was refused never started.
                for one in reversed(self._calls):
                    if one.result is None and (one.run_id, one.call.id) == (run_id, call.id):
                        one.result = result
                        break
                else:
                    self._calls.append(_Call(run_id, path, call, result))
            case ChildStarted() | ChildFinished():
                self._children.setdefault(event.child_run_id, {}).update(_child_report(event))
            case _:
                pass

    def put_first(self, calls: Sequence[tuple[ToolCall, ToolResult | None]]) -> None:
        """Take note of calls that were made before all others."""
        self._calls[:0] = [_Call("", (), call, result) for call, result in calls]

    def report(self) -> Report:
        """Return the calls as JSON, and the runs inside if there were any."""
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
