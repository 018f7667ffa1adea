"""Decisions about failures: which actors restart, after which delay, when to escalate. Time and chance are arguments.

The rules are those of the Erlang/OTP documentation, Supervisor Behaviour: strategies, restart types, intensity and period.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar, cast, get_args

from understudy.vocabulary.backoff import backoff_wait
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
    """The base of all strategies: how many restarts are allowed, their delays, and which errors lead to one."""

    max_restarts: int = DEFAULT_MAX_RESTARTS
    """How many restarts are allowed within the period, of all children together; one more escalates."""
    within: float = DEFAULT_WITHIN
    """The period, in seconds."""
    backoff: tuple[float, float] | None = None
    """Seconds before the first restart of a period (doubled for each further one), and the most; None for no delay."""
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
        """Return the children that restart together with `failed`, in the order in which they were started."""
        raise TypeError("use OneForOne, OneForAll or RestForOne")


def _check_backoff(given: object) -> None:
    pair = cast("tuple[object, ...]", given) if isinstance(given, (tuple, list)) else ()
    if len(pair) != 2:
        raise TypeError(f"backoff must be (first, most) in seconds, or None; got {given!r}")
    first, most = [checked_number("backoff", cast(float, each)) for each in pair]
    if not 0 < first <= most:
        raise ValueError(f"backoff must be (first, most) with 0 < first <= most seconds, got {given!r}")


class OneForOne(Strategy):
    """Restart only the child that failed."""

    __slots__ = ()

    def affected(self, children: Sequence[M], failed: M) -> tuple[M, ...]:
        return (failed,)


class OneForAll(Strategy):
    """Restart all children when one fails: for children that cannot work without each other."""

    __slots__ = ()

    def affected(self, children: Sequence[M], failed: M) -> tuple[M, ...]:
        return tuple(children)


class RestForOne(Strategy):
    """Restart the failed child and those started after it: for children that depend on earlier ones."""

    __slots__ = ()

    def affected(self, children: Sequence[M], failed: M) -> tuple[M, ...]:
        return tuple(children[children.index(failed) :])


class RestartBudget:
    """Counts the restarts of a strategy over a sliding period."""

    __slots__ = ("_spent", "_strategy")

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._spent: deque[tuple[float, str]] | None = None
        """Time and run of each restart; None until the first one, because most actors are never restarted."""

    def spend(self, now: float, run: str = "") -> bool:
        """Take one restart at `now`; False if none is left. The period's end belongs to the period.

        Args:
            now: the present time, on the same clock as before.
            run: the run in which the actor failed, if any: all failures of one run in a period take one restart.
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
        """Note a successful run; does nothing here, because the period decides which failures count."""

    def delay(self, chance: float) -> float:
        """Return the seconds to wait before the latest restart; `chance` is from 0 up to 1."""
        if self._strategy.backoff is None:
            return 0.0
        first, most = self._strategy.backoff
        return backoff_wait(first, most, len(self._spent or ()) - 1) * (1 - JITTER * chance)

    def renew(self) -> None:
        """Reset the count, for a supervisor that was itself restarted."""
        self._spent = None


_USUAL = OneForOne()


class RunsInARow(RestartBudget):
    """The budget of an agent without a strategy: it counts failed runs in a row, however far apart they are.

    Args:
        limit: after this many failed runs in a row the agent is given up.
    """

    def __init__(self, limit: int = DEFAULT_FAILED_RUNS) -> None:
        super().__init__(_USUAL)
        self._limit = limit
        self._failed: set[str] | None = None
        """The failed runs since the last success; None until the first one."""

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
    """Return the directive for a child that failed at `now`; a restart is taken from the budget.

    Args:
        wanted: the directive of the strategy's decider; `restart` if there is no decider.
        restart: the child's restart type.
        budget: the strategy's restarts.
        now: the present time, on the budget's clock.
        run: the run in which it failed; empty if there was none.
    """
    if wanted != "restart":
        return wanted
    if restart == "temporary":
        return "stop"
    return "restart" if budget.spend(now, run) else "escalate"
