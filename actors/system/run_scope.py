"""The scope of a run that begins or goes on."""

from __future__ import annotations

import time

from understudy.vocabulary.context.scope import Scope, current_scope

RETRIES = 50  # Of a run and all runs inside of it: generous for a healthy run, finite for a looping one.


def scope_of_run(timeout: float | None) -> Scope:
    """Make a run's scope: inside of a run, its deadline and cancellation hold too."""
    deadline = None if timeout is None else time.monotonic() + timeout
    return Scope(deadline, time.monotonic, current_scope(), RETRIES)
