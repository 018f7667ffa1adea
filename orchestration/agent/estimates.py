"""Estimates of tokens from the length of texts, for turns whose provider reports no usage while a budget needs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from understudy.vocabulary.context.account import Account
from understudy.vocabulary.messages import (
    FilePart,
    ImagePart,
    ModelTurn,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
)

from .spec import RunSpec
from .state import RunState

CHARACTERS_PER_TOKEN = 4  # English; code and other languages have fewer, so the estimate is too low for them.
CHARACTERS_OF_MEDIA = 4_000  # For a picture or document of any size: about a thousand tokens.


def counted(account: Account, spec: RunSpec, state: RunState, turn: ModelTurn) -> Usage:
    """Return the usage of a turn that is not in the history yet; estimates missing counts if a budget needs them."""
    usage = turn.usage
    if (usage.input_tokens is not None and usage.output_tokens is not None) or not account.counts_tokens():
        return usage
    asked = usage.input_tokens
    if asked is None:
        told = sum([len(tool.name) + len(tool.description) + len(str(tool.schema)) for tool in spec.tools])
        asked = _tokens(len(state.system) + told + sum([_length(message.parts) for message in state.messages]))
    answered = _tokens(_length(turn.parts)) if usage.output_tokens is None else usage.output_tokens
    return replace(usage, input_tokens=asked, output_tokens=answered, estimated=True)


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def _length(parts: Iterable[Part]) -> int:
    return sum([_length_of(part) for part in parts])


def _length_of(part: Part) -> int:
    match part:
        case ImagePart() | FilePart():
            return CHARACTERS_OF_MEDIA
        case ToolResult(content=content):
            return len(content)
        case ReasoningPart(text=text, redacted=redacted):
            return len(text) + len(redacted or "")
        case OpaquePart(data=data):
            return len(str(data))
        case TextPart(text=text):
            return len(text)
        case ToolCall(name=name, arguments=arguments, bad_arguments=bad):
            return len(name) + len(str(arguments) if bad is None else bad)
