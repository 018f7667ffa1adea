"""Turns messages into the input items of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from understudy.providers.openai.sent_messages import AUDIO, IMAGES, data_url, sent_arguments
from understudy.providers.wire.json_values import own_fields_of, sendable_name, text
from understudy.providers.wire.result_parts import split
from understudy.vocabulary.media import Media
from understudy.vocabulary.messages import (
    FilePart,
    ImagePart,
    JsonObject,
    JsonValue,
    Message,
    OpaquePart,
    TextPart,
    ToolCall,
    ToolResult,
)

DIALECT = "openai-responses"
REASONING = "reasoning"
PDF = "application/pdf"


def items_of(messages: Sequence[Message], *, official: bool, reasons: bool, store: bool) -> list[JsonObject]:
    """Return the items of a whole history.

    Args:
        official: whether the request goes to OpenAI itself.
        reasons: whether the model takes reasoning.
        store: whether OpenAI keeps answers, and so knows reasoning that came without its encrypted content.

    Raises:
        ValueError: the API lacks a part.
    """
    items: list[JsonObject] = []
    for message in messages:
        if message.role == "user":
            items += _user(message)
        else:
            items += _assistant(message, official, lambda item: _is_known(item, official, reasons, store))
    return items


# --- what users and tools say


def _user(message: Message) -> list[JsonObject]:
    """Write results first, then the items of the user's own, then the content."""
    items = [_result(result) for result in message.tool_results]
    content: list[JsonObject] = []
    for part in message.parts:
        match part:
            case OpaquePart(data=data) if message.dialect in ("", DIALECT):
                (content if text(data, "type").startswith("input_") else items).append(data)
            case TextPart() | ImagePart() | FilePart():
                content.append(_content(part))
            case _:
                pass
    if len(content) == 1 and set(content[0]) == {"type", "text"}:
        items.append({"role": "user", "content": content[0]["text"]})
    elif content or not items:
        items.append({"role": "user", "content": content or ""})
    return items


def _result(result: ToolResult) -> JsonObject:
    words, parts = split(result, _takes)
    shown: list[JsonValue] = [_content(part) for part in (TextPart(words), *parts) if part != TextPart("")]
    return {"type": "function_call_output", "call_id": result.call_id, "output": shown if parts else words}


def _takes(part: Media) -> bool:
    """Whether a result may hold this part, by type (OpenAI API, Function calling; Images and vision; File inputs)."""
    if part.url:
        return isinstance(part, ImagePart) or part.media_type in (*IMAGES, PDF)
    return part.media_type in (*IMAGES, PDF)


def _content(part: TextPart | Media) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, ImagePart) or part.media_type.startswith("image/"):
        return {"type": "input_image", "image_url": part.url or data_url(part.media_type, part.data), "detail": "auto"}
    if part.media_type in AUDIO:
        raise ValueError(f"openai responses: a file must not be sound, got {part.media_type}; use us.OpenAI(…) for it")
    if part.url:
        return {"type": "input_file", "file_url": part.url}
    return {"type": "input_file", "filename": part.name or "file", "file_data": data_url(part.media_type, part.data)}


# --- what the model said


def _is_known(item: JsonObject, official: bool, reasons: bool, store: bool) -> bool:
    """Whether reasoning can be sent: without its encrypted content it is known only to a server that stored it."""
    return not official or (reasons and (store or bool(item.get("encrypted_content"))))


class _Said:
    """The items of one message of the model.

    OpenAI API, Reasoning: reasoning goes back unchanged before the item that followed it, and is refused alone.
    """

    def __init__(self) -> None:
        self.items: list[JsonObject] = []
        self._reasoning: list[JsonObject] = []
        """Reasoning whose next item has not come."""

    def think(self, item: JsonObject) -> None:
        self._reasoning.append({key: value for key, value in item.items() if value is not None})

    def add(self, item: JsonObject) -> None:
        self.items += [*self._reasoning, item]
        self._reasoning = []

    def skip(self) -> None:
        """Leave out an item, and the reasoning that led to it."""
        self._reasoning = []

    def say(self, part: TextPart) -> None:
        """Add text; texts in a row are one message. A model may label it with a phase, which goes back with it."""
        phase: JsonObject = {"phase": part.signature} if part.signature else {}
        last: JsonObject = self.items[-1] if self.items and not self._reasoning else {}
        if last.get("role") == "assistant" and last.get("phase") == part.signature:
            self.items[-1] = {**last, "content": text(last, "content") + part.text}
        else:
            self.add({"role": "assistant", "content": part.text, **phase})


def _assistant(message: Message, official: bool, is_known: Callable[[JsonObject], bool]) -> list[JsonObject]:
    ours = message.dialect == DIALECT
    said = _Said()
    # A server tool's item is refused without the reasoning before it, so both go or none.
    opaque = [part.data for part in message.parts if type(part) is OpaquePart]
    kept = ours and all(is_known(data) for data in opaque if data.get("type") == REASONING)
    for part in message.parts:
        match part:
            case TextPart() if part.text:
                said.say(part if ours else TextPart(part.text))
            case TextPart():
                said.skip()
            case ToolCall():
                said.add(_call(part, official, own_fields_of(part) if ours and not official else {}))
            case OpaquePart(data=data) if kept and data.get("type") == REASONING:
                said.think(data)
            case OpaquePart(data=data) if kept:
                said.add(data)
            case _:
                pass
    return said.items


def _call(call: ToolCall, official: bool, own: JsonObject) -> JsonObject:
    given = sent_arguments(call, official=official)
    return {**own, "type": "function_call", "call_id": call.id, "name": sendable_name(call.name), "arguments": given}
