"""What a client of the AI SDK makes of a UI message stream, and the chunks that it refuses.

Written after `processUIMessageStream` of the package `ai`, and not after our encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

SINCE = {"tool-approval-request": 6, "tool-output-denied": 6, "reset-step": 7}
"""Type of a chunk -> the first major version that takes it; an older one ends with an error."""
KNOWN = {
    *("start", "start-step", "finish-step", "reset-step", "finish", "error", "abort"),
    *("text-start", "text-delta", "text-end", "reasoning-start", "reasoning-delta", "reasoning-end"),
    *("tool-input-start", "tool-input-delta", "tool-input-available", "tool-input-error", "tool-approval-request"),
    *("tool-output-available", "tool-output-error", "tool-output-denied"),
}
REASONS = {"stop", "length", "content-filter", "tool-calls", "error", "other"}


@dataclass
class AiSdkClient:
    """Takes chunks one after another; a broken rule is an `AssertionError`."""

    version: int = 7
    parts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Of the message; a run that goes on after a pause finds those of before."""
    end: Mapping[str, Any] | None = None
    data: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    active: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    in_step: bool = False
    begun: bool = False

    def read(self, chunks: Iterable[Mapping[str, Any]]) -> AiSdkClient:
        for chunk in chunks:
            self.take(chunk)
        return self

    def tools(self) -> list[dict[str, Any]]:
        return [part for part in self.parts if "toolCallId" in part]

    def texts(self) -> list[str]:
        void = {id for each in self.data if each["type"] == "data-turn-dropped" for id in each["data"]["ids"]}
        return [part["text"] for part in self.parts if part["type"] == "text" and part["id"] not in void]

    def take(self, chunk: Mapping[str, Any]) -> None:
        kind = chunk["type"]
        assert self.end is None, f"{chunk} after the end"
        assert self.begun == (kind != "start"), f"{kind} at the wrong place"
        if kind.startswith("data-"):
            self._data(chunk)
            return
        assert kind in KNOWN
        assert SINCE.get(kind, 5) <= self.version
        group, _, what = kind.partition("-")
        if group in ("text", "reasoning"):
            self._text(group, what, chunk)
        elif group == "tool":
            self._tool(what, chunk)
        else:
            getattr(self, f"_{kind.replace('-', '_')}")(chunk)

    def _data(self, chunk: Mapping[str, Any]) -> None:
        self.data.append(chunk)
        if not chunk.get("transient"):
            self.parts.append(dict(chunk))

    def _text(self, kind: str, what: str, chunk: Mapping[str, Any]) -> None:
        id = f"{kind} {chunk['id']}"
        if what == "start":
            assert id not in self.active
            assert self.in_step or kind == "text"  # the answer of a group belongs to no step
            self.active[id] = {"type": kind, "id": chunk["id"], "text": ""}
            self.parts.append(self.active[id])
            return
        assert id in self.active, f"{chunk} of a part that is missing"
        if what == "delta":
            self.active[id]["text"] += chunk["delta"]
        else:
            assert what == "end"
            del self.active[id]

    def _tool(self, what: str, chunk: Mapping[str, Any]) -> None:
        id = chunk["toolCallId"]
        found = [part for part in self.tools() if part["toolCallId"] == id]
        if what == "input-start":
            assert not found, "a second part with the id of a call"
            self.parts.append(
                {"type": f"tool-{chunk['toolName']}", "toolCallId": id, "state": "input-streaming", "raw": ""}
            )
            return
        assert len(found) == 1, f"no tool invocation found for {id}"
        part = found[0]
        if what == "input-delta":
            assert part["state"] == "input-streaming"
            part["raw"] += chunk["inputTextDelta"]
        elif what == "input-available":
            assert part["state"] == "input-streaming"
            assert part["type"] == f"tool-{chunk['toolName']}"
            part |= {"state": "input-available", "input": chunk["input"]}
        elif what == "input-error":
            assert part["state"] == "input-streaming"
            part |= {"state": "output-error", "errorText": chunk["errorText"]}
        elif what == "approval-request":
            assert part["state"] == "input-available"
            part |= {"state": "approval-requested", "approval": {"id": chunk["approvalId"]}}
        else:
            assert part["state"] in ("input-available", "approval-responded")
            assert what != "output-denied" or "approval" in part
            part |= {"state": what, "output": chunk.get("output"), "errorText": chunk.get("errorText")}

    def _start(self, chunk: Mapping[str, Any]) -> None:
        assert chunk["messageId"]
        self.begun = True

    def _start_step(self, _: Mapping[str, Any]) -> None:
        assert not self.in_step
        self.in_step = True
        self.parts.append({"type": "step-start"})

    def _finish_step(self, _: Mapping[str, Any]) -> None:
        assert self.in_step
        self.in_step = False

    def _reset_step(self, _: Mapping[str, Any]) -> None:
        assert self.in_step
        starts = [position for position, part in enumerate(self.parts) if part["type"] == "step-start"]
        del self.parts[starts[-1] + 1 :]
        self.active.clear()

    def _finish(self, chunk: Mapping[str, Any]) -> None:
        assert chunk["finishReason"] in REASONS
        self._ended(chunk)

    def _error(self, chunk: Mapping[str, Any]) -> None:
        assert chunk["errorText"]
        self._ended(chunk)

    def _abort(self, chunk: Mapping[str, Any]) -> None:
        self._ended(chunk)

    def _ended(self, chunk: Mapping[str, Any]) -> None:
        assert not self.active
        assert not self.in_step
        self.end = chunk
        waiting = ("approval-requested", *(["input-available"] if self.version == 5 else []))
        settled = ("output-available", "output-error", "output-denied", *waiting)
        assert {part["state"] for part in self.tools()} <= set(settled)
