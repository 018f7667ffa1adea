"""The errors that runs and their calls end with, made where the run is known.

`safely` takes a step that must not keep a run from ending: its failure is logged, and the next step is taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from logging import ERROR
from typing import TYPE_CHECKING, Protocol, TypeVarTuple

from understudy.diagnostics import emit
from understudy.errors import (
    AgentCrashed,
    ProviderTimeout,
    RunCancelled,
    RunTimedOut,
    UnderstudyError,
    in_words,
)
from understudy.orchestration import Agent
from understudy.vocabulary.checks import Unset
from understudy.vocabulary.models import DEFAULT_IDLE_TIMEOUT, streamed_timeout_of, timeout_of

if TYPE_CHECKING:
    from understudy.actors.run_view.view import AgentRunView, RunView
    from understudy.orchestration.definitions.runner import Runner

DEFAULT_MEMORY_TIMEOUT = 30.0  # Seconds for one use of a memory. A store answers in milliseconds, or is down.
LOADING = "loading its conversation"
STORING = "storing its conversation"


def named(runner: Runner[object]) -> str:
    """Return a runner's id for a message, and whether it is an agent."""
    return f"agent {runner.id!r}" if isinstance(runner, Agent) else repr(runner.id)


def cancelled(record: RunView, why: str = "") -> RunCancelled:
    """Make the error of a run that nobody wants any more."""
    because = f": {why}" if why else ""
    return RunCancelled(f"run {record.run_id} of {named(record.runner)} was cancelled{because}", run_id=record.run_id)


def timed_out(record: RunView) -> RunTimedOut:
    """Make the error of a run whose deadline has passed."""
    return RunTimedOut(
        f"run {record.run_id} of {named(record.runner)} passed its deadline while {record.doing or 'it began'}",
        run_id=record.run_id,
    )


NO_DEPS = "the run was given no deps="


def note_missing_deps(error: BaseException, deps: object) -> None:
    """Note the likely reason on an error with which code of the user's failed at None, in a run without deps."""
    at_none = type(error) in (AttributeError, TypeError) and "'NoneType' object" in str(error)
    if deps is None and at_none and NO_DEPS not in getattr(error, "__notes__", ()):
        error.add_note(NO_DEPS)


def step_timeout(record: AgentRunView) -> UnderstudyError:
    """Make the error of a step that took too long, other than a tool call."""
    if record.doing not in (LOADING, STORING):
        return model_timeout(record)
    return AgentCrashed(
        f"the memory of agent {record.agent.id!r} took more than {DEFAULT_MEMORY_TIMEOUT:g} s while the run was {record.doing}",
        actor=record.agent.id,
    )


def memory_failure(record: AgentRunView, causes: tuple[BaseException, ...]) -> AgentCrashed:
    """Make the error of a memory that failed in its own code, as often as there are causes."""
    times, cause = "once" if len(causes) == 1 else f"{len(causes)} times", causes[-1]
    error = AgentCrashed(
        f"the memory of agent {record.agent.id!r} failed {times} in run {record.run_id}, "
        f"the last time of {in_words(cause)}",
        actor=record.agent.id,
        causes=causes,
    )
    error.__cause__ = cause
    error.retries_used_up = True
    return error


def model_time(agent: Agent[object]) -> float | None:
    """Return how many seconds a model call of the agent may take with its retries; None for no limit."""
    own = agent.model_timeout
    return timeout_of(agent.current_model) if isinstance(own, Unset) else own


def streamed_time(agent: Agent[object]) -> float | None:
    """Return how many seconds a streamed call of the agent's model may take with its retries; None for no limit."""
    own = agent.model_timeout
    return streamed_timeout_of(agent.current_model) if isinstance(own, Unset) else own


def model_timeout(record: AgentRunView, why: RunTimedOut | None = None) -> ProviderTimeout:
    """Make the error of a model call that took too long, or of one that would have and gave up before, and says `why`."""
    limit = streamed_time(record.agent) if record.is_streaming else model_time(record.agent)
    if why is not None:
        what = f"did not wait for its answer: {why}"
    elif limit is None:
        what = f"sent nothing more for over {DEFAULT_IDLE_TIMEOUT:g} s, and its answer has no end"
    else:
        what = f"gave no answer within {limit:g} s"
    return ProviderTimeout(f"the model of agent {record.agent.id!r} {what}", retryable=True)


Ts = TypeVarTuple("Ts")


class Named(Protocol):
    """A run that the log can name."""

    @property
    def run_id(self) -> str:
        """Unique in its system."""
        ...


def safely(record: Named, do: Callable[[*Ts], object], *arguments: *Ts) -> BaseException | None:
    """Call `do` with the arguments, and return what it raised, which is logged; None if it raised nothing.

    Also an exit is caught: the thread, which may be a caller's, has the rest of the run's end to see to.
    """
    try:
        do(*arguments)
    except BaseException as failure:
        with contextlib.suppress(BaseException):  # a handler of the host's may fail in its turn
            name = getattr(do, "__qualname__", type(do).__name__)
            text = "run %s: %s failed; the run goes to its end all the same"
            values = {"run_id": record.run_id}
            emit(ERROR, "run_ending_failed", values, text, record.run_id, name, exc_info=failure)
        return failure
    return None
