"""What finished calls changed in the session while others of their round ran, as rows, and the saved run with these changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from understudy.orchestration.saving.saved_run import SavedRun
from understudy.vocabulary.messages import JsonValue

from .heads import calls_of_round, count_of, head_of
from .places import key_of_result
from .rows import CHANGE


class SessionChange(NamedTuple):
    """What one call changed."""

    values: Mapping[str, JsonValue]
    removed: frozenset[str]


def change_text(values: Mapping[str, JsonValue], removed: Iterable[str]) -> str:
    """Return a change as the body of a row; empty if there is none."""
    gone = sorted(removed)
    return json.dumps([values, gone]) if values or gone else ""


def changes_in(rows: Mapping[tuple[str, str], str]) -> list[SessionChange]:
    """Return the changes that the session row of an agent's run does not have yet, in call order."""
    if not any(kind == CHANGE for kind, _ in rows):
        return []
    calls, count = calls_of_round(head_of(rows), rows), count_of(rows)
    bodies = [rows.get((CHANGE, key_of_result(count, call["id"]))) for call in calls]
    return [SessionChange(values, frozenset(removed)) for values, removed in map(json.loads, filter(None, bodies))]


def with_changes(saved: SavedRun, changes: Iterable[SessionChange], *, is_inner: bool) -> SavedRun:
    """Return a saved run with more changes of its session.

    Args:
        saved: the run.
        changes: the first ones first.
        is_inner: whether the run is a part of another one, so that its session has its changes alone.
    """
    session, removed, unsaved = dict(saved.session), set(saved.removed), set(saved.unsaved)
    for change in changes:
        session.update(change.values)
        for key in change.removed:
            session.pop(key, None)
        if is_inner:
            removed = (removed - change.values.keys()) | change.removed
        else:
            unsaved |= change.values.keys() | change.removed
    return replace(saved, session=session, removed=tuple(sorted(removed)), unsaved=tuple(sorted(unsaved)))
