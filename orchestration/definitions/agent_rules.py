"""Checks the callbacks of runners, and an agent's criteria and its rule for invalid calls.

As in `checks`, each function returns its argument, ready for use, or raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from understudy.orchestration.agent.steps import (
    FailRun,
    InvalidCall,
    RepairCall,
    Resolution,
    RetryTurn,
    SkipCall,
    StopRun,
)
from understudy.vocabulary.checks import WrongReturn, found_instead
from understudy.vocabulary.context.session import RunContext
from understudy.vocabulary.runs.callbacks import AgentCallback
from understudy.vocabulary.runs.criteria import Criterion, MaxIterationsCriteria

from .method_checks import fault_of_callback

InvalidCallRule: TypeAlias = (
    'Literal["result", "fail", "retry"] | Callable[[RunContext, InvalidCall], Resolution | None]'
)
"""The rule for a call that cannot run as the model wrote it.

`"result"`: the model reads the reason as an error result, and the other calls of the turn run. `"fail"`: the run ends
with a `ToolError`. `"retry"`: nothing of the turn runs, and the model reads the reason and tries again. A function
returns one of the resolutions; None stands for `"result"`.
"""

WORDS = ("result", "fail", "retry")


def checked_callbacks(id: str, callbacks: Iterable[AgentCallback], kind: str = "agent") -> tuple[AgentCallback, ...]:
    """Return the callbacks, in their order."""
    if isinstance(callbacks, (str, AgentCallback)) or not isinstance(callbacks, Iterable):
        raise TypeError(f"{kind} {id!r}: callbacks must be a list of AgentCallback objects, got {callbacks!r}")
    given = tuple(callbacks)
    for callback in given:
        if isinstance(callback, type) and issubclass(callback, AgentCallback):
            raise TypeError(f"{kind} {id!r}: callbacks must hold objects, got a class; write {callback.__name__}()")
        if not isinstance(callback, AgentCallback):
            raise TypeError(f"{kind} {id!r}: callbacks must hold AgentCallback objects, got {callback!r} in it")
        if fault := fault_of_callback(callback):
            raise TypeError(f"{kind} {id!r}: callback {callback.name!r} {fault}")
    return given


def checked_watchers(id: str, callbacks: Iterable[AgentCallback], kind: str) -> tuple[AgentCallback, ...]:
    """Return the callbacks of a group or a workflow. One that would never be called, such as a guardrail, is refused."""
    given = checked_callbacks(id, callbacks, kind)
    for callback in given:
        found = type(callback)
        if found.on_error is AgentCallback.on_error and found.on_finish is AgentCallback.on_finish:
            raise TypeError(
                f"{kind} {id!r}: callback {callback.name!r} has neither on_finish nor on_error, "
                f"and a {kind} calls no model and no tool; give it to the agents inside"
            )
    return given


def checked_criteria(id: str, criteria: Iterable[Criterion]) -> tuple[Criterion, ...]:
    """Return the criteria, in their order."""
    if isinstance(criteria, str) or not isinstance(criteria, Iterable):
        raise TypeError(f"agent {id!r}: criteria must be a list of criteria, got {criteria!r}")
    given = tuple(criteria)
    for criterion in given:
        if isinstance(criterion, type) or not callable(criterion):
            raise TypeError(
                f"agent {id!r}: criteria must hold criteria or functions of the context and the text, "
                f"got {criterion!r} in it"
            )
    return given


def are_completion_rules(criteria: Iterable[Criterion]) -> bool:
    """Whether a text must meet a criterion to end the run."""
    return any(not isinstance(criterion, MaxIterationsCriteria) for criterion in criteria)


def cap_of(criteria: Iterable[Criterion], max_iterations: int) -> int:
    """Return how many rounds of tool calls may run: the lowest `MaxIterationsCriteria`, else `max_iterations`."""
    return min([c.limit for c in criteria if isinstance(c, MaxIterationsCriteria)], default=max_iterations)


def checked_invalid_call_rule(id: str, rule: InvalidCallRule) -> InvalidCallRule:
    """Return one of the words, or a function."""
    if not callable(rule) and rule not in WORDS:
        raise (ValueError if isinstance(rule, str) else TypeError)(
            f"agent {id!r}: on_invalid_call must be one of {', '.join(map(repr, WORDS))} or a function of the context "
            f"and the invalid call, got {rule!r}"
        )
    return rule


def checked_message(id: str, message: str) -> str:
    """Return a text that a model can be sent."""
    if not isinstance(message, str):
        raise TypeError(f"agent {id!r}: continue_message must be a string, got {message!r}")
    if not message.strip():
        raise ValueError(f"agent {id!r}: continue_message must not be empty; providers refuse such a message")
    return message


def resolved(rule: InvalidCallRule, context: RunContext, invalid: InvalidCall) -> Resolution | None:
    """Return the rule's resolution of an invalid call; None makes the call an error result.

    Raises:
        TypeError: a function returned something else.
    """
    if rule == "result":
        return None
    if rule == "fail":
        return FailRun()
    if rule == "retry":
        return RetryTurn(invalid.reason)
    assert callable(rule)
    found = rule(context, invalid)
    if found is not None and not isinstance(found, (RetryTurn, RepairCall, SkipCall, FailRun, StopRun)):
        raise WrongReturn(
            "the function given as on_invalid_call must return RetryTurn, RepairCall, SkipCall, FailRun, StopRun or "
            f"None, got {found_instead(found)}"
        )
    return found
