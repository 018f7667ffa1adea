"""All mutants, and the few that the ordinary test run tries."""

from __future__ import annotations

from . import conversations, decisions, groups, lives, messages, rulings, runs, secrets
from .mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *messages.MUTANTS,
    *lives.MUTANTS,
    *runs.MUTANTS,
    *conversations.MUTANTS,
    *decisions.MUTANTS,
    *groups.MUTANTS,
    *rulings.MUTANTS,
    *secrets.MUTANTS,
)

SHORT = (
    "a stopping actor forgets what waits",
    "a reply completes twice",
    "a cancelled message is handled anyway",
    "one more restart than allowed is borne",
    "a stale driver's result is accepted",
    "who waits for what waits for it by being called is not refused",
    "the first to fail wins the race",
)
"""Names of mutants whose tests take hardly more than the start of a process."""
