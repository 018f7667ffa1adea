"""Connections of one model client: many clients of one connection each, the last used first.

One `httpx.Client` shared by many threads spends its time on its own lock; a client each, taken from the top of a list, does
not, and leaves idle connections at the bottom to grow old.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from understudy.errors import ProviderError

from .forks import renew_after_fork

if TYPE_CHECKING:
    import ssl

    import httpx

    from .network import Line

KEEPALIVE = 60.0  # Longer than most tool calls take, so that the next turn finds its connection.


class Trust:
    """The process's one SSL context: making one reads every root certificate, 20 to 40 ms."""

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


class Connections:
    """Clients that wait for their next request; safe to share between threads.

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
        self._idle: list[tuple[httpx.Client, Line]] = []
        self.start_afresh()
        renew_after_fork(self)

    def start_afresh(self) -> None:
        self._inherited.append(self._idle)
        self._lock = threading.Lock()
        """Guards the idle list and the generation."""
        self._idle = []
        self._generation = 0

    @contextmanager
    def lease(self) -> Generator[tuple[httpx.Client, Line]]:
        """Lend a client and its line to the calling thread until the block ends."""
        with self._lock:
            generation = self._generation
            pair = self._idle.pop() if self._idle else None
        if pair is None:
            pair = self._make()
        try:
            yield pair
        finally:
            self._take_back(pair, generation)

    def close(self) -> None:
        """Close idle connections at once and lent ones when they come back; later requests open new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._generation += 1
        for client, _ in idle:
            client.close()

    def _take_back(self, pair: tuple[httpx.Client, Line], generation: int) -> None:
        with self._lock:
            current = generation == self._generation
            if current:
                self._idle.append(pair)
        if not current:
            pair[0].close()

    def _make(self) -> tuple[httpx.Client, Line]:
        import httpx

        from .network import Line, install

        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEPALIVE)
        trust = _trust.context()
        client, problem = None, ""
        try:
            client = httpx.Client(transport=self._transport, verify=trust, limits=limits, follow_redirects=False)
        except (httpx.InvalidURL, ValueError, ImportError) as error:
            problem = type(error).__name__
        if client is None:  # out here, for what went wrong quotes the proxy's address, and that may hold a password
            raise ProviderError(
                "a proxy in the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) cannot be used: expected an address like "
                f"http://host:3128, and for socks5:// the package httpx[socks] ({problem})"
            )
        line = Line(self._clock)
        install(line, client)
        return client, line
