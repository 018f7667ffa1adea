"""A run's log read as events, from the first one on: what is there now, and what has come since."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from math import inf
from typing import TypeAlias

from understudy.vocabulary.messages import ModelTurn, ToolCall
from understudy.vocabulary.runs.events import Event

from .deltas import delta_of, deltas_of
from .fact_events import ENDINGS, About, event_of, is_late
from .log import ChildBegan, ChildEnded, Delegated, Dropped, Finished, Retried, RunLog, RunLogEntry
from .partial_outputs import PartialOutputs
from .shown_turn import Segment, ShownReader, ShownTurn

TURN = ""
"""Stands for the model's turn among run ids."""


class LogReader:
    """One log as one listener reads it, and the logs of runs inside that are not over for it.

    Args:
        log: what is read.
        path: ids of the runners from the outermost one to this one.
        news: where the listener waits for readers that have something to read; None for a journal, which reads when it writes,
            and is told no deltas.
        inner: whether logs of runs inside are read too.
    """

    __slots__ = (
        "_attempts",
        "_began",
        "_by_key",
        "_inner",
        "_inside",
        "_log",
        "_news",
        "_outputs",
        "_path",
        "_position",
        "_seq",
        "_shown",
        "_under_way",
        "_woken",
        "over",
    )

    def __init__(self, log: RunLog, path: tuple[str, ...], news: News | None, *, inner: bool = False) -> None:
        self._log = log
        self._path = path
        self._news = news
        self._inner = inner
        self._position = 0
        self._seq = log.first_seq
        self._began: dict[str, float] = {}
        """Run id, or `TURN` -> when a run inside, or the model's turn, began."""
        self._attempts = 1
        """How many there were at the model call that is under way, or was the last."""
        self._under_way: set[str] = set()
        """Ids of the calls that have begun and not ended."""
        self._inside: dict[LogReader, None] = {}
        """What is read of runs inside, in the order in which they began."""
        self._by_key: dict[str, list[LogReader]] = {}
        """The same by the call or the run that they are; a call that is made again has several."""
        self._shown: ShownReader | None = None
        """The turn that is shown while it is written; None before its first piece, and once it is over."""
        self._outputs: PartialOutputs | None = None
        """Reads the answer of a typed agent in that turn; None for other runs."""
        self._woken = False
        """Whether it waits in `news`."""
        self.over = False
        """Whether there is nothing more to read here."""
        if news is not None:
            log.listen(self)

    def wake(self) -> None:
        # Once is enough, however many pieces of a turn come before the listener reads.
        if self._news is not None and not self._woken:
            self._woken = True
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
        self._woken = False  # first: what comes from now on may be missed here
        facts = self._log.facts
        while not self.over and self._position < min(len(facts), inf if self._news is None else self._log.shown_until):
            fact, at = facts[self._position], self._log.times[self._position]
            yield from self._shown_more()
            self._position += 1
            if is_late(fact, self._under_way):
                continue
            yield from self._before(fact)
            if not isinstance(fact, ENDINGS) or len(self._path) == 1:
                self._note_beginning(fact, at)
                event = event_of(fact, self._about(self._seq, at), self._duration(fact, at), self._attempts)
                if event is not None and self._position - 1 not in self._log.told_before:
                    yield event
                    self._seq += 1
            yield from self._after(fact)
        if not self.over:
            yield from self._shown_more()

    @property
    def position(self) -> int:
        """How many facts of the log were read."""
        return self._position

    @property
    def next_seq(self) -> int:
        """The number of the next event, after those that were read."""
        return self._seq

    @property
    def shown(self) -> list[Segment]:
        """What was shown of the turn that is told, or about to be; empty for one that came whole."""
        return [] if self._shown is None else self._shown.shown.segments

    def end_with(self, ending: RunLogEntry) -> Event | None:
        """Return the event of an ending that the log is about to have as its next entry, with the time that it has there."""
        now = self._log.ends_at = time.monotonic()
        return event_of(ending, self._about(self._seq, now), now - self._log.began)

    def _about(self, seq: int, at: float) -> About:
        log = self._log
        told_at = log.began_at + (at - log.began)
        return About(run_id=log.run_id, path=self._path, parent_run_id=log.parent, seq=seq, time=told_at)

    def _shown_more(self) -> Iterator[Event]:
        """Tell what came of the turn that is being written."""
        reader = self._shown
        if reader is not None and self._news is not None:
            for segment, text, offset in reader.new():
                delta = delta_of(reader.shown, segment, text, offset, self._about(self._seq - 1, segment.at))
                yield delta
                if self._outputs is not None:
                    yield from self._outputs.after(delta)

    def _note_beginning(self, fact: RunLogEntry, at: float) -> None:
        """Note when the child or the turn of a fact began, and which attempt at the model call it is."""
        match fact:
            case ChildBegan(run_id=key):
                self._began[key] = at
            case int() as turn:
                self._began[TURN] = at
                # If this turn is shown already, it came whole, and the next stay takes it.
                if self._shown is None or self._shown.shown.turn != turn:
                    self._attempts = 1 + self._log.attempts_before(turn)
                    self._shown = None
            case Retried(what="model", attempt=failed, turn=int() as turn) if self._shown is None:
                self._attempts = failed + 1 + self._log.attempts_before(turn)
            case _:
                pass

    def _duration(self, fact: RunLogEntry, at: float) -> float:
        """Return how many seconds the child, the turn or the run of a fact took; 0 if none of them ends with it."""
        match fact:
            case ChildEnded(child=ChildBegan(run_id=key)):
                return at - self._began.pop(key, at)
            case (int(), ModelTurn()):
                return at - self._began.pop(TURN, at)
            case _ if isinstance(fact, ENDINGS):
                return at - self._log.began
            case _:
                return 0.0

    def _before(self, fact: RunLogEntry) -> Iterator[Event]:
        """Tell to its end what ends with a fact: nothing of it comes later."""
        match fact:
            case ChildEnded(child=ChildBegan(run_id=key)) | Finished(call=ToolCall(id=key)):
                yield from self._rest(key)
            case (int() as turn, ModelTurn() as response):
                if self._shown is None and self._news is not None:
                    about = self._about(self._seq - 1, self._log.times[self._position - 1])
                    yield from deltas_of(response, turn, self._attempts, about)
            case _ if isinstance(fact, ENDINGS):
                yield from self._rest()
            case _:
                pass

    def _after(self, fact: RunLogEntry) -> Iterator[Event]:
        match fact:
            case ChildBegan(run_id=key, log=log) | Delegated(key, log) if self._inner:
                reader = LogReader(log, (*self._path, log.runner_id), self._news, inner=True)
                self._inside[reader] = None
                self._by_key.setdefault(key, []).append(reader)
                yield from reader.read()
            case ShownTurn():
                self._shown, self._attempts = ShownReader(fact), fact.attempt
                self._outputs = None if self._log.answers is None else PartialOutputs(*self._log.answers)
            case (int(), ModelTurn()) | Dropped():
                self._shown = None
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


News: TypeAlias = "queue.SimpleQueue[LogReader]"
"""Readers that have something to read."""
