"""The outcome of a run, and the messages that it added to the history."""

from __future__ import annotations

from understudy.vocabulary.context.prices import in_dollars
from understudy.vocabulary.messages import Message
from understudy.vocabulary.runs.outcomes import Complete, Incomplete

from .calls import error_result
from .spec import RunSpec
from .state import RunState

RUN_ENDED = "Not run to its end: the run ended first."


def new_messages(state: RunState) -> tuple[Message, ...]:
    """Return the messages that the run added to the history, its input first."""
    return tuple(state.messages[state.start :])


def messages_so_far(state: RunState) -> tuple[Message, ...]:
    """Return the messages of a run that ends now; calls without a result are answered as not run to their end."""
    added, round_ = new_messages(state), state.round
    if round_ is None:
        return added
    found = [round_.results.get(call.id) or error_result(call, "not_run", RUN_ENDED) for call in round_.calls]
    return (*added, Message("user", tuple(found)))


def outcome_of(spec: RunSpec, state: RunState) -> Complete[str] | Incomplete:
    """Return the outcome of a run that is done or incomplete."""
    if state.phase == "incomplete":
        return Incomplete(
            agent_id=spec.agent_id,
            completion_reason=state.completion_reason,
            iterations=state.iterations,
            turns=state.turns,
            usage=state.usage,
            cost_usd=in_dollars(state.cost),
            messages=new_messages(state),
            model=state.model,
            response_id=state.response_id,
            request_id=state.request_id,
            last_text=state.text,
        )
    return Complete(
        agent_id=spec.agent_id,
        completion_reason=state.completion_reason,
        iterations=state.iterations,
        turns=state.turns,
        usage=state.usage,
        cost_usd=in_dollars(state.cost),
        messages=new_messages(state),
        model=state.model,
        response_id=state.response_id,
        request_id=state.request_id,
        text=state.text,
        output=state.text,
        finish_reason=state.finish_reason,
    )
