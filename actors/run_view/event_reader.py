"""Stories told as events: of one run, or of it and those inside of it. Only a listener has events built."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import TypeAlias, TypedDict

from understudy.actors.threads.promise import taken
from understudy.orchestration.agent.context_state import ContextChange
from understudy.vocabulary.messages import ModelTurn, ToolCall
from understudy.vocabulary.runs.events import (
    ChildFinished,
    ChildStarted,
    CompactionFailed,
    ContextCompacted,
    ConversationDiverged,
    Event,
    RetryScheduled,
    RunFailed,
    RunFinished,
    SessionConflict,
    SessionNotSaved,
    SessionOverwritten,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnDropped,
    TurnFinished,
    TurnStarted,
)
from understudy.vocabulary.runs.outcomes import Complete, Incomplete, MoreTurns, NeedsApproval, NeedsInput

from .log import (
    ChildBegan,
    ChildEnded,
    Compacted,
    Conflict,
    Delegated,
    Diverged,
    Dropped,
    Finished,
    NotSaved,
    Overwritten,
    Retried,
    RunLog,
    RunLogEntry,
    Uncompacted,
)
from .progress import Report

TURN = ""
"""Stands for the model's turn among run ids."""
ENDINGS = (BaseException, Complete, Incomplete, MoreTurns, NeedsApproval, NeedsInput)


def events_of(log: RunLog, *, inner: bool) -> Iterator[Event]:
    """Iterate over the events of a run from the first one on; waits for those to come, and ends after the terminal one.

    Args:
        log: the run's.
        inner: whether to tell what happens in runs inside of it too.
    """
    news: _News = queue.SimpleQueue()
    outermost = _Reader(log, (log.runner_id,), news, inner=inner)
    try:
        yield from outermost.read()
        while not outermost.over:
            yield from taken(news).read()
    finally:
        outermost.close()


def next_seq(log: RunLog, *, is_inner: bool) -> int:
    """Return the number of the event that comes after those that a run has told.

    Args:
        log: of the run, so far.
        is_inner: whether it is part of another run, which tells how this one ends or pauses.
    """
    return EventCount(log, is_inner=is_inner).next_seq()


class EventCount:
    """Counts the events of a run while its log grows; each call counts only what is new. For one thread at a time.

    Args:
        log: of the run.
        is_inner: whether it is part of another run, which tells how this one ends or pauses.
    """

    __slots__ = ("_is_inner", "_log", "_position", "_seq", "_under_way")

    def __init__(self, log: RunLog, *, is_inner: bool) -> None:
        self._log = log
        self._is_inner = is_inner
        self._position = 0
        self._seq = log.first_seq
        self._under_way: set[str] = set()

    def next_seq(self) -> int:
        """Return the number of the event that comes after those that the run has told."""
        facts = self._log.facts
        while self._position < len(facts):
            fact = facts[self._position]
            self._position += 1
            if _is_late(fact, self._under_way) or (self._is_inner and isinstance(fact, ENDINGS)):
                continue
            self._seq += _number_of(fact)
        return self._seq


class _Reader:
    """One log as one listener reads it, and the logs of runs inside that are not over for it.

    Args:
        log: what is read.
        path: ids of the runners from the outermost one to this one.
        news: where the listener waits for readers that have something to read.
        inner: whether logs of runs inside are read too.
    """

    __slots__ = (
        "_about",
        "_attempts",
        "_began",
        "_by_key",
        "_inner",
        "_inside",
        "_log",
        "_news",
        "_path",
        "_position",
        "_seq",
        "_under_way",
        "over",
    )

    def __init__(self, log: RunLog, path: tuple[str, ...], news: _News, *, inner: bool) -> None:
        self._log = log
        self._path = path
        self._news = news
        self._inner = inner
        self._position = 0
        self._seq = log.first_seq
        self._about: _About = {"run_id": log.run_id, "path": path, "parent_run_id": log.parent}
        self._began: dict[str, float] = {}
        """Run id, or `TURN` -> when a run inside, or the model's turn, began."""
        self._attempts = 1
        """How many there were at the model call that is under way, or was the last."""
        self._under_way: set[str] = set()
        """Ids of the calls that have begun and not ended."""
        self._inside: dict[_Reader, None] = {}
        """What is read of runs inside, in the order in which they began."""
        self._by_key: dict[str, list[_Reader]] = {}
        """The same by the call or the run that they are; a call that is made again has several."""
        self.over = False
        """Whether there is nothing more to read here."""
        log.listen(self)

    def wake(self) -> None:
        self._news.put(self)

    def close(self) -> None:
        """Read no more, here and inside."""
        self.over = True
        self._log.leave(self)
        for reader in self._inside:
            reader.close()
        self._inside.clear()
        self._by_key.clear()

    def read(self) -> Iterator[Event]:
        """Tell what is there and was not told yet."""
        facts = self._log.facts
        while not self.over and self._position < len(facts):
            fact, at = facts[self._position], self._log.times[self._position]
            self._position += 1
            if _is_late(fact, self._under_way):
                continue
            yield from self._before(fact)
            if not isinstance(fact, ENDINGS) or len(self._path) == 1:
                for event in _tell(fact, self._seq, self._about, self._duration(fact, at), self._attempts):
                    self._seq += 1
                    yield event
            yield from self._after(fact)

    def _duration(self, fact: RunLogEntry, at: float) -> float:
        """Return how long it took what ends with a fact; noted are the beginnings."""
        match fact:
            case ChildBegan(run_id=key):
                self._began[key] = at
            case ChildEnded(child=ChildBegan(run_id=key)):
                return at - self._began.pop(key, at)
            case (int(), ModelTurn()):
                return at - self._began.pop(TURN, at)
            case int():
                self._began[TURN] = at
                self._attempts = 1
            case Retried(what="model", attempt=failed, turn=int()):
                self._attempts = failed + 1
            case _ if isinstance(fact, ENDINGS):
                return at - self._log.began
            case _:
                pass
        return 0.0

    def _before(self, fact: RunLogEntry) -> Iterator[Event]:
        """Tell to its end what ends with a fact: nothing of it comes later."""
        match fact:
            case ChildEnded(child=ChildBegan(run_id=key)) | Finished(call=ToolCall(id=key)):
                yield from self._rest(key)
            case _ if isinstance(fact, ENDINGS):
                yield from self._rest()
            case _:
                pass

    def _after(self, fact: RunLogEntry) -> Iterator[Event]:
        match fact:
            case ChildBegan(run_id=key, log=log) | Delegated(key, log) if self._inner:
                reader = _Reader(log, (*self._path, log.runner_id), self._news, inner=True)
                self._inside[reader] = None
                self._by_key.setdefault(key, []).append(reader)
                yield from reader.read()
            case _ if isinstance(fact, ENDINGS):
                self.close()
            case _:
                pass

    def _rest(self, key: str | None = None) -> Iterator[Event]:
        """Tell what is left of one inner log, or of all, and close it."""
        if key is None:
            ending = list(self._inside)
            self._by_key.clear()
        else:
            ending = self._by_key.pop(key, [])
        for reader in ending:
            yield from reader.read()
            yield from reader._rest()
            reader.close()
            self._inside.pop(reader, None)  # not sooner: a listener that leaves meanwhile closes what is inside


_News: TypeAlias = "queue.SimpleQueue[_Reader]"


def _is_late(fact: RunLogEntry, under_way: set[str]) -> bool:
    """Whether a fact is of a call that has its result: it was given up, and does not know it yet.

    Args:
        fact: what was noted next.
        under_way: ids of the calls that have begun and not ended; kept up to date here.
    """
    match fact:
        case ToolCall(id=call_id):
            under_way.add(call_id)
        case Finished(call=ToolCall(id=call_id)):
            under_way.discard(call_id)
        case Report(call=ToolCall(id=call_id)) | Delegated(call_id=call_id) | Retried(call=ToolCall(id=call_id)):
            return call_id not in under_way
        case _:
            pass
    return False


class _About(TypedDict):
    """What all events of a run say."""

    run_id: str
    path: tuple[str, ...]
    parent_run_id: str | None


def _number_of(fact: RunLogEntry) -> int:
    """Return how many events `_tell` makes of a fact. It makes none: a journal counts them at each step."""
    match fact:
        case Delegated() | MoreTurns():
            return 0
        case (int(), ModelTurn() as response):
            return 2 if response.text else 1
        case _:
            return 1


def _tell(fact: RunLogEntry, seq: int, about: _About, duration: float = 0.0, attempts: int = 1) -> Iterator[Event]:
    match fact:
        case ChildBegan() | ChildEnded():
            yield _of_child(fact, seq, about, duration)
        case Delegated():
            pass  # what it is the run of has been told
        case Conflict(keys):
            yield SessionConflict(keys=keys, seq=seq, **about)
        case Overwritten(keys, other):
            yield SessionOverwritten(keys=keys, other_run_id=other, seq=seq, **about)
        case NotSaved(keys, error):
            yield SessionNotSaved(keys=keys, error=error, seq=seq, **about)
        case Dropped(turn, text, by):
            yield TurnDropped(turn=turn, text=text, by=by, seq=seq, **about)
        case Compacted(change):
            yield _of_compaction(change, seq, about)
        case Uncompacted(error, usage):
            yield CompactionFailed(error=error, usage=usage, seq=seq, **about)
        case Diverged():
            yield ConversationDiverged(messages=int(fact), seq=seq, **about)
        case int():
            yield TurnStarted(turn=fact, seq=seq, **about)
        case ToolCall():
            yield ToolStarted(call=fact, seq=seq, **about)
        case Report(call, text, done, total):
            yield ToolProgress(call=call, text=text, done=done, total=total, seq=seq, **about)
        case (int() as turn, ModelTurn() as response):
            if response.text:
                yield TextDelta(text=response.text, seq=seq, **about)
                seq += 1
            yield TurnFinished(turn=turn, response=response, duration=duration, attempts=attempts, seq=seq, **about)
        case Retried():
            yield _retry(fact, seq, about)
        case Finished(call, result, error, duration, attempts):
            yield ToolFinished(
                call=call,
                result=result,
                error=error,
                duration=duration,
                attempts=attempts,
                seq=seq,
                **about,
            )
        case MoreTurns():
            pass  # the run goes on, and nobody watches a turn
        case BaseException():
            yield RunFailed(error=fact, duration=duration, seq=seq, **about)
        case _:
            yield RunFinished(outcome=fact, duration=duration, seq=seq, **about)


def _of_compaction(change: ContextChange, seq: int, about: _About) -> Event:
    return ContextCompacted(
        how="summarized" if change.kind == "summarized" else "pruned",
        messages_before=change.messages_before,
        messages_after=change.messages_after,
        tokens_before=change.tokens_before,
        tokens_after=change.tokens_after,
        pruned=change.pruned,
        usage=change.usage,
        seq=seq,
        **about,
    )


def _retry(fact: Retried, seq: int, about: _About) -> Event:
    return RetryScheduled(
        what=fact.what,
        attempt=fact.attempt,
        wait=fact.wait,
        error=fact.error,
        turn=fact.turn,
        call=fact.call,
        task=fact.task,
        position=fact.position,
        runner_id=fact.runner_id,
        seq=seq,
        **about,
    )


def _of_child(fact: ChildBegan | ChildEnded, seq: int, about: _About, duration: float) -> Event:
    child = fact if isinstance(fact, ChildBegan) else fact.child
    position, runner_id, child_run_id, task = child.position, child.runner_id, child.run_id, child.task
    if isinstance(fact, ChildBegan):
        return ChildStarted(
            position=position,
            runner_id=runner_id,
            child_run_id=child_run_id,
            task=task,
            seq=seq,
            **about,
        )
    return ChildFinished(
        position=position,
        runner_id=runner_id,
        child_run_id=child_run_id,
        task=task,
        outcome=None if isinstance(fact.ending, BaseException) else fact.ending,
        error=fact.ending if isinstance(fact.ending, BaseException) else None,
        duration=duration,
        seq=seq,
        **about,
    )
