"""Counts the tokens of model calls, and takes the turns that stay out of the history: summaries, and texts that were cut off."""

from __future__ import annotations

from dataclasses import replace

from understudy.orchestration.agent.spec import RunSpec
from understudy.orchestration.agent.state import RunState
from understudy.orchestration.agent.turns import count_turn
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.messages import ModelRequest, ModelTurn, Usage
from understudy.vocabulary.runs.token_estimates import length_of, request_tokens, tokens_in

from .decisions import drop_at_window, take_summary
from .summaries import due_summary
from .view import shown


def counted(spec: RunSpec, state: RunState, turn: ModelTurn) -> Usage:
    """Return the usage of a turn that is not in the history yet; estimates missing counts, which a budget needs."""
    usage = turn.usage
    if usage.input_tokens is not None and usage.output_tokens is not None:
        return usage
    asked = usage.input_tokens
    if asked is None:
        told = sum([len(tool.name) + len(tool.description) + len(str(tool.schema)) for tool in spec.tools])
        asked = tokens_in(len(state.system) + told + sum([length_of(message.parts) for message in shown(state)]))
    return _with_estimates(usage, asked, turn)


def counted_request(account: Account, request: ModelRequest, turn: ModelTurn) -> Usage:
    """Return the usage of the answer to any request; estimates missing counts if a budget needs them."""
    usage = turn.usage
    if (usage.input_tokens is not None and usage.output_tokens is not None) or not account.counts_tokens():
        return usage
    asked = request_tokens(request) if usage.input_tokens is None else usage.input_tokens
    return _with_estimates(usage, asked, turn)


def _with_estimates(usage: Usage, asked: int, turn: ModelTurn) -> Usage:
    answered = tokens_in(length_of(turn.parts)) if usage.output_tokens is None else usage.output_tokens
    return replace(usage, input_tokens=asked, output_tokens=answered, estimated=True)


def take_context_turn(spec: RunSpec, state: RunState, account: Account, turn: ModelTurn) -> bool:
    """Take the turn if it answers a request for a summary, or is to be tried again; whether it was."""
    context = state.context
    if context is None:
        return False
    due = due_summary(spec, state)
    if due is not None:
        usage = charge_summary(spec, account, due.request, turn)
        take_summary(spec, state, context, turn, usage)
        return True
    usage = counted(spec, state, turn) if account.counts_tokens() else turn.usage
    if not drop_at_window(spec, state, context, turn):
        return False
    count_turn(state, turn)
    account.charge_turn(usage)
    return True


def charge_summary(spec: RunSpec, account: Account, request: ModelRequest, turn: ModelTurn | None) -> Usage:
    """Charge the model call for a summary, which counts in the budget and not in `max_turns`; None if it was cut off."""
    usage = counted_request(account, request, turn or ModelTurn(()))
    other = "" if spec.compaction is None else spec.compaction.priced_as
    if other:
        account.charge_call_of(other, usage)
    else:
        account.charge_turn(usage)
    return usage
