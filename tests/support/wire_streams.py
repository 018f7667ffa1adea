"""Recorded streams of model APIs, and the answers that the same API would have sent whole.

The putting together is written after the APIs' documents, and uses nothing of what it tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.providers.anthropic import wire as anthropic_wire
from understudy.providers.anthropic.stream import AnthropicStream
from understudy.providers.google import wire as google_wire
from understudy.providers.google.stream import GoogleStream
from understudy.providers.http.stream_reader import StreamReader
from understudy.providers.openai import wire as openai_wire
from understudy.providers.openai.responses import answer as responses_answer
from understudy.providers.openai.responses.stream import ResponsesStream
from understudy.providers.openai.stream import OpenAIStream
from understudy.providers.wire.stream_decoder import StreamDecoder
from understudy.vocabulary.messages import JsonObject, ModelTurn
from understudy.vocabulary.pieces import Piece

from .wire import APIS, FOLDER, Case, recorded_id

LONGEST = 10_000_000


@dataclass(frozen=True, slots=True)
class StreamCase(Case):
    """One recorded exchange with a streamed answer."""

    body: bytes
    """The answer as it came."""

    @property
    def turn(self) -> ModelTurn:
        """What blocking `decode` makes of the answer put together."""
        return decoded_whole(self.api, self.body)


def stream_cases(folder: Path = FOLDER) -> list[StreamCase]:
    """Return the exchanges that `stream` can have; none without a folder."""
    listed = folder / "expected.jsonl"
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    expected = {line["case"]: line for line in map(json.loads, lines)}
    found: list[StreamCase] = []
    for path in sorted(folder.glob("*.json")):
        doc = json.loads(path.read_text(encoding="utf-8"))
        if doc["stream"] and doc["api"] in APIS:
            name, asked, came = path.name.removesuffix(".json"), doc["request"], doc["response"]
            found.append(
                StreamCase(
                    name,
                    doc["provider"],
                    asked["path"],
                    asked["body"],
                    came["status"],
                    expected[name],
                    recorded_id(came["headers"]),
                    came["body"].encode(),
                )
            )
    return found


def decoder_of(api: str) -> StreamDecoder:
    """Return a new decoder of an API."""
    match api:
        case "openai-responses":
            return ResponsesStream()
        case "anthropic":
            return AnthropicStream()
        case "gemini" | "vertex":
            return GoogleStream()
        case _:
            return OpenAIStream()


def read(reader: StreamReader, chunks: list[bytes]) -> Iterator[Piece]:
    """Yield all pieces of a body that comes in these chunks; the last one is its end."""
    for chunk in chunks:
        yield from reader.feed(chunk)
    end = yield from reader.finish()
    assert end is not None, "the stream has no end"
    yield end


def reader_of(api: str) -> StreamReader:
    """Return a new reader of an API's stream."""
    return StreamReader(decoder_of(api), provider=api, longest=LONGEST)


def turn_of(api: str, *chunks: bytes) -> ModelTurn:
    """Return the turn in a body that comes in these chunks."""
    reader = reader_of(api)
    assert list(read(reader, list(chunks)))
    return reader.turn()


def as_events(*events: object) -> bytes:
    """Write a body: JSON values, or texts as they are."""
    written = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join([f"data: {each}\n\n" for each in written]).encode()


# What follows puts an answer together.


def decoded_whole(api: str, body: bytes) -> ModelTurn:
    """Return what blocking `decode` makes of a streamed answer put together."""
    events = [event for event in _events(body) if event is not None]
    match api:
        case "openai-responses":  # its last event has the answer whole
            return responses_answer.decode(events[-1]["response"])
        case "anthropic":
            return anthropic_wire.decode(whole_message(events))
        case "gemini" | "vertex":
            return google_wire.decode(whole_response(events))
        case _:
            return openai_wire.decode(whole_completion(events))


def _events(body: bytes) -> list[Any]:
    found: list[Any] = []
    for block in re.split("\n\n", body.decode().replace("\r\n", "\n")):
        data = "\n".join([line[5:] for line in block.split("\n") if line.startswith("data:")]).strip()
        if data and data != "[DONE]":
            found.append(json.loads(data))
    return found


def whole_completion(chunks: list[dict[str, Any]]) -> JsonObject:
    """Put the chunks of a chat completion together."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    made: dict[str, Any] = {"choices": [{"index": 0, "message": message, "finish_reason": None}]}
    for chunk in chunks:
        made |= {key: chunk[key] for key in ("id", "model", "usage") if chunk.get(key)}
        for choice in [each for each in chunk.get("choices") or () if each.get("index", 0) == 0]:
            made["choices"][0]["finish_reason"] = choice.get("finish_reason")
            delta: dict[str, Any] = choice.get("delta") or {}
            for key in ("content", "reasoning_content", "reasoning", "refusal"):
                if delta.get(key):
                    message[key] = (message.get(key) or "") + delta[key]
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(piece["index"], {"id": "", "function": {"name": "", "arguments": ""}})
                call["id"] = piece.get("id") or call["id"]
                call["function"]["name"] = piece["function"].get("name") or call["function"]["name"]
                call["function"]["arguments"] += piece["function"].get("arguments") or ""
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return made


def whole_message(events: list[dict[str, Any]]) -> JsonObject:
    """Put the events of an Anthropic message together."""
    made: dict[str, Any] = {}
    inputs: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                made = {**event["message"], "content": []}
            case "content_block_start":
                made["content"].append(dict(event["content_block"]))
            case "content_block_delta":
                block, delta = made["content"][event["index"]], event["delta"]
                match delta["type"]:
                    case "text_delta":
                        block["text"] += delta["text"]
                    case "thinking_delta":
                        block["thinking"] += delta["thinking"]
                    case "citations_delta":
                        block["citations"] = [*block["citations"], delta["citation"]]
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case "input_json_delta":
                        inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
                    case _:
                        pass
            case "message_delta":
                made |= event["delta"]
                made["usage"] |= {key: value for key, value in event["usage"].items() if value is not None}
            case _:
                pass
    for index, given in inputs.items():
        made["content"][index]["input"] = json.loads(given or "{}")
    return made


def whole_response(chunks: list[dict[str, Any]]) -> JsonObject:
    """Put the chunks of a generateContent stream together."""
    parts: list[dict[str, Any]] = []
    candidate: dict[str, Any] = {"content": {"parts": parts}}
    made: dict[str, Any] = {"candidates": [candidate]}
    for chunk in chunks:
        made |= {key: value for key, value in chunk.items() if key != "candidates"}
        for part in chunk["candidates"][0].get("content", {}).get("parts", []):
            if parts and _continues(parts[-1], part):
                parts[-1]["text"] += part["text"]
            elif part != {"text": ""}:
                parts.append(dict(part))
        candidate |= {key: value for key, value in chunk["candidates"][0].items() if key != "content"}
    return made


def _continues(last: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    return (
        "text" in last
        and "text" in part
        and last.get("thought") == part.get("thought")
        and not {"thoughtSignature"} & (set(last) | set(part))
    )
