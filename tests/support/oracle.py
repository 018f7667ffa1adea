"""Writes what each machine of this process is fed as events, and replays its line as text.

After each event, the state that the line comes to must be that of the live machine, and after the last one the same must be
due. Nothing else is patched: the machine is the one place where a run changes.
"""

# It wraps methods of any signature, and tells the events of each by a function of the same arguments.
# pyright: basic, reportUnusedFunction=false

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from typing import Any, TypeAlias
from unittest.mock import patch

from understudy.errors import BudgetExceeded, MaxIterationsExceeded
from understudy.orchestration.agent.pauses import sort_answers
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.agent.steps import AwaitApproval, AwaitInput, CallModel, CallTools, Done
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.group.child_runs import ChildRuns
from understudy.orchestration.group.children import AwaitChildren, RunChildren
from understudy.orchestration.group.group_run import GroupDone, GroupRun
from understudy.orchestration.group.parallel_run import ParallelRun
from understudy.orchestration.runs import definitions
from understudy.orchestration.runs import events as e
from understudy.orchestration.runs.agent_state import AgentLineState
from understudy.orchestration.runs.group_state import GroupLineState
from understudy.orchestration.runs.lines import Entry, line_of, text_of
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.messages import NO_USAGE, Usage

Machine: TypeAlias = Any
FEW = 40  # Events of a line after each of which it is compared; of a longer one, each tenth, and the last.


class Line:
    """The line of one machine, and the state that it comes to when it is read again."""

    def __init__(
        self, oracle: Oracle, machine: Machine, entries: list[Entry], state: AgentLineState | GroupLineState
    ) -> None:
        self.machine = machine
        self.entries = entries
        self.state = state
        self.requested = False
        """Whether the pending request was told."""
        self._oracle = oracle

    def write(self, event: e.RunEvent) -> None:
        """Add an event, and apply it as it is read."""
        if any(each.name == "spent" for each in fields(event)):  # type: ignore[arg-type]
            event = _with(event, spent=self._spent())
        entry = Entry(len(self.entries), float(len(self.entries)), event)
        self.entries.append(entry)
        (read,) = line_of(text_of([entry]))
        self.state.apply(read.event)
        self._oracle.kinds[type(event).__name__] += 1

    def _spent(self) -> e.Spent:
        """Return what the live machine has spent since, runs inside of it too."""
        now, then = figures_of(self.machine), self.state.account.spending
        cost = None if now.cost is None else now.cost - (then.cost or 0)
        return e.Spent(
            _more(now.usage, then.usage), cost, now.all_turns - then.all_turns, now.tool_calls - then.tool_calls
        )

    def is_to_be_compared(self) -> bool:
        """Whether to compare at this place."""
        return len(self.entries) <= FEW or len(self.entries) % 10 == 0

    def compare(self, where: str) -> None:
        """Note a difference between the live machine and the line."""
        live, replayed = _told(self.machine), _told(self.state.machine)
        self._oracle.compared += 1
        if live != replayed:
            self._oracle.tell(
                self,
                where,
                [
                    f"{key}: {live.get(key)!r} | {replayed.get(key)!r}"
                    for key in live
                    if live.get(key) != replayed.get(key)
                ],
            )


def figures_of(machine: Machine) -> Spending:
    """Return what a machine's run has spent."""
    found: Spending = machine.state if isinstance(machine, AgentRun) else machine.state.spending
    return found


def _more(now: Usage, then: Usage) -> Usage:
    counts: dict[str, Any] = {
        each.name: None if (n := getattr(now, each.name)) is None else n - (getattr(then, each.name) or 0)
        for each in fields(Usage)
        if each.name not in ("raw", "estimated")
    }
    return NO_USAGE if now == then else Usage(**counts, estimated=now.estimated)


def _with(event: e.RunEvent, **changes: Any) -> e.RunEvent:
    from dataclasses import replace

    return replace(event, **changes)  # type: ignore[type-var]


def _told(machine: Machine) -> dict[str, Any]:
    """Return a machine as data, without what a clock measured, and without the texts of runs inside."""
    if isinstance(machine, GroupRun):
        machine.due_children()  # tasks that are ready begin when it is asked
    state: dict[str, Any] = json.loads(machine.to_json())["state"]
    _strip(state)
    if isinstance(machine, GroupRun):
        state.pop("spending")  # of children that are under way
    for name in ("seconds", "budget", "usage", "cost", "all_turns", "tool_calls"):
        state.pop(name, None)
    if isinstance(state.get("context"), dict):
        state["context"].pop("news")
    return state


def _strip(value: Any) -> None:
    if isinstance(value, dict):
        if "saved" in value and "pauses" in value:
            value["saved"] = ""
        for each in value.values():
            _strip(each)
    elif isinstance(value, list):
        for each in value:
            _strip(each)


class Oracle:
    """All lines of the machines that are made while it is installed."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.compared = 0
        self.differences: list[str] = []
        self.lines: dict[int, Line] = {}
        self.definitions: dict[str, Any] = {}
        self._texts: dict[str, list[Entry]] = {}
        self._lock = threading.RLock()
        self._here = threading.local()

    @property
    def is_busy(self) -> bool:
        """Whether this thread is writing or replaying: what machines do meanwhile is no run's."""
        return getattr(self._here, "busy", False)

    @contextmanager
    def writing(self) -> Generator[None]:
        """Hold the lines, for one piece of writing."""
        with self._lock:
            self._here.busy = True
            try:
                yield
            finally:
                self._here.busy = False

    def drop(self, machine: Machine, error: BaseException) -> None:
        """Give up the line of a machine that took something which no line can have."""
        self.lines.pop(id(machine), None)
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

    def begin(self, machine: Machine, make: Callable[[str], list[e.RunEvent]]) -> None:
        """Begin the line of a machine that was just made; `make` gets the digest of its definition."""
        with self.writing():
            try:
                events = make(self.digest(machine.spec))
                line = self._add(machine, [])
                if isinstance(machine, ParallelRun) and machine.spec.merge is None:
                    raise ValueError("a parallel group of a test, with the rules of a sequence")
                for event in events:
                    line.write(event)
            except (ValueError, TypeError) as error:
                self.drop(machine, error)

    def _add(self, machine: Machine, entries: list[Entry]) -> Line:
        first = self.definitions[self.digest(machine.spec)] if not entries else self._first(entries)
        kind: Any = AgentLineState if isinstance(machine, AgentRun) else GroupLineState
        state = kind(first, self.definitions.__getitem__)
        for entry in line_of(text_of(entries)):
            state.apply(entry.event)
        line = self.lines[id(machine)] = Line(self, machine, list(entries), state)
        return line

    def _first(self, entries: list[Entry]) -> Any:
        event = entries[0].event
        assert isinstance(event, e.Accepted | e.Migrated)
        return self.definitions[event.definition]

    def saved(self, machine: Machine, text: str) -> None:
        line = self.line(machine)
        if line is not None and not self.is_busy:
            self._texts[text] = list(line.entries)

    def loaded(self, machine: Machine, text: str) -> None:
        """Go on with the line of a machine that was loaded from a text, or begin with the text."""
        entries = self._texts.get(text)
        if entries is None:
            self.skipped["began with a text of the state"] += 1
            return self.begin(machine, lambda digest: [e.Migrated(text, digest)])
        with self.writing():
            digest, line = self.digest(machine.spec), self._add(machine, entries)
            before = self.digest(line.state.definition)
            line.write(e.TakenOver(definition="" if before == digest else digest))
            self._check(line, "loaded")
        return None

    def copied(self, machine: Machine, copy: Machine) -> None:
        line = self.line(machine)
        if line is not None and not self.is_busy:
            with self.writing():
                self._add(copy, line.entries)

    def _check(self, line: Line, where: str) -> None:
        is_lazy = isinstance(line.machine, AgentRun) and line.machine.spec.watched and where != "next_step"
        if line.is_to_be_compared() and not is_lazy:  # a round that callbacks watch is closed by the next step
            line.compare(where)

    def feed(
        self, machine: Machine, name: str, call: Callable[[], Any], told: Callable[[Line], Iterator[e.RunEvent]]
    ) -> Any:
        """Feed a live machine, and write the events if it took what it was fed."""
        line = self.line(machine)
        if line is None or self.is_busy:
            return call()
        with self.writing():
            try:
                events = list(told(line))
            except Exception:  # noqa: BLE001  # a feed of another form than any driver's: the machine refuses it
                return call()
            result = call()
            if name == "context_overflow" and machine.state.context is None:
                return result
            self._write(line, events, name)
            line.requested = False
            return result

    def _write(self, line: Line, events: list[e.RunEvent], where: str) -> None:
        try:
            for event in events:
                line.write(event)
        except (ValueError, TypeError) as error:
            if "JSON" in str(error):
                return self.drop(line.machine, error)
            raise
        return self._check(line, where)

    def step(self, machine: Machine, call: Callable[[], Any]) -> Any:
        """Ask a live machine for its next step: what that decided is an event."""
        line = self.line(machine)
        if line is None or self.is_busy:
            return call()
        with self.writing():
            decided = _deciding_agent if isinstance(machine, AgentRun) else _deciding_group
            events, before = list[e.RunEvent](), decided(line, None, set())
            try:
                step = call()
            except Exception as error:
                decided(line, None, before, events)
                self._write(line, events, "next_step")
                self._compare_due(line, error)
                raise
            decided(line, step, before, events)
            self._write(line, events, "next_step")
            self._compare_due(line, step)
            return step

    def _compare_due(self, line: Line, step: Any) -> None:
        """Note where the live machine asks for something else than the line says is due."""
        if line.is_to_be_compared() and line.machine is not None:
            wanted, due = due_of(line.machine, step), line.state.due()
            self.compared += 1
            told = {
                ("model" if each.kind == "judge" else each.kind, each.key) for each in due
            }  # of a turn that came before
            if wanted is not None and told != wanted:
                self.tell(line, "due", [f"{step!r:.200} | {due}"])


def _due_children(machine: Machine) -> list[int]:
    found: list[int] = machine.due_children()
    return found


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
            return {("child", str(at)) for at in _due_children(machine)}
        case MaxIterationsExceeded() | BudgetExceeded():
            return None
        case _:
            return {("fail", "")}


def _replayed(line: Line) -> Machine:
    """Return the machine that the line comes to."""
    return line.state.machine


def _deciding_agent(line: Line, step: Any, before: set[Any], events: list[e.RunEvent] | None = None) -> set[Any]:
    """Tell a round that was counted, and a request that was made."""
    round_ = line.machine.state.round
    if events is None:
        return set() if round_ is None else {"open" if round_.admitted else "due"}
    if "due" in before and (round_ is None or round_.admitted):
        events.append(e.RoundBegan())
    if "open" in before and round_ is None and _replayed(line).unreviewed():
        events.append(e.ResultsReviewed({}))  # by hand: nobody reviewed them
    if isinstance(step, CallModel) and not line.requested:
        line.requested = True
        events.append(e.TurnBegan(step.request.turn) if step.compaction is None else e.SummaryBegan())
    return before


def _deciding_group(line: Line, step: Any, before: set[Any], events: list[e.RunEvent] | None = None) -> set[Any]:
    """Tell each child that was admitted."""
    begun = {at for at, child in enumerate(line.machine.state.children) if child.begun}
    if events is not None:
        events += [e.ChildBegan(str(at), f"line-{at}") for at in sorted(begun - before)]
    return begun


def _about(about: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.items() if value is not None}


def _summing(line: Line) -> bool:
    context = line.machine.state.context
    return context is not None and context.is_summing


def _turn(line: Line, turn: Any, **about: Any) -> Iterator[e.RunEvent]:
    yield e.SummaryCame(turn) if _summing(line) else e.TurnTaken(turn, **_about(about))


def _results(line: Line, results: Any) -> Iterator[e.RunEvent]:
    given = list(results)
    for result in given:
        yield e.ResultCame(result)
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
    "checked_response": _turn,
    "compaction_failed": lambda line, problem: iter([e.SummaryFailed(problem)]),
    "context_overflow": lambda line, **about: iter([e.Overflowed(**about)]),
    "prepay": lambda line, turn: iter([e.TurnCame(turn)]),
    "write_off": lambda line, turn: iter([e.TurnLost(turn)]),
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
    "child_failed": lambda line, at, failure, error=None, *, may_retry=True: iter(
        [e.ChildFailed(str(at), failure.kind, failure.message, may_retry)]
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
def installed() -> Generator[Oracle]:
    """Have every machine write its line; on leaving, replay each line once more from its text, and compare what is due."""
    oracle = Oracle()
    with ExitStack() as stack:

        def wrap(cls: type, name: str, make: Callable[[Any], Any]) -> None:
            if name in vars(cls):
                stack.enter_context(patch.object(cls, name, make(vars(cls)[name])))

        def feeding(name: str, told: Callable[..., Iterator[e.RunEvent]]) -> Callable[[Any], Any]:
            def make(real: Any) -> Any:
                def fed(self: Any, *given: Any, **named: Any) -> Any:
                    given = tuple([list(each) if isinstance(each, Iterator) else each for each in given])
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
        yield oracle


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
            history = tuple(history)
            real(self, spec, input, history=history, system=system, budget=budget, account=account)
            if oracle.is_busy:
                return
            given = self.state.budget if account is not None else budget
            text = input if isinstance(input, str) else tuple(input)
            opened = e.Opened(history, system)
            oracle.begin(self, lambda digest: [e.Accepted(spec.agent_id, digest, text, budget=given), opened])

        return init

    def graph_init(real: Any) -> Any:
        def init(self: Any, spec: Any, input: Any, parameters: Any = None) -> None:
            if oracle.is_busy:
                real(self, spec, input, parameters)
                return
            with oracle.writing():
                real(self, spec, input, parameters)
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
