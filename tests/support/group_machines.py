"""Short words for the tests of machines that run children: sequences, parallel groups and workflows."""

from __future__ import annotations

from typing import Any

from understudy.orchestration import ChildFailure, ChildOrder, GroupDone, RunChildren
from understudy.orchestration.group.group_run import GroupRun
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, Pause

AnyGroup = GroupRun[Any, Any]
ASKS = Pause(id="question", path=("child",), question="Which?")


def orders(run: AnyGroup) -> list[ChildOrder]:
    """Return the children that the machine wants to start now."""
    step = run.next_step()
    assert isinstance(step, RunChildren), step
    return list(step.children)


def running(run: AnyGroup) -> list[int]:
    """Return the positions of the children that the machine wants run now."""
    return [order.position for order in orders(run)]


def done(run: AnyGroup) -> Complete[str]:
    """Return the outcome of a run that must be complete."""
    step = run.next_step()
    assert isinstance(step, GroupDone), step
    assert isinstance(step.outcome, Complete), step.outcome
    return step.outcome


def stopped(run: AnyGroup) -> Incomplete:
    """Return the outcome of a run that must have stopped before its end."""
    step = run.next_step()
    assert isinstance(step, GroupDone), step
    assert isinstance(step.outcome, Incomplete), step.outcome
    return step.outcome


def broke(why: str = "no") -> ChildFailure:
    """Return the failure of a child."""
    return ChildFailure("RunError", why)
