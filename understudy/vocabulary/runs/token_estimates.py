"""Estimates of tokens from the length of texts, for messages whose tokens no provider has counted."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.vocabulary.messages import (
    FilePart,
    ImagePart,
    Message,
    MetadataPart,
    ModelRequest,
    OpaquePart,
    OutputSpec,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
    ToolSpec,
)

CHARACTERS_PER_TOKEN = 4  # English; code and other languages have fewer, so the estimate is too low for them.
CHARACTERS_OF_MEDIA = 4_000  # For a picture or document of any size: about a thousand tokens.
TOKENS_OF_MESSAGE = 4  # For its role, and for the marks between messages.


def request_tokens(request: ModelRequest) -> int:
    """Estimate the tokens of a request: system prompt, tools, output type and messages."""
    return frame_tokens(request.system, request.tools, request.output) + messages_tokens(request.messages)


def frame_tokens(system: str, tools: Iterable[ToolSpec], output: OutputSpec | None) -> int:
    """Estimate the tokens of a request without its messages."""
    told = sum([len(tool.name) + len(tool.description) + len(str(tool.schema)) for tool in tools])
    typed = 0 if output is None or output.tool else len(str(output.schema))
    return tokens_in(len(system) + told + typed)


def messages_tokens(messages: Iterable[Message]) -> int:
    """Estimate the tokens of messages."""
    return sum([TOKENS_OF_MESSAGE + tokens_in(length_of(message.parts)) for message in messages])


def tokens_in(characters: int) -> int:
    """Estimate the tokens of a text of this length."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def length_of(parts: Iterable[Part]) -> int:
    """Return the length of parts in characters."""
    return sum([_length_of(part) for part in parts])


def _length_of(part: Part) -> int:
    match part:
        case ImagePart() | FilePart():
            return CHARACTERS_OF_MEDIA
        case ToolResult(content=content, parts=parts):
            return len(content) + CHARACTERS_OF_MEDIA * len(parts)
        case ReasoningPart(text=text, redacted=redacted):
            return len(text) + len(redacted or "")
        case OpaquePart(data=data):
            return len(str(data))
        case TextPart(text=text):
            return len(text)
        case MetadataPart():
            return 0
        case ToolCall(name=name, arguments=arguments, bad_arguments=bad):
            return len(name) + len(str(arguments) if bad is None else bad)
