"""Google's generateContent on the wire, for Gemini and Vertex AI: writes request bodies, reads neutral turns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from understudy.providers.wire.endings import neutral
from understudy.providers.wire.json_values import (
    WrongShape,
    as_object,
    as_text,
    count,
    inner,
    is_repeated,
    items,
    kept,
    object_in,
    place_of,
    sendable,
    sendable_name,
    text,
    text_in,
    total,
)
from understudy.providers.wire.result_parts import introduced, split
from understudy.providers.wire.settings import asks_for_tools, lay_over, refuse
from understudy.vocabulary.json_reading import arguments
from understudy.vocabulary.media import Media
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
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
)

from .grounding import MetadataCollector
from .settings import settings_fields

DIALECT = "google"
REASONS: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "blocked",
    "RECITATION": "blocked",
    "BLOCKLIST": "blocked",
    "PROHIBITED_CONTENT": "blocked",
    "SPII": "blocked",
    "MODEL_ARMOR": "blocked",
    "IMAGE_SAFETY": "blocked",
    "IMAGE_PROHIBITED_CONTENT": "blocked",
    "IMAGE_RECITATION": "blocked",
    "LANGUAGE": "blocked",
    "FUNCTION_CALL": "tool_calls",
}
"""Gemini API, GenerateContentResponse, FinishReason; Google may add reasons."""
UNSPECIFIED = "FINISH_REASON_UNSPECIFIED"
RUNNABLE = ("", "STOP", "MAX_TOKENS", UNSPECIFIED, "OTHER", "FUNCTION_CALL")
"""Finish reasons of a turn whose calls may run; any other reason means that a call is faulty.

`FUNCTION_CALL` is not in Google's list; some compatible servers send it.
"""
IMAGES = ("image/jpeg", "image/png", "image/webp", "image/heic", "image/heif")
MEDIA = ("application/pdf", "audio/", "video/")
UNSIGNED = "skip_thought_signature_validator"
"""Gemini API, Thought signatures, FAQs: from Gemini 3 on, the signature for a call of a model that gave none."""


def encode(request: ModelRequest, model: str, *, provider: str) -> JsonObject:
    """Return the body for `request`.

    Raises:
        ValueError: the API lacks a setting or part.
    """
    contents: list[JsonValue] = []
    calls: dict[str, ToolCall] = {}
    echoed: set[str] = set()
    for message in request.messages:
        if message.role == "user":
            parts = _user(message, calls, echoed)
        else:
            parts = _model(message, _wants_signatures(model))
            calls = {call.id: call for call in message.tool_calls}
            echoed = {call.id for call in message.tool_calls if _echoes(message, call)}
        if parts:
            contents.append({"role": "user" if message.role == "user" else "model", "parts": parts})
    body: dict[str, JsonValue] = {"contents": contents}
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        body["tools"] = [
            {"functionDeclarations": [_declaration(t.name, t.description, t.schema) for t in request.tools]}
        ]
    settings = request.settings
    has_tools = bool(request.tools) or asks_for_tools(settings.extra)
    body.update(settings_fields(settings, model, has_tools=has_tools, provider=provider, output=request.output))
    whole = lay_over(body, settings.extra, merged=("generationConfig",))
    calling = inner(inner(whole, "toolConfig"), "functionCallingConfig")
    if calling.get("streamFunctionCallArguments"):
        refuse(provider, "reading of calls in pieces", "leave streamFunctionCallArguments out of extra")
    if "cachedContent" in body:
        _refuse_beside_cache(whole, provider)
    return whole


def _refuse_beside_cache(body: Mapping[str, JsonValue], provider: str) -> None:
    """Gemini API, Context caching: a cache brings its own system prompt and tools, and the request may have none."""
    there = [name for name in ("systemInstruction", "tools", "toolConfig") if body.get(name) is not None]
    if there:
        raise ValueError(
            f"settings: {provider}: a request with the name of a cache may have no {' and no '.join(there)}; "
            "put them into the cache when you make it, and leave the agent's system prompt and tools out"
        )


def _declaration(name: str, description: str, schema: JsonObject) -> JsonObject:
    about: dict[str, JsonValue] = {"description": description} if description else {}
    return {"name": name, **about, "parametersJsonSchema": schema}


def _user(message: Message, calls: dict[str, ToolCall], echoed: set[str]) -> list[JsonValue]:
    results: list[JsonValue] = []
    shown: list[Part] = []
    for result in message.tool_results:
        words, parts = split(result, _takes)
        results.append(_result(result, words, calls, echoed))
        shown += (TextPart(introduced(result)), *parts) if parts else ()
    others = [_content(part, DIALECT) for part in shown] + [_content(part, message.dialect) for part in message.parts]
    found = results + [part for part in others if part]
    return found or [{"text": ""}]  # a content needs at least one part, which may be empty here


def _takes(part: Media) -> bool:
    """Whether the API accepts this part beside text, by type (Gemini API, Image, document, audio, video understanding).

    Parts go beside the results: only Gemini 3 reads parts inside them (Function calling, Multimodal function responses).
    """
    return part.media_type in IMAGES or part.media_type.startswith(MEDIA)


def _result(result: ToolResult, words: str, calls: dict[str, ToolCall], echoed: set[str]) -> JsonObject:
    """Gemini API, Function calling: results match calls by name and order; an id is sent only if the call had one."""
    name = result.name or (calls[result.call_id].name if result.call_id in calls else "")
    if not name and result.call_id not in calls:  # a model may call a tool without a name
        raise ValueError(f"google: the result of call {result.call_id!r} must bear the tool's name")
    response: JsonObject = {"error" if result.is_error else "result": words}
    given: dict[str, JsonValue] = {"id": result.call_id} if result.call_id in echoed else {}
    return {"functionResponse": {**given, "name": sendable_name(name), "response": response}}


def _content(part: Part, dialect: str) -> JsonObject | None:
    """Return a user's part; None for an empty text, which the API refuses, and for a part made for another API."""
    match part:
        case TextPart(text=words):
            return {"text": words} if words else None
        case ImagePart() | FilePart() if part.url:
            return {"fileData": {"mimeType": part.media_type, "fileUri": part.url}}
        case ImagePart() | FilePart():
            return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
        case OpaquePart():
            return part.data if dialect in ("", DIALECT) else None
        case _:
            return None


def _model(message: Message, signed: bool) -> list[JsonValue]:
    ours = message.dialect == DIALECT
    sent: list[JsonValue] = []
    stand_in = UNSIGNED if signed else None
    for part in message.parts:
        match part:
            case TextPart(text=words, signature=signature) if words or (signature is not None and ours):
                sent.append(_signed({"text": words}, signature if ours else None))
            case ReasoningPart(signature=signature) if ours:
                sent.append(_signed({"text": part.text, "thought": True}, signature))
            case ToolCall(signature=signature):
                given: dict[str, JsonValue] = {"id": part.id} if _echoes(message, part) else {}
                call: JsonObject = {**given, "name": sendable_name(part.name), "args": sendable(part)}
                sent.append(_signed({"functionCall": call}, (signature if ours else None) or stand_in))
                stand_in = None  # only the first of parallel calls has a signature
            case OpaquePart() if ours:
                sent.append(part.data)
            case _:
                pass
    return sent


def _echoes(message: Message, call: ToolCall) -> bool:
    return message.dialect == DIALECT and bool(call.id) and not call.made_up_id


def _wants_signatures(model: str) -> bool:
    version = re.search(r"gemini-(\d+)", model)
    return version is not None and int(version.group(1)) >= 3


def _signed(part: JsonObject, signature: str | None) -> JsonObject:
    return part if signature is None else {**part, "thoughtSignature": signature}


def decode(body: JsonObject) -> ModelTurn:
    """Return the turn in a response body.

    Raises:
        WrongShape: the body is not an answer of generateContent.
    """
    candidates = items(body, "candidates", "candidates")
    block = text(inner(body, "promptFeedback"), "blockReason")
    if not (candidates or block or "candidates" in body or "usageMetadata" in body):
        came = ", ".join(sorted(body)[:8]) or "nothing"
        raise WrongShape(f"candidates must hold at least one, or promptFeedback a blockReason; got a body with {came}")
    # Gemini API, Candidate: content, its parts and the finish reason may be absent. Without a candidate the turn ended without a reason.
    candidate = as_object(candidates[0] if candidates else {}, "candidates[0]")
    place_of(candidate, "index", "candidates[].index")
    content = object_in(candidate, "content", "content")
    found = (part_in(as_object(p, "content.parts[]")) for p in items(content, "parts", "content.parts"))
    calls: list[ToolCall] = []
    parts = tuple(part for part in found if part is not None and not is_repeated(part, calls))
    finish = text_in(candidate, "finishReason", "finishReason")
    raw = raw_reason(finish, block) or None
    metadata = MetadataCollector()
    metadata.take(candidate)
    metadata.take_feedback(body)
    parts = (*_with_citations(parts, metadata), *metadata.parts(blocked=is_blocked(finish, block)))
    return ModelTurn(
        parts,
        usage_in(body),
        reason_of(raw or "", parts),
        raw,
        dialect=DIALECT,
        model=text(body, "modelVersion"),
        response_id=text(body, "responseId"),
    )


def _with_citations(parts: tuple[Part, ...], metadata: MetadataCollector) -> Iterator[Part]:
    citations = metadata.citations([part.text for part in parts if type(part) is TextPart])
    position = 0
    for part in parts:
        if type(part) is TextPart:
            given = citations.get(position, ())
            yield TextPart(part.text, part.signature, citations=given) if given else part
            position += 1
        else:
            yield part


def is_blocked(finish: str, block: str) -> bool:
    """Whether a finish reason, or that of a blocked prompt, means that Google held something back."""
    return REASONS.get(finish) == "blocked" or bool(block)


def raw_reason(finish: str, block: str) -> str:
    """Return the finish reason in Google's words: that of the candidate, else why the prompt was blocked."""
    return finish or (f"blocked:{block}" if block else "")


def reason_of(raw: str, parts: tuple[Part, ...]) -> FinishReason:
    """Return our finish reason; `raw` is what `raw_reason` returned."""
    has_calls = any(type(part) is ToolCall for part in parts)
    if raw.startswith("blocked:") or (has_calls and raw not in RUNNABLE):
        return "blocked"
    if has_calls:
        return "tool_calls"
    return neutral("" if raw == UNSPECIFIED else raw, REASONS, parts)


def part_in(part: JsonObject) -> Part | None:
    """Return a part of the model's answer; None for an empty text without a signature."""
    signature = text(part, "thoughtSignature") or None
    if part.get("functionCall") is not None:
        if text(part, "text"):
            raise WrongShape("content.parts[] must hold either text or a functionCall, got both")
        call = as_object(part["functionCall"], "content.parts[].functionCall")
        if call.get("partialArgs") or call.get("willContinue"):  # asked for by streamFunctionCallArguments
            raise WrongShape("content.parts[].functionCall must come whole, got a piece of its arguments")
        given, bad = arguments(call.get("args"))
        return ToolCall(
            text(call, "id"), as_text(call.get("name"), "functionCall.name"), given, bad, signature=signature
        )
    if part.get("text") is not None:
        words = as_text(part["text"], "content.parts[].text")
        thought = part.get("thought")
        if not (thought is None or isinstance(thought, bool)):
            raise WrongShape(f"content.parts[].thought must be true or false, got {thought!r}"[:200])
        if thought:
            return ReasoningPart(words, signature)
        return TextPart(words, signature) if words or signature else None
    return OpaquePart(kept(part, "content.parts[]"))


def usage_in(body: JsonObject) -> Usage:
    """Return the tokens that a response body, or a chunk of a stream, counts.

    Gemini API, UsageMetadata: the candidates' count excludes thoughts, the prompt's count excludes server tool results.
    """
    usage = inner(body, "usageMetadata")
    thoughts = count(usage, "thoughtsTokenCount")
    return Usage(
        input_tokens=total(count(usage, "promptTokenCount"), count(usage, "toolUsePromptTokenCount")),
        output_tokens=total(count(usage, "candidatesTokenCount"), thoughts),
        cached_tokens=count(usage, "cachedContentTokenCount"),
        reasoning_tokens=thoughts,
        raw=kept(usage, "usageMetadata"),
    )
