"""A web application that streams runs of an agent; the model waits until a request lets it write."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import understudy as us

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

PIECES = 40  # More than the buffers of a connection hold, so that a reader that stands still stops its thread.
PIECE = "0123456789" * 3000
WAIT = 30.0

opened = threading.Event()
runs: dict[str, us.RunHandle[str]] = {}


class Writer:
    """Writes a long text in pieces, once the gate is open."""

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        raise AssertionError("the run is streamed")

    def stream(self, request: us.ModelRequest) -> Iterator[us.Piece]:
        yield us.TextPiece("begun")
        assert opened.wait(WAIT)
        for _ in range(PIECES):
            yield us.TextPiece(PIECE)
        yield us.TurnEnd()


writer = us.Agent("writer", model=Writer())


def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    _, order, *rest = environ["PATH_INFO"].split("/")
    if order == "events":
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        return us.sse(runs[rest[0]], after=environ.get("HTTP_LAST_EVENT_ID"))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [_answer(order, *rest).encode()]


def _answer(order: str, run_id: str = "") -> str:
    match order:
        case "begin":
            handle = writer.submit("go")
            runs[handle.run_id] = handle
            return handle.run_id
        case "open":
            opened.set()
            return "open"
        case _:
            return str(len(runs[run_id].result(WAIT).text))
