"""Sockets with the deadline of an attempt: every connect, read and write gets the time left, and a cancel wakes them.

httpx limits the time of each phase only, so a body (or header) that drips never exceeds one. And closing a client from
another thread does not wake a blocked read; shutting its socket down does.
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
    """The network backend of one client, used by one thread at a time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._network = httpcore.SyncBackend()
        self._deadline: float | None = None
        self._patience: float | None = None
        self._sockets: list[socket.socket] = []
        self._attempt = 0
        self._cut = False
        self._lock = threading.Lock()
        """Guards the sockets, the attempt's number and `_cut`: another thread may cancel."""

    def begin(self, deadline: float) -> Callable[[], None]:
        """Start an attempt that must end at `deadline` on the clock.

        Returns:
            A function that ends this attempt from any thread: a blocked read returns at once. It has no effect on later
            attempts.
        """
        with self._lock:
            self._deadline = deadline
            self._patience = None
            self._cut = False
            self._attempt += 1
            number = self._attempt
        return lambda: self._end(number)

    def go_on(self, deadline: float, patience: float | None) -> None:
        """Give the attempt another deadline, and each of its reads at most `patience` seconds."""
        self._deadline = deadline
        self._patience = patience

    def finish(self) -> None:
        """Mark the attempt as over; from now on the function that ends it does nothing."""
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
        """Return the seconds left for the next operation.

        Raises:
            expired: the deadline has passed, or the attempt was cut.
        """
        if self._deadline is None:
            return timeout
        left = self._deadline - self._clock()
        if left <= 0 or self._cut:
            raise expired("the attempt's time is over")
        return left if timeout is None else min(timeout, left)

    def left_to_read(self, timeout: float | None) -> float | None:
        """Return the seconds left for the next read, as `left` does."""
        left = self.left(timeout, httpcore.ReadTimeout)
        if self._patience is None:
            return left
        return self._patience if left is None else min(left, self._patience)

    def opened(self, stream: Stream) -> None:
        """Remember the stream's socket, so that the attempt can be ended."""
        raw: object = stream.get_extra_info("socket")
        if isinstance(raw, socket.socket):
            self._remember(raw)

    def _remember(self, raw: socket.socket) -> None:
        with self._lock:
            self._sockets = [s for s in self._sockets if s.fileno() >= 0]
            self._sockets.append(raw)

    @contextlib.contextmanager
    def wrapping(self, stream: Stream) -> Generator[None]:
        """Keep the connection reachable inside the block, where TLS moves it to another socket object."""
        raw: object = stream.get_extra_info("socket")
        if not isinstance(raw, socket.socket) or isinstance(raw, ssl.SSLSocket):  # TLS inside TLS does not move it
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
            with self._lock:  # else its file number could belong to another file when it is shut down
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
    """A stream whose operations each get the time left from its line."""

    def __init__(self, stream: Stream, line: Line) -> None:
        self._stream = stream
        self._line = line

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._line.left_to_read(timeout))

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
    """Make `line` the network backend of every real transport of `client`, proxies included.

    httpx has no public way to choose a network backend; a contract test pins the private fields.
    """
    transports = [client._transport, *client._mounts.values()]  # pyright: ignore[reportPrivateUsage]
    for transport in transports:
        if isinstance(transport, httpx.HTTPTransport):
            transport._pool._network_backend = line  # pyright: ignore[reportPrivateUsage]
