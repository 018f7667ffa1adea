"""What a run has spent by its line: nothing is asked, neither prices nor budgets."""

from __future__ import annotations

from understudy.errors import BudgetExceeded
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Budget, Price, Spending
from understudy.vocabulary.messages import NO_USAGE, Usage

from .events import Spent


class Tally(Account):
    """The account of a run that is replayed: it has what the events say, and limits nothing."""

    __slots__ = ("_estimates",)

    is_live = False

    def __init__(self, figures: Spending | None = None) -> None:
        super().__init__("", None, Spending() if figures is None else figures)
        self._estimates = False

    def expect(self, spent: Spent) -> None:
        """Note whether the event that is applied now says estimates; `add` follows."""
        self._estimates = spent.usage.estimated

    def add(self, spent: Spent) -> None:
        """Add what an event says."""
        super().charge(spent.usage, spent.cost, turns=spent.turns, tool_calls=spent.tool_calls)

    def start_with(self, figures: Spending) -> None:
        """Take over what a saved state says was spent."""
        for name in Spending.__slots__:
            setattr(self.spending, name, getattr(figures, name))

    # What a machine counts is in the events already.

    def charge(self, usage: Usage = NO_USAGE, cost: int | None = 0, *, turns: int = 0, tool_calls: int = 0) -> None:
        """Do nothing."""

    def charge_turn(self, usage: Usage) -> None:
        """Do nothing."""

    def charge_call_of(self, model: str, usage: Usage) -> None:
        """Do nothing."""

    def prepay(self, usage: Usage) -> None:
        """Do nothing."""

    def is_prepaid(self, usage: Usage) -> None:
        """Do nothing."""

    def take_calls(self, calls: int) -> None:
        """Do nothing."""

    def refusal(self, calls: int | None = None) -> BudgetExceeded | None:
        """Return None: the events tell what a budget allowed."""
        return None

    def counts_tokens(self) -> bool:
        """Whether counts that were missing were estimated when the event was written."""
        return self._estimates

    def extend(self, budget: Budget) -> None:
        """Note the limits, for the accounts of the stay that goes on."""
        before = self.spending.budget
        self.spending.budget = budget if before is None else before.raised_to(budget)

    def _find_price(self) -> Price | None:
        return None
