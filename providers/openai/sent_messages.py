"""Writes the messages of a chat completions request."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.providers.wire.json_values import (
    inner,
    is_object,
    own_fields_of,
    sendable,
    sendable_name,
    text,
    written,
)
from understudy.providers.wire.result_parts import introduced, split
from understudy.vocabulary.media import Media
from understudy.vocabulary.messages import (
    FilePart,
    ImagePart,
    JsonObject,
    JsonValue,
    Message,
    ModelRequest,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)

DIALECT = "openai"
"""OpenAI's own; that of a compatible server has the server's name behind it (`compatible.dialect_of`).

Messages that were saved before servers had names have this one, so a compatible server gets their parts back too.
"""
REASONING = "reasoning"
ECHOED = "reasoning_content"
"""Marks reasoning received in the field of this name, to be sent back in the same field.

DeepSeek API, Thinking mode, Tool calls: V4 refuses a request with tools in which a message of the model lacks its reasoning, that of
an answer too; OpenAI has no such field.
"""
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def messages_of(request: ModelRequest, *, official: bool, echo: str, dialect: str) -> list[JsonValue]:
    """Return the messages of a request, its system prompt first; the arguments are those of `wire.encode`.

    Raises:
        ValueError: the API lacks a part.
    """
    messages: list[JsonValue] = []
    if request.system:
        messages.append({"role": "system", "content": request.system})
    for message in request.messages:
        if message.role == "user":
            messages.extend(_user(message, dialect))
        else:
            messages.extend(_assistant(message, dialect, official, echo, has_tools=bool(request.tools)))
    return messages


def _user(message: Message, dialect: str) -> list[JsonValue]:
    """Write results first: each call of a turn must be answered directly after it, with text only.

    OpenAI API, Chat completions: a tool's pictures and documents go into a user's message after all results.
    """
    sent: list[JsonValue] = []
    content: list[JsonObject] = []
    for result in message.tool_results:
        words, parts = split(result, _takes)
        sent.append({"role": "tool", "tool_call_id": result.call_id, "content": words})
        shown = (TextPart(introduced(result)), *parts) if parts else ()
        content += [part for part in (_content(p, ours=True) for p in shown) if part]
    ours = message.dialect in ("", DIALECT, dialect)
    content += [part for part in (_content(p, ours=ours) for p in message.parts if type(p) is not ToolResult) if part]
    if len(content) == 1 and set(content[0]) == {"type", "text"}:
        sent.append({"role": "user", "content": content[0]["text"]})
    elif content:
        sent.append({"role": "user", "content": content})
    elif not sent:
        sent.append({"role": "user", "content": ""})
    return sent


def _takes(part: Media) -> bool:
    """Whether a user's message may hold this part, by type (OpenAI API, Images and vision, File inputs, Audio)."""
    if part.url:
        return isinstance(part, ImagePart) or part.media_type in IMAGES
    return part.media_type in (*IMAGES, "application/pdf", *AUDIO)


def _content(part: Part, *, ours: bool) -> JsonObject | None:
    """Return a user's part; None for a part made for another API."""
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            return {"type": "image_url", "image_url": {"url": part.url or data_url(part.media_type, part.data)}}
        case FilePart() if part.media_type.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": part.url or data_url(part.media_type, part.data)}}
        case FilePart():
            return _file(part)
        case OpaquePart():
            return part.data if ours else None
        case _:
            return None


def _file(part: FilePart) -> JsonObject:
    if not part.data:
        raise ValueError(f"openai: a file must come with its data, not as a URL: {part.url!r}")
    if part.media_type in AUDIO:
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": AUDIO[part.media_type]}}
    name = part.name or "file"
    return {"type": "file", "file": {"filename": name, "file_data": data_url(part.media_type, part.data)}}


def data_url(media_type: str, data: str) -> str:
    """Return data in base64 as a URL."""
    return f"data:{media_type};base64,{data}"


def _assistant(message: Message, dialect: str, official: bool, echo: str, *, has_tools: bool) -> list[JsonValue]:
    # OpenAI API, Chat completions: its own messages have nothing that goes back beside texts and calls.
    ours = not official and message.dialect in (dialect, DIALECT)
    blocks: list[JsonValue] = []
    fields: dict[str, JsonValue] = {}
    for part in message.parts:
        match part:
            case TextPart(text=words) if words:
                blocks.append({"type": "text", "text": words})
            case OpaquePart(data=data) if ours and "type" in data:
                blocks.append(data)
            case OpaquePart(data=data) if ours:
                fields.update(data)
            case _:
                pass
    # Content with nothing but text is sent as a plain string, which every compatible server reads.
    content: JsonValue = message.text if all(_is_text(b) for b in blocks) else blocks
    if message.tool_calls:
        fields["tool_calls"] = [_call(call, official, ours) for call in message.tool_calls]
    if ours and (message.tool_calls or (content and has_tools)):
        fields.update(_echo(message.parts, echo))
    if not content and not fields:
        return []
    # OpenAI API, Chat completions: null beside calls. Compatible servers accept an empty text, and some refuse null.
    return [{"role": "assistant", "content": content or (None if official else ""), **fields}]


def _is_text(block: JsonValue) -> bool:
    return is_object(block) and block.get("type") == "text"


def _call(call: ToolCall, official: bool, ours: bool) -> JsonObject:
    own: JsonObject = own_fields_of(call) if ours else {}
    function: JsonObject = {"name": sendable_name(call.name), "arguments": sent_arguments(call, official=official)}
    return {**own, "id": call.id, "type": "function", "function": {**inner(own, "function"), **function}}


def sent_arguments(call: ToolCall, *, official: bool) -> str:
    """Return the arguments of a call as they are sent back: OpenAI itself accepts any that its model wrote."""
    as_it_was = call.bad_arguments if official else None
    return written(sendable(call)) if as_it_was is None else as_it_was


def _echo(parts: Sequence[Part], field: str) -> dict[str, JsonValue]:
    """A server that takes it back in `ECHOED` gets what came in that field; one that calls it otherwise, all of it."""
    thought = "".join(
        [p.text for p in parts if type(p) is ReasoningPart and (field != ECHOED or p.signature == ECHOED)]
    )
    return {field: thought} if field and thought else {}


def thoughts_in(message: JsonObject, field: str) -> tuple[str, str]:
    """Return the reasoning of a message, or of a piece of one, and the field that has it; some servers send it in two fields.

    Args:
        field: where its server sends it, should that be neither of the usual fields.
    """
    for name in (ECHOED, REASONING) if field in ("", ECHOED, REASONING) else (field, ECHOED, REASONING):
        if text(message, name):
            return text(message, name), name
    return "", ""
