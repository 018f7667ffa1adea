"""The function `migrate` of users, asked for the state of runs with another definition."""

from __future__ import annotations

from collections.abc import Callable

from understudy.errors import UnderstudyError, in_words
from understudy.vocabulary.checks import named_safely
from understudy.vocabulary.runs.stored_runs import ChangedRun


class Migration:
    """Asks `migrate` about one run that was left, and about the runs inside of it.

    Args:
        migrate: the user's.
    """

    def __init__(self, migrate: Callable[[ChangedRun], str | None]) -> None:
        self._migrate = migrate

    def __call__(self, run: ChangedRun) -> str:
        """Return the new state of a run.

        Raises:
            UnderstudyError: `migrate` leaves the run.
            RuntimeError: `migrate` raised.
            TypeError: `migrate` returned neither a text nor None.
        """
        try:
            state: object = self._migrate(run)
        except Exception as error:  # also a `StoreError`, which must not look like one of our own store
            raise RuntimeError(f"migrate: {in_words(error)}") from error
        if state is None:
            raise UnderstudyError(f"migrate returned None for {run.runner_id!r}: {run.why}")
        if not isinstance(state, str):
            raise TypeError(f"migrate must return the state as a text, or None; got {named_safely(state)}")
        return state
