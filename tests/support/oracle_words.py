"""Tells each run of this process by its line, and compares that with what the live run told: public events and log lines.

The oracle writes what machines are fed. Here those events are told when the live run tells them, together with those that
change no machine: they are made of the entries of the run's log.
"""

# It wraps methods of any signature, and looks into the live run.
# pyright: basic, reportPrivateUsage=false

from __future__ import annotations

import logging
import re
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias
from unittest.mock import patch

import understudy as us
from understudy.actors.run_view import log as facts
from understudy.actors.run_view.fact_events import About, event_of
from understudy.actors.run_view.log import RunLines, RunLog
from understudy.actors.run_view.log_reader import LogReader
from understudy.actors.run_view.shown_turn import ShownTurn
from understudy.actors.runs import watchdog
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.runs.group_record import GroupRunRecord
from understudy.actors.runs.record import RunRecord
from understudy.actors.runs.run_actor import AgentRunActor
from understudy.actors.tools.tool_call import Executed, ToolCallTask
from understudy.diagnostics import BARE
from understudy.orchestration.runs import events as e
from understudy.orchestration.runs.group_state import GroupLineState
from understudy.orchestration.runs.lines import Entry, line_of, text_of
from understudy.orchestration.runs.state import AgentLineState
from understudy.orchestration.runs.words import RETRY_SCHEDULED, SIGNALS, WORDS, LogLine, Teller, error_of, raised_of
from understudy.vocabulary.messages import ModelTurn, ToolCall, ToolResult
from understudy.vocabulary.runs.outcome_data import plain_value
from understudy.vocabulary.runs.outcomes import MoreTurns

from . import oracle

TOLD_BY_LOG = (
    *(e.TurnBegan, e.TurnTakenBack, e.ContextChanged, e.CallBegan, e.CallNamed, e.CallSettled, e.ChildBegan),
    *(e.KeysConflicted, e.KeysOverwritten, e.KeysUnsaved, e.Diverged, e.Asked, e.Ended, e.Failed),
    *(e.Accepted, e.Opened, e.Migrated, e.TakenOver),
)
"""What is told when the log of the live run has it, even if the oracle writes it too."""
LINES = {row.line.name for row in WORDS.values() if row.line is not None} | {RETRY_SCHEDULED.name}
"""The names of the log lines that the table has."""


@dataclass(eq=False)
class Stay:
    """A run from its start, or from where it goes on, to its end or pause: what live readers and the line tell of it."""

    record: RunRecord
    teller: Teller
    made: list[us.Event] = field(default_factory=list[us.Event])
    lines: list[LogLine] = field(default_factory=list[LogLine])
    events: list[e.RunEvent] = field(default_factory=list[e.RunEvent])
    results: set[str] = field(default_factory=set[str])
    """Ids of the calls of the round whose results were told."""
    finished: dict[str, facts.Finished] = field(default_factory=dict[str, facts.Finished])
    """Call id -> what its executor knows of a result that is about to be fed."""
    why_no_summary: BaseException | None = None
    request: e.TurnBegan | None = None
    """The request that the machine has made, if nobody was told yet."""
    is_told: bool = False
    """Whether the request was told before the log had it."""
    is_logged: bool = False
    """Whether the live run writes log lines."""
    before_start: list[LogLine] = field(default_factory=list[LogLine])
    is_known: bool = True
    """Whether the oracle has a line for its machine."""
    open_children: set[str] = field(default_factory=set[str])

    def enter(self, event: e.RunEvent) -> Entry:
        """Return the event at the next place, as it is read from text."""
        (entry,) = line_of(text_of([Entry(len(self.events), float(len(self.events)), event)]))
        self.events.append(entry.event)
        return entry

    def say(self, event: e.RunEvent) -> None:
        """Tell an event that changes nothing in the machine."""
        entry = self.enter(event)
        row = WORDS[type(event)]
        before = row.fields(entry.event, self.teller) if row.before and row.fields is not None else None
        self.take(entry, before)

    def take(self, entry: Entry, before: Any) -> None:
        told = self.teller.told(entry, before)
        if told.event is not None:
            self.made.append(told.event)
        if told.line is not None:
            self.lines.append(told.line)

    @property
    def round(self) -> Any:
        machine = getattr(self.teller.state, "machine", None)
        return None if machine is None or not isinstance(self.teller.state, AgentLineState) else machine.state.round


class _Facts(list[Any]):
    """The entries of a log, which tells each when it has it."""

    def __init__(self, words: Words, log: RunLog) -> None:
        super().__init__()
        self._words = words
        self._log = log

    def append(self, fact: Any) -> None:
        super().append(fact)
        self._words.fact(self._log, fact)

    def __iadd__(self, found: Iterable[Any]) -> Any:  # type: ignore[misc]
        for fact in found:
            self.append(fact)
        return self


class Words:
    """All runs while it is installed."""

    def __init__(self, found: oracle.Oracle) -> None:
        self.oracle = found
        self.stays: list[Stay] = []
        self.records: list[logging.LogRecord] = []
        self.faults: list[str] = []
        """What failed while it told something; a run goes to its end all the same."""
        self.lock = threading.RLock()
        self._by_log: dict[int, Stay] = {}
        self._by_run: dict[str, Stay] = {}
        self._by_machine: dict[int, Stay] = {}

    def begin(self, record: RunRecord) -> None:
        spec: Any = getattr(record.runner, "run_spec", None)
        state: Any = AgentLineState(spec) if isinstance(record, AgentRunRecord) else GroupLineState(spec)
        callbacks = getattr(record.runner, "callbacks", ())
        teller = Teller(
            run_id=record.run_id,
            path=(record.runner.id,),
            state=state,
            parent_run_id=record.parent_run_id,
            conversation_id=record.options.conversation_id,
            ending_of=self.ending_of,
            has_own_lines=any(each.writes_log for each in callbacks),
        )
        with self.lock:
            stay = Stay(record, teller)
            self.stays.append(stay)
            if record.run_id in self._by_run:
                teller.endings = self._by_run[record.run_id].teller.endings
            self._by_machine.pop(id(_machine(record)), None)  # from here on, this stay has it
            self._by_log[id(record.log)] = self._by_run[record.run_id] = stay
            record.log.facts = _Facts(self, record.log)

    def started(self, run_id: str) -> None:
        with self.lock:
            stay = self._by_run[run_id]
            stay.is_logged, stay.before_start = True, stay.lines.copy()
            goes_on = stay.record.log.first_seq > 0
            stay.say(e.TakenOver() if goes_on else e.Accepted(stay.record.runner.id, "", ""))

    def ending_of(self, run_id: str) -> Any:
        stay = self._by_run.get(run_id)
        if stay is not None and not stay.is_known:
            return stay.record.ending
        last = stay.made[-1] if stay is not None and stay.made else None
        match last:
            case us.RunFinished(outcome=outcome):
                return outcome
            case us.RunFailed(error=error):
                return error
            case _:
                return None

    def of_machine(self, machine: Any) -> Stay | None:
        found = self._by_machine.get(id(machine))
        if found is None or _machine(found.record) is not machine:
            found = next((each for each in reversed(self.stays) if _machine(each.record) is machine), None)
            if found is not None:
                self._by_machine[id(machine)] = found
        return found

    def of_log(self, log: RunLog) -> Stay | None:
        stay = self._by_log.get(id(log))
        if stay is not None:
            line = self.oracle.line(_machine(stay.record))
            if line is not None:
                stay.teller.state = line.state
            stay.is_known = line is not None or _machine(stay.record) is None
        return stay if stay is None or stay.is_known else None

    # --- what machines are fed

    def write(self, line: oracle.Line, event: e.RunEvent, real: Callable[[e.RunEvent], object]) -> None:
        with self.lock:
            stay = self.of_machine(line.machine)
            if stay is None or isinstance(event, TOLD_BY_LOG) or stay.record.log._is_sealed:
                if stay is not None and isinstance(event, e.TurnBegan):
                    stay.request, stay.is_told = event, False
                real(event)
                return
            stay.teller.state = line.state
            known = self._with_details(stay, event)
            if known is None:
                real(event)
                return
            row, entry = WORDS[type(known)], stay.enter(known)
            before = row.fields(entry.event, stay.teller) if row.before and row.fields is not None else None
            real(event)
            stay.take(entry, before)

    def _with_details(self, stay: Stay, event: e.RunEvent) -> e.RunEvent | None:
        """Return an event with what only the log and the executor know; None if it was told already."""
        record = stay.record
        match event:
            case e.TurnTaken() | e.TurnRuled():
                assert isinstance(record, AgentRunRecord)
                stay.results.clear()
                stay.request = None
                turn = record.machine.state.turns if record.machine is not None else 0
                refused = isinstance(event, e.TurnRuled) or _is_refused(stay.teller.state, record.machine)
                held = record.holds_turns and refused
                return replace(event, attempts=attempts(record.log, turn), is_held=held)
            case e.ResultCame(result=ToolResult(call_id=call_id)):
                if call_id in stay.results:
                    return None
                stay.results.add(call_id)
                known = stay.finished.pop(call_id, None)
                return event if known is None else _result(known)
            case e.SummaryFailed():
                why, stay.why_no_summary = stay.why_no_summary, None
                return event if why is None else replace(event, error=raised_of(why))
            case e.ChildFailed(place=place) if place not in stay.open_children:
                begun = stay.teller.state.begun.get(place)
                if begun is not None:
                    stay.teller.state.begun[place] = replace(begun, run="")
                return event
            case e.ChildDone() | e.ChildFailed() | e.ChildPaused() | e.ChildLimited():
                stay.open_children.discard(event.place)
                return event
            case _:
                return event

    # --- entries of logs

    def fact(self, log: RunLog, fact: Any) -> None:
        with self.lock:
            stay = self.of_log(log)
            if stay is None:
                return
            try:
                for event in self._events(stay, log, fact):
                    stay.say(event)
            except BaseException:
                self.faults.append(f"{type(fact).__name__}: {traceback.format_exc()[-900:]}")
                raise

    def _events(self, stay: Stay, log: RunLog, fact: Any) -> Iterable[e.RunEvent]:
        round_ = stay.round
        match fact:
            case facts.Diverged():
                yield e.Diverged(int(fact))
            case int():
                if not stay.is_told:
                    yield e.TurnBegan(fact)
                stay.request, stay.is_told = None, False
            case ToolCall():
                pending = round_ is not None and fact.id in {call.id for call in round_.pending()}
                yield e.CallBegan(fact.id) if pending else e.CallNamed(fact)
            case facts.Finished():
                if fact.call.id in stay.results:
                    stay.results.discard(fact.call.id)
                elif round_ is not None and fact.call.id in {call.id for call in round_.pending()}:
                    stay.results.add(fact.call.id)
                    yield _result(fact)
                else:
                    yield e.CallSettled(fact.call, fact.result)
            case facts.Dropped():
                attempt = fact.attempt or attempts(log, fact.turn)
                yield e.TurnTakenBack(fact.turn, fact.text, fact.by, attempt)
            case facts.Compacted(change):
                if stay.request is not None:
                    stay.is_told = True
                    yield stay.request
                    stay.request = None
                figures = {each.name: getattr(change, each.name) for each in fields(e.ContextChanged)[1:]}
                yield e.ContextChanged("pruned" if change.kind == "pruned" else "summarized", **figures)
            case facts.ChildBegan():
                event = e.ChildBegan(str(fact.position), fact.run_id, fact.runner_id, fact.task)
                stay.open_children.add(event.place)
                stay.teller.state.child_began(event)
                yield event
            case facts.ChildEnded(child, ending):
                place = str(child.position)
                if place in stay.open_children:
                    stay.open_children.discard(place)
                    if isinstance(ending, BaseException):
                        yield e.ChildKept(place, child.run_id, raised_of(ending))
                    else:
                        yield e.ChildDone(place)
            case facts.Conflict(keys):
                yield e.KeysConflicted(keys)
            case facts.Overwritten(keys, other):
                yield e.KeysOverwritten(keys, other)
            case facts.NotSaved(keys, error):
                raised = raised_of(error)
                yield e.KeysUnsaved(keys, raised.kind, raised.message, raised.values)
            case facts.Retried():
                about = About(run_id=log.run_id, path=(), parent_run_id=None, seq=0, time=0.0)
                line = stay.teller.line(RETRY_SCHEDULED, event_of(fact, about))
                assert line is not None
                stay.lines.append(line)
            case us.NeedsInput() | us.NeedsApproval():
                yield e.Asked()
            case us.Complete(output=output):
                yield e.Ended(output=plain_value(output))
            case us.Incomplete() | MoreTurns():
                yield e.Ended(fact.status)
            case BaseException():
                raised = raised_of(fact)
                yield e.Failed(raised.kind, raised.message, values=raised.values)
            case _:
                pass


def _machine(record: RunRecord) -> Any:
    return getattr(record, "machine", None)


def _is_refused(state: Any, machine: Any) -> bool:
    """Whether the live machine has refused the turn that the line is about to take."""
    before, now = state.machine.state, machine.state
    return len(now.problems) > len(before.problems) or now.continues > before.continues


def _result(known: facts.Finished) -> e.ResultCame:
    raised = None if known.error is None else raised_of(known.error)
    return e.ResultCame(known.result, duration=known.duration, attempts=known.attempts, error=raised)


def attempts(log: RunLog, turn: int) -> int:
    """Return how many requests there were for a turn, as a live reader counts them."""
    found, shown = 1, False
    for fact in log.facts:
        match fact:
            case ShownTurn(turn=number, attempt=attempt) if number == turn:
                found, shown = attempt, True
            case facts.Retried(what="model", attempt=failed, turn=number) if number == turn and not shown:
                found = failed + 1 + log.attempts_before(turn)
            case int() if type(fact) is int and fact == turn and not shown:
                found = 1 + log.attempts_before(turn)
            case facts.Dropped() | (int(), ModelTurn()):
                shown = False
            case _:
                pass
    return found


@contextmanager
def installed() -> Generator[Words]:
    """Have every run told by its line too."""
    with ExitStack() as stack:
        words = Words(stack.enter_context(oracle.installed()))

        def wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
            stack.enter_context(patch.object(owner, name, make(vars(owner)[name])))

        def writing(real: Any) -> Any:
            return lambda line, event: words.write(line, event, lambda given: real(line, given))

        def init(real: Any) -> Any:
            def made(self: Any, *given: Any, **named: Any) -> None:
                real(self, *given, **named)
                words.begin(self)

            return made

        def starting(real: Any) -> Any:
            def started(self: Any) -> None:
                words.started(self._values["run_id"])
                real(self)

            return started

        def taking(real: Any) -> Any:
            def take_made(self: Any, order: ToolCallTask, executed: Executed) -> None:
                _keep(words, self, order, executed[0])
                real(self, order, executed)

            return take_made

        def timing_out(real: Any) -> Any:
            def feed(record: Any, order: Any, told: Any) -> None:
                from understudy.actors.tools.failed_calls import timeout_result

                _keep(words, record, order, timeout_result(order.call, order.tool.timeout))
                real(record, order, told)

            return feed

        def applying(real: Any) -> Any:
            def apply(self: Any, event: e.RunEvent, work: Any) -> None:
                stay = words.of_log(self.log)
                if stay is not None and isinstance(event, e.SummaryFailed):
                    stay.why_no_summary = work.error
                real(self, event, work)

            return apply

        wrap(oracle.Line, "write", writing)
        wrap(AgentRunRecord, "__init__", init)
        wrap(GroupRunRecord, "__init__", init)
        wrap(RunLines, "started", starting)
        wrap(AgentRunActor, "_take_made", taking)
        wrap(watchdog, "_feed_timeout", timing_out)
        wrap(AgentRunActor, "_apply", applying)
        stack.enter_context(_logging(words.records))
        yield words


def _keep(words: Words, record: Any, order: ToolCallTask, came: object) -> None:
    """Keep what the executor of a call knows, before its result is fed."""
    stay = words.of_log(record.log)
    if stay is not None and isinstance(came, ToolResult):
        stay.finished[came.call_id] = order.finished(came)


@contextmanager
def _logging(found: list[logging.LogRecord]) -> Generator[None]:
    logger, handler = logging.getLogger("understudy"), logging.Handler()
    before = logger.level
    handler.emit = found.append  # type: ignore[assignment, method-assign]
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


# --- what is compared


def live_events(stay: Stay) -> list[us.Event]:
    """Return what a handle's reader gets, without pieces and signals."""
    log = stay.record.log
    return [event for event in LogReader(log, (log.runner_id,), None).read() if type(event) not in SIGNALS]


def plain(event: us.Event) -> tuple[str, dict[str, Any]]:
    """Return the class of an event, and its fields as they are compared: without times and numbers."""
    told: dict[str, Any] = {}
    for each in fields(event):
        if each.name not in ("time", "duration", "seq"):
            told[each.name] = _plain(getattr(event, each.name))
    return type(event).__name__, told


def _plain(value: Any) -> Any:
    match value:
        case BaseException():
            values = raised_of(value).values
            return type(value).__name__, str(value), dict(values)
        case us.Complete() | us.Incomplete() | us.NeedsInput() | us.NeedsApproval():
            told = {each.name: getattr(value, each.name) for each in fields(value)}
            told["session"] = dict(told["session"])
            told["children"] = [_in_short(each) for each in told["children"]]
            told["output"] = plain_value(told.get("output"))
            return told
        case _:
            return value


def _in_short(child: Any) -> tuple[str, str, str]:
    """Return what an outcome has of a child, however it was kept: its class, who it was, and its words."""
    match child:
        case BaseException():
            return type(child).__name__, "", str(child)
        case us.Complete(text=words) | us.Incomplete(last_text=words) | us.NeedsInput(question=words):
            return type(child).__name__, child.agent_id, words
        case _:
            return type(child).__name__, child.agent_id, ""


def _read(value: Any) -> Any:
    """Return an event or an outcome with its errors as a reader in another process gets them."""
    if isinstance(value, BaseException):
        raised = raised_of(value)
        return error_of(raised.kind, raised.message, raised.values)
    changed = {name: _read(found) for name in ("error", "outcome") if (found := getattr(value, name, None)) is not None}
    if hasattr(value, "children"):
        changed["children"] = tuple([_read(each) for each in value.children])
    return replace(value, **changed) if changed else value


Told: TypeAlias = "list[tuple[str, dict[str, Any]]]"


@dataclass(frozen=True)
class Difference:
    """Where a line tells something else than today's runs, and why."""

    what: str
    why: str
    even: Callable[[Told, Told], object]
    """Makes what the live run told, and what the line told, equal in this."""


def _without(name: str) -> Callable[[Told, Told], None]:
    def even(live: Told, made: Told) -> None:
        for _, values in (*live, *made):
            if isinstance(values.get("outcome"), dict):
                values["outcome"].pop(name, None)

    return even


def _even_ids(live: Told, made: Told) -> None:
    for _, values in (*live, *made):
        if isinstance(values.get("error"), tuple):
            kind, words, about = values["error"]
            values["error"] = kind, words, {key: each for key, each in about.items() if key not in ("run_id", "path")}


def _even_order(live: Told, made: Told) -> None:
    for told in (live, made):
        told.sort(key=lambda each: each[0] in ("ContextCompacted", "SessionConflict"))


NEEDLESS = re.compile("was not needed any more: others decided|was cancelled: the run of|did not begin: the run of")


def _even_needless(live: Told, made: Told) -> None:
    for _, values in (*live, *made):
        if isinstance(values.get("outcome"), dict):
            children = values["outcome"]["children"]
            children[:] = [each for each in children if not NEEDLESS.search(each[2])]


DIFFERENCES = (
    Difference("token", "it stands in the row of the run: a line has no secret", _without("token")),
    Difference("artifacts", "no event has the whole text of a result that was cut", _without("artifacts")),
    Difference(
        "run_id and path of an error",
        "one object ends several runs today, and the outermost writes its own id over that of the run that failed",
        _even_ids,
    ),
    Difference(
        "order of ContextCompacted and SessionConflict",
        "the event that decided it stands before it: the request, the answer that is no summary, the end of the child",
        _even_order,
    ),
    Difference("children that nobody needed", "the outcome of a group has children that have no line", _even_needless),
)


def differences(words: Words, but: Difference | None = None) -> list[str]:
    """Return where a line tells something else than the live run told, besides the known differences but for one."""
    found = list(words.faults)
    for stay in words.stays:
        if stay.record.log._ended and stay.is_known:
            live, made = [plain(_read(each)) for each in live_events(stay)], [plain(each) for each in stay.made]
            for known in DIFFERENCES:
                if known is not but:
                    known.even(live, made)
            found += _compared(stay, live, made)
    return found


def _compared(stay: Stay, live: Told, made: Told) -> list[str]:
    if [kind for kind, _ in live] != [kind for kind, _ in made]:
        return [f"{stay.teller.path}: {_cut(live, made)} | {_cut(made, live)}"]
    return [
        f"{kind}.{name}: {each}"
        for (kind, wanted), (_, told) in zip(live, made, strict=True)
        for name, value in wanted.items()
        for each in _where(value, told[name])
    ]


def _cut(told: Told, other: Told) -> list[str]:
    """Return the classes of events around the first that differs."""
    kinds, others = [kind for kind, _ in told], [kind for kind, _ in other]
    first = next((at for at, pair in enumerate(zip(kinds, others, strict=False)) if pair[0] != pair[1]), len(others))
    return ["…", *kinds[max(0, first - 3) : first + 5]]


def _where(value: Any, told: Any) -> list[str]:
    if isinstance(value, dict) and isinstance(told, dict):
        return [f"{k}: {value.get(k)!r} | {told.get(k)!r}" for k in value.keys() | told if value.get(k) != told.get(k)]
    return [] if value == told else [f"{value!r} | {told!r}"]


BEFORE_START = "calls that an answer settles"

LINE_DIFFERENCES: Mapping[str, str] = {
    BEFORE_START: "the answer is fed before the log lines of the stay begin; the public events are there today too",
}
"""Where the lines of events give other log lines than today's runs write, and why."""


def line_differences(words: Words, but: str = "") -> list[str]:
    """Return the log lines that only the live runs wrote, and those that only the lines of events give.

    Of the known differences only one is told, if it is named.
    """
    runs = Counter(stay.record.run_id for stay in words.stays)
    stays = [stay for stay in words.stays if stay.is_known and stay.is_logged and stay.record.log._ended]
    known = {run_id for run_id, n in Counter(stay.record.run_id for stay in stays).items() if runs[run_id] == n}
    usual = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}
    live: Counter[str] = Counter()
    for record in words.records:
        values = {name: each for name, each in vars(record).items() if name not in usual and name != "event"}
        event: str = getattr(record, "event", "")
        if record.name == "understudy" and event in LINES and values.get("run_id") in known:
            text = "" if record.msg == BARE else record.getMessage()
            live[_line(record.levelname.lower(), event, values, text)] += 1
    made: Counter[str] = Counter()
    for stay in stays:
        before = [] if but == BEFORE_START else stay.before_start
        for line in stay.lines if stay.record.run_id in known else ():
            if line not in before:
                made[_line(line.level, line.name, line.values, line.text % line.arguments if line.text else "")] += 1
    return [f"live line {each}" for each in live - made] + [f"made line {each}" for each in made - live]


def _line(level: str, name: str, values: Any, text: str) -> str:
    return f"{level} {name} {sorted((k, v) for k, v in values.items() if k != 'duration')} {text}"
