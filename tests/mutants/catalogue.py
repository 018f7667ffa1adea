"""All mutants, and the few that the ordinary test run tries."""

from __future__ import annotations

from . import actors, runs
from .mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (*actors.MUTANTS, *runs.MUTANTS)

SHORT = (
    "a stopping actor forgets what waits",
    "a cancelled message is handled anyway",
    "a reply completes twice",
    "one more restart than allowed is borne",
    "a wait for the caller's own caller is not refused",
    "the first to fail wins the race",
    "a work that was given up goes on",
)
"""Names of mutants whose tests take hardly more than the start of a process."""
