"""What the lines of a run and of all runs inside of it come to, from their texts alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from understudy.orchestration.agent.spec import RunSpec
from understudy.orchestration.runs import events as e
from understudy.orchestration.runs.group_state import GroupLineState, MapLineState, MapSpec
from understudy.orchestration.runs.lines import line_of
from understudy.orchestration.runs.state import AgentLineState
from understudy.vocabulary.context import account
from understudy.vocabulary.context.budget import Spending

LineState: TypeAlias = AgentLineState | GroupLineState | MapLineState
Definitions: TypeAlias = Callable[[str], Any]
"""Returns the definition with a digest."""


def add(told: Spending, more: Spending | e.Spent) -> None:
    """Add figures to others, but no limits and no time."""
    if isinstance(more, e.Spent):
        more = Spending(usage=more.usage, cost=more.cost, all_turns=more.turns, tool_calls=more.tool_calls)
    account.add(told, more)


def copy_of(figures: Spending) -> Spending:
    """Return figures that nobody changes, without time and limits."""
    return account.grown(figures, Spending())


def state_of(definition: Any, definitions: Definitions) -> LineState:
    """Return the state of a line before its first event."""
    if isinstance(definition, MapSpec):
        return MapLineState(definition)
    if isinstance(definition, RunSpec):
        return AgentLineState(definition, definitions)
    return GroupLineState(definition, definitions)


def place_of(event: Any) -> str:
    """Return the place of the run inside whose end an event tells; empty if it tells none."""
    return event.result.call_id if isinstance(event, e.ResultCame) else getattr(event, "place", "")


class Replayed:
    """One line, read again.

    Attributes:
        state: what it comes to.
        before: what was spent before its first event, of a line that begins with a text of the state.
        told: run inside -> what the line says that it has spent.
        is_late: whether a run inside began in a call that was cut, or was under way when a callback's text or error ended the
            run: it may spend before the end of its run here, or after.
    """

    def __init__(self, text: str, definitions: Definitions) -> None:
        events = [entry.event for entry in line_of(text)]
        first = events[0]
        assert isinstance(first, e.Accepted | e.Migrated)
        self.state = state_of(definitions(first.definition), definitions)
        self.before = Spending()
        self.told: dict[str, Spending] = {}
        self._places: dict[str, str] = {}
        self._cut: set[str] = set()
        self.is_late = False
        for event in events:
            self.state.apply(event)
            self._note(event)
            if event is first:
                self.before = copy_of(self.state.account.spending)

    def _note(self, event: Any) -> None:
        if isinstance(event, e.CallsCut):
            self._cut.update(event.call_ids)
        if isinstance(event, e.ChildBegan):
            self._places[event.place] = event.run
            self.is_late |= event.place in self._cut
        if isinstance(event, e.RunRuled):
            self.is_late |= bool(self._places)
        places: Iterable[str] = event.call_ids if isinstance(event, e.CallsCut) else (place_of(event),)
        if isinstance(event, e.Ended):
            self._places.clear()  # they were cancelled
        spent: e.Spent | None = getattr(event, "spent", None)
        for run in [self._places.pop(place) for place in places if spent is not None and place in self._places]:
            add(self.told.setdefault(run, Spending()), e.NOTHING if spent is None else spent)

    @property
    def open(self) -> list[str]:
        """The lines of the runs inside that are under way."""
        return list(self._places.values())


def replayed(texts: Mapping[str, str], definitions: Definitions) -> dict[str, Replayed]:
    """Read the lines of a tree again, by name."""
    return {name: Replayed(text, definitions) for name, text in texts.items()}


def figures_of(tree: Mapping[str, Replayed], name: str) -> Spending:
    """Return what a run has spent, with the runs inside of it that are under way: their own lines say it."""
    line = tree[name]
    found = Spending(budget=line.state.account.spending.budget)
    add(found, line.state.account.spending)
    for run in line.open:
        if run in tree:
            since = account.grown(figures_of(tree, run), tree[run].before)
            add(found, account.grown(since, line.told.get(run, Spending())))
    return found
