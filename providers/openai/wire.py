"""OpenAI's chat completions on the wire: writes request bodies, and reads response bodies into neutral turns."""

from __future__ import annotations

from typing import cast

from understudy.providers.wire.endings import neutral
from understudy.providers.wire.json_values import (
    WrongShape,
    as_object,
    as_text,
    count,
    inner,
    is_array,
    items,
    kept,
    object_in,
    place_of,
    text,
    text_in,
)
from understudy.providers.wire.output_formats import openai_format, strict_fields
from understudy.providers.wire.settings import asks_for_tools, lay_over
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.json_reading import arguments_text
from understudy.vocabulary.messages import (
    FinishReason,
    JsonObject,
    JsonValue,
    ModelRequest,
    ModelTurn,
    OpaquePart,
    Part,
    ReasoningPart,
    Settings,
    TextPart,
    ToolSpec,
    Usage,
)

from .annotations import MetadataCollector, annotations_in, citations_of, others_in, pages_in
from .sent_messages import DIALECT, ECHOED, REASONING, messages_of, thoughts_in
from .settings import chat_fields, family, prompt_cache
from .stream_calls import NONE, StreamedCalls, own_fields

REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "blocked",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    # Words of compatible servers: Hugging Face TGI, Together, Mistral, Z.ai, and gateways that pass on another API's own.
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "complete": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "sensitive": "blocked",
    "safety": "blocked",
    "refusal": "blocked",
    "tool_use": "tool_calls",
    "tool_call": "tool_calls",
}
"""OpenAI API, Chat completions, `finish_reason`; written in any case."""


def encode(
    request: ModelRequest,
    model: str,
    *,
    official: bool,
    echo: str = ECHOED,
    provider: str = DIALECT,
    dialect: str = DIALECT,
) -> JsonObject:
    """Return the body for `request`.

    Args:
        official: whether the request goes to OpenAI itself: it refuses `max_tokens` for reasoning models, while compatible
            servers may know only that (OpenAI API, Chat completions: `max_completion_tokens`).
        echo: the field in which a compatible server takes reasoning back; empty for none.
        provider: the name in errors.
        dialect: that of the server's own turns.

    Raises:
        ValueError: the API lacks a setting or part.
    """
    messages = messages_of(request, official=official, echo=echo, dialect=dialect)
    body: dict[str, JsonValue] = {"model": model, "messages": messages}
    settings = request.settings
    if request.tools:
        body["tools"] = [_tool(tool, settings) for tool in request.tools]
    has_tools = bool(request.tools) or asks_for_tools(settings.extra)
    body.update(chat_fields(settings, model, has_tools=has_tools, official=official, provider=provider))
    body.update(prompt_cache(request, family(model, official=official)))
    body.update(openai_format(request.output))
    return lay_over(body, settings.extra)


def _tool(tool: ToolSpec, settings: Settings) -> JsonObject:
    about: dict[str, JsonValue] = {"description": tool.description} if tool.description else {}
    fields = strict_fields(tool, settings, "parameters", all_required=True)
    return {"type": "function", "function": {"name": tool.name, **about, **fields}}


def decode(body: JsonObject, dialect: str = DIALECT, field: str = "") -> ModelTurn:
    """Return the turn in a response body, of the server's dialect; `field` is as of `thoughts_in`.

    Raises:
        WrongShape: the body is not a chat completion.
    """
    if "choices" not in body and "usage" not in body:
        raise WrongShape(f"choices must be an array, got a body with {', '.join(sorted(body)[:8]) or 'nothing'}")
    # OpenRouter and gateways: a model that failed may have no choice at all, which is a turn that ended without a reason.
    choice = next(iter(choices_in(body)), NONE)
    # Azure OpenAI, Content filtering: a filtered choice can lack its message.
    message = object_in(choice, "message", "message")
    annotations = annotations_in(message) or pages_in(body)
    texts = _with_citations(_texts(message.get("content")), citations_of(annotations))
    metadata = MetadataCollector()
    metadata.take(choice)
    kept_parts = _kept(message, others_in(annotations))
    parts = (*_thoughts(message, field), *texts, *metadata.parts(), *kept_parts, *_calls(message))
    raw = text(choice, "finish_reason") or None
    refused = text_in(message, "refusal", "message.refusal")
    return ModelTurn(
        parts,
        usage_in(body),
        reason_of(raw or "", refused, parts, has_message=choice.get("message") is not None),
        raw,
        refusal=refused,
        dialect=dialect,
        model=text(body, "model"),
        response_id=text(body, "id"),
    )


def choices_in(body: JsonObject) -> list[JsonObject]:
    """Return the choices of a response body, or of a chunk of a stream, by their indexes."""
    found = [as_object(entry, "choices[]") for entry in items(body, "choices", "choices")]
    if len(found) > 1:
        found.sort(key=lambda choice: place_of(choice, "index", "choices[].index") or 0)
    return found


def reason_of(raw: str, refused: str, parts: tuple[Part, ...], *, has_message: bool) -> FinishReason:
    """Return our finish reason; `raw` is the API's own, and empty if it gave none. Without a message there is no answer."""
    reason = neutral((raw or ("stop" if refused else "")).lower(), REASONS, parts)
    return "other" if reason == "stop" and not has_message else reason


def _thoughts(message: JsonObject, field: str) -> list[Part]:
    words, name = thoughts_in(message, field)
    return [ReasoningPart(words, None if name == REASONING else name)] if words else []


def _texts(content: JsonValue) -> list[Part]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [TextPart(content)]
    if not is_array(content):
        raise WrongShape("message.content must be a string, an array or null")
    return [_block(as_object(block, "message.content[]")) for block in content]


def _block(block: JsonObject) -> Part:
    """Mistral API, Chat: content may be a list of text, thinking and other chunks."""
    if block.get("type") == "text":
        return TextPart(text_in(block, "text", "message.content[].text"))
    return OpaquePart(kept(block, "message.content[]"))


def _with_citations(texts: list[Part], citations: tuple[Citation, ...]) -> list[Part]:
    """Give the citations to the first text: only servers that send one text send citations."""
    first = next((number for number, part in enumerate(texts) if type(part) is TextPart), None)
    if citations and first is not None:
        texts[first] = TextPart(cast(TextPart, texts[first]).text, citations=citations)
    return texts


def _kept(message: JsonObject, others: JsonObject) -> list[Part]:
    """OpenRouter API, Reasoning tokens: `reasoning_details` go back as they came."""
    details = message.get("reasoning_details")
    fields: JsonObject = {"reasoning_details": details, **others} if details else others
    return [OpaquePart(kept(fields, "message.reasoning_details"))] if fields else []


def _calls(message: JsonObject) -> list[Part]:
    calls = StreamedCalls()
    for number, entry in enumerate(items(message, "tool_calls", "message.tool_calls")):
        call = as_object(entry, "message.tool_calls[]")
        _add_call(calls, number, call, as_object(call.get("function"), "message.tool_calls[].function"))
    legacy = object_in(message, "function_call", "message.function_call")
    if not calls and legacy:
        _add_call(calls, 0, {}, legacy)
    return list(calls.whole().values())


def _add_call(calls: StreamedCalls, number: int, call: JsonObject, function: JsonObject) -> None:
    name = as_text(function.get("name"), "a tool call's name")
    calls.add(number, arguments_text(function.get("arguments")), text(call, "id"), name, own_fields(call))


def usage_in(body: JsonObject) -> Usage:
    """Return the tokens that a response body, or a chunk of a stream, counts."""
    usage = inner(body, "usage")
    details = inner(usage, "prompt_tokens_details")
    cached, cache_written = count(details, "cached_tokens"), count(details, "cache_write_tokens")
    return Usage(
        input_tokens=count(usage, "prompt_tokens"),
        output_tokens=count(usage, "completion_tokens"),
        # DeepSeek API, Context caching: its own name for cached tokens.
        cached_tokens=count(usage, "prompt_cache_hit_tokens") if cached is None else cached,
        # LiteLLM, Prompt caching: it passes on Anthropic's name.
        cache_write_tokens=count(usage, "cache_creation_input_tokens") if cache_written is None else cache_written,
        reasoning_tokens=count(inner(usage, "completion_tokens_details"), "reasoning_tokens"),
        raw=kept(usage, "usage"),
    )
