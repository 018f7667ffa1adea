"""`Replay`: a model that answers from a tape, with no key and no network."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from logging import WARNING
from pathlib import Path

from understudy.diagnostics import emit
from understudy.errors import BadReply, ProviderError
from understudy.providers.http.forks import renew_after_fork
from understudy.providers.wire.json_values import WrongShape
from understudy.vocabulary.checks import checked_flag, checked_path
from understudy.vocabulary.context.scope import current_scope
from understudy.vocabulary.messages import ModelRequest, ModelTurn
from understudy.vocabulary.pieces import Piece

from . import answers as taped_answers
from . import file as tape
from .cuts import cut_up
from .file import Line
from .redaction import RedactLike, Redactor
from .requests import Asked, asked, differences, explained

PROVIDER = "replay"
NOT_ON_TAPE = "not_on_tape"


class Replay:
    """A model that gives the answers of a tape, errors included.

    An answer is found by its request: the system prompt, messages, tools and settings, with secrets hidden on both sides.
    A repeated request gets its recorded answers in order. So one replay can stand in for every recorded model, in any order
    and from any number of threads. Tools are not replayed; they run.

    Args:
        path: the tape of a `Recorder`; it is read whole, at once.
        redact: the rules given to the recorder.
        speed: how fast a streamed turn comes: 1 as it was recorded, 2 in half the time; None for all of it at once.
        strict: whether a request must equal a recorded one. If False and only messages differ (a tool returns the time of
            day), the nearest recorded request with as many messages is used, if its answer was not given yet.

    Attributes:
        calls: the number of calls on the tape.
        given: the number of answers given so far.
        torn: whether the tape ends in the middle of a line, which is left out: the recording was killed.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a tape, its format is newer, or a line is broken; the message names file and line.
    """

    idle_timeout = None
    """A recorded pause may be long, and is no silence of a model."""

    def __init__(
        self, path: str | os.PathLike[str], *, redact: RedactLike = (), strict: bool = True, speed: float | None = None
    ) -> None:
        self.path = Path(checked_path("Replay: path", path))
        self._redactor = Redactor(redact)
        self._strict = checked_flag("Replay: strict", strict)
        self._speed = _checked_speed(speed)
        read = tape.read(self.path)
        self._lines = read.lines
        self.torn = read.torn
        self.calls = len(read.lines)
        self.given = 0
        self._left: dict[str, deque[Line]] = defaultdict(deque)
        """Digest -> the answers that were not given yet."""
        for line in read.lines:
            self._left[line.asked.digest].append(line)
        self.start_afresh()
        renew_after_fork(self)
        if self.torn:
            emit(WARNING, "tape_torn", {}, "%s ends in the middle of a line, which is left out", self.path)

    def start_afresh(self) -> None:
        self._lock = threading.Lock()
        """Guards which answers are left."""

    def complete(self, request: ModelRequest) -> ModelTurn:
        """Return the recorded turn for `request`; loads pydantic.

        Raises:
            ProviderError: the tape has no answer left; the message compares the request with the nearest recorded one.
            BadReply: the recorded turn is broken.
            Exception: the error that was recorded.
        """
        return self._answer(self._take(asked(request, self._redactor)))

    def stream(self, request: ModelRequest) -> Iterator[Piece]:
        """Yield the recorded turn in the pieces in which it came; one that came whole, in one piece of each part.

        Raises:
            Exception: as `complete` does.
        """
        line = self._take(asked(request, self._redactor))
        return self._played(self._answer(line), line)

    def _played(self, turn: ModelTurn, line: Line) -> Iterator[Piece]:
        for wait, piece in cut_up(turn, line.cuts):
            if self._speed is not None and wait:
                _sleep(wait / self._speed)
            yield piece

    def _answer(self, line: Line) -> ModelTurn:
        try:
            answer = taped_answers.read(line.answer)
        except WrongShape as error:
            raise BadReply(f"{self.path}:{line.number}: a broken answer: {error}", provider=PROVIDER) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __repr__(self) -> str:
        return f"Replay({str(self.path)!r})"

    def _take(self, wanted: Asked) -> Line:
        with self._lock:
            left = self._left.get(wanted.digest)
            line = left[0] if left else None if self._strict else self._nearly(wanted)
            if line is None:
                raise self._missing(wanted)
            self._left[line.asked.digest].remove(line)
            self.given += 1
            return line

    def _nearly(self, wanted: Asked) -> Line | None:
        names = wanted.by_name.keys()
        near: list[tuple[int, int, Line]] = []
        for line in self._lines:
            differing = differences(line.asked, wanted)
            only_messages = all(name.startswith("message ") for name in differing)
            if line in self._left[line.asked.digest] and line.asked.by_name.keys() == names and only_messages:
                near.append((len(differing), line.number, line))
        return min(near)[2] if near else None

    def _missing(self, wanted: Asked) -> ProviderError:
        same = [line for line in self._lines if line.asked.digest == wanted.digest]
        if same:
            where = ", ".join([f"{self.path}:{line.number}" for line in same])
            why = f"it is asked once more than it was recorded ({where})"
        elif self._lines:
            nearest = min(self._lines, key=lambda line: (len(differences(line.asked, wanted)), line.number))
            number = self._lines.index(nearest) + 1
            why = f"the tape's request number {number} ({self.path}:{nearest.number}) differs: "
            why += explained(nearest.asked, wanted)
        else:
            why = "the tape is empty"
        torn = "; its last line is cut off and was left out" if self.torn else ""
        return ProviderError(
            f"{self.path} holds no answer to this request: {why}{torn}", provider=PROVIDER, code=NOT_ON_TAPE
        )


def _checked_speed(speed: object) -> float | None:
    if speed is None:
        return None
    if isinstance(speed, bool) or not isinstance(speed, (int, float)):
        raise TypeError(f"Replay: speed must be a number or None, got {speed!r}")
    if not 0 < speed < float("inf"):
        raise ValueError(f"Replay: speed must be above 0, got {speed!r}")
    return float(speed)


def _sleep(seconds: float) -> None:
    """Wait; a run that ends is not kept."""
    scope = current_scope()
    if scope is None:
        time.sleep(seconds)
    else:
        scope.sleep(seconds)
