"""Writes what each machine of this process is fed as events, and replays its line as text.

Of an agent's live run these are the events that its state takes by `apply`. What goes past it, such as a person's answer, is
told by the methods of the machine, as are all feeds of groups, and of machines that a test drives by hand.

After each event, the state that the line comes to must be that of the live machine, and the same must be due. So must the
session and the spending, which `oracle_records` tells: what a run spent is in its line, and of a run inside that is under
way, in the line of that one.
"""

# It wraps methods of any signature, and tells the events of each by a function of the same arguments.
# pyright: basic, reportUnusedFunction=false

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch
from weakref import WeakSet

from tests.support.line_trees import add, copy_of, figures_of, place_of, replayed, state_of
from understudy.errors import BudgetExceeded, MaxIterationsExceeded, ProtocolViolation
from understudy.orchestration.agent.pauses import sort_answers
from understudy.orchestration.agent.rounds import close_if_complete
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.agent.snapshot import dump
from understudy.orchestration.agent.steps import AwaitApproval, AwaitInput, CallModel, CallTools, Done
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.group.child_runs import ChildRuns
from understudy.orchestration.group.children import AwaitChildren, RunChildren
from understudy.orchestration.group.group_run import GroupDone, GroupRun
from understudy.orchestration.group.map_run import MapRun
from understudy.orchestration.group.parallel_run import ParallelRun
from understudy.orchestration.journal.line_rows import put_in_doubt, stored_line
from understudy.orchestration.runs import definitions
from understudy.orchestration.runs import events as e
from understudy.orchestration.runs.lines import Entry, line_of, text_of
from understudy.orchestration.runs.state import AgentLineState, Due
from understudy.orchestration.saving.saved_run import SavedRun
from understudy.vocabulary.context.account import Account, grown
from understudy.vocabulary.context.budget import Budget, Spending
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.context.session_values import TEMPORARY
from understudy.vocabulary.messages import COUNTS

Machine: TypeAlias = Any
LATER = e.TakenOver(owner="later")
"""Stands for a stay of which no event tells, unless somebody has changed the session."""
TAKING = (e.TakenOver, e.CallsDoubted, e.ResultsTaken)  # The last event of a takeover from rows.
MANY = 300  # Lines that are read again at the end.
NEW: tuple[dict[str, Any], str, str, str] = ({}, "", "", "")  # The opening of a machine that is driven by hand.
FEW = 40  # Events of a line after each of which it is compared; of a longer one, each tenth, and later fewer.


class Line:
    """The line of one machine, and the state that it comes to when it is read again."""

    def __init__(
        self,
        oracle: Oracle,
        machine: Machine,
        entries: list[Entry],
        state: Any,
        name: str,
    ) -> None:
        self.machine = machine
        self.entries = entries
        self._state = state
        self.name = name
        self.requested = False
        """Whether the pending request was told."""
        self.run_id = ""
        self.session: SessionOverlay | None = None
        """The live session; None for a machine that is driven by hand."""
        self.account: Account | None = None
        """The live account; None for a group that is driven by hand."""
        self.unspent = Spending()
        """What the run has spent, and no event has said yet."""
        self.changes: e.Changes | None = None
        """What user code changed of the session, and no event has said yet."""
        self.is_laid = False
        """Whether the changes of a group's children were laid over its session, which the event of its end does."""
        self.of_failed: e.Changes | None = None
        """What the child that fails now changed."""
        self.of_calls: dict[str, e.Changes] = {}
        """Call -> what it changed, until its result is fed."""
        self.inside: dict[str, Inside] = {}
        """Place -> the run that is under way there."""
        self.goes_on: e.TakenOver | None = None
        """The event with which this stay begins, until anything else happens in it."""
        self.budget: Budget | None = None
        """A limit of a group that was raised, and is not told yet."""
        self.is_lost = False
        """Whether another process has the run now."""
        self.marks: dict[int, dict[str, Any]] = {}
        """Number of events -> the live state then, as data."""
        self.rows: dict[tuple[str, str], str] = {}
        """What the journal of this stay has."""
        self.written: list[int] = []
        """How many events there were when the state was written into a journal."""
        self._oracle = oracle

    @property
    def state(self) -> Any:
        """What the line comes to."""
        if self._state is None:
            self._state = self._oracle.replayed_state(self.entries)
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._state = state

    def hand_over(self, entries: list[Entry]) -> Any:
        """Return the state for a line that goes on with these events; None if it is to be replayed.

        A long line is not read again each time: a run by hand may be saved and loaded after each turn.
        """
        if len(entries) <= FEW or len(entries) != len(self.entries):
            return None
        state, self._state = self._state, None
        return state

    def write(self, event: e.RunEvent) -> None:
        """Add an event, and apply it as it is read."""
        self.begin_stay()
        names = {each.name for each in fields(event)}  # type: ignore[arg-type]
        if self.budget is not None and isinstance(event, e.Answered | e.Extended):
            budget, self.budget = self.budget, None
            if isinstance(event, e.Answered):
                self.write(e.Extended(budget=budget))
            else:
                event = with_changes(event, budget=budget)
        if "spent" in names:
            event = with_changes(event, spent=self._spent_by(event))
        if "changes" in names and self.changes is not None and not isinstance(event, e.ResultCame):
            event = with_changes(event, changes=self.changes)
            self.changes = None
        self._add(event)

    def _add(self, event: e.RunEvent) -> None:
        entry = Entry(len(self.entries), float(len(self.entries)), event)
        (read,) = line_of(text_of([entry]))
        state = self.state
        self.entries.append(entry)
        state.apply(read.event)
        self._oracle.kinds[type(event).__name__] += 1

    def name_of_child(self, position: int) -> str:
        """Return the line of the child that begins, or goes on, at a position."""
        paused = self.machine.state.children[position].paused
        known = "" if paused is None else self._oracle.name_in(paused.saved)
        return known or f"{self.name}/{position}.{len(self.entries)}"

    def begin_stay(self) -> None:
        """Write how this stay begins, if nothing has happened in it."""
        event, self.goes_on = self.goes_on, None
        if event is None:
            return
        others = None if self.session is None or self.changes else changes_between(self.state.session, self.session)
        if others is None and (event is LATER or isinstance(self.entries[-1].event, e.Migrated)):
            return
        self._add(with_changes(e.TakenOver() if event is LATER else event, session=others))

    def begin_anew(self, first: e.RunEvent) -> None:
        """Write another first event in place of the only one."""
        assert len(self.entries) == 1
        self.entries.clear()
        self.state = self._oracle.state_of([Entry(0, 0.0, first)])
        self._add(first)

    def is_unpaid(self) -> bool:
        """Whether the run has spent what no event has said."""
        return copy_of(self.unspent) != Spending()

    def name_of_input(self) -> str:
        """Return the line of the run that a map begins next."""
        return f"{self.name}/{self.machine._taken}"

    def _spent_by(self, event: Any) -> e.Spent:
        """Return what was spent since the event before; if a run inside ended, only what that one spent.

        That run may go on, so a reader must be able to tell its spending from the rest, which the next event says.
        """
        if isinstance(event, e.Ended):
            places = tuple(self.inside)  # they are cancelled, and nobody is told of their ends
        else:
            places = event.call_ids if isinstance(event, e.CallsCut) else (place_of(event),)
        spent = Spending()
        if place_of(event) not in self.inside:
            spent, self.unspent = self.unspent, spent
        for place in places:
            inside = self.inside.pop(place, None)
            if inside is not None:
                add(spent, inside.since())
        return e.Spent(spent.usage, spent.cost, spent.all_turns, spent.tool_calls)

    def machine_figures(self) -> Spending:
        """Return what the live machine says was spent."""
        found: Spending = self.machine.state if isinstance(self.machine, AgentRun) else self.machine.state.spending
        return found

    def figures(self) -> Spending:
        """Return what the lines of the run and of those inside of it come to, with what no event has said yet."""
        told = Spending(budget=self.state.account.spending.budget)
        for each in (self.state.account.spending, self.unspent):
            add(told, each)
        for inside in self.inside.values():
            line = self._oracle.of_account.get(id(inside.account))
            add(told, grown(inside.account.spending if line is None else line.figures(), inside.before))
        return told

    def is_to_be_compared(self) -> bool:
        """Whether to compare at this place."""
        number = len(self.entries)
        return number <= FEW or number % max(10, number // 8) == 0

    def compare(self, where: str) -> None:
        """Note a difference between the live machine and the line."""
        live, replayed = _told(self.machine), _told(self.state.machine)
        if self.account is not None:
            live["account"], replayed["account"] = _shown(self.account.spending), _shown(self.figures())
        if self._shows_session(where):
            live["session"], replayed["session"] = values_of(self.session), values_of(self.state.session)
        if self._oracle.places < 2:
            self.marks.clear()  # the last one is enough
        self.marks[len(self.entries)] = live
        self._oracle.compared += 1
        self.tell_difference(where, live, replayed)

    def tell_difference(self, where: str, live: Mapping[str, Any], replayed: Mapping[str, Any]) -> None:
        """Note where a state differs from the live one."""
        what = [f"{key}: {live[key]!r} | {replayed.get(key)!r}" for key in live if live[key] != replayed.get(key)]
        if what:
            self._oracle.tell(self, where, what)

    def compare_again(self, most: int) -> None:
        """Read the line again from its text, up to some places at which it was compared, and compare the states.

        Args:
            most: how many places; the last one is among them.
        """
        places = sorted(self.marks)
        step = -(-len(places) // most)
        for place in places[::-1][:: step or 1]:
            state = self._oracle.state_of(self.entries)
            try:
                for entry in line_of(text_of(self.entries[:place])):
                    state.apply(entry.event)
            except Exception as error:  # noqa: BLE001  # no event of a line may be refused when it is read again
                return self._oracle.tell(self, f"a prefix of {place}", [f"an event is refused: {error}"])
            told = {**_told(state.machine), "session": values_of(state.session)}
            live = {key: value for key, value in self.marks[place].items() if key != "account"}
            self._oracle.compared += 1
            self.tell_difference(f"a prefix of {place}", live, told)
        return None

    def compare_with_rows(self) -> None:
        """Note where the run in the rows of the journal differs from the live one."""
        if self.is_to_be_compared():
            stored = put_in_doubt(stored_line(self.rows), REPEATED)
            self._oracle.compared += 1
            self.tell_difference("its rows", _told(self.machine), _told(stored.state.machine))

    def _shows_session(self, where: str) -> bool:
        """Whether all changes that user code made are in events: a group lays those of a child after the child's end."""
        if self.session is None or self.changes or self.of_calls or getattr(self.state, "results", None):
            return False
        return isinstance(self.machine, AgentRun) or where in ("next_step", "end")


class _Repeated(dict[str, bool]):
    def get(self, *_: Any) -> Any:
        return True


REPEATED = _Repeated()
"""Has no call be in doubt: the run lives."""


class Inside(NamedTuple):
    """A run inside of another one."""

    run: str
    account: Account
    before: Spending
    """What it had spent when it began, or went on, at this place."""

    def since(self) -> Spending:
        """Return what it has spent here."""
        return grown(self.account.spending, self.before)


def _shown(figures: Spending) -> list[Any]:
    counts = [getattr(figures.usage, name) for name in COUNTS]
    return [counts, figures.cost, figures.all_turns, figures.tool_calls, figures.budget]


def values_of(session: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the values that leave a run, as JSON has them."""
    shown = {} if session is None else session
    values = {key: shown[key] for key in shown if not key.startswith(TEMPORARY)}
    found: dict[str, Any] = json.loads(json.dumps(values, default=repr))
    return found


def changes_between(before: Mapping[str, Any], now: Mapping[str, Any]) -> e.Changes | None:
    """Return how the values of a session differ; None if they do not."""
    then, there = values_of(before), values_of(now)
    values = {key: value for key, value in there.items() if key not in then or then[key] != value}
    removed = tuple([key for key in then if key not in there])
    return e.Changes(values, removed) if values or removed else None


def with_changes(event: e.RunEvent, **changes: Any) -> e.RunEvent:
    from dataclasses import replace

    return replace(event, **changes)  # type: ignore[type-var]


def _told(machine: Machine) -> dict[str, Any]:
    """Return a machine as data, without what a clock measured, and without the texts of runs inside."""
    if isinstance(machine, MapRun):
        return _told_of_map(machine)
    if isinstance(machine, GroupRun):
        machine.due_children()  # tasks that are ready begin when it is asked
    text = _closed(machine) if isinstance(machine, AgentRun) else machine.to_json()
    state: dict[str, Any] = json.loads(text)["state"]
    _strip(state)
    if isinstance(machine, GroupRun):
        state.pop("spending")  # of children that are under way
    for name in ("seconds", "budget", "usage", "cost", "all_turns", "tool_calls"):
        state.pop(name, None)
    if isinstance(state.get("context"), dict):
        state["context"].pop("news")
    return state


def _closed(machine: AgentRun) -> str:
    """Return an agent's machine as text; its next step closes a round that is complete, and its line has it closed."""
    round_ = machine.state.round
    if round_ is None or not round_.admitted or machine.spec.watched or machine.state.phase != "tools":
        return machine.to_json()
    state = machine.state.copied()
    close_if_complete(state)
    return dump(state, machine.spec)


def _told_of_map(machine: Any) -> dict[str, Any]:
    failure = machine.failure
    return {
        "counts": [machine._taken, machine._answered, machine._handed_out, machine._exhausted],
        "ready": [answer.index for answer in machine._ready],
        "early": sorted(machine._early),
        "failure": None if failure is None else failure.index,
    }


def _strip(value: Any) -> None:
    if isinstance(value, dict):
        if "saved" in value and "pauses" in value:
            value["saved"] = ""
        for each in value.values():
            _strip(each)
    elif isinstance(value, list):
        for each in value:
            _strip(each)


TOTAL: Counter[str] = Counter()
"""Over all oracles of this process: lines, events and comparisons, and what was not replayed."""


def _news_in(now: Any, then: Any) -> Iterator[e.RunEvent]:
    """Yield what rows say of a round besides its state: results that came, and calls that were under way."""
    if now is None or then is None:
        return
    came = [result for call_id, result in now.results.items() if call_id not in then.results]
    for result in came:
        yield e.ResultCame(result)
    if came and {call.id for call in then.pending()} != {result.call_id for result in came}:
        yield e.ResultsTaken()
    doubted = tuple([call_id for call_id in now.in_doubt if call_id not in then.in_doubt])
    if doubted:
        yield e.CallsDoubted(doubted)


ALL: WeakSet[Oracle] = WeakSet()
"""Those that are installed."""
FOLDERS = count(1)


def _after_fork() -> None:
    """Forget locks that threads of the process before held."""
    for each in ALL:
        each.after_fork()


os.register_at_fork(after_in_child=_after_fork)


class Kept(NamedTuple):
    """A line of another process."""

    name: str
    run_id: str
    written: list[int]
    entries: list[Entry]


def _below(tree: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield the line of a run, and those of the runs inside that are under way."""
    yield name
    for each in tree[name].open if name in tree else ():
        yield from _below(tree, each)


class Oracle:
    """All lines of the machines that are made while it is installed."""

    def __init__(self, places: int = 1) -> None:
        self.places = places
        self.kinds: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.compared = 0
        self.trees = 0
        """How many trees of lines were compared with live accounts."""
        self.differences: list[str] = []
        self.lines: dict[int, Line] = {}
        """Identity of a machine -> its line."""
        self.of_account: dict[int, Line] = {}
        self.of_session: dict[int, Line] = {}
        self.of_part: dict[int, Line] = {}
        """Identity of the part of a journal -> the line of its run."""
        self.of_run: dict[str, Line] = {}
        """Id of a run -> the line that it has now."""
        self.definitions: dict[str, Any] = {}
        self.opening = dict[int, tuple[dict[str, Any], str, str, str]]()
        """Identity of a record without a machine -> the values that it was given, line and place around it, name of its line."""
        self._texts: dict[str, tuple[Line, list[Entry]]] = {}
        self._numbers = count(1)
        self._pid = os.getpid()
        self.is_closed = False
        """Whether the lines were read again: a model may answer after its test."""
        self.folder = Path(tempfile.gettempdir()) / f"understudy-lines-{self._pid}-{next(FOLDERS)}"
        """Where processes that are forked keep lines; made when the first one does."""
        ALL.add(self)
        self._kept: list[object] = []
        self.lock = threading.RLock()
        """Without it no other thread writes or compares."""
        self.here: Any = threading.local()
        """What this thread is at."""

    @property
    def is_forked(self) -> bool:
        """Whether this is a process that was forked from that of the test."""
        return os.getpid() != self._pid

    def after_fork(self) -> None:
        self.lock = threading.RLock()
        self.here = threading.local()

    @property
    def is_busy(self) -> bool:
        """Whether this thread is writing or replaying, or the test is over: what machines do then is no run's."""
        return self.is_closed or getattr(self.here, "busy", False)

    @contextmanager
    def writing(self) -> Generator[Any]:
        """Hold the lines, for one piece of writing, of which a test that counts calls sees none; yields what counts."""
        profile = sys.getprofile()
        sys.setprofile(None)
        with self.lock:
            before, self.here.busy = self.is_busy, True
            try:
                yield profile
            finally:
                self.here.busy = before
                sys.setprofile(profile)

    def settle(self) -> None:
        """Read all lines again from their texts now, and forget them, for a test that measures what its runs leave behind."""
        with self.writing():
            self.replay(1)
            for kept in (
                self.lines,
                self.of_account,
                self.of_session,
                self.of_run,
                self.of_part,
                self._texts,
                self._kept,
            ):
                kept.clear()

    @property
    def record(self) -> Any:
        """The record whose machine this thread makes; None for a machine that is driven by hand."""
        return getattr(self.here, "record", None)

    def drop(self, machine: Machine, error: BaseException) -> None:
        """Give up the line of a machine that took something which no line can have."""
        line = self.lines.pop(id(machine), None)
        for lines in (self.of_account, self.of_session, self.of_run):
            of_any: dict[Any, Line] = lines
            for key in [key for key, each in of_any.items() if each is line]:
                del of_any[key]
        self.skipped[f"{type(error).__name__}: {error}"[:80]] += 1

    def tell(self, line: Line, where: str, what: list[str]) -> None:
        kinds = [type(entry.event).__name__ for entry in line.entries]
        self.differences.append(f"{type(line.machine).__name__} after {where} {kinds[-12:]}: " + "; ".join(what)[:1500])

    def line(self, machine: Machine) -> Line | None:
        return self.lines.get(id(machine))

    def digest(self, definition: Any) -> str:
        text = definitions.text_of(definition)
        digest = definitions.digest_of(text)
        self.definitions[digest] = definitions.definition_of(text)
        return digest

    def begin(self, machine: Machine, make: Callable[[str], list[e.RunEvent]], definition: Any = None) -> Line | None:
        """Begin the line of a machine that was just made; `make` gets the digest of its definition."""
        with self.writing():
            try:
                digest = self.digest(machine.spec if definition is None else definition)
                events = make(digest)
                if isinstance(machine, ParallelRun) and machine.spec.merge is None:
                    raise ValueError("a parallel group of a test, with the rules of a sequence")
                name = self.opening.get(id(self.record), NEW)[3] or f"line-{next(self._numbers)}"
                line = self._add(machine, [], name, digest)
                for event in events:
                    line.write(event)
            except (ValueError, TypeError) as error:
                self.drop(machine, error)
                return None
            if isinstance(machine, AgentRun):
                self.count_in(line, machine.account)
                if isinstance(events[0], e.Accepted):
                    line.unspent = copy_of(machine.state)  # by a prompt function, before there was a machine
            return line

    def _add(self, machine: Machine, entries: list[Entry], name: str, digest: str = "", source: object = None) -> Line:
        handed = source.hand_over(entries) if isinstance(source, Line) else None
        state = handed or self.replayed_state(entries, digest)
        line = self.lines[id(machine)] = Line(self, machine, list(entries), state, name)
        if isinstance(source, Line):
            same = next(
                (n for n, (a, b) in enumerate(zip(entries, source.entries, strict=False)) if a is not b), len(entries)
            )
            line.marks = {place: live for place, live in source.marks.items() if place <= same}
        if entries and isinstance(machine, AgentRun):
            self.count_in(line, machine.account)
        return line

    def state_of(self, entries: list[Entry], digest: str = "") -> Any:
        """Return the state of a line before its first event."""
        first = self._first(entries) if entries else self.definitions[digest]
        return state_of(first, self.definitions.__getitem__)

    def replayed_state(self, entries: list[Entry], digest: str = "") -> Any:
        """Return the state that events come to when they are read again as text."""
        state = self.state_of(entries, digest)
        for entry in line_of(text_of(entries)):
            state.apply(entry.event)
        return state

    def count_in(self, line: Line, account: Account) -> None:
        """Note the account that a run counts in from now on."""
        self._kept.append(account)  # another one must not get its identity
        line.account = account
        self.of_account[id(account)] = line

    def write_into(self, line: Line, part: object) -> None:
        """Note the part of a journal into which a run writes."""
        if id(part) not in self.of_part:
            self._kept.append(part)
            self.of_part[id(part)] = line

    def watch(self, line: Line, session: SessionOverlay) -> None:
        """Note the session that a run has from now on."""
        self._kept.append(session)
        self.of_session[id(session)] = line

    def _first(self, entries: list[Entry]) -> Any:
        event = entries[0].event
        assert isinstance(event, e.Accepted | e.Migrated)
        return self.definitions[event.definition]

    def saved(self, machine: Machine, text: str) -> None:
        line = self.line(machine)
        if line is not None and not self.is_busy:
            self._texts[text] = line, list(line.entries)
            self.keep(line, text)

    def name_in(self, text: str) -> str:
        """Return the name of the line of a saved run; empty if the text is not known."""
        found = self._texts.get(SavedRun.from_json(text).machine) if text.startswith("{") else None
        return "" if found is None else found[0].name

    def loaded(self, machine: Machine, text: str) -> None:
        """Go on with the line of a machine that was loaded from a text, or begin with the text."""
        with self.writing():
            known = self._known(text) or self._from_rows(machine)
            if known is None:
                line = self.begin(machine, lambda digest: [e.Migrated(text, digest)])
                if line is not None:
                    line.goes_on = e.TakenOver()
                return
            source, entries = known
            digest, line = self.digest(machine.spec), self._add(machine, entries, source.name, source=source)
            line.run_id = source.run_id
            line.unspent = grown(line.machine_figures(), line.figures())
            before = self.digest(line.state.definition)
            is_taken = isinstance(entries[-1].event, TAKING)
            line.goes_on = LATER if is_taken else e.TakenOver(definition="" if before == digest else digest)
            if before != digest:
                line.goes_on = e.TakenOver(definition=digest)
                line.begin_stay()
            self._check(line, "loaded")

    def _known(self, text: str) -> tuple[Line | Kept, list[Entry]] | None:
        """Return the events behind a text, and how that stay of the run ended: the text was made just before."""
        found = self._texts.get(text)
        if found is None:
            kept = self._kept_line(text)
            return None if kept is None else (kept, kept.entries)
        line, entries = found
        for entry in line.entries[len(entries) :]:
            if not isinstance(entry.event, e.Closed | e.Asked | e.Ended | e.Failed):
                break
            entries = [*entries, entry]
        return line, entries

    def _from_rows(self, machine: Machine) -> tuple[Line | Kept, list[Entry]] | None:
        """Return the events behind a machine that was put together from rows of a journal, if they are of this process.

        The rows may be older than the end of the line: what came after them is lost with the process that seems to be dead.
        """
        run_id = getattr(self.here, "rows_of", "")
        sources = [each for each in (self.of_run.get(run_id), self._kept_line(f"run {run_id}")) if each is not None]
        told = _told(machine)
        for source in sources:
            for place in dict.fromkeys([len(source.entries), *reversed(source.written)]):
                taken = self._taken_up(machine, source.entries[:place], told) if place else None
                if taken is not None:
                    return source, taken
        why = "rows that fit no place of the line" if sources else "rows of another process"
        self.skipped[f"began with a text: {why if run_id else 'of another process, or by hand'}"] += 1
        return None

    # --- other processes, which were forked while the oracle was installed

    def keep(self, line: Line, key: str) -> None:
        """Write a line into a file, for the process that goes on with the run."""
        if not self.is_forked:
            return
        digests: set[str] = {getattr(entry.event, "definition", "") for entry in line.entries} - {""}
        data = {
            "name": line.name,
            "run_id": line.run_id,
            "written": line.written,
            "text": text_of(line.entries),
            "definitions": {digest: definitions.text_of(self.definitions[digest]) for digest in sorted(digests)},
        }
        self.folder.mkdir(exist_ok=True)
        path = self.folder / hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
        part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        part.write_text(json.dumps(data))
        part.replace(path)

    def _kept_line(self, key: str) -> Kept | None:
        """Return a line that another process kept."""
        path = self.folder / hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
        try:
            data = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        for digest, text in data["definitions"].items():
            self.definitions.setdefault(digest, definitions.definition_of(text))
        return Kept(data["name"], data["run_id"], data["written"], line_of(data["text"]))

    def _taken_up(self, machine: Machine, entries: list[Entry], told: dict[str, Any]) -> list[Entry] | None:
        """Return events with those of a takeover; None if they do not come to the machine."""
        state = self.state_of(entries)
        for entry in line_of(text_of(entries)):
            state.apply(entry.event)
        if state.machine is None:
            return None
        events: list[e.RunEvent] = [e.TakenOver()]
        if isinstance(machine, AgentRun):
            events += _news_in(machine.state.round, state.machine.state.round)
        taken = list(entries)
        try:
            for event in events:
                taken.append(Entry(len(taken), float(len(taken)), event))
                state.apply(event)
        except ProtocolViolation:
            return None
        return taken if _told(state.machine) == told else None

    def copied(self, machine: Machine, copy: Machine) -> None:
        line = self.line(machine)
        if line is not None and not self.is_busy:
            with self.writing():
                copied = self._add(copy, line.entries, line.name)
                copied.goes_on, copied.run_id, copied.unspent = e.TakenOver(), line.run_id, copy_of(line.unspent)

    def replay(self, places: int) -> None:
        """Read all lines again from their texts, and compare them with the runs; and trees, with all that was spent."""
        lines = list(self.lines.values()) if places else []
        latest = {line.name: line for line in lines}  # a run that went on from a text has several
        latest = dict(list(latest.items())[:MANY])
        for line in latest.values():
            line.compare_again(places)
        if self.differences:  # an event that is refused would be raised here
            return
        tree = replayed({name: text_of(line.entries) for name, line in latest.items()}, self.definitions.__getitem__)
        for line in latest.values():
            below = list(_below(tree, line.name))
            is_told = not any(each not in latest or latest[each].is_unpaid() or tree[each].is_late for each in below)
            if is_told and line.account is not None:
                self.trees += 1
                live, told = _shown(line.account.spending), _shown(figures_of(tree, line.name))
                line.tell_difference("all", {"tree": live}, {"tree": told})

    def _check(self, line: Line, where: str) -> None:
        is_lazy = (
            where not in ("next_step", "apply") and isinstance(line.machine, AgentRun) and line.machine.spec.watched
        )
        if line.is_to_be_compared() and not is_lazy:  # a round that callbacks watch is closed by the next step
            line.compare(where)

    def feed(
        self, machine: Machine, name: str, call: Callable[[], Any], told: Callable[[Line], Iterator[e.RunEvent]]
    ) -> Any:
        """Feed a live machine, and write the events if it took what it was fed."""
        line = self.line(machine)
        if line is None or self.is_busy:
            return call()
        with self.writing() as profile:
            try:
                events = list(told(line))
            except Exception:  # noqa: BLE001  # a feed of another form than any run's: the machine refuses it
                return call()
            line.begin_stay()
            with seen_by(profile):
                result = call()
            self._write(line, events, name)
            line.requested = False
            return result

    def hear(self, line: Line, state: AgentLineState, event: e.RunEvent, call: Callable[[], None]) -> None:
        """Have a state take an event, and write it into the line of its live run with what only a line has."""
        with self.writing() as profile:
            line.begin_stay()
            with seen_by(profile):
                call()
            if isinstance(event, e.ResultCame):
                event = with_changes(event, changes=line.of_calls.pop(event.result.call_id, None))
            elif isinstance(event, e.TurnBegan) and getattr(state.asked_for, "compaction", None) is not None:
                event = e.SummaryBegan()  # a live run asks for either by the same event
            self._write(line, [event], "apply")
            self._compare_due(line, lambda: _kinds_of(state.due()), event)

    def _write(self, line: Line, events: list[e.RunEvent], where: str) -> None:
        for event in events:
            try:
                line.write(event)
            except Exception as error:  # noqa: BLE001  # no event of a line may be refused when it is read again
                if "JSON" in str(error):
                    return self.drop(line.machine, error)
                return self.tell(line, where, [f"{type(event).__name__} is refused: {error}"])
        return self._check(line, where)

    def step(self, machine: Machine, call: Callable[[], Any], *, is_whole: bool = True) -> Any:
        """Ask a live machine for its next step, or only to admit children: what that decided is an event."""
        line = self.line(machine)
        if line is None or self.is_busy:
            return call()
        with self.writing() as profile:
            line.begin_stay()
            told = (_deciding_agent if isinstance(machine, AgentRun) else _deciding_group)(line)
            try:
                with seen_by(profile):
                    step = call()
            except Exception as error:
                self._decided(line, told(error), error, is_whole)
                raise
            self._decided(line, told(step), step, is_whole)
            return step

    def _decided(self, line: Line, events: Iterator[e.RunEvent], step: Any, is_whole: bool) -> None:
        self._write(line, list(events), "next_step")
        if is_whole:
            self._compare_due(line, lambda: due_of(line.machine, step), step)

    def _compare_due(self, line: Line, live: Callable[[], set[tuple[str, str]] | None], after: object) -> None:
        """Note where something else is due in the live run than the line says; None says nothing."""
        state = line.state
        is_over = state.ended is not None or state.asked is not None  # what is under way may come back then
        if line.is_to_be_compared() and self.line(line.machine) is line and not is_over:
            self.compared += 1
            wanted, due = live(), _kinds_of(state.due())
            if wanted is not None and due != wanted:
                self.tell(line, "due", [f"{after!r:.200}: {wanted} | {due}"])


@contextmanager
def seen_by(profile: Any) -> Generator[None]:
    """Let a test that counts calls see those of the live machine."""
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def _kinds_of(due: list[Due]) -> set[tuple[str, str]]:
    """Return what is due, with the judgement of a turn that came before as a request: a live run has not fed that turn."""
    return {("model" if each.kind == "judge" else each.kind, each.key) for each in due}


def due_of(machine: Machine, step: Any) -> set[tuple[str, str]] | None:
    """Return what a step, or the error in its place, means in the words of a line; None for an error of a limit.

    A limit is asked when the work is about to begin, so the work is due until then.
    """
    if isinstance(machine, AgentRun) and machine.spec.watched and (machine.unguarded() or machine.unreviewed()):
        return None  # a test drives the run by hand, and has not asked the callbacks
    match step:
        case CallModel():
            return {("model", str(machine.state.turns + 1))}
        case CallTools(calls=calls):
            return {("call", call.id) for call in calls}
        case AwaitApproval() | AwaitInput() | AwaitChildren():
            return {("ask", "")}
        case Done() | GroupDone():
            return {("finish", "")}
        case RunChildren():
            return {("child", str(at)) for at in machine.due_children()}  # pyright: ignore[reportAttributeAccessIssue]
        case MaxIterationsExceeded() | BudgetExceeded():
            return None
        case _:
            return {("fail", "")}


def _deciding_agent(line: Line) -> Callable[[Any], Iterator[e.RunEvent]]:
    """Return what tells, given the next step, a round that was counted, and a request that was made."""
    state = line.machine.state
    was_due, was_open = [state.round is not None and state.round.admitted is admitted for admitted in (False, True)]

    def told(step: Any) -> Iterator[e.RunEvent]:
        if was_due and (state.round is None or state.round.admitted):
            yield e.RoundBegan()
        if was_open and state.round is None and line.machine.spec.watched and line.state.machine.unreviewed():
            yield e.ResultsReviewed({})  # by hand: nobody reviewed them
        if isinstance(step, CallModel) and not line.requested:
            line.requested = True
            yield e.TurnBegan(step.request.turn) if step.compaction is None else e.SummaryBegan()

    return told


def _deciding_group(line: Line) -> Callable[[Any], Iterator[e.RunEvent]]:
    """Return what tells each child that was admitted."""
    state = line.machine.state
    before = {at for at, child in enumerate(state.children) if child.begun}

    def told(_: Any) -> Iterator[e.RunEvent]:
        for at, child in enumerate(state.children):
            if child.begun and at not in before:
                yield e.ChildBegan(str(at), line.name_of_child(at))

    return told


def _about(about: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.items() if value is not None}


def _turn(line: Line, turn: Any, **about: Any) -> Iterator[e.RunEvent]:
    context = line.machine.state.context
    yield e.SummaryCame(turn) if context is not None and context.is_summing else e.TurnTaken(turn, **_about(about))


def _results(line: Line, results: Any) -> Iterator[e.RunEvent]:
    given = list(results)
    for result in given:
        yield e.ResultCame(result, line.of_calls.pop(result.call_id, None))
    round_ = line.machine.state.round
    if round_ is not None and {call.id for call in round_.pending()} != {result.call_id for result in given}:
        yield e.ResultsTaken()


def _ruled(line: Line, ruling: Any) -> Iterator[e.RunEvent]:
    yield e.RunRuled("before_model_call" if line.requested else "on_error", ruling)


def _extended(line: Line, **raised: Any) -> Iterator[e.RunEvent]:
    budget = raised.pop("budget", None)
    yield e.Extended(_about(raised), budget)


def _sorted(line: Line, decisions: Any) -> Any:
    return sort_answers(line.machine.pauses, dict(decisions))


FEEDS: Mapping[str, Callable[..., Iterator[e.RunEvent]]] = {
    "model_response": _turn,
    "compaction_failed": lambda line, problem: iter([e.SummaryFailed(problem)]),
    "context_overflow": lambda line, **about: iter([e.Overflowed(**about)]),
    "prepay": lambda line, turn: iter([(e.TurnCame if line.machine.state.phase == "model" else e.TurnLost)(turn)]),
    "write_off": lambda line, turn, *, is_late=False: iter([e.TurnLost(turn)]),
    "turn_ruled": lambda line, turn, ruling: iter([e.TurnRuled(turn, ruling)]),
    "end_by": _ruled,
    "guard": lambda line, rulings, *, approvals=None: iter([e.CallsGuarded(dict(rulings), dict(approvals or {}))]),
    "review": lambda line, rulings: iter([e.ResultsReviewed(dict(rulings))]),
    "tool_results": _results,
    "decisions": lambda line, decisions: iter([e.Answered(_sorted(line, decisions))]),
    "reconcile": lambda line, found: iter([e.CallsReconciled(dict(found))]),
    "respond": lambda line, answers: iter([e.Answered(dict(answers))]),
    "child_paused": lambda line, place, saved, pauses: iter([e.ChildPaused(place, saved, tuple(pauses))]),
    "child_stopped": lambda line, place, saved: iter([e.ChildStopped(place, saved)]),
    "cut_off": lambda line, call_ids: iter([e.CallsCut(tuple(call_ids))]),
    "extend": _extended,
}
"""Method of `AgentRun` -> the events of what it was fed."""


def _done(line: Line, position: int, result: Any, *, again: bool = False) -> Iterator[e.RunEvent]:
    yield e.ChildDone(
        str(position),
        result.text,
        result.combined_text,
        result.iterations,
        result.usage,
        result.turns,
        again,
        e.Changes(dict(result.changes), tuple(result.removed)),
    )


GROUP_FEEDS: Mapping[str, Callable[..., Iterator[e.RunEvent]]] = {
    "child_done": _done,
    "take_result": _done,
    "child_failed": lambda line, at, failure, error=None, *, may_retry=True: iter(
        [e.ChildFailed(str(at), failure.kind, failure.message, may_retry, line.of_failed)]
    ),
    "child_at_limit": lambda line, at, saved, failure, error=None: iter(
        [e.ChildLimited(str(at), saved, failure.kind, failure.message)]
    ),
    "child_paused": lambda line, at, saved, pauses: iter([e.ChildPaused(str(at), saved, tuple(pauses))]),
    "child_kept": lambda line, at, saved: iter([e.ChildKept(str(at), saved)]),
    "child_refused": lambda line, at, before: iter([e.ChildRefused(str(at))]),
    "child_skipped": lambda line, at: iter([e.ChildSkipped(str(at))]),
    "respond": lambda line, answers: iter([e.Answered(dict(answers))]),
    "go_on": lambda line, raised: iter([e.Extended(places=tuple([str(at) for at in raised]))]),
    "retry_failed": lambda line, raised=None: iter([e.Extended()]),
}
"""Method of a group's machine -> the events of what it was fed."""


@contextmanager
def installed(places: int = 1) -> Generator[Oracle]:
    """Have every machine write its line; on leaving, read the lines again from their texts.

    Args:
        places: at how many places of each line its text is compared with the live run then.
    """
    oracle = Oracle(places)
    with ExitStack() as stack:
        stack.enter_context(patch.object(AgentLineState, "apply", _hearing(oracle, AgentLineState.apply)))

        def wrap(cls: type, name: str, make: Callable[[Any], Any]) -> None:
            if name in vars(cls):
                stack.enter_context(patch.object(cls, name, make(vars(cls)[name])))

        def feeding(name: str, told: Callable[..., Iterator[e.RunEvent]]) -> Callable[[Any], Any]:
            def make(real: Any) -> Any:
                def fed(self: Any, *given: Any, **named: Any) -> Any:
                    given = tuple([list(each) if hasattr(each, "__next__") else each for each in given])
                    call = lambda: real(self, *given, **named)
                    return oracle.feed(self, name, call, lambda line: told(line, *given, **named))

                return fed

            return make

        for name, told in FEEDS.items():
            wrap(AgentRun, name, feeding(name, told))
        for cls in (ChildRuns, GroupRun, ParallelRun, GraphRun):
            for name, told in GROUP_FEEDS.items():
                wrap(cls, name, feeding(name, told))
        _wrap_lives(oracle, wrap)
        from tests.support import oracle_records  # it imports this module

        oracle_records.tap(oracle, wrap, stack)
        try:
            yield oracle
            with oracle.writing():
                oracle.replay(places)
                oracle.is_closed = True
        finally:
            ALL.discard(oracle)
            for kept in (oracle.of_part, oracle._kept):  # a part of a journal has its database, with connections
                kept.clear()
            if oracle.folder.exists() and not oracle.is_forked:
                shutil.rmtree(oracle.folder)
            TOTAL.update({"lines": len(oracle.lines), "events": oracle.kinds.total(), "compared": oracle.compared})
            TOTAL["trees"] += oracle.trees
            TOTAL.update({f"not replayed, {why}": number for why, number in oracle.skipped.items()})


def _hearing(oracle: Oracle, real: Callable[[AgentLineState, e.RunEvent], None]) -> Any:
    """Return `apply` for agents' states: that of a live run takes the events of its line; else the events are there already."""

    def apply(state: AgentLineState, event: e.RunEvent) -> None:
        line = oracle.line(state.machine) if state.account.is_live else None
        if oracle.is_busy or (state.account.is_live and line is None):  # a machine that is made now begins its line
            real(state, event)
        elif line is not None:
            oracle.hear(line, state, event, partial(real, state, event))
        else:
            with oracle.writing() as profile, seen_by(profile):
                real(state, event)

    return apply


def _wrap_lives(oracle: Oracle, wrap: Callable[[type, str, Callable[[Any], Any]], None]) -> None:
    def agent_init(real: Any) -> Any:
        def init(
            self: Any,
            spec: Any,
            input: Any,
            *,
            history: Any = (),
            system: Any = None,
            budget: Any = None,
            account: Any = None,
        ) -> None:
            history = list(history) if isinstance(history, Iterator) else history
            real(self, spec, input, history=history, system=system, budget=budget, account=account)
            if oracle.is_busy:
                return
            given = self.state.budget if account is not None else budget
            text = input if isinstance(input, str) else tuple(input)
            values, parent, place, _ = oracle.opening.get(id(oracle.record), NEW)
            session = None if oracle.record is None else oracle.record.session
            stored = {} if session is None else {k: session.below[k] for k in session.below if k not in values}
            changes = None if session is None else e.Changes(dict(session.changes), tuple(session.removed))
            opened = e.Opened(tuple(history), system, stored, changes)
            accepted = partial(e.Accepted, spec.agent_id, input=text, parent=parent, place=place, session=values)
            oracle.begin(self, lambda digest: [accepted(definition=digest, budget=given), opened])

        return init

    def graph_init(real: Any) -> Any:
        def init(self: Any, spec: Any, input: Any, parameters: Any = None) -> None:
            if oracle.is_busy:
                real(self, spec, input, parameters)
                return
            with oracle.writing():
                real(self, spec, input, parameters)
            parameters = None if parameters is None else dict(parameters)
            text = input if isinstance(input, str) else tuple(input)
            oracle.begin(self, lambda digest: [e.Accepted(spec.runner_id, digest, text, parameters=parameters)])

        return init

    def group_init(real: Any) -> Any:
        def init(self: Any, spec: Any, input: Any) -> None:
            real(self, spec, input)
            if not oracle.is_busy:
                text = input if isinstance(input, str) else tuple(input)
                oracle.begin(self, lambda digest: [e.Accepted(spec.runner_id, digest, text)])

        return init

    def saving(real: Any) -> Any:
        def to_json(self: Any) -> str:
            text: str = real(self)
            oracle.saved(self, text)
            return text

        return to_json

    def loading(real: Any) -> Any:
        def from_json(cls: Any, text: str, spec: Any, *, adopt: bool = False) -> Any:
            made = real.__func__(cls, text, spec, adopt=adopt)
            if not oracle.is_busy:
                oracle.loaded(made, text)
            return made

        return classmethod(from_json)

    def copying(real: Any) -> Any:
        def copied(self: Any) -> Any:
            copy = real(self)
            oracle.copied(self, copy)
            return copy

        return copied

    def stepping(real: Any) -> Any:
        return lambda self: oracle.step(self, lambda: real(self))

    def group_stepping(real: Any) -> Any:
        return lambda self, *, only_new=False: oracle.step(self, lambda: real(self, only_new=only_new))

    wrap(AgentRun, "__init__", agent_init)
    wrap(AgentRun, "to_json", saving)
    wrap(AgentRun, "from_json", loading)
    wrap(AgentRun, "copied", copying)
    wrap(AgentRun, "next_step", stepping)
    wrap(GroupRun, "__init__", group_init)
    wrap(GraphRun, "__init__", graph_init)
    wrap(GroupRun, "to_json", saving)
    wrap(GroupRun, "from_json", loading)
    wrap(GroupRun, "next_step", group_stepping)
    wrap(GroupRun, "begin_new", lambda real: lambda self: oracle.step(self, partial(real, self), is_whole=False))
