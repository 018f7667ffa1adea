"""The connection pool of one model client: a stack of `httpx.Client`s with one connection each.

A single `httpx.Client` shared by many threads spends its time on its own lock. With a stack the last used connection is
reused first, and idle connections at the bottom expire.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from understudy.errors import ProviderError

from .decompression import ASKED_FOR
from .forks import renew_after_fork

if TYPE_CHECKING:
    import ssl

    import httpx

    from .network import Line

KEEPALIVE = 60.0  # Longer than most tool calls take, so that the next turn reuses the connection.


class Trust:
    """The process's only SSL context: making one takes 20 to 40 ms, as it reads every root certificate."""

    def __init__(self) -> None:
        self.start_afresh()
        renew_after_fork(self)

    def start_afresh(self) -> None:
        self._lock = threading.Lock()
        """Guards the making of the context."""
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """Return the context, made on first use."""
        import httpx

        with self._lock:
            if self._context is None:
                self._context = httpx.create_ssl_context()
            return self._context


_trust = Trust()


class Carrier:
    """One connection, for one request at a time.

    Attributes:
        line: its network backend, which ends an attempt on time.
    """

    __slots__ = ("_address", "_client", "_headers", "_url", "line")

    def __init__(self, client: httpx.Client, line: Line) -> None:
        self._client = client
        self.line = line
        self._headers = {**client.headers, "accept-encoding": ASKED_FOR}
        self._address = ""
        self._url: httpx.URL | None = None

    def request(self, address: str, body: bytes, headers: Mapping[str, str], timeout: httpx.Timeout) -> httpx.Request:
        """Make a POST request with a body."""
        import httpx

        if self._url is None or address != self._address:
            self._address, self._url = address, httpx.URL(address)
        return httpx.Request(
            "POST",
            self._url,
            headers={**self._headers, **headers},
            content=body,
            extensions={"timeout": timeout.as_dict()},
        )

    def send(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and return the answer with its body not read yet.

        This calls the transport directly. No model API needs the client's redirects, cookies, hooks and log lines, which
        cost a third of a short call's processor time.
        """
        # httpx has no public way to choose between the direct and a proxy's transport; a contract test pins this one.
        transport = self._client._transport_for_url(request.url)  # pyright: ignore[reportPrivateUsage]
        return transport.handle_request(request)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class Connections:
    """The idle carriers of a client; safe to share between threads.

    Args:
        transport: where requests go instead of the network, for tests.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self, transport: httpx.BaseTransport | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._inherited: list[object] = []
        """What the parent process had open; kept so that nothing closes it here."""
        self._idle: list[Carrier] = []
        self.start_afresh()
        renew_after_fork(self)

    def start_afresh(self) -> None:
        self._inherited.append(self._idle)
        self._lock = threading.Lock()
        """Guards the idle list and the generation."""
        self._idle = []
        self._generation = 0

    @contextmanager
    def lease(self) -> Generator[Carrier]:
        """Lease a carrier to the calling thread until the block ends."""
        with self._lock:
            generation = self._generation
            carrier = self._idle.pop() if self._idle else None
        if carrier is None:
            carrier = self._make()
        try:
            yield carrier
        finally:
            self._take_back(carrier, generation)

    def close(self) -> None:
        """Close idle connections now and leased ones when they are returned; later requests open new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._generation += 1
        for carrier in idle:
            carrier.close()

    def _take_back(self, carrier: Carrier, generation: int) -> None:
        with self._lock:
            current = generation == self._generation
            if current:
                self._idle.append(carrier)
        if not current:
            carrier.close()

    def _make(self) -> Carrier:
        import httpx

        from .network import Line, install

        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEPALIVE)
        trust = _trust.context()
        client, problem = None, ""
        try:
            client = httpx.Client(transport=self._transport, verify=trust, limits=limits, follow_redirects=False)
        except (httpx.InvalidURL, ValueError, ImportError) as error:
            problem = type(error).__name__
        if client is None:  # raised here: the original error may quote a proxy's password
            raise ProviderError(
                "a proxy in the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) cannot be used: expected an address like "
                f"http://host:3128, and for socks5:// the package httpx[socks] ({problem})"
            )
        line = Line(self._clock)
        install(line, client)
        return Carrier(client, line)
