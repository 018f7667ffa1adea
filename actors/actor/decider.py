"""Asks the decider of a strategy, which is a user's function, what to do about a failure."""

from __future__ import annotations

import logging

from understudy.orchestration.supervision.restarts import DIRECTIVES, Directive, Strategy

log = logging.getLogger("understudy")


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
        log.error("%s: the failure escalates: its decider must return %s; got %r", name, expected, wanted)
    except BaseException:  # also SystemExit, which would end this actor's thread before anything is decided
        log.exception("%s: the failure escalates: its decider failed", name)
    return "escalate"
