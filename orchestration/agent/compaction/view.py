"""The messages of a request: a summary stands in place of the oldest ones, and old tool results are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.orchestration.agent.context_state import ContextState, ShownMessages
from understudy.orchestration.agent.state import Transcript
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
    view = _view(state, context)
    return Transcript(view.messages, len(view.messages))


def shown_until(state: RunState, context: ContextState, end: int) -> Sequence[Message]:
    """Return what requests show of the first `end` messages. A summary joins the user's message that follows it."""
    if end <= context.upto:
        return _made(state, context, end)
    view = _view(state, context)
    return view.messages[: len(view.messages) - (view.upto - end)]


def _view(state: RunState, context: ContextState) -> ShownMessages:
    """Return what requests show now; only messages that are new, or newly left out, are looked at again."""
    messages = state.messages
    made_by = (context.upto, context.summary, context.keeps_input, context.longest, context.shortened)
    view: ShownMessages | None = getattr(context, "view", None)
    made: list[Message] = []
    if view is not None and view.history is messages and view.made_by == made_by and view.upto > context.upto:
        first = view.upto if view.pruned == context.pruned else view.pruned
        if context.upto < first and view.pruned <= context.pruned:
            made = view.messages if first == view.upto else view.messages[: first - view.upto]
            made += [_reduced(context, i, messages[i]) for i in range(first, len(messages))]
    made = made or _made(state, context, len(messages))
    context.keep(ShownMessages(made_by, context.pruned, messages, len(messages), made))
    return context.view


def _made(state: RunState, context: ContextState, end: int) -> list[Message]:
    rest = [_reduced(context, i, state.messages[i]) for i in range(context.upto, end)]
    if not context.upto:
        return rest
    lead: tuple[Part, ...] = (summary_part(context.summary),)
    if state.start < context.upto and context.keeps_input:
        lead += (TextPart(TASK_INTRO), *state.messages[state.start].parts)
    if rest and rest[0].role == "user":
        lead += rest[0].parts
        rest = rest[1:]
    return [Message("user", lead), *rest]


def _reduced(context: ContextState, index: int, message: Message) -> Message:
    if index >= context.pruned and (not context.longest or index >= context.shortened) or not message.tool_results:
        return message
    parts = tuple([_reduced_part(context, index, part) for part in message.parts])
    return message if parts == message.parts else Message(message.role, parts, message.dialect)


def _reduced_part(context: ContextState, index: int, part: Part) -> Part:
    if type(part) is not ToolResult:
        return part
    if index < context.pruned and is_prunable(part):
        note = PRUNED.format(length=len(part.content))  # below, `replace` would take five times as long
        return ToolResult(part.call_id, note, part.is_error, part.error_kind, part.name)
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
