"""Anthropic's Messages API on the wire: writes request bodies, and reads response bodies into neutral turns."""

from __future__ import annotations

import re

from understudy.providers.wire.endings import neutral
from understudy.providers.wire.json_values import (
    WrongShape,
    as_object,
    as_text,
    beside,
    count,
    inner,
    is_repeated,
    items,
    kept,
    objects,
    own_fields_of,
    sendable,
    sendable_name,
    text,
    text_in,
    total,
    type_in,
    written,
)
from understudy.providers.wire.output_formats import anthropic_format, strict_fields
from understudy.providers.wire.result_parts import split
from understudy.providers.wire.settings import asks_for_tools, lay_over
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.json_reading import arguments
from understudy.vocabulary.media import Media, text_of
from understudy.vocabulary.messages import (
    FilePart,
    FinishReason,
    ImagePart,
    JsonObject,
    JsonValue,
    Message,
    ModelRequest,
    ModelTurn,
    OpaquePart,
    Part,
    ReasoningPart,
    Settings,
    TextPart,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)

from .settings import PROVIDER, mark_of, marked, settings_fields, with_choice_allowed

DIALECT = "anthropic"
REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "blocked",
    "pause_turn": "paused",
}
CALL = ("type", "id", "name", "input")
DIRECT = {"type": "direct"}
"""Anthropic API, Programmatic tool calling: the `caller` of a call that the model made itself, as without one."""
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
PDF = "application/pdf"
UNKNOWN = "application/octet-stream"  # The type of a file given without a type; if it has a URL, it may be a PDF.
NOTHING_SAID = "(empty message)"
"""Sent instead of a user's blank message: the API refuses empty and blank texts, and a request without messages."""
MAX_IMAGE = 5 * 2**20  # Characters of base64; a longer image makes the API refuse the request.
UNFIT_FOR_ID = re.compile(r"[^a-zA-Z0-9_-]")  # Anthropic API, Messages: the only characters in ids of tool calls.


def encode(request: ModelRequest, model: str, provider: str = PROVIDER, *, official: bool = True) -> JsonObject:
    """Return the body for `request`.

    Args:
        provider: who serves the model, for errors.
        official: whether Anthropic's own models are asked, which refuse thinking without a signature; other servers with this
            API give none, and refuse the answer to a call without its thinking.

    Raises:
        ValueError: the API lacks a setting, or settings contradict each other.
    """
    messages: list[JsonValue] = []
    for message in request.messages:
        blocks = _user(message) if message.role == "user" else _assistant(message, official)
        if not blocks and message.role == "user":
            blocks = [{"type": "text", "text": NOTHING_SAID}]
        if blocks:
            messages.append({"role": message.role, "content": blocks})
    body: dict[str, JsonValue] = {"model": model, "messages": messages}
    if request.system.strip():
        body["system"] = request.system
    settings = with_choice_allowed(request, model)
    if request.tools:
        body["tools"] = [_tool(tool, settings) for tool in request.tools]
    has_tools = bool(request.tools) or asks_for_tools(settings.extra)
    body.update(settings_fields(settings, model, has_tools=has_tools, provider=provider))
    mark = mark_of(settings, provider)
    if mark is not None:
        body = marked(body, mark)
    return lay_over(
        lay_over(body, anthropic_format(request.output), merged=("output_config",)),
        settings.extra,
        merged=("output_config", "thinking"),
    )


def _tool(tool: ToolSpec, settings: Settings) -> JsonObject:
    about: dict[str, JsonValue] = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **about, **strict_fields(tool, settings, "input_schema", recursive=False)}


def _user(message: Message) -> list[JsonValue]:
    """Anthropic API, Tool use: results come first in the message."""
    results: list[JsonValue] = [_result(result) for result in message.tool_results]
    others = (_content(part, message.dialect) for part in message.parts)
    return results + [part for part in others if part]


def _result(result: ToolResult) -> JsonObject:
    words, parts = split(result, _takes)
    words = words if words.strip() else ""
    blocks: list[JsonValue] = [_content(part, DIALECT) for part in (TextPart(words), *parts) if part != TextPart("")]
    if result.is_error and not blocks:
        words = NOTHING_SAID  # the API refuses an error without content
    block: dict[str, JsonValue] = {
        "type": "tool_result",
        "tool_use_id": _fitting(result.call_id),
        "content": blocks if parts else words,
    }
    return {**block, "is_error": True} if result.is_error else block


def _takes(part: Media) -> bool:
    """Whether a result may hold this part, by type and size (Anthropic API, Vision and PDF support)."""
    if part.url:
        return isinstance(part, ImagePart) or part.media_type in (*IMAGES, PDF)
    return part.media_type == PDF or (part.media_type in IMAGES and len(part.data) <= MAX_IMAGE)


def _content(part: Part, dialect: str) -> JsonObject | None:
    """Return a user's part; None for a blank text, which the API refuses, and for a part made for another API."""
    match part:
        case TextPart(text=words):
            return {"type": "text", "text": words} if words.strip() else None
        case ImagePart():
            return {"type": "image", "source": _source(part)}
        case FilePart() if part.media_type.startswith("image/"):
            return {"type": "image", "source": _source(part)}
        case FilePart():
            title: dict[str, JsonValue] = {"title": part.name} if part.name else {}
            return {"type": "document", "source": _document(part), **title}
        case OpaquePart():
            return part.data if dialect in ("", DIALECT) else None
        case _:
            return None


def _source(part: ImagePart | FilePart) -> JsonObject:
    if part.url:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.media_type, "data": part.data}


def _document(part: FilePart) -> JsonObject:
    """Anthropic API, PDF support and Citations: a document is a PDF, or text, which is always called `text/plain`."""
    if part.media_type == PDF or (part.url and part.media_type == UNKNOWN):
        return _source(part)
    words = text_of(part)
    if words is None:
        what = f"{part.media_type}, as a URL" if part.url else part.media_type
        raise ValueError(
            f"Anthropic's Messages API: a file must be a PDF, or text as UTF-8 that comes with its data; got {what}"
        )
    return {"type": "text", "media_type": "text/plain", "data": words}


def _assistant(message: Message, official: bool) -> list[JsonValue]:
    ours = message.dialect == DIALECT
    return [block for block in (_said(part, ours, official) for part in message.parts) if block]


def _said(part: Part, ours: bool, official: bool) -> JsonObject | None:
    """Return a part of a model's message; thinking is sent back unchanged or left out."""
    match part:
        case TextPart(text=words):
            return {"type": "text", "text": words, **_cited(part, ours)} if words.strip() else None
        case ToolCall():
            name = sendable_name(part.name)
            call: JsonObject = {"type": "tool_use", "id": _fitting(part.id), "name": name, "input": sendable(part)}
            return {**own_fields_of(part), **call} if ours else call
        case ReasoningPart(redacted=str(data)) if ours:
            return {"type": "redacted_thinking", "data": data}
        case ReasoningPart(signature=str(signature)) if ours:
            return {"type": "thinking", "thinking": part.text, "signature": signature}
        case ReasoningPart(text=words) if ours and words and not official:
            return {"type": "thinking", "thinking": words}
        case OpaquePart() if ours:
            return part.data
        case _:
            return None


def _cited(part: TextPart, ours: bool) -> dict[str, JsonValue]:
    """Return the field with a text's citations, as they came; the API refuses a `file_id` that it sent as null."""
    given = [each.raw for each in part.citations if each.raw] if ours else []
    sent: list[JsonValue] = [{k: v for k, v in raw.items() if k != "file_id" or v is not None} for raw in given]
    return {"citations": sent} if sent else {}


def _fitting(call_id: str) -> str:
    return UNFIT_FOR_ID.sub("_", call_id)


def decode(body: JsonObject) -> ModelTurn:
    """Return the turn in a response body.

    Raises:
        WrongShape: the body is not a message.
    """
    if body.get("content") is None:
        raise WrongShape(f"content must be an array, got a body with {', '.join(sorted(body)[:8]) or 'nothing'}")
    found = [_part(as_object(block, "content[]")) for block in items(body, "content", "content")]
    calls: list[ToolCall] = []
    parts = tuple([part for part in found if not is_repeated(part, calls)])
    raw = text_in(body, "stop_reason", "stop_reason") or None
    return ModelTurn(
        parts,
        usage_in(body),
        neutral(raw or "", REASONS, parts),
        raw,
        refusal=refusal_in(body),
        dialect=DIALECT,
        model=text(body, "model"),
        response_id=text(body, "id"),
    )


def refusal_in(body: JsonObject) -> str:
    """Return the words of a refusal in a response body, or in the `delta` that ends a stream."""
    return text(inner(body, "stop_details"), "explanation") if text(body, "stop_reason") == "refusal" else ""


def _part(block: JsonObject) -> Part:
    match type_in(block, "content[].type"):
        case "text":
            return TextPart(text_in(block, "text", "text.text"), citations=citations_in(block))
        case "thinking":
            return ReasoningPart(text_in(block, "thinking", "thinking.thinking"), text(block, "signature") or None)
        case "redacted_thinking":
            return ReasoningPart(redacted=as_text(block.get("data"), "redacted_thinking.data") or None)
        case "tool_use":
            given, bad = arguments(block.get("input"))
            name = as_text(block.get("name"), "tool_use.name")
            return ToolCall(text(block, "id"), name, given, bad, signature=own_fields(block))
        case _:
            return OpaquePart(kept(block, "content[]"))


def own_fields(block: JsonObject) -> str | None:
    """Return the fields of a call that only the API knows, as JSON, so that they go back; None without one."""
    more = {key: each for key, each in block.items() if key not in CALL and each is not None and each != DIRECT}
    return written(more) if beside(more) else None


def citations_in(block: JsonObject) -> tuple[Citation, ...]:
    """Return the citations of a text block, each of which means the whole block."""
    return tuple(citation(each) for each in objects(block, "citations"))


def citation(given: JsonObject) -> Citation:
    """Return one citation.

    Anthropic API, Citations, Search results and Web search tool: a document has a `document_title`, a page `url` and `title`,
    a search result `source` and `title`. The numbers that it has are places in the source.
    """
    return Citation(
        title=text(given, "document_title") or text(given, "title"),
        url=text(given, "url") or text(given, "source"),
        quote=text(given, "cited_text"),
        raw=beside(given),
    )


def usage_in(body: JsonObject) -> Usage:
    """Return the tokens that a response body counts.

    Anthropic API, Prompt caching: `input_tokens` excludes tokens read from the cache or written to it.
    """
    usage = inner(body, "usage")
    plain = count(usage, "input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    read = count(usage, "cache_read_input_tokens")
    return Usage(
        input_tokens=None if plain is None else total(plain, written, read),
        output_tokens=count(usage, "output_tokens"),
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count(inner(usage, "output_tokens_details"), "thinking_tokens"),
        raw=kept(usage, "usage"),
        cache_write_1h_tokens=count(inner(usage, "cache_creation"), "ephemeral_1h_input_tokens") or None,
    )
