"""One attempt whose answer is read while it comes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, NoReturn

from .attempt import Attempt, Outgoing, Reply, headers_of, quiet
from .decompression import decompressed
from .errors import QUOTED, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from .connections import Carrier, Connections
    from .network import Line

FIRST_BYTE_TIMEOUT = 120.0  # Seconds; a reasoning model can think for long before its first token.
DRAIN_TIMEOUT = 0.1  # Seconds. The end of the body follows the last event at once; with it the connection can be kept.
DRAIN_BYTES = 65_536


class StreamedAttempt(Attempt):
    """One request in flight and its answer, for a single use on one thread at a time.

    Args:
        idle_timeout: the longest time, in seconds, without a byte once the body has begun. The first byte is waited for as
            long, but at least 120 seconds. None for no limit.
    """

    def __init__(
        self,
        outgoing: Outgoing,
        *,
        timeout: float,
        idle_timeout: float | None,
        max_bytes: int,
        clock: Callable[[], float],
        until: float,
        hide: Callable[[bytes], bytes],
    ) -> None:
        super().__init__(outgoing, timeout=timeout, max_bytes=max_bytes, clock=clock, until=until, hide=hide)
        self._idle = inf if idle_timeout is None else idle_timeout
        self._first = max(self._idle, FIRST_BYTE_TIMEOUT)
        self._last = 0.0
        """When the whole attempt must end; `_deadline` is earlier until the first byte."""
        self._body_began = False
        self._response: httpx.Response
        self._line: Line
        self._body: Iterator[bytes]

    @contextmanager
    def answer(self, connections: Connections, auth: Callable[[], Mapping[str, str]]) -> Generator[httpx.Response]:
        """Send the request, and lend the answer until the block ends; its end closes a connection not read to the end.

        Raises as `send` does, also inside of the block.
        """
        with ExitStack() as held:
            with quiet():  # not around the block: it is entered and left in whatever context the reader is
                carrier, response = held.enter_context(self._answer(connections, auth))
            self._take(carrier, response)
            yield response

    def _take(self, carrier: Carrier, response: httpx.Response) -> None:
        self._line, self._response, self._body = carrier.line, response, decompressed(response)

    def _begin(self, now: float, limit: float) -> None:
        self._last = now + limit
        self._deadline = min(self._last, now + self._first)

    def whole(self) -> Reply:
        """Return the answer, read to its end."""
        self._deadline = self._last
        self._line.go_on(self._last, None if self._first == inf else self._first)
        with quiet():
            return Reply(self._response.status_code, headers_of(self._response), self._read(self._response))

    def chunks(self) -> Generator[bytes]:
        """Yield the body as it comes."""
        size = 0
        while True:
            if self._scope is not None:
                self._scope.check()
            began = self._clock()
            with quiet():
                chunk = next(self._body, b"")
            if not chunk:
                break
            size += len(chunk)
            self._check(size, began)
            if not self._body_began:
                self._go_on()
            if size - len(chunk) < QUOTED:
                self._pieces.append(chunk[: QUOTED * 4])
            yield chunk
        if self._scope is not None:
            self._scope.check()  # a cancel ends the body, too

    def drain(self) -> None:
        """Read the few bytes behind the last event, so that the connection can be used again; give up soon."""
        import httpx

        self._line.go_on(self._clock() + DRAIN_TIMEOUT, None)
        size = 0
        with quiet(), suppress(httpx.HTTPError):
            for chunk in self._body:
                size += len(chunk)
                if size > DRAIN_BYTES:
                    break

    def cut_off(self) -> NoReturn:
        """Raise the error for a body that ended before the turn did."""
        came = quoted(self._hide(b"".join(self._pieces)))
        raise self._bad(
            f"a stream that ended before the model's turn did: {came}",
            retryable=True,
            expected="the event that ends the turn",
        )

    def _go_on(self) -> None:
        self._body_began = True
        self._deadline = self._last
        self._line.go_on(self._last, None if self._idle == inf else self._idle)

    def _check(self, size: int, began: float) -> None:
        if size > self._max_bytes:
            raise self._bad(f"an answer longer than {self._max_bytes} bytes, which is the most that is read")
        now = self._clock()
        if now >= self._deadline or (self._body_began and now - began > self._idle):
            self._too_slow()

    def _too_slow(self, error: Exception | None = None) -> NoReturn:
        if self._scope is not None:
            self._scope.check()
        if type(error).__name__ == "ConnectTimeout" or self._clock() >= self._last:
            super()._too_slow(error)
        if self._body_began:
            what = f"sent nothing for {self._idle:g} s in the middle of its answer (idle_timeout)"
        else:
            what = f"did not begin its answer within {self._first:g} s"
        raise self._late(what, retryable=True) from error
