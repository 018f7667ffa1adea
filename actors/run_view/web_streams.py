"""The events of a run as the bytes of a web response."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from math import inf
from typing import Protocol, cast

from understudy.orchestration.front_ends.agui import AguiEncoder
from understudy.orchestration.front_ends.ai_sdk import AiSdkEncoder, Major
from understudy.orchestration.front_ends.sse import HEARTBEAT, encode_event
from understudy.vocabulary.checks import checked_flag
from understudy.vocabulary.runs.events import Event
from understudy.vocabulary.runs.handles import RunHandle
from understudy.vocabulary.runs.streams import RunStream

DEFAULT_HEARTBEAT = 15.0  # Seconds; proxies close a connection on which nothing came for 30 to 60.


class HasEvents(Protocol):
    """A handle of a run."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        ...

    def events(self, *, after: int | str | None = None, timeout: float | None = None) -> Iterator[Event]:
        """As of `RunHandle`."""
        ...


def sse(
    handle: HasEvents,
    *,
    inner: bool = False,
    after: int | str | None = None,
    heartbeat: float = DEFAULT_HEARTBEAT,
) -> Generator[bytes]:
    """Return the events of a run as server-sent events, for any WSGI response: `Response(us.sse(handle), mimetype="text/event-stream")`.

    Each event is its JSON (`us.event_json`) with its type and its `id`, which a browser sends back as `Last-Event-ID`. The
    thread that iterates waits for the run. A reader that leaves, or closes the generator, ends nothing: the run goes on.

    Args:
        handle: of the run.
        inner: also tell what happens in runs inside of the run, with their `path`. Events have no `id` then, so a browser that
            comes back gets the stream from its beginning. Only the handle of `submit` or `stream` has these events.
        after: the header `Last-Event-ID` of a browser that comes back: the stream goes on right behind it. None or an empty
            text begins with the first event.
        heartbeat: seconds without an event after which a comment is sent, so that no proxy closes the connection.

    Raises:
        ValueError: `after` is no event's id, or is given with `inner`, or `heartbeat` is no positive number. Raised at once. It is
            also raised if `after` is behind the last event of the run: at once if the run is over, else when it ends.
        TypeError: a handle of another kind is given with `inner`, or an argument has a wrong type. Raised at once.
    """
    encode = partial(encode_event, has_place=False) if checked_flag("inner", inner) else encode_event
    return byte_stream(handle, encode, after, heartbeat, inner=inner)


def agui(
    handle: HasEvents,
    *,
    thread_id: str = "",
    inner: bool = False,
    after: int | str | None = None,
    heartbeat: float = DEFAULT_HEARTBEAT,
    shown: Sequence[str] = (),
) -> Generator[bytes]:
    """Return the events of a run as AG-UI 1.0 in a `text/event-stream`: as `sse`, in the form of `AguiEncoder`.

    Args:
        handle: of the run.
        thread_id: the client's name of the conversation; the run's id if it is empty.
        inner: also tell texts and calls of runs inside, as work of subagents. Else as of `sse`.
        after: as of `sse`. The client then gets a stream that begins in the middle.
        heartbeat: as of `sse`.
        shown: the calls that the client has already: `us.shown_calls(body)`.

    Raises:
        ValueError: as of `sse`.
    """
    encoder = AguiEncoder(thread_id=thread_id or handle.run_id, run_id=handle.run_id, inner=inner, shown=shown)
    return byte_stream(handle, encoder.encode_bytes, after, heartbeat, inner=inner)


def ai_sdk(
    handle: HasEvents,
    *,
    message_id: str = "",
    version: Major = 7,
    inner: bool = False,
    after: int | str | None = None,
    heartbeat: float = DEFAULT_HEARTBEAT,
    shown: Sequence[str] = (),
) -> Generator[bytes]:
    """Return the events of a run as the UI message stream of Vercel's AI SDK: as `sse`, in the form of `AiSdkEncoder`.

    The response needs the header `x-vercel-ai-ui-message-stream: v1`.

    Args:
        handle: of the run.
        message_id: the id of the assistant's message; the run's id if it is empty.
        version: of the client's package `ai`.
        inner: also tell events of runs inside, as data parts `data-inner`. Else as of `sse`.
        after: as of `sse`. The client then gets a stream that begins in the middle.
        heartbeat: as of `sse`.
        shown: the calls that the client has already: `us.shown_calls(body)`.

    Raises:
        ValueError: as of `sse`.
    """
    encoder = AiSdkEncoder(message_id or handle.run_id, version=version, inner=inner, shown=shown)
    return byte_stream(handle, encoder.encode_bytes, after, heartbeat, inner=inner)


def byte_stream(
    handle: HasEvents,
    encode: Callable[[Event], bytes],
    after: int | str | None,
    heartbeat: float,
    *,
    inner: bool = False,
) -> Generator[bytes]:
    """Return what `encode` makes of the events of a run, and heartbeats while none come."""
    if isinstance(handle, RunStream):
        raise TypeError("expected the handle of a run, got a RunStream: pass its .handle")
    if isinstance(heartbeat, bool) or not isinstance(heartbeat, (int, float)):
        raise TypeError(f"heartbeat must be a number of seconds, got {heartbeat!r}")
    if not 0 < heartbeat < inf:
        raise ValueError(f"heartbeat must be above 0 seconds and finite, got {heartbeat!r}")
    if not checked_flag("inner", inner):
        return _bytes(handle, encode, handle.events(after=after, timeout=heartbeat), after, heartbeat)
    if not isinstance(handle, RunHandle):
        raise TypeError(
            f"inner=True needs the handle that submit returned in this process, got {type(handle).__name__}"
        )
    live = cast("RunHandle[object]", handle)
    return _bytes_of_all(encode, live.events(inner=True, after=after or None, timeout=heartbeat))


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
                told = encode(event)
                if told:
                    yield told
        except TimeoutError:
            yield HEARTBEAT
            events = handle.events(after=after, timeout=heartbeat)
        else:
            return


def _bytes_of_all(encode: Callable[[Event], bytes], events: Iterator[Event]) -> Generator[bytes]:
    """Yield the bytes of the events of a run and of the runs inside of it.

    After a timeout the same iterator is read on: events of several runs have no place at which a new one could begin.
    """
    while True:
        try:
            for event in events:
                told = encode(event)
                if told:
                    yield told
        except TimeoutError:
            yield HEARTBEAT
        else:
            return
