"""The state of a run: what its events come to. `apply` takes the next event, `due` says what is to be done.

Both ask no clock, thread, store, budget or user code, so a line that is replayed comes to the same state as the run that
wrote it. `apply` is the only place where the state changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, cast

from understudy.errors import BudgetExceeded, ProtocolViolation
from understudy.vocabulary.context.account import Account, copy_of
from understudy.vocabulary.context.budget import Budget, Price, Spending
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.messages import NO_USAGE, Usage

from .events import (
    Accepted,
    Answered,
    Asked,
    Changes,
    ChildBegan,
    Ended,
    Extended,
    Failed,
    Migrated,
    RunEvent,
    Spent,
    TakenOver,
)

if TYPE_CHECKING:
    from understudy.orchestration.agent.context_state import ContextState


class Due(NamedTuple):
    """A piece of work that is to be done now. Two with the same kind and key are the same piece."""

    kind: str
    """`open`, `model`, `judge`, `round`, `guard`, `call`, `review`, `child`, `ask`, `finish` or `fail`."""
    key: str = ""
    """The turn, the id of the call, or the position of the child."""


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


Lookup: TypeAlias = Callable[[str], object]
"""Returns the definition with a digest."""

OpenAccount: TypeAlias = Callable[[Spending], Account]
"""Makes the account that counts in these figures. That of a live run asks prices and budgets, and charges the runs around it."""


def unknown(digest: str) -> object:
    """Refuse a digest: the line needs no definition but its first."""
    raise KeyError(digest)


_BEFORE = Tally()
"""The account of a run before it was accepted: nobody counts in it."""

Handlers: TypeAlias = dict[type[RunEvent], Callable[[Any, Any], None]]


class LineState(ABC):
    """What the state of every kind of run has."""

    table: ClassVar[Handlers]
    """What takes each kind of event; others change nothing."""

    def __init__(self) -> None:
        self._has_begun = False
        self.accepted: Accepted | None = None
        self.account: Account = _BEFORE
        self.session = SessionOverlay({})
        self.children: dict[str, str] = {}
        """Place -> the line of the run that is under way there."""
        self.begun: dict[str, ChildBegan] = {}
        """Place -> the run that began there last."""
        self.asked: Asked | None = None
        """The question that waits for a person."""
        self.answered_of = 0
        """The number of the question of the run around it that was answered last."""
        self.ended: Ended | Failed | None = None
        self.context: ContextState | None = None
        """What requests show of a long conversation; its news are those of the last event."""
        self.stays = 1
        """How many stays the run had; each takeover begins one."""

    @abstractmethod
    def due(self) -> list[Due]:
        """Return what is to be done, work that is under way included; nothing if the run is over or waits for a person."""

    def apply(self, event: RunEvent) -> None:
        """Take the next event.

        Raises:
            ProtocolViolation: the event does not fit the state.
            Exception: what the event has does not fit the machine. No error changes anything.
        """
        kind, context = type(event), self.context
        if kind is Accepted or not self._has_begun:
            self._check_first(kind)
        told = 0 if context is None else len(context.news)
        handler = self.table.get(kind)
        if not self.account.is_live:
            self._count(event, cast(Tally, self.account), handler)
        elif handler is not None:
            handler(self, event)
        if told and self.context is not None:
            del self.context.news[:told]
        self._has_begun = True

    def _check_first(self, kind: type[RunEvent]) -> None:
        if self._has_begun or kind not in (Accepted, Migrated):
            place = "in the middle" if self._has_begun else "at the beginning"
            raise ProtocolViolation(f"{kind.__name__} {place} of a line, which begins with Accepted, once")

    def _count(self, event: RunEvent, tally: Tally, handler: Callable[[Any, Any], None] | None) -> None:
        spent: Spent | None = getattr(event, "spent", None)
        if spent is not None:
            tally.expect(spent)
        if handler is not None:
            handler(self, event)
        if spent is not None:
            tally.add(spent)

    def lay(self, changes: Changes | None) -> None:
        """Make what user code changed a part of the session."""
        if changes is None:
            return
        session = self.session
        session.changes.update(changes.values)
        session.removed = (session.removed - changes.values.keys()) | frozenset(changes.removed)
        for key in changes.removed:
            session.changes.pop(key, None)

    @property
    def is_live(self) -> bool:
        """Whether the account is that of a live run, which what happens has charged already."""
        return self.account.is_live

    def go_live(self, open_account: OpenAccount) -> None:
        """Count with an account of a live run from here on, which begins with what the events say."""
        self.account = open_account(copy_of(self.account.spending))

    # --- what every kind of run takes

    def child_began(self, event: ChildBegan) -> None:
        self.children[event.place] = event.run
        self.begun[event.place] = event

    def take_asked(self, event: Asked) -> None:
        self.asked = event

    def take_over(self, event: TakenOver) -> None:
        self.stays += 1
        self.asked = self.ended = None
        self.account.add_seconds(event.seconds)
        if event.session is not None:
            self._see(event.session)

    def _see(self, others: Changes) -> None:
        """Show what others changed of the session: it counts as what the run began with, and hides its own changes."""
        before, gone = self.session, frozenset(others.removed)
        below = {key: value for key, value in before.below.items() if key not in gone}
        self.session = SessionOverlay({**below, **others.values})
        hidden = gone | others.values.keys()
        self.session.changes = {key: value for key, value in before.changes.items() if key not in hidden}
        self.session.removed = before.removed - hidden

    def end(self, event: Ended | Failed) -> None:
        self.ended = event

    def begin_stay(self, event: Answered | Extended) -> None:
        """Note that the run goes on after a question or an end."""
        self.asked = self.ended = None
        if isinstance(event, Answered):
            self.answered_of = event.of


def handlers(*rows: tuple[Callable[[Any, Any], None], *tuple[type[RunEvent], ...]]) -> Handlers:
    """Return a table of what takes each kind of event, from rows of a method and the kinds that it takes."""
    return {kind: take for take, *kinds in rows for kind in kinds}


OF_ALL = handlers(
    (LineState.take_asked, Asked),
    (LineState.take_over, TakenOver),
    (LineState.child_began, ChildBegan),
    (LineState.end, Ended, Failed),
)
