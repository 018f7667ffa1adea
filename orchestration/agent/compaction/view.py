"""The messages of a request: a summary stands in place of the oldest ones, and old tool results are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.orchestration.agent.context_state import ContextState
from understudy.orchestration.agent.transcript import Transcript
from understudy.vocabulary.messages import Message, Part, TextPart, ToolResult
from understudy.vocabulary.runs.compaction import summary_part

if TYPE_CHECKING:
    from understudy.orchestration.agent.state import RunState

PRUNED = "[This result of {length:,} characters was left out to save space.]"
CUT = "\n[… {left:,} characters were left out to save space …]\n"
TASK_INTRO = "The request that is being worked on, word for word:\n\n"
WORTH_PRUNING = 200  # Characters; the note in place of a result has about 70.


def shown(state: RunState) -> Sequence[Message]:
    """Return the messages of the next request: all of them, or those that a compaction left."""
    messages, context = state.messages, state.context
    if context is None or not (context.upto or context.pruned or context.longest):
        return Transcript(messages, len(messages))
    return shown_until(state, context, len(messages))


def shown_until(state: RunState, context: ContextState, end: int) -> tuple[Message, ...]:
    """Return what requests show of the first `end` messages. A summary joins the user's message that follows it."""
    rest = [_reduced(context, i, state.messages[i]) for i in range(context.upto, end)]
    if not context.upto:
        return tuple(rest)
    lead: tuple[Part, ...] = (summary_part(context.summary),)
    if state.start < context.upto and context.keeps_input:
        lead += (TextPart(TASK_INTRO), *state.messages[state.start].parts)
    if rest and rest[0].role == "user":
        lead += rest[0].parts
        rest = rest[1:]
    return (Message("user", lead), *rest)


def _reduced(context: ContextState, index: int, message: Message) -> Message:
    if index >= context.pruned and (not context.longest or index >= context.shortened):
        return message
    parts = tuple([_reduced_part(context, index, part) for part in message.parts])
    return message if parts == message.parts else Message(message.role, parts, message.dialect)


def _reduced_part(context: ContextState, index: int, part: Part) -> Part:
    if type(part) is not ToolResult:
        return part
    if index < context.pruned and is_prunable(part):
        return replace(part, content=PRUNED.format(length=len(part.content)), parts=())
    if context.longest and index < context.shortened and (len(part.content) > context.longest or part.parts):
        return replace(part, content=cut_short_text(part.content, context.longest), parts=())
    return part


def is_prunable(part: Part) -> bool:
    """Whether a request gets shorter by leaving this part out."""
    return type(part) is ToolResult and (len(part.content) > WORTH_PRUNING or bool(part.parts))


def cut_short_text(text: str, longest: int) -> str:
    """Return the beginning and the end of a text that is longer than `longest` characters, with a note between."""
    if len(text) <= longest:
        return text
    half = max(1, longest // 2)
    return text[:half] + CUT.format(left=len(text) - 2 * half) + text[-half:]
