"""The rows of a journal: their kinds, and what of a run stands in rows already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from understudy.orchestration.group.children import ChildState
from understudy.vocabulary.messages import JsonValue, ToolResult

HEAD, SYSTEM, DEFINITION, MESSAGE, RESULT = "head", "system", "definition", "message", "result"
"""What a machine writes: its state, what never changes of it, its messages, and the results of open calls."""
INPUT, CHILD, TASK = "input", "child", "task"
"""What the machine of a group or workflow writes besides its head and its definition."""
RUN, SESSION, ARTIFACT, SPENDING, SAVED, CHANGE = "run", "session", "artifact", "spending", "saved", "change"
"""What stands beside the machine. A change is what one call did to the session, until the session row has it."""


SavedValue: TypeAlias = tuple[int, JsonValue, bool]
"""What a run stored of a key of its session: the version, the value, and whether it removed the key."""


class JournalRow(NamedTuple):
    """A row of one run: a later row with the same kind and key replaces it."""

    kind: str
    key: str
    body: str


class Written(NamedTuple):
    """What of a run stands in rows."""

    messages: int = 0
    results: Mapping[str, ToolResult] = {}
    """Call id -> the result of the open round, as it was written."""
    is_defined: bool = False
    """Whether the definition and what else does not change are written."""
    changes: frozenset[str] = frozenset()
    """The calls of the open round whose changes of the session stand in rows of their own."""
    begun: frozenset[str] = frozenset()
    """The calls of the open round that began and have no result."""
    open_state: tuple[object, ...] | None = None
    """What else the head says of a run whose round is open, to be compared; None if no round is open in the head."""
    children: Sequence[tuple[ChildState, str]] = ()
    """Of a group or workflow: each child as it was, and its row's body."""
    tasks: Sequence[str] = ()
    """Of a workflow: the body of each task's row."""
