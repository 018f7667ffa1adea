"""The events of a run as the UI message stream (v1) of Vercel's AI SDK."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from understudy.errors import RunCancelled, kind_and_message, message_of
from understudy.vocabulary.messages import JsonObject, JsonValue, ToolCall
from understudy.vocabulary.runs.events import Event, RunFailed, RunFinished, TextDelta, ToolFinished
from understudy.vocabulary.runs.outcomes import Complete, NeedsApproval, NeedsInput, Outcome

from .event_json import call_json, event_json, outcome_json, result_json
from .interrupts import Interrupt, interrupts_of, is_id, parsed_id
from .parts import (
    CallBegan,
    CallDone,
    CallGrew,
    CallReady,
    CallVoid,
    Mark,
    Other,
    StepBegan,
    StepEnded,
    TextBegan,
    TextEnded,
    TextGrew,
    TurnVoid,
)
from .run_parts import RunParts
from .shown_calls import arguments_text
from .sse import json_text, quoted

Plain: TypeAlias = "dict[str, JsonValue]"


def data_part(name: str, data: Plain, id: str = "") -> Plain:
    """Return a part with data of our own. Without an id the client hears of it and does not keep it."""
    told: Plain = {"type": f"data-{name}", "data": harmless(data)}
    return {**told, "id": id} if id else {**told, "transient": True}


FORBIDDEN = {"__proto__", "constructor"}
"""Keys with which the client takes no JSON: a model that writes one could end the stream."""


def harmless(value: JsonValue) -> JsonValue:
    """Return a value in which each object with a forbidden key is its JSON text."""
    if isinstance(value, Mapping):
        if not FORBIDDEN.isdisjoint(value):
            return json_text(value)
        return {key: harmless(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [harmless(each) for each in value]
    return value


class AiSdkChunks:
    """Writes the parts of a run as chunks.

    Args:
        version: major version of the client's package.
        shown: ids of the calls that the client has from before a pause.
    """

    __slots__ = ("_names", "_shown", "_version")

    def __init__(self, version: int, shown: frozenset[str]) -> None:
        self._version = version
        self._shown = shown
        self._names: dict[str, str] = {}
        """Id of a call -> name of the tool."""

    def of(self, marks: Iterable[Mark]) -> Iterator[Plain]:
        """Yield the chunks that tell the parts of a run."""
        for mark in marks:
            match mark:
                case TextBegan(kind, id):
                    yield {"type": f"{kind}-start", "id": id}
                case TextGrew(kind, id, text):
                    yield {"type": f"{kind}-delta", "id": id, "delta": text}
                case TextEnded(kind, id):
                    yield {"type": f"{kind}-end", "id": id}
                case StepBegan():
                    yield {"type": "start-step"}
                case StepEnded():
                    yield {"type": "finish-step"}
                case CallBegan() | CallGrew() | CallReady() | CallDone() | CallVoid():
                    yield self._of_call(mark)
                case TurnVoid():
                    yield self._void(mark)
                case Other(event):
                    told = event_json(event)
                    yield data_part(str(told["type"]).replace("_", "-"), told)

    def approved(self, event: ToolFinished) -> Iterator[Plain]:
        """Yield the result of a call of a run inside that the client was asked to approve."""
        found = [id for id in self._shown if is_id(id) and parsed_id(id).call_id == event.call.id]
        if len(found) == 1:  # two runs inside may have calls of one id, and nothing tells them apart
            self._shown -= {found[0]}
            yield self._result(found[0], event, was_asked=True)

    def inner_call(self, id: str, call: ToolCall) -> Iterator[Plain]:
        """Yield a call of a run inside, which the client has not and is to approve."""
        yield self._of_call(CallBegan(id, call.name, ""))
        yield self._of_call(CallGrew(id, arguments_text(call)))
        yield self._of_call(CallReady(id, call))

    def _of_call(self, mark: CallBegan | CallGrew | CallReady | CallDone | CallVoid) -> Plain:
        match mark:
            case CallBegan(id, name):
                return {"type": "tool-input-start", "toolCallId": id, "toolName": name}
            case CallGrew(id, text):
                return {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": text}
            case CallReady(id, call):
                return {"type": "tool-input-available", "toolCallId": id, "toolName": call.name, "input": _input(call)}
            case CallDone(id, event):
                return self._result(id, event, was_asked=id in self._shown)
            case CallVoid(id, name, is_ready, why):
                if is_ready:
                    return {"type": "tool-output-error", "toolCallId": id, "errorText": why}
                told: Plain = {"type": "tool-input-error", "toolCallId": id, "toolName": name}
                return {**told, "input": None, "errorText": why}

    def _result(self, id: str, event: ToolFinished, *, was_asked: bool) -> Plain:
        result = event.result
        if result.error_kind == "rejected" and was_asked and self._version > 5:
            return {"type": "tool-output-denied", "toolCallId": id}
        if result.is_error:
            return {"type": "tool-output-error", "toolCallId": id, "errorText": result.content}
        output = result.content if not result.parts else result_json(result)
        return {"type": "tool-output-available", "toolCallId": id, "output": output}

    def _void(self, mark: TurnVoid) -> Plain:
        if self._version >= 7 and mark.in_step:
            return {"type": "reset-step"}
        return data_part("turn-dropped", {**event_json(mark.event), "ids": list(mark.ids)})


def _input(call: ToolCall) -> JsonValue:
    return harmless(call_json(call)["arguments"]) if call.bad_arguments is None else call.bad_arguments


HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
"""What a response with the stream must have, beside its content type."""
DONE = b"data: [DONE]\n\n"
ENDED = "Not run: the run has ended."
WAITS = "It waits for an answer."
"""Output of a sub-agent's call, until the run inside goes on."""
REASONS = {"length": "length", "blocked": "content-filter", "other": "other"}
"""Finish reason of the last turn -> that of the message; `stop` for all others."""

Major: TypeAlias = Literal[5, 6, 7]


class AiSdkEncoder:
    """Turns the events of one run into one assistant message of the AI SDK. For one reader, and one thread at a time.

    A turn is a step. A call that needs a decision is a `tool-approval-request`, and a question a part `data-question`;
    `answers_of` reads the answers. Other events are data parts that the client does not keep, such as `data-tool-progress`.

    Args:
        message_id: of the assistant's message. A run that goes on after a pause goes on in the same message.
        version: major version of the client's package `ai`. Version 5 has no approvals: they are parts `data-approval`.
            Versions 5 and 6 cannot take text back: a part `data-turn-dropped` names what does not stand.
        inner: whether events of runs inside are told too, as data parts `data-inner`.
        shown: ids of the tool calls that the client has already, if the run goes on after a pause.
    """

    __slots__ = (
        "_begun",
        "_chunks",
        "_inner",
        "_message_id",
        "_over",
        "_parts",
        "_shown",
        "_text",
        "_text_id",
        "_version",
    )

    def __init__(self, message_id: str, *, version: Major = 7, inner: bool = False, shown: Sequence[str] = ()) -> None:
        if version not in (5, 6, 7):
            raise ValueError(f"version must be 5, 6 or 7, got {version!r}")
        self._message_id = message_id
        self._version = version
        self._inner = inner
        self._shown = tuple(shown)
        self._chunks = AiSdkChunks(version, frozenset(shown))
        self._parts: RunParts | None = None
        self._begun = False
        self._over = False
        self._text_id = ""
        self._text = ""
        """The beginning of each chunk that adds to the text `_text_id`."""

    def encode(self, event: Event) -> list[JsonObject]:
        """Return what the client is told of an event; nothing after the end of the run."""
        if self._over:
            return []
        told: list[JsonObject] = []
        if not self._begun:
            self._begun = True
            told.append({"type": "start", "messageId": self._message_id})
        told += self._of_inner(event) if len(event.path) > 1 else self._of_outer(event)
        return told

    def encode_bytes(self, event: Event) -> bytes:
        """Return the same as `text/event-stream`, with `[DONE]` after the end of the run."""
        if type(event) is TextDelta and self._parts is not None and len(event.path) < 2:
            id = self._parts.open_text(event)
            if id and not self._over:
                if id != self._text_id:
                    self._text_id = id
                    self._text = f'data: {{"type":"text-delta","id":{quoted(id)},"delta":'
                return f"{self._text}{quoted(event.text)}}}\n\n".encode()
        was_over = self._over
        told = "".join([f"data: {json_text(each)}\n\n" for each in self.encode(event)]).encode()
        return told + DONE if self._over and not was_over else told

    def _of_inner(self, event: Event) -> Iterator[Plain]:
        if isinstance(event, (RunFinished, RunFailed)):
            return
        if isinstance(event, ToolFinished):
            yield from self._chunks.approved(event)
        if self._inner:
            yield data_part("inner", event_json(event))

    def _of_outer(self, event: Event) -> Iterator[Plain]:
        parts = self._parts
        if parts is None:
            parts = self._parts = RunParts(event.run_id, shown=self._shown)
        match event:
            case RunFinished(outcome=outcome):
                self._over = True
                yield from self._finished(parts, outcome)
            case RunFailed(error=error):
                self._over = True
                yield from self._chunks.of(parts.end(ENDED))
                if isinstance(error, RunCancelled):
                    yield {"type": "abort", "reason": message_of(error)}
                else:
                    yield {"type": "error", "errorText": kind_and_message(error)}
            case _:
                yield from self._chunks.of(parts.read(event))

    def _finished(self, parts: RunParts, outcome: Outcome[object]) -> Iterator[Plain]:
        yield from self._chunks.of(parts.finish(outcome))
        asked = interrupts_of(outcome) if isinstance(outcome, (NeedsInput, NeedsApproval)) else []
        waiting: list[str] = []
        for one in asked:
            if one.call is None:
                question: Plain = {"question": one.pause.question, "path": list(one.pause.path)}
                yield data_part("question", question, one.id)
            elif one.is_inner:
                yield from self._chunks.inner_call(one.id, one.call)
                yield self._approval(one, one.id)
            else:
                yield from self._chunks.of(parts.show(one.call))
                waiting.append(parts.calls.id_of(one.call))
                yield self._approval(one, waiting[-1])
        held = [id for id in parts.calls.ids() if asked and id not in waiting]
        for id in held:  # a call without an output would keep the client from sending the answers
            yield {"type": "tool-output-available", "toolCallId": id, "output": WAITS}
        yield from self._chunks.of(parts.end(ENDED, [*waiting, *held]))
        yield from _sources(outcome)
        yield data_part("outcome", outcome_json(outcome))
        yield {"type": "finish", "finishReason": _reason(parts, outcome)}

    def _approval(self, asked: Interrupt, call_id: str) -> Plain:
        assert asked.call is not None
        if self._version == 5:
            about: Plain = {"toolCallId": call_id, "call": call_json(asked.call), "path": list(asked.pause.path)}
            about |= {"reason": asked.reason} if asked.reason else {}
            return data_part("approval", {**about, "in_doubt": True} if asked.in_doubt else about, asked.id)
        told: Plain = {"type": "tool-approval-request", "approvalId": asked.id, "toolCallId": call_id}
        return {**told, "reason": asked.reason} if asked.reason else told


def _sources(outcome: Outcome[object]) -> Iterator[Plain]:
    """Yield each page that the answer names, once. A document has no address: only the outcome names it."""
    titles: dict[str, str] = {}
    for each in outcome.citations:
        if each.url:
            titles[each.url] = titles.get(each.url) or each.title
    for url, title in titles.items():
        source: Plain = {"type": "source-url", "sourceId": url, "url": url}
        yield {**source, "title": title} if title else source


def _reason(parts: RunParts, outcome: Outcome[object]) -> str:
    match outcome:
        case Complete():
            return REASONS.get(parts.finish_reason, "stop")
        case NeedsApproval():
            return "tool-calls"
        case _:
            return "other"
