"""Type checks of everything that callers feed to an orchestrator's machine, made before its state changes."""

from __future__ import annotations

from understudy.orchestration.agent.feed_checks import check_text_or_none
from understudy.orchestration.agent.turn_checks import fault_of_usage, kind_of
from understudy.vocabulary.checks import checked_mapping, checked_text, checked_whole

from .children import ChildFailure, ChildResult


def check_child_result(given: ChildResult) -> None:
    """Check a child's result, but not the values of its session.

    Raises:
        TypeError: a field is of the wrong type.
        ValueError: a count is negative.
    """
    if not isinstance(given, ChildResult):
        raise TypeError(f"the result of a child must be a ChildResult, got {kind_of(given)}")
    checked_text("the result of a child: text", given.text)
    check_text_or_none("the result of a child: combined_text", given.combined_text)
    if fault := fault_of_usage(given.usage):
        raise TypeError(f"the result of a child: {fault}")
    for name in ("iterations", "turns"):
        checked_whole(f"the result of a child: {name}", getattr(given, name), 0)
    checked_mapping("the result of a child: changes", given.changes)
    for key in given.removed:
        checked_text("the result of a child: each of removed", key)


def check_child_failure(given: ChildFailure, error: Exception | None) -> None:
    """Raise `TypeError` unless these are a `ChildFailure` and an exception or None."""
    if not isinstance(given, ChildFailure):
        raise TypeError(f"the failure of a child must be a ChildFailure, got {kind_of(given)}")
    checked_text("the failure of a child: kind", given.kind)
    checked_text("the failure of a child: message", given.message)
    if error is not None and not isinstance(error, Exception):
        raise TypeError(f"the error of a child must be an exception or None, got {kind_of(error)}")
