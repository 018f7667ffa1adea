"""Makes the account of a run from the agent's budget and its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Budget, Spending, narrowed

if TYPE_CHECKING:
    from understudy.orchestration.agent.run import AgentRun

    from .agent import Agent


def account_of(
    agent: Agent[object], budget: Budget | None, machine: AgentRun | None, within: Account | None
) -> Account:
    """Return the account of a new or resumed run, inside of the account of the run around it.

    Raises:
        ValueError: there is a limit of dollars, and the agent's model has no price.
    """
    if machine is not None:
        machine.account.enter(within)
        return machine.account
    spending = Spending(budget=narrowed(agent.budget, budget))
    return Account(agent.id, agent.run_spec.priced_as, spending, within)
