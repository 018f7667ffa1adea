"""What a client of AG-UI 1.0 makes of events, and the rules by which it refuses them.

Written after the verification and the reducer of `@ag-ui/client`, and not after our encoder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Call:
    """A tool call as the client has it."""

    name: str
    owner: str | None
    arguments: str = ""
    results: list[Any] = field(default_factory=list[Any])


@dataclass
class AguiClient:
    """Takes events one after another; a broken rule is an `AssertionError`."""

    begun: bool = False
    end: Mapping[str, Any] | None = None
    texts: dict[str, str] = field(default_factory=dict[str, str])
    thoughts: dict[str, str] = field(default_factory=dict[str, str])
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    customs: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    owners: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """Of texts, thoughts and results."""
    open: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    """What has begun and not ended: kind and id; for a step its owner and name."""
    subagents: dict[str, bool] = field(default_factory=dict[str, bool])
    """Id -> whether it is active."""

    def read(self, events: Iterable[Mapping[str, Any]]) -> AguiClient:
        for event in events:
            self.take(event)
        return self

    def take(self, event: Mapping[str, Any]) -> None:
        assert self.end is None, f"{event} after the end"
        kind = event["type"]
        assert self.begun == (kind != "RUN_STARTED"), f"{kind} at the wrong place"
        getattr(self, f"_{kind.lower()}")(event)

    def own_texts(self) -> list[str]:
        """Return the texts of the run itself, without those of subagents and those that do not stand."""
        void = {id for each in self.customs for id in each["value"].get("ids", ())}
        return [text for id, text in self.texts.items() if self.owners[id] is None and id not in void]

    def _begin(self, *what: str) -> None:
        assert what not in self.open, f"{what} is open"
        self.open.add(what)

    def _close(self, *what: str) -> None:
        assert what in self.open, f"{what} is not open"
        self.open.remove(what)

    def _agrees(self, event: Mapping[str, Any], owner: str | None) -> None:
        assert event.get("subagentRunId") == owner, f"{event} is not of {owner}"

    def _run_started(self, event: Mapping[str, Any]) -> None:
        assert event["threadId"] and event["runId"]
        self.begun = True

    def _run_finished(self, event: Mapping[str, Any]) -> None:
        assert not self.open, f"open at the end: {self.open}"
        assert not any(self.subagents.values()), f"active at the end: {self.subagents}"
        self.end = event
        outcome = event["outcome"]
        unanswered = {id for id, call in self.calls.items() if not call.results}
        if outcome["type"] == "interrupt":
            ids = [each["id"] for each in outcome["interrupts"]]
            assert ids and len(set(ids)) == len(ids)
            asked = {each["toolCallId"] for each in outcome["interrupts"] if "toolCallId" in each}
            assert asked <= unanswered
        else:
            assert not unanswered

    def _run_error(self, event: Mapping[str, Any]) -> None:
        assert not self.open, f"open at the end: {self.open}"
        assert isinstance(event["message"], str)
        self.end = event

    def _text_message_start(self, event: Mapping[str, Any]) -> None:
        id = event["messageId"]
        assert id not in self.texts, "the words would be added to the earlier message"
        self._begin("text", id)
        self.texts[id] = ""
        self.owners[id] = event.get("subagentRunId")

    def _text_message_content(self, event: Mapping[str, Any]) -> None:
        assert ("text", event["messageId"]) in self.open
        assert event["delta"]
        self._agrees(event, self.owners[event["messageId"]])
        self.texts[event["messageId"]] += event["delta"]

    def _text_message_end(self, event: Mapping[str, Any]) -> None:
        self._close("text", event["messageId"])

    def _reasoning_start(self, event: Mapping[str, Any]) -> None:
        self._begin("span", event["messageId"])

    def _reasoning_end(self, event: Mapping[str, Any]) -> None:
        self._close("span", event["messageId"])
        assert ("thought", event["messageId"]) not in self.open

    def _reasoning_message_start(self, event: Mapping[str, Any]) -> None:
        assert event["role"] == "reasoning"
        assert event["messageId"] not in self.thoughts
        self._begin("thought", event["messageId"])
        self.thoughts[event["messageId"]] = ""

    def _reasoning_message_content(self, event: Mapping[str, Any]) -> None:
        assert ("thought", event["messageId"]) in self.open
        self.thoughts[event["messageId"]] += event["delta"]

    def _reasoning_message_end(self, event: Mapping[str, Any]) -> None:
        self._close("thought", event["messageId"])

    def _tool_call_start(self, event: Mapping[str, Any]) -> None:
        id = event["toolCallId"]
        assert id not in self.calls, "the arguments would be added to the earlier call"
        self._begin("call", id)
        owner = event.get("subagentRunId")
        assert self.owners.get(str(event.get("parentMessageId")), owner) == owner
        self.calls[id] = Call(event["toolCallName"], owner)

    def _tool_call_args(self, event: Mapping[str, Any]) -> None:
        assert ("call", event["toolCallId"]) in self.open
        self._agrees(event, self.calls[event["toolCallId"]].owner)
        self.calls[event["toolCallId"]].arguments += event["delta"]

    def _tool_call_end(self, event: Mapping[str, Any]) -> None:
        self._close("call", event["toolCallId"])

    def _tool_call_result(self, event: Mapping[str, Any]) -> None:
        call = self.calls[event["toolCallId"]]
        assert ("call", event["toolCallId"]) not in self.open
        assert not call.results, "a second result"
        assert event["messageId"] not in self.owners
        call.results.append(event["content"])
        self.owners[event["messageId"]] = event.get("subagentRunId")

    def _step_started(self, event: Mapping[str, Any]) -> None:
        self._begin("step", str(event.get("subagentRunId")), event["stepName"])

    def _step_finished(self, event: Mapping[str, Any]) -> None:
        self._close("step", str(event.get("subagentRunId")), event["stepName"])

    def _subagent_started(self, event: Mapping[str, Any]) -> None:
        id = event["subagentRunId"]
        assert id not in self.subagents, "ids are for one invocation"
        assert event["name"]
        assert event.get("parentSubagentRunId", id) in {id, *self.subagents}
        self.subagents[id] = True

    def _subagent_finished(self, event: Mapping[str, Any]) -> None:
        assert self.subagents[event["subagentRunId"]]
        assert event["outcome"]["type"] in ("success", "suspended")
        self.subagents[event["subagentRunId"]] = False

    def _subagent_error(self, event: Mapping[str, Any]) -> None:
        assert self.subagents[event["subagentRunId"]]
        assert isinstance(event["message"], str)
        self.subagents[event["subagentRunId"]] = False

    def _custom(self, event: Mapping[str, Any]) -> None:
        assert event["name"].startswith("understudy.")
        json.dumps(event["value"], allow_nan=False)
        self.customs.append(event)
