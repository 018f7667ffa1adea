"""A local server that runs a script for each connection, such as one that keeps the client waiting."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Self, TypeAlias

Script: TypeAlias = Callable[[socket.socket], object]
"""Handles one connection on a thread of its own; an `OSError` ends it quietly, as the client has closed it."""


class Loopback:
    """Listens on a free port until `close`, and runs `script` for each connection."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1_000)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        """Guards both lists."""
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, name="loopback", daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            thread = threading.Thread(target=self._serve, args=(connection,), name="loopback-connection", daemon=True)
            with self._lock:
                self._open.append(connection)
                self._threads = [each for each in self._threads if each.is_alive()]
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self._script(connection)
        with self._lock:
            self._open.remove(connection)
            connection.close()

    def hang_up(self) -> None:
        """Close all connections."""
        with self._lock:  # else a closed one's file number could belong to another file
            for each in self._open:
                with contextlib.suppress(OSError):  # the client has closed it already
                    each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Refuse new connections, and close all open ones."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_request(connection: socket.socket) -> bytes:
    """Read one request with a content-length to its end."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(h.split(b":")[1]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length"))
    while len(body) < length:
        body += _some(connection)
    return head + b"\r\n\r\n" + body


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(65_536)
    if not data:
        raise ConnectionError("the client hung up")
    return data


def until_hung_up(connection: socket.socket) -> None:
    """Send nothing until the client closes the connection, or the server is closed."""
    while connection.recv(65_536):
        pass
