"""Ancestry: the chain of runs that wait for the present code, to prevent cycles; and hops, the number of runs before.

It is kept in a context variable, so all code inside of a run finds it. A run that is started and waited for there gets
it with the new run at its end. A run that is only submitted starts a new chain, because nobody waits for it yet.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

from understudy.errors import CircularAgentCall, DisallowedAgentCall, RunError

from .permits import Permit

MAX_DEPTH = 32
"""Programs nest three or four deep. A chain beyond 32 is an endless recursion, of which each level pays for a model call."""
DEFAULT_MAX_HOPS = 1_000  # Stops endless chains of submitted runs, which cost money; an intended chain has a few dozen.

P = ParamSpec("P")
R = TypeVar("R")


class Runner(Protocol):
    """A definition that can be run."""

    @property
    def id(self) -> str: ...


class Link:
    """One run of a chain; compared by identity.

    Attributes:
        runner: the definition that runs, compared by identity; its id is for people.
        run_id: the id of the run.
        begun_in: ids of the runs that waited for the code that started this one, even if that code did not wait.
        drop: cancels the run, if code inside of a run submitted it; None for other runs, and once it is over.
        over: whether the run ended or paused, so that nobody waits for it any more.
        permits: the permits for the runs that start inside of this one.
        conversation_id: the conversation of the run; None if the caller gave none.
    """

    __slots__ = ("begun_in", "conversation_id", "drop", "over", "permits", "run_id", "runner")

    def __init__(self, runner: Runner, run_id: str, conversation_id: str | None = None) -> None:
        callers = current_ancestry()
        self.runner = runner
        self.run_id = run_id
        self.conversation_id = conversation_id
        self.begun_in: tuple[str, ...] = tuple([link.run_id for link in callers]) if callers else ()
        self.drop: Callable[[], object] | None = None
        self.over = False
        self.permits = permits_in_force()

    def __repr__(self) -> str:
        return f"Link({self.runner.id!r}, {self.run_id!r})"


class ActorLink(Link):
    """An actor in place of a run; `run_id` is its address."""

    __slots__ = ()


Ancestry: TypeAlias = tuple[Link, ...]
"""Outermost first. Each run waits for the next one; the present code is part of the last one."""

ChainAndHops: TypeAlias = tuple[Ancestry, int]
"""The chain, and the hops of a run that would start here."""

_current: contextvars.ContextVar[ChainAndHops] = contextvars.ContextVar("understudy_ancestry", default=((), 0))
"""Both in one variable, because a message sets both."""


def current_ancestry() -> Ancestry:
    """Return the chain of this code; empty outside of runs, and after the end of its run."""
    chain = _current.get()[0]
    return () if chain and chain[-1].over else chain


def chain_of_code() -> Ancestry:
    """Return the chain of this code for its names alone; also after the end of its run."""
    return _current.get()[0]


def enter_ancestry(chain: Ancestry, hops: int | None = None) -> contextvars.Token[ChainAndHops]:
    """Make `chain` the current one of this context; undo with `leave_ancestry`.

    Args:
        chain: the runs that wait.
        hops: the hops of a run that would start here; None leaves them unchanged.
    """
    return _current.set((chain, _current.get()[1] if hops is None else hops))


chain_and_hops = _current.get
"""Return the chain and the hops of this code, even if its run is over."""
enter_work = _current.set
"""Set the chain and the hops of this context, without a way back; for a context that one message has for itself."""


def leave_ancestry(token: contextvars.Token[ChainAndHops]) -> None:
    """Undo `enter_ancestry`, in the context it was called in."""
    _current.reset(token)


def next_hops() -> int:
    """Return the hops of a run that this code would start; a message from here carries them.

    One more than those of the run that this code is part of, also by way of messages; 0 outside, and when the run is over.
    """
    chain, hops = _current.get()
    return hops if hops and chain and not chain[-1].over else 0


def enter_hops(hops: int) -> None:
    """Set the hops of runs that start in this context."""
    _current.set((_current.get()[0], hops))


def check_hops(runner: Runner, most: int) -> None:
    """Raise if more than `most` runs would lead to a run of `runner` started here.

    Raises:
        RunError: there would be more.
    """
    if next_hops() > most:
        sender = current_ancestry()[-1].runner.id
        raise RunError(
            f"more than {most:,} runs, each begun by the one before it, the last by {sender!r}, of {runner.id!r}; "
            "ActorSystem(max_hops=…) allows more, and work that never ends belongs on a timer"
        )


def check_call(callers: Ancestry, runner: Runner) -> None:
    """Raise if `callers` may not wait for a run of `runner`: it is one of them, or they are too many.

    Raises:
        CircularAgentCall: `runner` would wait for itself.
        RunError: the chain would be longer than `MAX_DEPTH`.
    """
    for position, link in enumerate(callers):
        if link.runner is runner:
            raise circular(*[each.runner.id for each in callers[position:]], runner.id)
    check_depth(len(callers) + 1, callers[0].runner.id if callers else runner.id, runner.id)


def permits_in_force() -> tuple[Permit, ...]:
    """Return the permits for the runs that this code would start, with or without waiting.

    They hold even after the end of the run: an abandoned tool is bound by them still.
    """
    chain = _current.get()[0]
    return tuple(dict.fromkeys([permit for link in chain for permit in link.permits])) if chain else ()


def check_permits(runner: Runner) -> None:
    """Raise if a sub-agent above does not allow this code to start a run of `runner`.

    Raises:
        DisallowedAgentCall: a sub-agent above forbids it.
    """
    for permit in permits_in_force():
        refusal = permit.refusal(runner.id)
        if refusal:
            path = (*[link.runner.id for link in _current.get()[0]], runner.id)
            words = f"{runner.id!r} may not run here: {refusal}; on the way {' -> '.join(path)}"
            raise DisallowedAgentCall(words, path=path, by=permit.by)


def check_depth(depth: int, first: str, last: str) -> None:
    """Raise for a chain of more than `MAX_DEPTH` runs."""
    if depth > MAX_DEPTH:
        raise RunError(
            f"runs may wait for one another {MAX_DEPTH} deep; from agent {first!r} to agent {last!r} it would be {depth}"
        )


def circular(*path: str) -> CircularAgentCall:
    """Return the error for a wait that would close a cycle."""
    return CircularAgentCall(f"to wait would close a circle: {' -> '.join(path)}", path=path)


def carry(fn: Callable[P, R]) -> Callable[P, R]:
    """Return a function that runs `fn` as part of the present run, on any thread.

    A thread that a tool starts is outside of the run: a run that it starts is independent. The returned function keeps
    the run's deadline and cancellation, its system and ancestry, and the other context variables of this moment.
    The function may be called many times, by several threads at once; the variables that `fn` sets are its own. Outside
    of runs there is nothing to carry, and `fn` is returned.
    """
    if not _current.get()[0]:
        return fn
    context = contextvars.copy_context()

    @wraps(fn)
    def carried(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(fn, *args, **kwargs)  # a context can be entered only once at a time

    return carried
