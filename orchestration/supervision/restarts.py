"""Decisions about failures: who is restarted, when it is too much, and what comes of it. Clocks and chance are arguments.

The rules are those of the Erlang/OTP documentation, Supervisor Behaviour: strategies, restart types, intensity and period.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar, cast, get_args

from understudy.vocabulary.checks import checked_number, checked_plain, checked_whole

DEFAULT_MAX_RESTARTS = 3
DEFAULT_WITHIN = 5.0
DEFAULT_FAILED_RUNS = 20  # One caller's mistake fails some runs; so many without a success are the agent's own fault.
LONGEST_BACKOFF = 30.0  # Seconds. What does not work after half a minute needs a person more than another second.
JITTER = 0.2  # Share of a backoff that chance may take off, so that actors that failed together come back apart.

Directive: TypeAlias = Literal["resume", "restart", "stop", "escalate"]
Restart: TypeAlias = Literal["permanent", "transient", "temporary"]
DIRECTIVES: tuple[Directive, ...] = get_args(Directive)
M = TypeVar("M")


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """What all strategies say: how many restarts are borne, how they are spaced, and which errors deserve one."""

    max_restarts: int = DEFAULT_MAX_RESTARTS
    """Restarts within the period that are borne, of all children together; one more escalates."""
    within: float = DEFAULT_WITHIN
    """The period, in seconds."""
    backoff: tuple[float, float] | None = None
    """Seconds before the first restart of a period, doubled for each further one, and the most; None restarts at once."""
    decider: Callable[[BaseException], Directive] | None = None
    """What an error deserves; a restart where there is none. A decider that raises anything, or returns
    anything but a directive, escalates."""

    def __post_init__(self) -> None:
        checked_whole("max_restarts", self.max_restarts, 0)
        if checked_number("within", self.within) <= 0:
            raise ValueError(f"within must be above 0 seconds, got {self.within!r}")
        if self.backoff is not None:
            _check_backoff(self.backoff)
        if self.decider is not None and not callable(self.decider):
            raise TypeError(f"decider must be a function of the error, or None; got {self.decider!r}")
        if self.decider is not None:
            checked_plain("decider", self.decider)

    def affected(self, children: Sequence[M], failed: M) -> tuple[M, ...]:
        """Return who is restarted when `failed` is, in the order in which they were started."""
        raise TypeError("use OneForOne, OneForAll or RestForOne")


def _check_backoff(given: object) -> None:
    pair = cast("tuple[object, ...]", given) if isinstance(given, (tuple, list)) else ()
    if len(pair) != 2:
        raise TypeError(f"backoff must be (first, most) in seconds, or None; got {given!r}")
    first, most = [checked_number("backoff", cast(float, each)) for each in pair]
    if not 0 < first <= most:
        raise ValueError(f"backoff must be (first, most) with 0 < first <= most seconds, got {given!r}")


class OneForOne(Strategy):
    """Restart the child that failed, and no other."""

    __slots__ = ()

    def affected(self, children: Sequence[M], failed: M) -> tuple[M, ...]:
        return (failed,)


class OneForAll(Strategy):
    """Restart all children when one fails: they cannot work without each other."""

    __slots__ = ()

    def affected(self, children: Sequence[M], failed: M) -> tuple[M, ...]:
        return tuple(children)


class RestForOne(Strategy):
    """Restart the child that failed and those that were started after it: they were built on it."""

    __slots__ = ()

    def affected(self, children: Sequence[M], failed: M) -> tuple[M, ...]:
        return tuple(children[children.index(failed) :])


class RestartBudget:
    """What is left of a strategy's restarts, over a window that slides."""

    __slots__ = ("_spent", "_strategy")

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._spent: deque[tuple[float, str]] | None = None
        """When restarts were spent, and for which run; made for the first, for most actors are never restarted."""

    def spend(self, now: float, run: str = "") -> bool:
        """Take one restart at `now`; False if none is left. The period's end belongs to the period.

        Args:
            now: on the clock that restarts were taken on so far.
            run: which run the actor failed of, if it was one: all failures of one run in a period take one restart.
        """
        if self._spent is None:
            self._spent = deque()
        while self._spent and now - self._spent[0][0] > self._strategy.within:
            self._spent.popleft()
        if run and any(run == other for _, other in self._spent):
            return True
        if len(self._spent) >= self._strategy.max_restarts:
            return False
        self._spent.append((now, run))
        return True

    def worked(self) -> None:
        """Note that a run ended well; nothing, where a period says which failures count."""

    def delay(self, chance: float) -> float:
        """Return the seconds to wait before the restart that was spent last; `chance` is from 0 up to 1."""
        if self._strategy.backoff is None:
            return 0.0
        first, most = self._strategy.backoff
        longest: float = min(most, first * 2.0 ** (len(self._spent or ()) - 1))
        return longest * (1 - JITTER * chance)

    def renew(self) -> None:
        """Forget what was spent: a supervisor that was itself restarted starts afresh."""
        self._spent = None


class RunsInARow(RestartBudget):
    """The budget of an agent without a strategy: it counts failed runs in a row, however far apart they are.

    Args:
        limit: this many failed runs without a success between them give the agent up.
    """

    def __init__(self, limit: int = DEFAULT_FAILED_RUNS) -> None:
        super().__init__(OneForOne())
        self._limit = limit
        self._failed: set[str] | None = None
        """The runs since the last success; made for the first, as above."""

    def spend(self, now: float, run: str = "") -> bool:
        if not run:
            return super().spend(now)
        if self._failed is None:
            self._failed = set()
        self._failed.add(run)
        return len(self._failed) < self._limit

    def worked(self) -> None:
        self._failed = None

    def renew(self) -> None:
        super().renew()
        self._failed = None


def decide(wanted: Directive, restart: Restart, budget: RestartBudget, now: float, run: str = "") -> Directive:
    """Return what is to be done about a child that failed at `now`; a restart is taken from the budget.

    Args:
        wanted: what the strategy's decider says of the error; `restart` where there is none.
        restart: the child's restart type.
        budget: what is left of the strategy's restarts.
        now: on the clock that the budget was spent on so far.
        run: which run it failed of; empty if it was none.
    """
    if wanted != "restart":
        return wanted
    if restart == "temporary":
        return "stop"
    return "restart" if budget.spend(now, run) else "escalate"
