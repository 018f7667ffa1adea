"""Sockets that know when an attempt must end: every connect, read and write gets what is left, and a cancel wakes them.

httpx has time limits per phase only, so a body (or header) that drips never meets one; and closing a client from another
thread does not wake a blocked read, while shutting its socket down does.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any

import httpcore
import httpx

Stream = httpcore.NetworkStream
Option = httpcore.SOCKET_OPTION


class Line(httpcore.NetworkBackend):
    """The network of one client, which one thread uses at a time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._network = httpcore.SyncBackend()
        self._deadline: float | None = None
        self._sockets: list[socket.socket] = []
        self._attempt = 0
        self._cut = False
        self._lock = threading.Lock()
        """Guards the sockets, the attempt's number and `_cut`: another thread may cancel."""

    def begin(self, deadline: float) -> Callable[[], None]:
        """Start an attempt that must end at `deadline` on the clock.

        Returns:
            A function that ends this attempt, and no later one, from any thread: a read that waits returns at once.
        """
        with self._lock:
            self._deadline = deadline
            self._cut = False
            self._attempt += 1
            number = self._attempt
        return lambda: self._end(number)

    def finish(self) -> None:
        """Say that the attempt is over; what would end it does nothing from here on."""
        with self._lock:
            self._attempt += 1

    def _end(self, number: int) -> None:
        with self._lock:
            if number != self._attempt:
                return
            self._cut = True
            for each in self._sockets:
                with contextlib.suppress(OSError):  # the other side may have closed it already
                    each.shutdown(socket.SHUT_RDWR)

    def left(self, timeout: float | None, expired: type[Exception]) -> float | None:
        """Return the seconds that the next operation may take.

        Raises:
            expired: the deadline has passed, or the attempt was cut.
        """
        if self._deadline is None:
            return timeout
        left = self._deadline - self._clock()
        if left <= 0 or self._cut:
            raise expired("the attempt's time is over")
        return left if timeout is None else min(timeout, left)

    def opened(self, stream: Stream) -> None:
        """Remember the stream's socket, so that `cut` reaches it."""
        raw: object = stream.get_extra_info("socket")
        if isinstance(raw, socket.socket):
            self._remember(raw)

    def _remember(self, raw: socket.socket) -> None:
        with self._lock:
            self._sockets = [s for s in self._sockets if s.fileno() >= 0]
            self._sockets.append(raw)

    @contextlib.contextmanager
    def wrapping(self, stream: Stream) -> Generator[None]:
        """Reach the stream's connection inside of the block, where its socket object gives it to another one for TLS."""
        raw: object = stream.get_extra_info("socket")
        if not isinstance(raw, socket.socket) or isinstance(
            raw, ssl.SSLSocket
        ):  # TLS inside of TLS leaves it where it is
            yield
            return
        try:
            second = raw.dup()
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        self._remember(second)
        try:
            yield
        finally:
            with self._lock:  # or its number might stand for another file when it is shut down
                second.close()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Option] | None = None,
    ) -> Stream:
        stream = self._network.connect_tcp(
            host, port, self.left(timeout, httpcore.ConnectTimeout), local_address, socket_options
        )
        self.opened(stream)
        return TimedStream(stream, self)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Option] | None = None
    ) -> Stream:
        return self._network.connect_unix_socket(path, timeout, socket_options)

    def sleep(self, seconds: float) -> None:
        self._network.sleep(seconds)


class TimedStream(httpcore.NetworkStream):
    """A stream whose every operation asks its line how long it may take."""

    def __init__(self, stream: Stream, line: Line) -> None:
        self._stream = stream
        self._line = line

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._line.left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._line.left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> Stream:
        left = self._line.left(timeout, httpcore.ConnectTimeout)
        with self._line.wrapping(self._stream):
            stream = self._stream.start_tls(ssl_context, server_hostname, left)
        self._line.opened(stream)
        return TimedStream(stream, self._line)

    def get_extra_info(self, info: str) -> Any:  # httpcore's own signature
        return self._stream.get_extra_info(info)


def install(line: Line, client: httpx.Client) -> None:
    """Put `line` under every real transport of `client`, proxies included.

    httpx has no public way to choose a network; a test holds this one down.
    """
    # pyright: ignore comments: these are the private places where httpx and httpcore keep it.
    transports = [client._transport, *client._mounts.values()]  # pyright: ignore[reportPrivateUsage]
    for transport in transports:
        if isinstance(transport, httpx.HTTPTransport):
            transport._pool._network_backend = line  # pyright: ignore[reportPrivateUsage]
