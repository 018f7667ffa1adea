"""Ancestry: who waits for the code that runs now, so that nobody waits for itself; and hops: how many runs led to it.

It travels in a context variable: whatever runs inside a run finds it, and a run that is begun and waited for there gets
it with the new run at its end. A run that is only submitted begins with itself alone, for nobody waits for it yet.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

from understudy.errors import CircularAgentCall, DisallowedAgentCall, RunError

from .permits import Permit

MAX_DEPTH = (
    32  # Each level holds a thread; people nest three or four deep, and what goes past 32 does not end by itself.
)
DEFAULT_MAX_HOPS = (
    1_000  # Runs that begin runs cost money and never wait for themselves; an honest chain has a few dozen.
)

P = ParamSpec("P")
R = TypeVar("R")


class Runner(Protocol):
    """A definition that can be run."""

    @property
    def id(self) -> str: ...


class Link:
    """One run in a chain of those that wait, told apart by object.

    Attributes:
        runner: the definition that runs. The object decides what is the same runner; its id is for people.
        run_id: which run of it.
        begun_in: ids of the runs that waited for the code that began this one, whether or not it then waited.
        over: whether the run ended or paused; nobody waits for it any more.
        permits: what holds for the runs that are begun inside of this one.
    """

    __slots__ = ("begun_in", "over", "permits", "run_id", "runner")

    def __init__(self, runner: Runner, run_id: str) -> None:
        callers = current_ancestry()
        self.runner = runner
        self.run_id = run_id
        self.begun_in: tuple[str, ...] = tuple([link.run_id for link in callers]) if callers else ()
        self.over = False
        self.permits = permits_in_force()

    def __repr__(self) -> str:
        return f"Link({self.runner.id!r}, {self.run_id!r})"


Ancestry: TypeAlias = tuple[Link, ...]
"""Outermost first; each waits for the next, and the last one for the code at hand, which is part of it."""

_current: contextvars.ContextVar[tuple[Ancestry, int]] = contextvars.ContextVar("understudy_ancestry", default=((), 0))
"""Who waits, and the hops of a run that would be begun here; together, for a message sets both."""


def current_ancestry() -> Ancestry:
    """Return who waits for this code; empty outside of runs, and when the run it was part of is over."""
    chain = _current.get()[0]
    return () if chain and chain[-1].over else chain


def enter_ancestry(chain: Ancestry, hops: int | None = None) -> contextvars.Token[tuple[Ancestry, int]]:
    """Make `chain` the current one of this context; undo with `leave_ancestry`.

    Args:
        chain: who waits.
        hops: those of a run that would be begun here; None leaves them as they are.
    """
    return _current.set((chain, _current.get()[1] if hops is None else hops))


enter_work = _current.set
"""Make a chain and the hops of the runs that it begins the current ones of this context; for a context of a message's own."""


def leave_ancestry(token: contextvars.Token[tuple[Ancestry, int]]) -> None:
    """Undo `enter_ancestry`, in the context it was called in."""
    _current.reset(token)


def next_hops() -> int:
    """Return the hops of a run that this code would begin, which a message that it would send carries on.

    One more than those of the run that this code is part of, also by way of messages; 0 outside, and when the run is over.
    """
    chain, hops = _current.get()
    return hops if chain and not chain[-1].over else 0


def enter_hops(hops: int) -> None:
    """Have runs that are begun in this context have `hops`."""
    _current.set((_current.get()[0], hops))


def check_hops(runner: Runner, most: int) -> None:
    """Refuse a run of `runner` that this code would begin, if more than `most` runs led to it.

    Raises:
        RunError: they did.
    """
    if next_hops() > most:
        sender = current_ancestry()[-1].runner.id
        raise RunError(
            f"more than {most:,} runs, each begun by the one before it, the last by {sender!r}, of {runner.id!r}; "
            "ActorSystem(max_hops=…) allows more, and what is to go on for ever belongs on a timer"
        )


def check_call(callers: Ancestry, runner: Runner) -> None:
    """Refuse a run of `runner` that `callers` would wait for, if it is one of them or there are too many.

    Raises:
        CircularAgentCall: `runner` would wait for itself.
        RunError: the chain would be longer than `MAX_DEPTH`.
    """
    for position, link in enumerate(callers):
        if link.runner is runner:
            raise circular(*[each.runner.id for each in callers[position:]], runner.id)
    check_depth(len(callers) + 1, callers[0].runner.id if callers else runner.id, runner.id)


def permits_in_force() -> tuple[Permit, ...]:
    """Return what holds for the runs that this code would begin, be they waited for or not.

    Also when the run that the code is part of is over: a tool that was given up is bound by it still.
    """
    chain = _current.get()[0]
    return tuple(dict.fromkeys([permit for link in chain for permit in link.permits])) if chain else ()


def check_permits(runner: Runner) -> None:
    """Refuse a run of `runner` that this code would begin, if a sub-agent above does not allow it.

    Raises:
        DisallowedAgentCall: it does not.
    """
    for permit in permits_in_force():
        refusal = permit.refusal(runner.id)
        if refusal:
            path = (*[link.runner.id for link in _current.get()[0]], runner.id)
            words = f"{runner.id!r} may not run here: {refusal}; on the way {' -> '.join(path)}"
            raise DisallowedAgentCall(words, path=path, by=permit.by)


def check_depth(depth: int, first: str, last: str) -> None:
    """Refuse a chain of more than `MAX_DEPTH` runs."""
    if depth > MAX_DEPTH:
        raise RunError(
            f"runs may wait for one another {MAX_DEPTH} deep; from agent {first!r} to agent {last!r} it would be {depth}"
        )


def circular(*path: str) -> CircularAgentCall:
    """Make the error of a call whose waiting would close a circle."""
    return CircularAgentCall(f"to wait would close a circle: {' -> '.join(path)}", path=path)


def carry(fn: Callable[P, R]) -> Callable[P, R]:
    """Return a function that runs `fn` as part of the run this is called in, on whatever thread it is called.

    A thread that a tool starts knows nothing of the run: a run it begins is one of its own. What is carried there keeps
    the run's deadline and cancellation, its system, who waits for it, and the other context variables of this moment.
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
