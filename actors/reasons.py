"""The errors that runs and their calls end with, made where the run is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.errors import ProviderError, ProviderTimeout, RunCancelled, RunTimedOut, in_words

if TYPE_CHECKING:
    from .record import Record

DEFAULT_MODEL_TIMEOUT = 120.0  # Seconds for one model call with its retries; a long answer takes a minute or two.


def cancelled(record: Record, why: str = "") -> RunCancelled:
    """Make the error of a run that nobody wants any more."""
    because = f": {why}" if why else ""
    return RunCancelled(
        f"run {record.run_id} of agent {record.agent.id!r} was cancelled{because}", run_id=record.run_id
    )


def timed_out(record: Record) -> RunTimedOut:
    """Make the error of a run whose deadline has passed."""
    return RunTimedOut(
        f"run {record.run_id} of agent {record.agent.id!r} passed its deadline while {record.doing or 'it began'}",
        run_id=record.run_id,
    )


def model_failure(record: Record, error: BaseException) -> ProviderError:
    """Make the error of a model object that failed in a way of its own."""
    model = type(record.agent.current_model).__name__
    return ProviderError(f"the model of agent {record.agent.id!r} failed: {in_words(error)}", provider=model)


def model_timeout(record: Record) -> ProviderTimeout:
    """Make the error of a model call that took too long."""
    return ProviderTimeout(
        f"the model of agent {record.agent.id!r} gave no answer within {DEFAULT_MODEL_TIMEOUT:g} s", retryable=True
    )
