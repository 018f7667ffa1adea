"""Which errors a run can go on after: one table for all runs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from understudy.errors import (
    ActorError,
    BudgetExceeded,
    CircularAgentCall,
    ContextOverflow,
    InvalidOutput,
    MaxIterationsExceeded,
    ProviderError,
    ProviderTimeout,
    RateLimited,
    RunCancelled,
    RunTimedOut,
    SeveralErrors,
    StoreError,
    UnderstudyError,
    UnfinishedRun,
)

GoesOn: TypeAlias = Literal["again", "limit", "never"]
"""How a run goes on after an error: the failed step is done again, a limit must be raised first, or not at all."""

Rule: TypeAlias = Literal["again", "limit", "never", "if retryable", "if resumed", "as one inside"]

RULES: Mapping[type[BaseException], Rule] = MappingProxyType[type[BaseException], Rule](
    {
        RateLimited: "again",
        ProviderTimeout: "again",
        ContextOverflow: "limit",
        ProviderError: "if retryable",
        RunTimedOut: "again",
        RunCancelled: "again",
        MaxIterationsExceeded: "limit",
        BudgetExceeded: "limit",
        InvalidOutput: "limit",
        UnfinishedRun: "limit",
        SeveralErrors: "as one inside",
        ActorError: "if resumed",
        CircularAgentCall: "if resumed",
        StoreError: "if resumed",
        UnderstudyError: "never",
    }
)
"""Class of error -> its rule. The nearest class of an error's bases counts, so a subclass follows its parent."""


def goes_on(error: BaseException, *, resumed: bool = False) -> GoesOn:
    """Return how a run goes on after an error.

    The machine of the run may still forbid it: a machine that has failed for good cannot go on after any error.

    Args:
        error: the error that ended the run.
        resumed: whether the run was resumed, so that a token was used up for it.
    """
    match _rule_of(type(error)):
        case "if retryable":
            return "again" if isinstance(error, ProviderError) and error.retryable else "never"
        case "if resumed":
            return "again" if resumed else "never"
        case "as one inside":
            inside = error.exceptions if isinstance(error, SeveralErrors) else ()
            ways = {goes_on(each, resumed=resumed) for each in inside}
            return "again" if "again" in ways else "limit" if "limit" in ways else "never"
        case "again" | "limit" | "never" as how:
            return how


def _rule_of(kind: type[BaseException]) -> Rule:
    for each in kind.__mro__:
        if each in RULES:
            return RULES[each]
    return "never"
