"""The events of a run as the bytes of a web response."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from math import inf
from typing import Protocol

from understudy.orchestration.front_ends.sse import HEARTBEAT, encode_event
from understudy.vocabulary.runs.events import Event
from understudy.vocabulary.runs.streams import RunStream

DEFAULT_HEARTBEAT = 15.0  # Seconds; proxies close a connection on which nothing came for 30 to 60.


class HasEvents(Protocol):
    """A handle of a run."""

    def events(self, *, after: int | str | None = None, timeout: float | None = None) -> Iterator[Event]:
        """As of `RunHandle`."""
        ...


def sse(handle: HasEvents, *, after: int | str | None = None, heartbeat: float = DEFAULT_HEARTBEAT) -> Generator[bytes]:
    """Return the events of a run as server-sent events, for any WSGI response: `Response(us.sse(handle), mimetype="text/event-stream")`.

    Each event is its JSON (`us.event_json`) with its type and its `id`, which a browser sends back as `Last-Event-ID`. The
    thread that iterates waits for the run. A reader that leaves, or closes the generator, ends nothing: the run goes on.

    Args:
        handle: of the run.
        after: the header `Last-Event-ID` of a browser that comes back: the stream goes on right behind it. None or an empty
            text begins with the first event.
        heartbeat: seconds without an event after which a comment is sent, so that no proxy closes the connection.

    Raises:
        ValueError: `after` is no event's id, or `heartbeat` no positive number. Raised at once.
    """
    return byte_stream(handle, encode_event, after, heartbeat)


def byte_stream(
    handle: HasEvents, encode: Callable[[Event], bytes], after: int | str | None, heartbeat: float
) -> Generator[bytes]:
    """Return what `encode` makes of the events of a run, and heartbeats while none come."""
    if isinstance(handle, RunStream):
        raise TypeError("expected the handle of a run, got a RunStream: pass its .handle")
    if isinstance(heartbeat, bool) or not isinstance(heartbeat, (int, float)):
        raise TypeError(f"heartbeat must be a number of seconds, got {heartbeat!r}")
    if not 0 < heartbeat < inf:
        raise ValueError(f"heartbeat must be above 0 seconds and finite, got {heartbeat!r}")
    return _bytes(handle, encode, handle.events(after=after, timeout=heartbeat), after, heartbeat)


def _bytes(
    handle: HasEvents,
    encode: Callable[[Event], bytes],
    events: Iterator[Event],
    after: int | str | None,
    heartbeat: float,
) -> Generator[bytes]:
    while True:
        try:
            for event in events:
                after = event.id
                yield encode(event)
        except TimeoutError:
            yield HEARTBEAT
            events = handle.events(after=after, timeout=heartbeat)
        else:
            return
