"""Asks the decider of a strategy, which is a user's function, what to do about a failure."""

from __future__ import annotations

from logging import ERROR

from understudy.diagnostics import emit
from understudy.orchestration.supervision.restarts import DIRECTIVES, Directive, Strategy


def wanted_directive(strategy: Strategy, error: BaseException, name: str) -> Directive:
    """Return what the decider wants; "restart" without one, "escalate" if it fails or returns no directive.

    Args:
        strategy: has the decider, or none.
        error: the failure.
        name: the group's address, for the log.
    """
    if strategy.decider is None:
        return "restart"
    try:
        wanted: object = strategy.decider(error)
        for directive in DIRECTIVES:
            if isinstance(wanted, str) and wanted == directive:
                return directive
        expected = ", ".join(DIRECTIVES)
        text = "%s: the failure escalates: its decider must return %s; got %r"
        emit(ERROR, "decider_failed", {"actor": name}, text, name, expected, wanted)
    except BaseException:  # also SystemExit, which would end this actor's thread before anything is decided
        text = "%s: the failure escalates: its decider failed"
        emit(ERROR, "decider_failed", {"actor": name}, text, name, exc_info=True)
    return "escalate"
