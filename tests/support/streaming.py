"""Models that stream, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import understudy as us
from tests.support.scripts import WAIT


def text_turn(*texts: str) -> list[us.Piece]:
    """Return the pieces of a turn with a text that comes in several."""
    return [*(us.TextPiece(text) for text in texts), us.TurnEnd()]


@dataclass
class StreamedScript:
    """A model that plays its turns in order, each in the pieces given. A function is called when its turn comes."""

    turns: Sequence[Iterable[us.Piece] | Callable[[us.ModelRequest], object]]
    requests: list[us.ModelRequest] = field(default_factory=list[us.ModelRequest])
    whole: int = 0
    """How many turns were asked for in one."""

    def stream(self, request: us.ModelRequest) -> Iterator[us.Piece]:
        self.requests.append(request)
        turn = self.turns[request.turn - 1]
        return turn(request) if callable(turn) else iter(turn)  # type: ignore[return-value]  # a wrong one, for a test

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        self.whole += 1
        assembler = us.TurnAssembler()
        for piece in self.stream(request):
            assembler.add(piece)
        return assembler.turn()


@dataclass
class Tap:
    """The pieces of a turn that a test lets through one by one."""

    pieces: Sequence[us.Piece]
    _let: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    closed: threading.Event = field(default_factory=threading.Event)

    def let(self, number: int = 1) -> None:
        """Let some more pieces through."""
        self._let.release(number)

    def __call__(self, _: us.ModelRequest) -> Iterator[us.Piece]:
        try:
            for piece in self.pieces:
                assert self._let.acquire(timeout=WAIT)
                yield piece
        finally:
            self.closed.set()


def streaming_clerk(*turns: Any, **options: Any) -> us.Agent[Any]:
    """Return an agent whose model plays the turns in their pieces."""
    return us.Agent("clerk", model=StreamedScript(turns), **options)


def text_of(events: Iterable[us.Event]) -> str:
    """Return the text that the deltas of a run hold together."""
    return "".join([event.text for event in events if isinstance(event, us.TextDelta)])
