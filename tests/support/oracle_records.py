"""What the oracle hears of the records of runs: sessions, spending, runs inside, ends, and the lines of maps."""

# It wraps methods of any signature.
# pyright: basic

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, TypeAlias
from unittest.mock import patch

from tests.support import oracle as o
from tests.support.journal_lines import is_early
from tests.support.line_trees import add, copy_of
from understudy.actors.journal.run_journal import JournalPart
from understudy.actors.runs import agent_record, child_runs
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.group_record import GroupRunRecord
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.run_actor import AgentRunActor
from understudy.actors.runs.stored_session import follow_session, options_to_go_on, values_of
from understudy.actors.runs.sub_agents import run_of_call
from understudy.actors.system.maps.map_answers import Answers
from understudy.actors.system.maps.named_answers import NamedAnswers
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.group.map_run import MapRun
from understudy.orchestration.journal import put_together
from understudy.orchestration.journal.rows import DEFINITION, LINE
from understudy.orchestration.runs import events as e
from understudy.orchestration.runs.group_state import MapSpec
from understudy.orchestration.runs.tally import Tally
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.context.overlays import SessionOverlay
from understudy.vocabulary.messages import NO_USAGE
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, MapFailure, MoreTurns

Wrap: TypeAlias = Callable[[type, str, Callable[[Any], Any]], None]


def tap(oracle: o.Oracle, wrap: Wrap, stack: ExitStack) -> None:
    """Tell an oracle what records do, for as long as the stack is open."""
    _tap_sessions(oracle, wrap)
    _tap_accounts(oracle, wrap)
    _tap_runs_inside(oracle, stack)
    _tap_journal(oracle, stack)
    _tap_ends(oracle, wrap)
    _tap_maps(oracle, wrap)


def _line(oracle: o.Oracle, record: Any) -> o.Line | None:
    """Return the line of a record; None before its machine is made."""
    machine = getattr(record, "machine", None)
    return None if machine is None else oracle.line(machine)


# --- sessions


def _tap_sessions(oracle: o.Oracle, wrap: Wrap) -> None:
    def agent_init(real: Any) -> Any:
        def init(self: Any, *given: Any, **named: Any) -> None:
            real(self, *given, **named)
            if self.machine is None:
                oracle.opening[id(self)] = (dict(self.session.below), "", "", "")
            else:
                _bind(oracle, self)

        return init

    def group_init(real: Any) -> Any:
        def init(self: Any, *given: Any, **named: Any) -> None:
            real(self, *given, **named)
            _bind(oracle, self)
            line = _line(oracle, self)
            if line is not None and len(line.entries) == 1 and isinstance(line.entries[0].event, e.Accepted):
                spending = self.machine.state.spending
                _accept(oracle, line, session=dict(self.session.below), budget=spending.budget)

        return init

    def opening(real: Any) -> Any:
        def open_(self: Any, event: Any) -> None:
            oracle.here.record = self
            try:
                real(self, event)
            finally:
                oracle.here.record = None
            _bind(oracle, self)
            oracle.opening.pop(id(self), None)

        return open_

    def loading(real: Any) -> Any:
        def load_session(self: Any, epoch: int) -> None:
            before = set(self.session.below)
            real(self, epoch)
            line = _line(oracle, self)
            found = {key: self.session.below[key] for key in self.session.below if key not in before}
            if line is not None and found:
                _write(oracle, line, e.Opened(session=found))

        return load_session

    def committing(real: Any) -> Any:
        def commit(self: Any) -> Any:
            line = oracle.of_session.get(id(self._base))
            if line is None or not self.is_changed or not isinstance(line.machine, AgentRun):
                return real(self)
            with oracle.writing():
                if line.session is self._base:  # what others changed is seen before what this run changes
                    line.begin_stay()
                lost = real(self)
                call_id = getattr(oracle.here, "calls", {}).get(id(self))
                if call_id is None:
                    line.changes = _joined(line.changes, self)
                else:
                    line.of_calls[call_id] = e.Changes(dict(self.changes), tuple(self.removed))
                return lost

        return commit

    def forgetting(real: Any) -> Any:
        def forget_changes(self: Any) -> None:
            line = _line(oracle, self)
            if line is not None:  # another process goes on with the line
                line.session, line.is_lost = None, True
            real(self)

        return forget_changes

    def taking(real: Any) -> Any:
        def commit_changes(self: Any, results: Any) -> None:
            oracle.here.calls = {id(overlay): came.call_id for came, overlay in results if overlay is not None}
            try:
                real(self, results)
            finally:
                oracle.here.calls = {}

        return commit_changes

    def laying(real: Any) -> Any:
        def lay_changes(self: Any, epoch: int) -> None:
            real(self, epoch)
            line = _line(oracle, self)
            if line is not None:
                line.is_laid = True

        return lay_changes

    def feeding(real: Any) -> Any:
        def feed(self: Any, epoch: int, end: Any) -> Any:
            line = _line(oracle, self)
            if line is None:
                return real(self, epoch, end)
            line.of_failed = getattr(end.events[0], "changes", None)
            try:
                return real(self, epoch, end)
            finally:
                line.of_failed = None

        return feed

    def going_on(real: Any) -> Any:
        def go_on(self: Any, answers: Any, options: Any) -> Any:
            line = _line(oracle, self)
            if line is not None:
                with oracle.writing():
                    line.goes_on = line.goes_on or e.TakenOver()
                    line.session = _next_view(self, options)  # until the record with which the run goes on is made
                    line.begin_stay()
            return real(self, answers, options)

        return go_on

    wrap(AgentRunRecord, "__init__", agent_init)
    wrap(GroupRunRecord, "__init__", group_init)
    wrap(AgentRunActor, "_open", opening)
    wrap(RunRecord, "load_session", loading)
    wrap(SessionOverlay, "commit", committing)
    wrap(AgentRunRecord, "commit_changes", taking)
    wrap(RunRecord, "forget_changes", forgetting)
    wrap(GroupRunRecord, "lay_changes", laying)
    wrap(GroupRunRecord, "feed", feeding)
    for cls in (AgentRunRecord, GroupRunRecord):
        wrap(cls, "go_on", going_on)


def _bind(oracle: o.Oracle, record: Any) -> None:
    """Note which session and account a machine has from now on."""
    line = _line(oracle, record)
    if line is None:
        return
    with oracle.writing():
        is_new = line.session is None
        line.session, line.run_id = record.session, record.run_id
        oracle.watch(line, record.session)
        oracle.of_run[record.run_id] = line
        oracle.count_in(line, record.account)
        if not is_new and line.goes_on is None:
            line.goes_on = o.LATER  # only if its caller has changed values that it sees


def _accept(oracle: o.Oracle, line: o.Line, **about: Any) -> None:
    """Begin a line anew of which only the first event is written: that one says more."""
    with oracle.writing():
        first = line.entries[0].event
        try:
            line.begin_anew(o.with_changes(first, **about))
        except (TypeError, ValueError) as error:
            oracle.drop(line.machine, error)


def _write(oracle: o.Oracle, line: o.Line, event: e.RunEvent) -> None:
    with oracle.writing():
        try:
            line.write(event)
        except Exception as error:  # noqa: BLE001  # a run must not fail of what is heard of it
            if "JSON" in str(error):
                oracle.drop(line.machine, error)
            else:
                oracle.tell(line, "a record", [f"{type(event).__name__} is refused: {error}"])


def _joined(before: e.Changes | None, overlay: SessionOverlay) -> e.Changes:
    values = {} if before is None else dict(before.values)
    removed = set(() if before is None else before.removed)
    values.update(overlay.changes)
    removed = (removed - overlay.changes.keys()) | overlay.removed
    for key in overlay.removed:
        values.pop(key, None)
    return e.Changes(values, tuple(sorted(removed)))


def _next_view(record: Any, options: Any) -> SessionOverlay:
    """Return what the record will see with which a run goes on that pauses here."""
    given = options_to_go_on(record, options.deps, options.session)
    view = SessionOverlay({} if given.session is None else values_of(given.session))
    following: Any = SimpleNamespace(options=given, session=view, stored=record.stored)
    follow_session(following, record)
    return view


# --- spending


def _tap_accounts(oracle: o.Oracle, wrap: Wrap) -> None:
    def charging(real: Any) -> Any:
        def charge(self: Any, usage: Any = NO_USAGE, cost: Any = 0, *, turns: int = 0, tool_calls: int = 0) -> Any:
            if isinstance(self, Tally):
                return real(self, usage, cost, turns=turns, tool_calls=tool_calls)
            with oracle.lock:
                real(self, usage, cost, turns=turns, tool_calls=tool_calls)
                _charged(oracle, self, Spending(usage=usage, cost=cost, all_turns=turns, tool_calls=tool_calls))

        return charge

    def taking(real: Any) -> Any:
        def take_calls(self: Any, calls: int) -> Any:
            if isinstance(self, Tally):
                return real(self, calls)
            with oracle.lock:
                is_limited = self._is_limited()
                real(self, calls)
                if is_limited:  # else it has charged them
                    _charged(oracle, self, Spending(tool_calls=calls))

        return take_calls

    def extending(real: Any) -> Any:
        def extend(self: Any, budget: Any) -> None:
            real(self, budget)
            line = oracle.of_account.get(id(self))
            if line is not None and not isinstance(line.machine, AgentRun) and not isinstance(self, Tally):
                line.budget = budget

        return extend

    wrap(Account, "charge", charging)
    wrap(Account, "take_calls", taking)
    wrap(Account, "extend", extending)


def _charged(oracle: o.Oracle, account: Account, spent: Spending) -> None:
    """Note in which lines spending is to be told: of the run, and of each run around it of which it is no part."""
    inner = None
    for each in account.chain():
        line = oracle.of_account.get(id(each))
        if line is not None and not any(inside.account is inner for inside in line.inside.values()):
            add(line.unspent, spent)
        inner = each


# --- runs inside


def _tap_runs_inside(oracle: o.Oracle, stack: ExitStack) -> None:
    real_call, real_part = run_of_call, child_runs._part_of

    def calling(record: Any, order: Any, *given: Any) -> Any:
        before, oracle.here.call_id = getattr(oracle.here, "call_id", ""), order.call.id
        try:
            return real_call(record, order, *given)
        finally:
            oracle.here.call_id = before

    def part_of(outer: Any, child: Any, place: str) -> Any:
        line = _line(oracle, outer)
        if line is not None:
            own = place if not isinstance(line.machine, AgentRun) else oracle.here.call_id
            _begun(oracle, line, own, child)
        return real_part(outer, child, place)

    stack.enter_context(patch.object(agent_record, "run_of_call", calling))
    stack.enter_context(patch.object(child_runs, "_part_of", part_of))


def _begun(oracle: o.Oracle, line: o.Line, place: str, child: Any) -> None:
    """Note which run begins, or goes on, at a place."""
    with oracle.writing():
        inner = _line(oracle, child)
        if isinstance(line.machine, AgentRun):
            fresh = f"{line.name}/{place}.{len(line.entries)}"
            name = fresh if inner is None or inner.session is None or len(inner.entries) == 1 else inner.name
            line.write(e.ChildBegan(place, name, child.runner.id))
        elif place not in line.state.children and not isinstance(line.machine, MapRun):  # kept, and it goes on
            name = f"{line.name}/{place}.{len(line.entries)}" if inner is None else inner.name
            line.write(e.ChildBegan(place, name, child.runner.id))
        name = line.state.children.get(place, f"{line.name}/{place}")
        before = line.inside.get(place)
        if before is not None:  # it begins anew, and no event told what came of it: an error ended the run around it
            add(line.unspent, before.since())
        line.inside[place] = o.Inside(name, child.account, copy_of(child.account.spending))
        if inner is not None:
            if len(inner.entries) == 1 and isinstance(inner.entries[0].event, e.Accepted):
                _accept(oracle, inner, parent=line.name, place=place)
                inner.name = name
        elif id(child) in oracle.opening:
            oracle.opening[id(child)] = (oracle.opening[id(child)][0], line.name, place, name)


# --- journals


def _tap_journal(oracle: o.Oracle, stack: ExitStack) -> None:
    def make(real: Any) -> Any:
        def made(*given: Any) -> Any:
            before, oracle.here.rows_of = getattr(oracle.here, "rows_of", ""), given[-2].run.run_id
            try:
                return real(*given)
            finally:
                oracle.here.rows_of = before

        return made

    for name in ("_agent", "_group"):
        stack.enter_context(patch.object(put_together, name, make(getattr(put_together, name))))


# --- ends


def _tap_ends(oracle: o.Oracle, wrap: Wrap) -> None:
    def ending(real: Any) -> Any:
        def end(self: Any, ending: Any, phase: Any, *, commit: Any = None, **named: Any) -> Any:
            def committed() -> None:
                if commit is not None:
                    commit()
                line = _line(oracle, self)
                if line is not None and not line.is_lost:
                    _end(oracle, line, ending, phase)

            return real(self, ending, phase, commit=committed, **named)

        return end

    def writing(real: Any) -> Any:
        def rows_for(self: Any, part: Any) -> Any:
            line = _line(oracle, self)
            if line is not None:
                line.written.append(len(line.entries))
                oracle.keep(line, f"run {line.run_id}")
                oracle.write_into(line, part)
            rows, count = real(self, part)
            if line is not None and any(row.kind == DEFINITION for row in rows):  # those of an earlier stay go
                line.rows = {(row.kind, row.key): row.body for row in rows}
            return rows, count

        return rows_for

    def committing(real: Any) -> Any:
        def commit(self: Any, *given: Any) -> Any:
            line, rows = oracle.of_part.get(id(self)), given[0] if isinstance(given[0], list) else given[1]
            if line is not None:
                line.rows |= {(row.kind, row.key): row.body for row in rows}
                if any(row.kind == LINE and not is_early(row.body) for row in rows):
                    with oracle.writing():
                        line.compare_with_rows()
            return real(self, *given)

        return commit

    wrap(RunRecord, "end", ending)
    wrap(RunRecord, "rows_for", writing)
    for name in ("commit", "commit_in"):
        wrap(JournalPart, name, committing)


def _end(oracle: o.Oracle, line: o.Line, ending: Any, phase: str) -> None:
    if isinstance(ending, MoreTurns):
        return
    is_over = isinstance(ending, Complete | Incomplete)
    if line.changes or (is_over and isinstance(line.machine, AgentRun)) or line.is_unpaid():
        _write(oracle, line, e.Closed())
    if (
        line.is_laid and not is_over
    ):  # it was ended from outside in the moment of its own end; its next stay tells the session
        line.session = None
    line.is_laid = False
    if is_over:
        event: e.RunEvent = e.Ended("complete" if isinstance(ending, Complete) else "incomplete")
    elif isinstance(ending, BaseException):
        by: Any = "cancelled" if phase == "cancelled" else "failed"
        event = e.Failed(type(ending).__name__, str(ending), by)
    else:
        event = e.Asked(sum(isinstance(each.event, e.Asked) for each in line.entries) + 1)
    _write(oracle, line, event)
    with oracle.writing():
        if oracle.line(line.machine) is line:
            line.compare("end")


# --- maps


def _tap_maps(oracle: o.Oracle, wrap: Wrap) -> None:
    def map_init(real: Any) -> Any:
        def init(self: Any, *, max_parallel: int, ordered: bool, keep_errors: bool) -> None:
            real(self, max_parallel=max_parallel, ordered=ordered, keep_errors=keep_errors)
            if not oracle.is_busy:
                rules = MapSpec(max_parallel=max_parallel, ordered=ordered, keep_errors=keep_errors)
                oracle.begin(self, lambda digest: [e.Accepted("map", digest, "")], rules)

        return init

    def telling(tell: Callable[..., e.RunEvent]) -> Callable[[Any], Any]:
        def make(real: Any) -> Any:
            def told(self: Any, *given: Any) -> Any:
                line = oracle.line(self)
                if line is None or oracle.is_busy:
                    return real(self, *given)
                with oracle.writing():
                    event = tell(line, *given)
                    result = real(self, *given)
                    line.write(event)
                    if line.is_to_be_compared():
                        line.compare("map")
                    return result

            return told

        return make

    def answers_init(real: Any) -> Any:
        def init(self: Any, *given: Any, **named: Any) -> None:
            real(self, *given, **named)
            line = oracle.line(self._machine)
            if line is not None and self._account is not None:
                with oracle.writing():
                    line.begin_anew(o.with_changes(line.entries[0].event, budget=self._account.spending.budget))
                    oracle.count_in(line, self._account)

        return init

    def preparing(real: Any) -> Any:
        def prepared(self: Any, given: Any) -> Any:
            record = real(self, given)
            line = oracle.line(self._machine)
            if line is not None:
                _begun(oracle, line, str(oracle.here.index), record)
            return record

        return prepared

    def beginning(real: Any) -> Any:
        def begin(self: Any, index: int, *given: Any) -> Any:
            before, oracle.here.index = getattr(oracle.here, "index", 0), index
            try:
                return real(self, index, *given)
            finally:
                oracle.here.index = before

        return begin

    def stepping(real: Any) -> Any:
        def next_step(self: Any) -> Any:
            step, line = real(self), oracle.line(self)
            if line is not None and not oracle.is_busy:
                with oracle.writing():
                    kinds = {each.kind for each in line.state.due() if each.kind != "child"}
                    oracle.compared += 1
                    if kinds != _DUE[type(step).__name__]:
                        oracle.tell(line, "due", [f"{step!r:.200} | {line.state.due()}"])
            return step

        return next_step

    wrap(MapRun, "__init__", map_init)
    wrap(MapRun, "next_step", stepping)
    wrap(MapRun, "took", telling(lambda line: e.ChildBegan(str(line.machine._taken), line.name_of_input())))
    wrap(MapRun, "no_more_inputs", telling(lambda line: e.InputsEnded()))
    wrap(MapRun, "handed_out", telling(lambda line: e.HandedOut()))
    wrap(MapRun, "answered", telling(lambda line, answer: _answered(line, answer)))
    wrap(Answers, "__init__", answers_init)
    wrap(Answers, "_prepared", preparing)
    wrap(Answers, "_begin", beginning)
    wrap(NamedAnswers, "_begin_item", beginning)


_DUE: Mapping[str, set[str]] = {
    "TakeInput": {"take"},
    "HandOut": {"hand_out"},
    "AwaitAnswers": set(),
    "MapFailed": {"fail"},
    "MapDone": {"finish"},
}


def _answered(line: o.Line, answer: Any) -> e.RunEvent:
    place = str(answer.index)
    if isinstance(answer, MapFailure):
        return e.ChildFailed(place, type(answer.error).__name__, str(answer.error))
    outcome, run = answer.outcome, line.state.children.get(place, "")
    if isinstance(outcome, Complete):
        return e.ChildDone(place, outcome.text)
    if isinstance(outcome, Incomplete):
        return e.ChildLimited(place, run)
    return e.ChildPaused(place, run, outcome.pauses)
