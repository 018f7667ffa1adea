"""The places where a history may be cut for a summary: a tool call stays with its result, a turn with its beginning."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.orchestration.agent.context_state import ContextState
from understudy.orchestration.agent.state import RunState
from understudy.vocabulary.messages import Message
from understudy.vocabulary.runs.token_estimates import messages_tokens


def may_cut(state: RunState, context: ContextState, index: int) -> bool:
    """Whether the messages from `index` on make sense without those before it.

    In the given history, a cut is possible before a user's message that answers no tool call, and at the run's input. After
    the input, it is possible before each turn of the model that answers a user's message; a turn that goes on with a
    `paused` one stays with it.
    """
    messages = state.messages
    if index == state.start:
        return True
    if not 0 < index < len(messages):
        return False
    before, message = messages[index - 1], messages[index]
    if index < state.start:
        return message.role == "user" and not message.tool_results and _is_closed(before)
    first = state.start + 1 + context.keeps_input  # a summary of nothing but the input, which is kept, saves nothing
    return index >= first and message.role == "assistant" and before.role == "user"


def _is_closed(message: Message) -> bool:
    return message.role == "assistant" and not message.tool_calls


def cuts_between(state: RunState, context: ContextState, after: int, last: int) -> list[int]:
    """Return the places above `after`, up to and including `last`, in order."""
    return [index for index in range(after + 1, last + 1) if may_cut(state, context, index)]


def tail_start(state: RunState, context: ContextState, tokens: float) -> int:
    """Return the first place after which the messages take at most so many estimated tokens.

    The last place, if even the messages after it take more; `upto` if there is no place.
    """
    places = cuts_between(state, context, context.upto, len(state.messages) - 1)
    found = context.upto
    left, end = tokens, len(state.messages)
    for place in reversed(places):
        left -= messages_tokens(state.messages[place:end])
        end = place
        if left < 0 and found != context.upto:
            break
        found = place
    return found


def covered(state: RunState, context: ContextState, begin: int, end: int) -> Sequence[Message]:
    """Return the messages between two places, which a summary takes in, without an input that requests keep showing."""
    kept = state.start if context.keeps_input else -1
    return [state.messages[i] for i in range(begin, end) if i != kept]
