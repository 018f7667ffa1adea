"""What happened in a run, kept small, for those who listen, however late they come; and its lines in the process's log.

The lines say that a run starts, what its tools and retries do, and how it ends. They hold no words of users or models.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Container, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from logging import DEBUG, ERROR, INFO, WARNING
from math import inf
from typing import Any, Literal, Protocol, TypeAlias

from understudy.actors.run_view.progress import Report
from understudy.actors.run_view.shown_turn import ShownTurn
from understudy.diagnostics import emit, is_muted, log
from understudy.errors import ProviderError, RunCancelled
from understudy.orchestration.agent.context_state import ContextChange
from understudy.vocabulary.context.ancestry import Link
from understudy.vocabulary.context.run_values import values_of_run
from understudy.vocabulary.fast_init import fast_init
from understudy.vocabulary.messages import ModelTurn, ToolCall, ToolResult, Usage
from understudy.vocabulary.runs.callbacks import AgentCallback
from understudy.vocabulary.runs.outcomes import (
    Complete,
    Incomplete,
    MoreTurns,
    NeedsApproval,
    NeedsInput,
    Outcome,
    TurnOutcome,
)

TurnBegan: TypeAlias = int

# One for all runs: a process has thousands that wait, and the garbage collector looks at each object.
NOTHING: frozenset[Any] = frozenset()


class Diverged(int):
    """How many messages others stored in the conversation while the run was paused."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A turn does not stand, though its text was told: it was rejected, replaced or refused, or its model call failed."""

    turn: int
    text: str
    by: str
    """What rejected the turn; empty if its model call failed."""
    attempt: int = 0
    """Which attempt at the turn was shown; 0 for the last one."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Requests show less of a long conversation from now on."""

    change: ContextChange


@dataclass(frozen=True, slots=True)
class Uncompacted:
    """A compaction has no summary."""

    error: BaseException
    usage: Usage


@fast_init
@dataclass(frozen=True, slots=True)
class ChildBegan:
    """A run inside of this one began, or went on."""

    position: int
    runner_id: str
    run_id: str
    task: str
    log: RunLog


@fast_init
@dataclass(frozen=True, slots=True)
class ChildEnded:
    """A run inside of this one ended or paused."""

    child: ChildBegan
    ending: Outcome[object] | BaseException


@dataclass(frozen=True, slots=True)
class Conflict:
    """Calls of this run, or runs inside of it, that ran at the same time left keys of the session in different ways."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overwritten:
    """The run stored keys of the session over what another run had stored meanwhile."""

    keys: tuple[str, ...]
    other_run_id: str


@dataclass(frozen=True, slots=True)
class NotSaved:
    """Keys of the session could not be stored."""

    keys: tuple[str, ...]
    error: BaseException


@dataclass(frozen=True, slots=True)
class Delegated:
    """The run that a call of a sub-agent is, told only to who asks for what happens inside."""

    call_id: str
    log: RunLog


@fast_init
@dataclass(frozen=True, slots=True)
class Finished:
    """A tool call has its result."""

    call: ToolCall
    result: ToolResult
    error: BaseException | None = None
    """What the tool raised, if the result says so."""
    duration: float = 0.0
    """Seconds since its first attempt began; 0 for a call that never ran."""
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """An attempt at a model call, a tool call or a task failed, and there will be another one."""

    what: Literal["model", "tool", "task"]
    attempt: int
    wait: float
    error: BaseException
    turn: int | None = None
    call: ToolCall | None = None
    task: str = ""
    position: int | None = None
    runner_id: str = ""


OfChildren: TypeAlias = ChildBegan | ChildEnded | Conflict | Delegated
OfSession: TypeAlias = Overwritten | NotSaved
RunLogEntry: TypeAlias = "TurnBegan | Diverged | Dropped | Compacted | Uncompacted | tuple[int, ModelTurn] | ShownTurn | ToolCall | Report | Finished | Retried | OfChildren | OfSession | TurnOutcome[object] | BaseException"
"""Told apart by type, for a run notes several and most are never told: only a listener has events built."""


class Listener(Protocol):
    """A reader of a log."""

    def wake(self) -> None:
        """Take note that there is something new; called under the log's lock, or by what shows a turn."""
        ...


def _cancelled(child: ChildBegan) -> BaseException:
    return RunCancelled(f"{child.runner_id!r} was cancelled: the run that it was a part of is over")


class RunLog:
    """The facts of one run, in order. `note` from any thread; each listener reads at its own pace."""

    __slots__ = (
        "_ended",
        "_flush",
        "_held",
        "_is_sealed",
        "_listeners",
        "_lock",
        "_open_children",
        "_showing",
        "answers",
        "asked_before",
        "began",
        "began_at",
        "begun_before",
        "ending_of_child",
        "ends_at",
        "facts",
        "first_seq",
        "line_writer",
        "parent",
        "run_id",
        "runner_id",
        "shown_until",
        "times",
        "told_before",
    )

    def __init__(self, run_id: str, runner_id: str, parent: str | None = None) -> None:
        self.run_id = run_id
        self.runner_id = runner_id
        self.parent = parent
        """Id of the run that this one was begun in; None outside of runs."""
        self.began = time.monotonic()
        """When the run began or went on, on the monotonic clock."""
        self.began_at = time.time()
        """The same, in seconds since the epoch."""
        self.first_seq = 0
        """Number of the first event; above 0 if the run paused before. Set before the run goes on."""
        self.line_writer: Callable[[RunLogEntry], object] | None = None
        """Writes the log lines of the facts, outside of the lock; None if nobody listens. Set before the run starts."""
        self.answers: tuple[Callable[[str], object], str] | None = None
        """Of a typed agent's run: what reads the beginning of an answer, and the tool by which it comes. Set before a turn is
        shown."""
        self.asked_before: tuple[int, int] = (0, 0)
        """A turn that processes before this one may have shown, and after how many attempts it is asked again here. Set before
        the run goes on."""
        self.begun_before: AbstractSet[int | str] = NOTHING
        """Turns, calls and runs inside that a process before has told to begin, and not to end. Set before the run goes on."""
        self.ends_at = 0.0
        """When the run ended, as its store was told, on the monotonic clock; 0 if it was told nothing."""
        self.told_before: AbstractSet[int] = NOTHING
        """The places of facts that a process before has told: they make no event here, and have no number."""
        self.ending_of_child: Callable[[ChildBegan], Outcome[object] | BaseException] = _cancelled
        """Returns the ending of a child that the end of this run cuts off. Set before a child begins."""
        self._lock = threading.RLock()  # a garbage collection inside of it may close an iterator, which leaves
        """Guards the order of the facts, the end, and the listeners."""
        self.facts: list[RunLogEntry] = []
        """Grows only; may be read without the lock. The last one of a run that is over is its ending."""
        self.shown_until: float = inf
        """How many facts readers may see: the store has no others, and a process that goes on may tell others in their place."""
        self._flush: Callable[[], object] | None = None
        """Has the facts that readers wait for be stored soon; None if they are told at once."""
        self.times = array("d")
        """When each fact was noted, on the monotonic clock; it has the time before `facts` has the fact."""
        self._showing: ShownTurn | None = None
        """The turn that readers are shown, until it is told as a whole or taken back."""
        self._open_children: dict[str, ChildBegan] = {}
        """Run id -> the beginning of each child whose end was not told."""
        self._held: tuple[RunLogEntry, ...] = ()
        """Retries that a model reported while its turn was shown. They follow the turn's text: otherwise the numbers of its deltas
        would depend on how fast a reader is."""
        self._ended = False
        self._is_sealed = False
        """Whether it takes nothing more but the ending."""
        self._listeners: tuple[Listener, ...] = ()  # most runs have none

    def note(self, fact: RunLogEntry, *, with_line: bool = True) -> None:
        """Add a fact other than the ending, after which there is nothing more to tell: it is dropped then.

        A caller that holds a lock adds it without its line, and calls `write_lines` when it has let the lock go.
        """
        with self._lock:
            if self._is_sealed:
                return
            self._add(fact)
        if self._flush is not None:  # of few runs
            self._ask_to_flush()
        if with_line and self.line_writer is not None:
            self.line_writer(fact)

    def _add(self, fact: RunLogEntry) -> None:
        if self._showing is not None or self.begun_before:
            self._add_in_place(fact)
        else:
            self.times.append(time.monotonic())
            self.facts.append(fact)
        for listener in self._listeners:
            listener.wake()

    def _add_in_place(self, fact: RunLogEntry) -> None:
        """Add a fact of a run that shows a turn, or that a process before has told a part of."""
        if self._showing is not None and isinstance(fact, (tuple, Dropped)):
            self._showing = None
            self._add_held()
        if self._showing is not None and isinstance(fact, Retried):
            self._held += (fact,)
            return
        if self.begun_before and (key := _key_of(fact)) in self.begun_before:
            self.begun_before -= {key}
            self.told_before |= {len(self.facts)}
        self.times.append(time.monotonic())
        self.facts.append(fact)

    def hold_back(self, flush: Callable[[], object]) -> None:
        """Show readers no fact before `release` says that it is stored.

        Args:
            flush: called, under no lock of the log, when a reader waits for one; it must not block.
        """
        self.shown_until, self._flush = 0, flush

    def release(self, count: int) -> None:
        """Show readers the first `count` facts, which are stored."""
        with self._lock:
            if count > self.shown_until:
                self.shown_until = count
                self.wake()

    def _ask_to_flush(self) -> None:
        if self._flush is not None and self._listeners and len(self.facts) > self.shown_until:
            self._flush()

    def note_conflicts(self, found: Iterable[Iterable[str]]) -> None:
        """Note which keys of the session are in conflict, if any are."""
        keys = sorted({key for each in found for key in each})
        if keys:
            self.note(Conflict(tuple(keys)), with_line=False)

    def _add_held(self) -> None:
        if self._held:
            self.times.extend([time.monotonic()] * len(self._held))
            self.facts += self._held
            self._held = ()

    def seal(self) -> None:
        """Take nothing more but the ending: its number is about to be written."""
        self._lock_with_no_child()
        try:
            self._take_back()
            self._is_sealed = True
        finally:
            self._lock.release()

    def unseal(self) -> None:
        """Take facts again, unless the run is over: its end could not be written."""
        with self._lock:
            self._is_sealed = self._ended

    def attempts_before(self, turn: int) -> int:
        """Return how many attempts at a turn count before those here."""
        again, attempts = self.asked_before
        return attempts if turn == again else 0

    def show(self, shown: ShownTurn) -> None:
        """Note that readers are shown a turn while it is written; `wake` tells them of more."""
        shown.attempt = self._attempts(shown.turn)
        self.note(shown, with_line=False)
        self._showing = shown

    def _attempts(self, turn: int) -> int:
        """Return how often a turn was tried, by clients and in stays of the run, the present attempt included."""
        number = 0
        for fact in reversed(self.facts):
            match fact:
                case int() if type(fact) is int:
                    if fact != turn:
                        break
                    number += 1
                case Retried(what="model", turn=number_of_turn):
                    number += number_of_turn == turn
                case (int(), ModelTurn()):
                    break
                case _:
                    pass
        return max(number, 1) + self.attempts_before(turn)

    def take_back(self) -> None:
        """Note that what was shown of a turn does not stand: its model call failed. The end of the run notes it, too."""
        with self._lock:
            if self._take_back():
                self.wake()
        self._ask_to_flush()

    def _take_back(self) -> bool:
        shown, self._showing = self._showing, None
        if shown is None or self._is_sealed:
            return False
        self._add_held()
        self.times.append(time.monotonic())
        self.facts.append(Dropped(shown.turn, shown.text, "", shown.attempt))
        return True

    # --- children of a group

    def begin_child(self, fact: ChildBegan) -> None:
        """Add the beginning of a child, whose end is told in any case: by `end_child`, or before the end of this run."""
        with self._lock:
            if not self._is_sealed:
                self._open_children[fact.run_id] = fact
                self._add(fact)
        if self._flush is not None:
            self._ask_to_flush()

    def end_child(self, child: ChildBegan, ending: Outcome[object] | BaseException) -> None:
        """Add the end of a child, unless it was told before."""
        with self._lock:
            if self._open_children.pop(child.run_id, None) is not None and not self._is_sealed:
                self._add(ChildEnded(child, ending))
        if self._flush is not None:
            self._ask_to_flush()

    def end_children(self) -> None:
        """Add the ends of all children that are under way, because this run is about to end. They tell nothing more."""
        for child in list(self._open_children.values()):
            child.log.seal()  # takes back what it shows of a turn
            try:
                ending = self.ending_of_child(child)
            except Exception:  # readers would wait for ever for the end of this run
                ending = _cancelled(child)
            self.end_child(child, ending)

    def _lock_with_no_child(self) -> None:
        """Take the lock when the ends of all children are told. They are told without it: the children's logs have locks, too."""
        self._lock.acquire()
        while self._open_children:
            self._lock.release()
            self.end_children()
            self._lock.acquire()

    def wake(self) -> None:
        """Tell the listeners that the turn that is shown has grown."""
        for listener in self._listeners:
            listener.wake()

    @property
    def is_showing(self) -> bool:
        """Whether readers were shown something of a turn that has not been told as a whole."""
        return self._showing is not None

    @property
    def has_listeners(self) -> bool:
        """Whether somebody reads it now."""
        return bool(self._listeners)

    def write_lines(self, facts: Iterable[RunLogEntry]) -> None:
        """Write the lines of facts that were added without them. Call it under no lock: a handler is code of a user."""
        if self.line_writer is not None:
            for fact in facts:
                self.line_writer(fact)

    def note_settled(self, calls: Iterable[Finished]) -> None:
        """Add calls that have their result without having run, by what a person answered."""
        for each in calls:
            self.note(each.call)
            self.note(each)

    def end(self, ending: TurnOutcome[object] | BaseException) -> None:
        """Add the last fact; a second one is dropped."""
        self._lock_with_no_child()
        try:
            if self._ended:
                return
            self._take_back()
            self.times.append(self.ends_at or time.monotonic())
            self.facts.append(ending)
            self._ended = self._is_sealed = True
            self.shown_until, self._flush = inf, None
            self.ending_of_child = _cancelled  # the function that was set may lead back to this log, in a cycle
            for listener in self._listeners:
                self._wake_up(listener)
        finally:
            self._lock.release()
        if self.line_writer is not None:
            self.line_writer(ending)

    def _wake_up(self, listener: Listener) -> None:
        try:
            listener.wake()
        except BaseException:  # the others would wait for ever
            text = "run %s: a listener could not be told of its end"
            emit(ERROR, "listener_failed", {"run_id": self.run_id}, text, self.run_id, exc_info=True)

    def listen(self, listener: Listener) -> None:
        """Wake a listener at each fact that is noted from now on."""
        with self._lock:
            self._listeners += (listener,)
        self._ask_to_flush()

    def leave(self, listener: Listener) -> None:
        """Wake a listener no more."""
        with self._lock:
            self._listeners = tuple([each for each in self._listeners if each is not listener])


def _key_of(fact: RunLogEntry) -> int | str:
    """Return what begins with a fact, as `begun_before` has it; empty for another fact."""
    match fact:
        case int() if type(fact) is int:
            return fact
        case ToolCall(id=key) | ChildBegan(run_id=key):
            return key
        case _:
            return ""


def lines_of(link: Link, callbacks: Iterable[AgentCallback] = (), tools: Container[str] = ()) -> RunLines | None:
    """Return what writes the lines of a run; None if the logger takes none: nothing else is done for these then."""
    if not log.isEnabledFor(INFO) or is_muted():  # the second is for runs inside, which other threads may end
        return None
    return RunLines(link, callbacks, tools)


def tell_late_work(link: Link, cause: BaseException) -> None:
    """Tell that a work failed after its run was over or in other hands, so that nobody else hears of it."""
    text = "run %s: a work failed that no longer had it"
    emit(WARNING, "work_failed", values_of_run(link), text, link.run_id, exc_info=cause)


class RunLines:
    """Writes the lines of one run.

    Args:
        link: names the run.
        callbacks: those of its runner: some write lines about tool calls, turns and the end themselves.
        tools: names that may be written; a name that a model made up can be any text.
    """

    __slots__ = ("_began", "_is_told", "_tools", "_values")

    def __init__(self, link: Link, callbacks: Iterable[AgentCallback], tools: Container[str]) -> None:
        self._values = values_of_run(link)
        self._is_told = any(each.writes_log for each in callbacks)
        self._tools = tools
        self._began = time.monotonic()

    def started(self) -> None:
        """Tell that the run starts, or goes on after a pause."""
        emit(INFO, "run_started", self._values)

    def take(self, fact: RunLogEntry) -> None:
        """Write the line of a fact, if it has one."""
        match fact:
            case Retried():
                emit(INFO, "retry_scheduled", self._values | self._of_retry(fact))
            case Compacted(change):
                emit(INFO, "context_compacted", self._values | _of_compaction(change))
            case Uncompacted(error):
                emit(WARNING, "compaction_failed", self._values | {"error_type": type(error).__name__})
            case _ if self._is_told:
                pass
            case ToolCall():
                emit(DEBUG, "tool_started", self._values | self._of_call(fact))
            case Finished():
                emit(INFO, "tool_finished", self._values | self._of_call(fact.call) | _of_result(fact))
            case (int() as turn, ModelTurn() as said):
                emit(DEBUG, "turn_finished", self._values | _of_turn(turn, said))
            case BaseException():
                emit(INFO, "run_failed", self._values | _of_error(fact) | {"duration": self._duration})
            case Complete() | Incomplete() | MoreTurns() | NeedsApproval() | NeedsInput():
                emit(INFO, "run_finished", self._values | _of_outcome(fact) | {"duration": self._duration})
            case int() if type(fact) is int:
                emit(DEBUG, "turn_started", self._values | {"turn": fact})
            case _:
                pass

    @property
    def _duration(self) -> float:
        return time.monotonic() - self._began

    def _of_call(self, call: ToolCall) -> dict[str, object]:
        return {"tool": call.name if call.name in self._tools else "", "call_id": call.id}

    def _of_retry(self, fact: Retried) -> dict[str, object]:
        about: dict[str, object] = {} if fact.call is None else self._of_call(fact.call)
        if fact.task:
            about["task"] = fact.task
        return about | {"what": fact.what, "attempt": fact.attempt, "wait": fact.wait} | _of_error(fact.error)


def _of_error(error: BaseException) -> dict[str, object]:
    about: dict[str, object] = {"error_type": type(error).__name__}
    if isinstance(error, ProviderError) and error.request_id:
        about["request_id"] = error.request_id
    return about


def _of_result(fact: Finished) -> dict[str, object]:
    result = fact.result
    return {
        "is_error": result.is_error,
        "error_kind": result.error_kind,
        "attempts": fact.attempts,
        "duration": fact.duration,
    }


def _of_turn(turn: int, said: ModelTurn) -> dict[str, object]:
    return {
        "turn": turn,
        "finish_reason": said.finish_reason,
        "tool_calls": len(said.tool_calls),
        "input_tokens": said.usage.input_tokens,
        "output_tokens": said.usage.output_tokens,
        "model": said.model,
        "request_id": said.request_id,
    }


def _of_compaction(change: ContextChange) -> dict[str, object]:
    return {
        "how": change.kind,
        "messages_before": change.messages_before,
        "messages_after": change.messages_after,
        "tokens_before": change.tokens_before,
        "tokens_after": change.tokens_after,
        "pruned": change.pruned,
    }


def _of_outcome(outcome: TurnOutcome[object]) -> dict[str, object]:
    return {
        "status": outcome.status,
        "turns": outcome.turns,
        "iterations": outcome.iterations,
        "total_tokens": outcome.usage.total_tokens,
    }
