"""What happened in a run, kept small, told as events to those who listen, however late they come."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from understudy.events import (
    ChildFinished,
    ChildStarted,
    ConversationDiverged,
    Event,
    RunFailed,
    RunFinished,
    SessionConflict,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from understudy.messages import ModelTurn, ToolCall, ToolResult
from understudy.outcomes import Outcome

from .progress import Report

TurnBegan: TypeAlias = int


class Diverged(int):
    """How many messages others stored in the conversation while the run was paused."""


@dataclass(frozen=True, slots=True)
class ChildBegan:
    """A run inside of this one began, or went on."""

    position: int
    runner_id: str
    run_id: str
    task: str


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """A run inside of this one ended or paused."""

    child: ChildBegan
    ending: Outcome[object] | BaseException


@dataclass(frozen=True, slots=True)
class Conflict:
    """Runs inside of this one left keys of the session in different ways."""

    keys: tuple[str, ...]


Finished: TypeAlias = tuple[ToolCall, ToolResult]
OfChildren: TypeAlias = ChildBegan | ChildEnded | Conflict
Fact: TypeAlias = "TurnBegan | Diverged | tuple[int, ModelTurn] | ToolCall | Report | Finished | OfChildren | Outcome[object] | BaseException"
"""Told apart by type, for a run notes several and most are never told: only a listener has events built."""


class Story:
    """The facts of one run, in order. `note` from any thread; each listener reads at its own pace."""

    __slots__ = ("_ended", "_facts", "_listeners", "_lock", "run_id")

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._lock = threading.Lock()
        """Guards the order of the facts, the end, and the listeners."""
        self._facts: list[Fact] = []
        self._ended = False
        self._listeners: tuple[queue.SimpleQueue[None], ...] = ()  # most runs have none

    def note(self, fact: Fact) -> None:
        """Add a fact other than the ending, after which there is nothing more to tell: it is dropped then."""
        with self._lock:
            if self._ended:
                return
            self._facts.append(fact)
            for listener in self._listeners:
                listener.put(None)

    def end(self, ending: Outcome[object] | BaseException) -> None:
        """Add the last fact; a second one is dropped."""
        with self._lock:
            if not self._ended:
                self._facts.append(ending)
                self._ended = True
                for listener in self._listeners:
                    listener.put(None)

    def events(self) -> Iterator[Event]:
        """Iterate over the events from the first one on; waits for those to come, and ends after the terminal one."""
        news: queue.SimpleQueue[None] = queue.SimpleQueue()
        with self._lock:
            self._listeners += (news,)
        try:
            position, seq = 0, 0
            under_way: set[str] = set()
            while True:
                while position < len(self._facts):
                    fact = self._facts[position]
                    position += 1
                    if _is_late(fact, under_way):
                        continue
                    for event in _tell(fact, self.run_id, seq):
                        seq += 1
                        yield event
                if self._ended and position == len(self._facts):
                    return
                news.get()
        finally:
            with self._lock:
                self._listeners = tuple([each for each in self._listeners if each is not news])


def _is_late(fact: Fact, under_way: set[str]) -> bool:
    """Whether a fact is a report of a call that has its result: it was given up, and does not know it yet.

    Args:
        fact: what was noted next.
        under_way: ids of the calls that have begun and not ended; kept up to date here.
    """
    match fact:
        case ToolCall(id=call_id):
            under_way.add(call_id)
        case (ToolCall(id=call_id), _):
            under_way.discard(call_id)
        case Report(call=call):
            return call.id not in under_way
        case _:
            pass
    return False


def _tell(fact: Fact, run_id: str, seq: int) -> Iterator[Event]:
    match fact:
        case ChildBegan() | ChildEnded():
            yield _of_child(fact, run_id, seq)
        case Conflict(keys):
            yield SessionConflict(keys=keys, run_id=run_id, seq=seq)
        case Diverged():
            yield ConversationDiverged(messages=int(fact), run_id=run_id, seq=seq)
        case int():
            yield TurnStarted(turn=fact, run_id=run_id, seq=seq)
        case ToolCall():
            yield ToolStarted(call=fact, run_id=run_id, seq=seq)
        case Report(call, text, done, total):
            yield ToolProgress(call=call, text=text, done=done, total=total, run_id=run_id, seq=seq)
        case (int() as turn, ModelTurn() as response):
            if response.text:
                yield TextDelta(text=response.text, run_id=run_id, seq=seq)
                seq += 1
            yield TurnFinished(turn=turn, response=response, run_id=run_id, seq=seq)
        case (ToolCall() as call, ToolResult() as result):
            yield ToolFinished(call=call, result=result, run_id=run_id, seq=seq)
        case BaseException():
            yield RunFailed(error=fact, run_id=run_id, seq=seq)
        case _:
            yield RunFinished(outcome=fact, run_id=run_id, seq=seq)


def _of_child(fact: ChildBegan | ChildEnded, run_id: str, seq: int) -> Event:
    child = fact if isinstance(fact, ChildBegan) else fact.child
    position, runner_id, child_run_id, task = child.position, child.runner_id, child.run_id, child.task
    if isinstance(fact, ChildBegan):
        return ChildStarted(
            position=position, runner_id=runner_id, child_run_id=child_run_id, task=task, run_id=run_id, seq=seq
        )
    return ChildFinished(
        position=position,
        runner_id=runner_id,
        child_run_id=child_run_id,
        task=task,
        outcome=None if isinstance(fact.ending, BaseException) else fact.ending,
        error=fact.ending if isinstance(fact.ending, BaseException) else None,
        run_id=run_id,
        seq=seq,
    )
