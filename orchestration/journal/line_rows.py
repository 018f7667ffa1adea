"""The line of a run as rows of its journal, and what the run has come to by these rows. Loads pydantic.

A stay begins its line anew, with the run as it was accepted or with its state then. Each append is a row: the number of the
next public event, and the events. The result of a call that is done while others of its round run is appended early, without
such a number: it has what the call changed in the session. All other appends are whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from understudy.orchestration.agent.saved_text import dumped
from understudy.orchestration.agent.spec import RunSpec
from understudy.orchestration.runs.definitions import Definition, definition_of
from understudy.orchestration.runs.definitions import text_of as text_of_definition
from understudy.orchestration.runs.events import CallsDoubted, Changes, Migrated, ResultsTaken, RunEvent, Spent
from understudy.orchestration.runs.group_state import GroupLineState, MapSpec
from understudy.orchestration.runs.lines import Entry, line_of, text_of
from understudy.orchestration.runs.state import AgentLineState
from understudy.vocabulary.context.account import add, grown
from understudy.vocabulary.context.budget import Spending

from .rows import DEFINITION, LINE, JournalRow

Rows: TypeAlias = Mapping[tuple[str, str], str]
"""Kind and key of each row of one run -> its body."""

Told: TypeAlias = tuple[float, RunEvent]
"""When an event was told, in seconds since the epoch, and the event."""


def definition_row(definition: Definition) -> JournalRow:
    """Return the row of what a run goes by.

    If the text leaves settings out, the row has the fingerprint of the whole definition and the digests of its parts besides.
    """
    text = text_of_definition(definition)
    if isinstance(definition, RunSpec) and definition.settings.extra:
        text = f"{text[:-1]},{_encode([definition.fingerprint(), definition.parts()])}]"
    return JournalRow(DEFINITION, "", text)


def _prints_in(body: str) -> tuple[str, dict[str, str]] | None:
    """Return what the row of a definition says besides the definition."""
    _, _, *prints = cast("list[Any]", json.loads(body))
    return (prints[0][0], prints[0][1]) if prints else None


def fingerprint_of(body: str) -> str:
    """Return the fingerprint of a definition, by the body of its row. Raises `ValueError` if it cannot be read."""
    prints = _prints_in(body)
    if prints is not None:
        return prints[0]
    definition = definition_of(body)
    assert not isinstance(definition, MapSpec), "a map has no line of its own"
    return definition.fingerprint()


def append_row(first: int, told: Sequence[Told], next_event: int | None) -> JournalRow:
    """Return the row of some events.

    Args:
        first: the place of the first one in the line.
        told: the events.
        next_event: the number of the next public event; None if the append is not whole.

    Raises:
        ValueError: JSON cannot carry a value of an event.
    """
    line = [Entry(first + at, *each) for at, each in enumerate(told)]
    return JournalRow(LINE, f"{first:09}", f"{'' if next_event is None else next_event}\n{text_of(line)}")


_encode = json.JSONEncoder(separators=(",", ":")).encode


class StoredLine(NamedTuple):
    """What a run has come to by its rows."""

    state: AgentLineState | GroupLineState
    next_event: int
    """The number of the next public event, as of the last whole append."""
    prints: tuple[str, dict[str, str]] | None
    """The fingerprint of its definition, and the digests of its parts, if these do not follow from the state."""
    before: Spending
    """All that it had spent when its stay began: the run around it counts only what came since."""

    @property
    def changes(self) -> Changes:
        """What was changed in the session since the stay began."""
        session = self.state.session
        return Changes(dict(session.changes), tuple(sorted(session.removed)))

    @property
    def machine(self) -> str:
        """The machine, as its `to_json` gives it."""
        assert self.state.machine is not None, "its line has begun"
        text = self.state.machine.to_json()
        if self.prints is None:
            return text
        fingerprint, parts = self.prints
        return dumped({**json.loads(text), "fingerprint": fingerprint, "parts": parts})


def stored_line(rows: Rows) -> StoredLine:
    """Return what a run has come to by its rows.

    Raises:
        KeyError: a row is missing.
        ValueError: a row cannot be read.
        ProtocolViolation: the events do not fit one another.
    """
    definition = definition_of(rows[DEFINITION, ""])
    kind = AgentLineState if isinstance(definition, RunSpec) else GroupLineState
    state = kind(definition, lambda _: definition)  # type: ignore[arg-type]
    next_event, before, times = 0, Spending(), list[float]()
    for key in sorted([key for kind, key in rows if kind == LINE]):
        number, _, text = rows[LINE, key].partition("\n")
        for _, at, event in line_of(text):
            state.apply(event)
            if isinstance(event, Migrated):
                before = grown(state.account.spending, _figures(event.in_stay))
            times.append(at)
        if number:
            next_event = int(number)
    if state.machine is None:
        raise ValueError("not a line of events: it does not begin with a run")
    state.account.add_seconds(max(0.0, times[-1] - times[0]))
    return StoredLine(state, next_event, _prints_in(rows[DEFINITION, ""]), before)


def _figures(spent: Spent) -> Spending:
    return Spending(usage=spent.usage, cost=spent.cost, all_turns=spent.turns, tool_calls=spent.tool_calls)


def take_in(lines: Mapping[str, StoredLine]) -> None:
    """Have each of some runs, by path, have spent what the runs inside of it have spent that have lines."""
    for path in sorted(lines, key=lambda each: each.count("/"), reverse=True):  # the innermost ones first
        outer = lines.get(path.rpartition("/")[0])
        if path and outer is not None:
            inside = lines[path]
            add(outer.state.account.spending, grown(inside.state.account.spending, inside.before))


def put_in_doubt(line: StoredLine, repeats: Mapping[str, bool]) -> StoredLine:
    """Have a run take the results that have come, and know which calls were under way when its process died.

    Such a call is pending again if its tool may be repeated; otherwise it waits for a decision.

    Args:
        line: of the run.
        repeats: name of a tool -> whether its calls in doubt are just made again.

    Returns:
        The line itself.
    """
    state = line.state
    if not isinstance(state, AgentLineState):
        return line
    if state.results:
        state.apply(ResultsTaken())
    asked = [call.id for call in state.open_calls if call.id in state.under_way and not repeats.get(call.name, False)]
    if asked:
        state.apply(CallsDoubted(tuple(asked)))
    return line
