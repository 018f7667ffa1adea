"""Rules of a run, each once, for both levels: the machine driven by hand, and the runtime on threads."""

from __future__ import annotations

from . import approvals, callbacks, criteria, invalid_calls, limits, tool_errors, turns, typed_answers

SCENARIOS = (
    *turns.SCENARIOS,
    *criteria.SCENARIOS,
    *limits.SCENARIOS,
    *invalid_calls.SCENARIOS,
    *tool_errors.SCENARIOS,
    *approvals.SCENARIOS,
    *callbacks.SCENARIOS,
    *typed_answers.SCENARIOS,
)
