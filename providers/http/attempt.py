"""One attempt: sends a request, reads the answer within limits of time and size, and raises our own errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from understudy.errors import BadReply, ProviderError, ProviderTimeout
from understudy.vocabulary.context.scope import current_scope

from .decompression import decompressed
from .errors import quoted

if TYPE_CHECKING:
    import httpx

    from .connections import Carrier, Connections

MAX_REPLY_BYTES = 32 * 1024 * 1024  # Far larger than any model turn, and small enough for the host's memory.
UNLIMITED = 1_000_000.0  # Seconds, eleven days; socket timeouts cannot be infinite.
REQUEST_IDS = ("x-request-id", "request-id", "x-goog-request-id", "apim-request-id", "x-amzn-requestid")
"""Headers with the id of a request: OpenAI and many servers, Anthropic, Google, Azure's gateway, Amazon."""
LONGEST_ID = 200  # Characters; providers' ids have about 40.
CONNECT_TIMEOUT = 10.0  # A healthy host accepts a connection much faster, and a retry helps.


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request without its key."""

    url: str
    body: bytes
    headers: Mapping[str, str]
    provider: str

    @property
    def host(self) -> str:
        """Host and port, for error messages."""
        return urlsplit(self.url).netloc

    @property
    def address(self) -> str:
        """The URL without its query, for error messages; it never has a user or password."""
        return self.url.partition("?")[0]


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer, read to its end."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    """Headers by lower-case name."""
    body: bytes = field(repr=False)


class Attempt:
    """One request in flight, for a single use on one thread.

    Args:
        timeout: seconds from connecting to the last byte, or infinite; the current scope may allow less.
        until: when the call must end, on the clock.
        max_bytes: length of the longest body that is accepted.
        clock: a monotonic clock in seconds.
        hide: takes the key out of a body before an error quotes it.
    """

    def __init__(
        self,
        outgoing: Outgoing,
        *,
        timeout: float,
        max_bytes: int,
        clock: Callable[[], float],
        until: float = inf,
        hide: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self._outgoing = outgoing
        self._timeout = timeout
        self._until = until
        self._max_bytes = max_bytes
        self._clock = clock
        self._hide = hide
        self._scope = current_scope()
        self._deadline = 0.0
        self._answered = False
        self._pieces: list[bytes] = []
        self.request_id = ""
        """The provider's id of the request; empty until the answer comes, or if it has none."""

    def send(self, connections: Connections, auth: Callable[[], Mapping[str, str]]) -> Reply:
        """Send the request with the headers that `auth` returns; return the answer with any status.

        No variable holds those headers, because crash reporters show the variables of the frames in a traceback.

        Raises:
            RunCancelled: the scope was cancelled; a blocked read ends at once.
            RunTimedOut: the scope's deadline passed.
            ProviderTimeout: the attempt's own time passed.
            BadReply: the body is cut off, too long, or wrongly compressed.
            ProviderError: the host could not be reached, or hung up.
        """
        with quiet(), self._answer(connections, auth) as (_, response):
            return Reply(response.status_code, headers_of(response), self._read(response))

    @contextmanager
    def _answer(
        self, connections: Connections, auth: Callable[[], Mapping[str, str]]
    ) -> Generator[tuple[Carrier, httpx.Response]]:
        """Send the request; lend the answer, with its body not read yet, until the block ends. Raises as `send` does."""
        import httpx

        if self._scope is not None:
            self._scope.check()
        now = self._clock()
        # Not earlier: the call may have waited for its slot.
        self._timeout = max(0.0, min(self._timeout, self._until - now))
        limit = self._limit()
        self._begin(now, limit)
        with connections.lease() as carrier:
            cut = carrier.line.begin(self._deadline)
            undo = None if self._scope is None else self._scope.on_cancel_at_once(cut)
            try:
                timeout = httpx.Timeout(limit, connect=min(limit, CONNECT_TIMEOUT))
                response = self._exchange(carrier, timeout, auth)
                self._answered = True
                self.request_id = request_id_of(response.headers)
                try:
                    yield carrier, response
                finally:
                    response.close()
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                self._explain(error)
            finally:
                carrier.line.finish()
                if undo is not None:
                    undo()

    def _limit(self) -> float:
        left = None if self._scope is None else self._scope.remaining()
        return min(self._timeout, UNLIMITED, UNLIMITED if left is None else left)

    def _begin(self, now: float, limit: float) -> None:
        self._deadline = now + limit

    def _exchange(
        self, carrier: Carrier, timeout: httpx.Timeout, auth: Callable[[], Mapping[str, str]]
    ) -> httpx.Response:
        outgoing = self._outgoing
        return carrier.send(carrier.request(outgoing.url, outgoing.body, {**outgoing.headers, **auth()}, timeout))

    def _read(self, response: httpx.Response) -> bytes:
        size = 0
        for piece in decompressed(response):
            size += len(piece)
            if size > self._max_bytes:
                raise self._bad(f"an answer longer than {self._max_bytes} bytes, which is the most that is read")
            if self._clock() >= self._deadline:
                self._too_slow()
            self._pieces.append(piece)
        return b"".join(self._pieces)

    def _explain(self, error: httpx.HTTPError | httpx.InvalidURL) -> NoReturn:
        """Raise our own error for one of httpx's."""
        import httpx

        if isinstance(error, httpx.RequestError):
            # httpx's error refers to the request, which has the key.
            error.request = httpx.Request("POST", self._outgoing.url)
        if self._scope is not None:
            self._scope.check()
        if isinstance(error, httpx.TimeoutException):
            self._too_slow(error)
        if isinstance(error, httpx.DecodingError):
            raise self._bad(f"an answer that does not decompress ({error})") from error
        if self._answered and isinstance(error, httpx.RemoteProtocolError):
            came = quoted(self._hide(b"".join(self._pieces)))
            raise self._bad(f"an answer that was cut off ({error}): {came}", retryable=True) from error
        raise ProviderError(
            f"{self._outgoing.provider} at {self._outgoing.host} "
            + ("hung up while it answered" if self._answered else "could not be reached")
            + f": {error or type(error).__name__}",
            provider=self._outgoing.provider,
            retryable=isinstance(error, httpx.TransportError) and not isinstance(error, httpx.UnsupportedProtocol),
        ) from error

    def _too_slow(self, error: Exception | None = None) -> NoReturn:
        if self._scope is not None:
            self._scope.check()
        what, within = "did not answer", self._timeout
        if self._answered:
            what = "did not finish its answer"
        elif type(error).__name__ == "ConnectTimeout":
            what, within = "could not be reached", min(self._timeout, CONNECT_TIMEOUT)
        raise self._late(f"{what} within {within:g} s", retryable=not self._answered) from error

    def _late(self, what: str, *, retryable: bool) -> ProviderTimeout:
        return ProviderTimeout(
            f"{self._outgoing.provider} at {self._outgoing.host} {what}",
            provider=self._outgoing.provider,
            retryable=retryable,
        )

    def _bad(self, came: str, *, retryable: bool = False, expected: str = "a JSON object") -> BadReply:
        return BadReply(
            f"{self._outgoing.provider} at {self._outgoing.host} sent {came}; expected {expected}",
            provider=self._outgoing.provider,
            retryable=retryable,
        )


def request_id_of(headers: Mapping[str, str]) -> str:
    """Return the provider's id of a request, from the headers of its answer; empty if it has none that can be shown."""
    found = next(filter(None, [headers.get(name) for name in REQUEST_IDS]), "")
    return found if found.isprintable() and len(found) <= LONGEST_ID else ""


def headers_of(response: httpx.Response) -> dict[str, str]:
    """Return the headers of an answer by lower-case name."""
    return {k.lower(): v for k, v in response.headers.items()}


def not_json(outgoing: Outgoing, reply: Reply, problem: str) -> BadReply:
    """Make the error for an answer with a good status and a body that breaks the API's format."""
    kind = reply.headers.get("content-type", "no content type")
    return BadReply(
        f"{outgoing.provider} at {outgoing.host} sent an answer that cannot be read ({problem}): "
        f"{kind}, {quoted(reply.body)}",
        provider=outgoing.provider,
        status=reply.status,
    )


LOGGERS = ("httpcore.http11", "httpcore.http2")
"""httpcore 1.0: the loggers of received responses."""
HEADERS = "receive_response_headers.complete"
FAILED = ".failed exception="

_is_ours: ContextVar[bool] = ContextVar("understudy_is_our_request", default=False)


class _WithoutHeaders(logging.Filter):
    """Cuts the headers off our lines; lines of the host's own requests stay unchanged."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _is_ours.get() and isinstance(record.msg, str) and not record.args:
            record.msg = _cut(record.msg)
        return True


def _cut(line: str) -> str:
    if line.startswith(HEADERS):
        return line.partition("[")[0] + "…"  # cut after version, status and reason
    before, failed, error = line.partition(FAILED)
    # An error about a malformed header quotes the header.
    return f"{before}{failed}{error.partition('(')[0]}" if failed else line


_filter = _WithoutHeaders()
_loggers = [logging.getLogger(name) for name in LOGGERS]


class quiet:  # a block, as `contextlib.suppress` is; one made of a generator would cost a microsecond for each chunk
    """Keep the headers of answers received inside the block out of the log."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        for logger in _loggers:
            if _filter not in logger.filters:  # a host may have reset its logging
                logger.addFilter(_filter)
        self._token = _is_ours.set(True)

    def __exit__(self, *raised: object) -> None:
        _is_ours.reset(self._token)
