"""Decides when and how a run shortens its requests: pure functions over its state.

Before each model call the size of the request is looked at once. At the threshold old tool results are left out; if that
is not enough, the next step is a model call for a summary, in several rounds if one cannot take in all of it. Each round
that succeeds counts, so a failure loses nothing: the request then shows the messages that no round has summed up.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from understudy.orchestration.agent.context_state import ContextChange, ContextKind, ContextState
from understudy.orchestration.agent.spec import CompactionRule, RunSpec
from understudy.orchestration.agent.state import RunState
from understudy.vocabulary.messages import NO_USAGE, ModelTurn, Usage
from understudy.vocabulary.runs.compacted_memory import ConversationSummary
from understudy.vocabulary.runs.token_estimates import CHARACTERS_PER_TOKEN, frame_tokens, messages_tokens

from .cuts import tail_start
from .summaries import faults_in, reach_of, summary_cap, summary_in, window_in
from .view import is_prunable, shown, shown_until

ENOUGH = 0.75
"""The share of the threshold below which a request is short enough: else the next turns would compact again, and each
compaction costs what the provider has cached of the prompt."""
LEAST_GAIN = 0.9  # Of the tokens before: a summary that saves less costs more than it saves.
MOST_OF_INPUT = 0.25  # The share of the window that the run's input may have to be kept word for word.
AFTER_FAILURE = 0.05  # The share of the window by which a request has grown when a failed summary is tried again.
UNSAID = 2 / 3
"""The share of a refused request that is taken for the window, if the window is unknown."""
BEYOND = 1.1  # How much longer than the window a refused request is taken for, if its length is unknown.
SHORTENED = (32_000, 16_000, 8_000, 4_000, 2_000, 1_000, 500)
"""Characters that a tool result may have, if the latest ones alone are too long: the first with which they fit."""
MOST_SCALE = 8.0  # Billed tokens for each estimated one; more is not believed.
WINDOW_REACHED = "model_context_window_exceeded"
"""Anthropic API, Stop reasons: the model's answer reached the end of the window; OpenRouter passes the word on."""


# --- before a model call


def prepare(spec: RunSpec, state: RunState, context: ContextState) -> None:
    """Look at the size of the next request, once for each, and decide whether a compaction comes first."""
    rule = spec.compaction
    window = None if rule is None else window_in(rule, context)
    if rule is None or window is None:
        context.target = context.upto  # the definition has changed: nobody asks for the summary any more
        return
    if context.is_summing or context.looked_at == len(state.messages):
        return
    context.looked_at = len(state.messages)
    if measured(spec, state, context) >= rule.compaction.threshold * window:
        _compact(spec, state, context, rule, window, forced=False)


def measured(spec: RunSpec, state: RunState, context: ContextState) -> int:
    """Return the tokens of the next request: the billed ones, and an estimate of the messages since then."""
    if context.billed is not None:
        return context.billed + round(context.scale * messages_tokens(state.messages[context.billed_at :]))
    return _estimated(spec, state, context)


def _estimated(spec: RunSpec, state: RunState, context: ContextState) -> int:
    return round(context.scale * _raw(spec, state, context, len(state.messages)))


def _raw(spec: RunSpec, state: RunState, context: ContextState, end: int) -> int:
    """Estimate what a request shows of the first `end` messages, without the experience of earlier ones."""
    frame = frame_tokens(state.system, spec.offered_tools, spec.output)
    return max(1, frame + messages_tokens(shown_until(state, context, end)))


def _calibrate(spec: RunSpec, state: RunState, context: ContextState) -> None:
    """Compare the billed tokens with their estimate, before requests show other messages."""
    if context.billed is not None:
        raw = _raw(spec, state, context, context.shown_at)
        context.scale = min(MOST_SCALE, max(1.0, context.billed_input / raw))
        context.billed = None


# --- compaction


def _compact(
    spec: RunSpec, state: RunState, context: ContextState, rule: CompactionRule, window: int, *, forced: bool
) -> bool:
    """Leave results out, begin a summary, or both; whether anything changed."""
    context.tokens_before, context.messages_before = measured(spec, state, context), len(shown(state))
    context.begun, context.spent, context.pruned_now = context.upto, NO_USAGE, 0
    _calibrate(spec, state, context)
    context.longest = context.shortened = 0
    limit = rule.compaction.threshold * window
    if context.upto <= state.start:
        own = context.scale * messages_tokens([state.messages[state.start]])
        context.keeps_input = own <= MOST_OF_INPUT * window
    tail = tail_start(state, context, rule.compaction.keep * window / context.scale)
    if rule.compaction.prune:
        _prune(state, context, tail)
    if context.pruned_now and _estimated(spec, state, context) <= ENOUGH * limit:
        _tell(spec, state, context, "pruned")
        return True
    target = _target(spec, state, context, rule, window, tail)
    may_ask = forced or (
        context.tokens_before >= context.retry_from
        and _expected(spec, state, context, target, summary_cap(rule, window)) <= LEAST_GAIN * context.tokens_before
    )
    if target > context.upto and may_ask:
        context.target = target
        context.reach = reach_of(state, context, rule, window)
        return True
    changed = _shorten(spec, state, context, limit if forced else _hard_limit(rule, window)) or context.pruned_now > 0
    if changed:
        _tell(spec, state, context, "pruned")
    return changed


def _prune(state: RunState, context: ContextState, tail: int) -> None:
    """Leave the tool results before the latest messages out of requests."""
    seen = max(context.upto, context.pruned)
    context.pruned_now = sum([is_prunable(p) for message in state.messages[seen:tail] for p in message.parts])
    if context.pruned_now:
        context.pruned = tail


def _target(spec: RunSpec, state: RunState, context: ContextState, rule: CompactionRule, window: int, tail: int) -> int:
    """Return how many messages to sum up: no message of the run's own if a summary of the given history is enough."""
    if context.upto < state.start < tail:
        expected = _expected(spec, state, context, state.start, summary_cap(rule, window))
        if expected <= ENOUGH * rule.compaction.threshold * window:
            return state.start
    return tail


def _expected(spec: RunSpec, state: RunState, context: ContextState, target: int, cap: int) -> int:
    """Return the tokens of the next request if a summary of `cap` tokens stands for the messages up to `target`."""
    if target <= context.upto:
        return _estimated(spec, state, context)
    after = replace(context, upto=target, summary=" " * cap * CHARACTERS_PER_TOKEN)
    return _estimated(spec, state, after)


def _hard_limit(rule: CompactionRule, window: int) -> float:
    """Return the size above which even the latest tool results are shortened: half-way from the threshold to the end."""
    return (1 + rule.compaction.threshold) / 2 * window


def _shorten(spec: RunSpec, state: RunState, context: ContextState, most: float) -> bool:
    """Shorten all tool results, the latest ones too, until the request has at most so many tokens; whether that helped."""
    before = _estimated(spec, state, context)
    if before <= most:
        return False
    after = inf
    for longest in SHORTENED:
        context.longest, context.shortened = longest, len(state.messages)
        after = _estimated(spec, state, context)
        if after <= most:
            break
    if after >= before:
        context.longest = context.shortened = 0
    return after < before


# --- summaries


def take_summary(spec: RunSpec, state: RunState, context: ContextState, turn: ModelTurn, usage: Usage) -> None:
    """Take the answer to a request for a summary; the next round may follow."""
    rule = spec.compaction
    window = None if rule is None else window_in(rule, context)
    assert rule is not None and window is not None, "nobody asks for a summary otherwise"
    context.spent += usage
    fault = next(faults_in(turn), "")
    if fault:
        fail_summary(spec, state, context, fault)
        return
    context.summary = summary_in(turn, summary_cap(rule, window))
    context.upto = context.reach
    if context.upto <= state.start:
        context.history_upto, context.history_summary = context.upto, context.summary
    if context.is_summing:
        context.reach = reach_of(state, context, rule, window)
    else:
        _end(spec, state, context, rule, window)


def fail_summary(spec: RunSpec, state: RunState, context: ContextState, problem: str) -> None:
    """Go on without a summary. A summary of earlier rounds stays."""
    rule = spec.compaction
    window = None if rule is None else window_in(rule, context)
    assert rule is not None and window is not None, "nobody asks for a summary otherwise"
    context.target = context.upto
    context.retry_from = round(_estimated(spec, state, context) + AFTER_FAILURE * window)
    spent = context.spent
    if context.upto > context.begun or context.pruned_now or _shorten(spec, state, context, _hard_limit(rule, window)):
        _end(spec, state, context, rule, window)
        spent = NO_USAGE
    context.news.append(ContextChange("failed", problem=problem, usage=spent))


def _end(spec: RunSpec, state: RunState, context: ContextState, rule: CompactionRule, window: int) -> None:
    _shorten(spec, state, context, _hard_limit(rule, window))
    _tell(spec, state, context, "summarized" if context.upto > context.begun else "pruned")


# --- after a model call


def note_turn(state: RunState, context: ContextState, turn: ModelTurn, before: int) -> None:
    """Note the billed tokens of a turn. There were `before` messages at its request; the turn may be in the history by now."""
    context.overflows = 0
    asked, answered = turn.usage.input_tokens, turn.usage.output_tokens
    if not asked:
        context.billed = None
        return
    message = state.messages[before : before + 1]
    is_kept = bool(message) and message[0].role == "assistant"
    if is_kept:
        asked_and_answered = asked + (messages_tokens(message) if answered is None else answered)
    else:
        asked_and_answered = asked
    context.billed, context.billed_input = asked_and_answered, asked
    context.shown_at, context.billed_at = before, before + is_kept


def overflowed(spec: RunSpec, state: RunState, context: ContextState, tokens: int | None, limit: int | None) -> bool:
    """Compact after a refusal of the request as too long; whether the turn may be tried again.

    Args:
        spec: the run's spec.
        state: its state.
        context: the part of the state that changes.
        tokens: how long the request was, if the provider said so.
        limit: how long it may be, if the provider said so.
    """
    rule = spec.compaction
    if rule is None or context.overflows:
        context.overflows = 2
        return False
    raw = _raw(spec, state, context, len(state.messages))
    known = limit or window_in(rule, context)
    if known is None:
        window = max(1, int(raw * UNSAID))
    else:
        window = known if rule.window is None else min(known, rule.window)
        context.scale = min(MOST_SCALE, max(context.scale, (tokens or known * BEYOND) / raw))
    context.window, context.billed, context.looked_at = window, None, len(state.messages)
    context.overflows = 1 if _compact(spec, state, context, rule, window, forced=True) else 2
    return context.overflows == 1


def drop_at_window(spec: RunSpec, state: RunState, context: ContextState, turn: ModelTurn) -> bool:
    """Whether a text was cut off at the end of the window, and the turn is to be tried again after a compaction."""
    if turn.raw_finish_reason != WINDOW_REACHED or turn.finish_reason != "length" or context.overflows:
        return False
    if not overflowed(spec, state, context, turn.usage.total_tokens, None):
        context.overflows = 0
        return False
    context.news.append(ContextChange("dropped", turn=state.turns + 1, text=turn.text))
    return True


def _tell(spec: RunSpec, state: RunState, context: ContextState, kind: ContextKind) -> None:
    change = ContextChange(
        kind,
        messages_before=context.messages_before,
        messages_after=len(shown(state)),
        tokens_before=context.tokens_before,
        tokens_after=_estimated(spec, state, context),
        pruned=context.pruned_now,
        usage=context.spent,
    )
    context.news.append(change)


def lasting_summary(state: RunState) -> ConversationSummary | None:
    """Return the summary of the given history that a memory may keep; None if there is none."""
    context = state.context
    if context is None or not context.history_upto:
        return None
    first, last = state.messages[0], state.messages[context.history_upto - 1]
    return ConversationSummary(context.history_summary, context.history_upto, first, last)
