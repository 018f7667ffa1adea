"""`Account`: counts the spending of a run and of all runs inside of it, and refuses work when a budget is spent.

Accounts form a chain: around the account of an inner run is the account of the outer run. Spending is added
to every account of the chain, and each may have a budget. An account travels in the `Scope`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import inf
from typing import Any, ClassVar

from understudy.errors import BudgetExceeded
from understudy.vocabulary.checks import UNSET, Unset
from understudy.vocabulary.messages import COUNTS, NO_USAGE, Usage

from .budget import Budget, Price, Spending, in_dollars


class Account:
    """The spending of one run; safe to share between threads.

    Args:
        owner: id of the agent that runs, for errors.
        model: the model's name in the price table; None for a group or workflow, which calls no model itself.
        spending: the figures so far; the account changes them in place.
        within: the account of the outer run.

    Raises:
        ValueError: there is a limit of dollars, and the model has no price.
    """

    __slots__ = (
        "_ahead",
        "_before",
        "_began",
        "_clock",
        "_is_cost_told",
        "_lock",
        "_model",
        "_owner",
        "_price",
        "_price_now",
        "_spending",
        "_untold",
        "_within",
    )

    is_live: ClassVar[bool] = True
    """Whether what happens charges it; that of a run that is replayed has what its events say."""

    def __init__(self, owner: str, model: str | None, spending: Spending, within: Account | None = None) -> None:
        self._owner = owner
        self._model = model
        self._spending = spending
        self._within: Account | None = None
        self._price: Price | None = None
        self._price_now: Price | Unset | None = UNSET
        """The price of the model that is asked now, if it is another one than the run's."""
        self._clock: Callable[[], float] | None = None
        self._ahead: Usage | None = None
        """Usage prepaid for the next turn; None if there is none."""
        self._began = 0.0
        self._untold: Spending | None = None
        """What no event of the run tells yet, without runs inside that count apart too; None if nobody asks."""
        self._is_cost_told = False
        """Whether it was told that the cost is unknown, as it stays."""
        self._before: Spending | None = None
        """Its figures when it began to count apart: when its stay began; None before that."""
        self._lock = threading.Lock()
        """Guards the figures. Code that takes the locks of several accounts takes the innermost first."""
        self.enter(within)

    def enter(self, within: Account | None) -> None:
        """Replace the outer account: a resumed run may be inside of another run than before.

        Raises:
            ValueError: there is a limit of dollars, and the model has no price.
        """
        if within is not None and self in within.chain():
            within = None  # resumed by a run that it started itself: the chain must not become a cycle
        before, self._within = self._within, within
        try:
            self._price = self._find_price()
        except ValueError:
            self._within = before
            raise

    def chain(self) -> Iterator[Account]:
        """Iterate over this account and the outer ones, innermost first."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account._within

    def keep_in(self, spending: Spending) -> None:
        """Count in `spending` from now on."""
        with self._lock:
            before, self._spending = self._spending, spending
            spending.usage, spending.cost, spending.all_turns = before.usage, before.cost, before.all_turns
            spending.tool_calls, spending.seconds, spending.budget = before.tool_calls, before.seconds, before.budget

    # --- spending

    @property
    def spending(self) -> Spending:
        """The figures, for reading only."""
        return self._spending

    def charge_turn(self, usage: Usage) -> None:
        """Charge a model call of the run's own, minus the usage that was prepaid for it."""
        if self._ahead is not None:
            rest, self._ahead = beyond(usage, self._ahead), None
            self.charge(rest, self._cost_of(rest))
        else:
            self.charge(usage, self._cost_of(usage), turns=1)
        self._price_now = UNSET

    def charge_lost(self, usage: Usage) -> None:
        """Charge a model call of the run's own that nobody waits for any more, beside one that may be under way."""
        self.charge(usage, self._cost_of(usage), turns=1)

    def asks(self, model: str) -> Usage | None:
        """Charge the present model call at the price of this model from now on, until its turn is charged.

        Returns:
            What was prepaid for the turn before, for `pay_failed` and `prepaid_since`.
        """
        self._price_now = self._price_of(model)
        return self._ahead

    def pay_failed(self, usage: Usage, before: Usage | None) -> None:
        """Charge the tokens of a model that failed ahead of the turn, at its own price: another model is asked for it.

        Args:
            usage: all tokens of that model. It may have prepaid a part of them itself; that part is not charged again.
            before: what was prepaid when the model was asked, as `asks` returned it.
        """
        prepaid = self.prepaid_since(before)
        self._pay_ahead(usage if prepaid == NO_USAGE else beyond(usage, prepaid))

    def prepaid_since(self, before: Usage | None) -> Usage:
        """Return what was prepaid for the turn since `asks` returned `before`."""
        if self._ahead is None or before is None:
            return self._ahead or NO_USAGE
        return beyond(self._ahead, before)

    def charge_call_of(self, model: str, usage: Usage) -> None:
        """Charge a call of another model than the run's own, at the price of that one."""
        price = self._price_of(model)
        self.charge(usage, None if price is None else price.cost_of(usage), turns=1)

    def pay_ahead(self, usage: Usage) -> None:
        """Charge the tokens of a model call ahead of its turn, if there is a budget.

        A client does so before it admits the next waiting call, because the budget may refuse that one now.
        """
        if self._is_limited():
            self._pay_ahead(usage)

    def _pay_ahead(self, usage: Usage) -> None:
        turns = 1 if self._ahead is None else 0
        known = NO_USAGE if usage.input_tokens is None or usage.output_tokens is None else usage
        self._ahead = known if self._ahead is None else self._ahead + known
        self.charge(known, 0 if known is NO_USAGE else self._cost_of(known), turns=turns)

    def prepay(self, usage: Usage) -> None:
        """Charge a whole model call ahead of its turn: the run ended before the turn was taken, and may go on."""
        self.charge_turn(usage)
        self.is_prepaid(usage)

    def is_prepaid(self, usage: Usage) -> None:
        """Note that the next turn was charged already."""
        self._ahead = usage

    def forget_ahead(self) -> None:
        """Keep a prepaid usage as it is: its turn will not be charged."""
        self._ahead = None

    def _cost_of(self, usage: Usage) -> int | None:
        price = self._price if self._price_now is UNSET else self._price_now
        return None if price is None else price.cost_of(usage)

    def charge(self, usage: Usage = NO_USAGE, cost: int | None = 0, *, turns: int = 0, tool_calls: int = 0) -> None:
        """Add spending to this account and to every outer one."""
        account: Account | None = self
        is_apart = False
        while account is not None:  # not chain(): every turn of every run comes here
            with account._lock:
                if account._untold is not None:
                    if not is_apart:
                        add(account._untold, Spending(usage=usage, cost=cost, all_turns=turns, tool_calls=tool_calls))
                    is_apart = True
                spent = account._spending
                if usage is not NO_USAGE:  # a sum has no raw counts
                    spent.usage = usage if spent.usage is NO_USAGE and not usage.raw else spent.usage + usage
                spent.cost = None if cost is None or spent.cost is None else spent.cost + cost
                spent.all_turns += turns
                spent.tool_calls += tool_calls
            account = account._within

    def take_calls(self, calls: int) -> None:
        """Charge a round of tool calls to every account, or to none.

        Raises:
            BudgetExceeded: an account has not as much left.
        """
        if not self._is_limited():
            self.charge(tool_calls=calls)
            return
        chain = list(self.chain())
        with ExitStack() as locks:
            for account in chain:
                locks.enter_context(account._lock)
            refusal = self.refusal(calls)
            if refusal is not None:
                raise refusal
            is_apart = False
            for account in chain:
                account._spending.tool_calls += calls
                if account._untold is not None:
                    account._untold.tool_calls += 0 if is_apart else calls
                    is_apart = True

    # --- for a journal, in which the events of each run tell what it spent itself

    def count_apart(self) -> None:
        """Note from now on what the run spends itself, apart from what runs inside of it spend that count apart too."""
        with self._lock:
            self._untold, self._before = Spending(), copy_of(self._spending)

    def take_untold(self) -> Spending | None:
        """Return what no event tells yet, which an event tells now; None for nothing."""
        with self._lock:
            untold = self._untold
            if untold is None:
                return None
            if untold.cost is None and self._is_cost_told:
                untold.cost = 0
            if not (untold.all_turns or untold.tool_calls or untold.cost != 0 or untold.usage is not NO_USAGE):
                return None
            self._untold = Spending()
            self._is_cost_told = self._is_cost_told or untold.cost is None
            return untold

    def take_in(self, inner: Account) -> None:
        """Have the next event tell what a run inside, which is over, has spent since it began to count apart.

        What is charged to it later counts as the run's own, too.
        """
        with inner._lock:
            if inner._untold is None or inner._before is None:
                return
            inner._untold, spent = None, grown(inner._spending, inner._before)
        with self._lock:
            if self._untold is not None:
                add(self._untold, spent)

    # --- time, counted by each run alone: inner runs are active at the same time

    def start(self, clock: Callable[[], float]) -> None:
        """Start the clock, if it is not running."""
        with self._lock:
            if self._clock is None:
                self._clock, self._began = clock, clock()

    def stop(self) -> None:
        """Stop the clock: the run ended, or waits for a person."""
        with self._lock:
            self._spending.seconds += self._since()
            self._clock = None

    def settle(self) -> None:
        """Update the seconds of the figures."""
        with self._lock:
            since = self._since()
            self._spending.seconds += since
            self._began += since

    def add_seconds(self, seconds: float) -> None:
        """Add seconds that this clock did not count."""
        with self._lock:
            self._spending.seconds += seconds

    def _since(self) -> float:
        return 0.0 if self._clock is None else max(0.0, self._clock() - self._began)

    # --- limits

    def refusal(self, calls: int | None = None) -> BudgetExceeded | None:
        """Return why no further call may begin; None if one may.

        Args:
            calls: the number of tool calls; None for a model call.
        """
        account: Account | None = self
        while account is not None:  # not chain(): every turn of every run comes here
            refusal = None if account._spending.budget is None else self._refusal_of(account, calls)
            if refusal is not None:
                return refusal
            account = account._within
        return None

    def _refusal_of(self, account: Account, calls: int | None) -> BudgetExceeded | None:
        budget = account._spending.budget
        for what, spent, more in account._figures(calls):
            limit: float | None = getattr(budget, what)
            if limit is not None and (spent + more > limit if what == "tool_calls" else spent >= limit):
                return self._refusal(account, what, limit, spent, more)
        return None

    def _is_limited(self) -> bool:
        """Whether this or an outer account has a budget; most have none, and every step asks."""
        account: Account | None = self
        while account is not None:
            if account._spending.budget is not None:
                return True
            account = account._within
        return False

    def _figures(self, calls: int | None) -> Iterator[tuple[str, float, int]]:
        """Yield the limits that hold before a model call, or before so many tool calls: name, spent, to be spent."""
        spent, usage = self._spending, self._spending.usage
        yield "total_tokens", usage.total_tokens or 0, 0
        yield "input_tokens", usage.input_tokens or 0, 0
        yield "output_tokens", usage.output_tokens or 0, 0
        cost = in_dollars(spent.cost)
        yield "cost_usd", inf if cost is None else cost, 0
        yield "seconds", spent.seconds + self._since(), 0
        if calls is None:
            yield "turns", spent.all_turns, 0
        elif calls:
            yield "tool_calls", spent.tool_calls, calls

    def _refusal(self, account: Account, what: str, limit: float, spent: float, more: int) -> BudgetExceeded:
        inherited = account is not self
        whose = f", which agent {self._owner!r} is inside of and draws from" if inherited else ""
        wanted = f" and asked for {more} more" if more else ""
        unknown = "; a call had no price or no count of tokens, give prices with Budget(prices={…: us.Price(…)})"
        return BudgetExceeded(
            f"agent {account._owner!r} spent {'an unknown part' if spent == inf else f'{spent:,}'} of the {limit:,} {what} in its budget{wanted}{whose}; "
            f"nothing more of it ran{unknown if spent == inf else ''}",
            what=what,
            limit=limit,
            spent=spent,
            inherited=inherited,
        )

    def counts_tokens(self) -> bool:
        """Whether there is a limit of tokens or dollars, so that missing counts must be estimated."""
        account: Account | None = self
        while account is not None:  # as in `refusal`
            budget = account._spending.budget
            if budget is not None and _counts_tokens(budget):
                return True
            account = account._within
        return False

    def extend(self, budget: Budget) -> None:
        """Raise the limits of the run's own budget.

        Raises:
            ValueError: a limit would be lowered, or the budget limits dollars and a price is unknown.
        """
        spending, before = self._spending, self._spending.budget
        raised = budget if before is None else before.raised_to(budget)
        if raised.cost_usd is not None and spending.cost is None:
            raise ValueError("the budget cannot limit cost_usd: the run made calls whose price or tokens are not known")
        spending.budget = raised
        try:
            self._price = self._find_price()
        except ValueError:
            spending.budget = before
            raise

    def _find_price(self) -> Price | None:
        if self._model is None:
            return None
        if not self._is_limited():
            return Price.of(self._model)
        price = self._price_of(self._model)
        budgets = [account._spending.budget for account in self.chain()]
        if price is None and any(budget is not None and budget.cost_usd is not None for budget in budgets):
            raise no_price(self._owner, self._model)
        return price

    def _price_of(self, model: str) -> Price | None:
        for account in self.chain():
            budget = account._spending.budget
            if budget is not None and model in budget.prices:
                return budget.prices[model]
        return Price.of(model)


def add(told: Spending, more: Spending) -> None:
    """Add figures to others, but no limits and no time."""
    if more.usage is not NO_USAGE:  # a sum has no raw counts
        told.usage = more.usage if told.usage is NO_USAGE and not more.usage.raw else told.usage + more.usage
    told.cost = None if told.cost is None or more.cost is None else told.cost + more.cost
    told.all_turns += more.all_turns
    told.tool_calls += more.tool_calls


def grown(now: Spending, then: Spending) -> Spending:
    """Return by how much figures grew, without limits and time; a cost or a count that was and stays unknown says nothing."""
    cost = 0 if now.cost is then.cost is None else None if now.cost is None else now.cost - (then.cost or 0)
    usage = now.usage if then.usage == NO_USAGE else _grown(now.usage, then.usage)
    turns, tool_calls = now.all_turns - then.all_turns, now.tool_calls - then.tool_calls
    return Spending(usage=usage, cost=cost, all_turns=turns, tool_calls=tool_calls)


def _grown(now: Usage, then: Usage) -> Usage:
    counts: dict[str, Any] = {}
    for name in COUNTS:
        count: int | None = getattr(now, name)
        before: int | None = getattr(then, name)
        counts[name] = None if count is None or count == before else count - (before or 0)
    return NO_USAGE if now == then else Usage(**counts, estimated=now.estimated)


def copy_of(figures: Spending) -> Spending:
    """Return figures that nobody changes."""
    return Spending(**{name: getattr(figures, name) for name in Spending.__slots__})


def beyond(usage: Usage, ahead: Usage) -> Usage:
    """Return `usage` minus `ahead`; unknown counts stay unknown."""
    return Usage(
        _more(usage.input_tokens, ahead.input_tokens),
        _more(usage.output_tokens, ahead.output_tokens),
        _more(usage.cached_tokens, ahead.cached_tokens),
        _more(usage.cache_write_tokens, ahead.cache_write_tokens),
        _more(usage.reasoning_tokens, ahead.reasoning_tokens),
        estimated=usage.estimated,
        cache_write_1h_tokens=_more(usage.cache_write_1h_tokens, ahead.cache_write_1h_tokens),
    )


def _more(count: int | None, ahead: int | None) -> int | None:
    return None if count is None else max(0, count - (ahead or 0))


def _counts_tokens(budget: Budget) -> bool:
    limits = (budget.total_tokens, budget.input_tokens, budget.output_tokens, budget.cost_usd)
    return any(limit is not None for limit in limits)


def no_price(owner: str, model: str) -> ValueError:
    """Return the error for a limit of dollars when the price is unknown."""
    return ValueError(
        f"agent {owner!r}: its budget limits cost_usd, and there is no price for model {model!r}; "
        f"pass Budget(cost_usd=…, prices={{{model!r}: us.Price(input=…, output=…)}})"
    )
