"""A proxy before a PostgreSQL server that loses the connection of a client at a commit, or all of them for a time."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Literal

Lost = Literal["before", "after"]
"""Whether the server is never sent the commit, or its answer is lost."""


class Proxy:
    """Forwards connections on loopback to a port.

    Args:
        port: of the server.
        host: of the server.

    Attributes:
        commits: how many commits have come by.
        goes_away: whether it closes after it has lost an answer.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._to = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.commits = 0
        self.goes_away = False
        self._is_closed = False
        self._pairs: list[_Pair] = []
        self._lose: tuple[int, Lost] | None = None
        self._lock = threading.Lock()
        self.flows = threading.Event()
        """Whether data is forwarded; while it is not, connections stand and say nothing."""
        self.flows.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, commit: int, when: Lost) -> None:
        """Lose the connection at a commit that comes; the next one has number 0."""
        with self._lock:
            self.commits = 0
            self._lose = (commit, when)

    def close(self) -> None:
        """Take no more connections, and lose those that are there."""
        self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Lose the connections that are there, and take others."""
        for pair in self._pairs:
            pair.end()

    def open_again(self) -> None:
        """Take connections again after `close`."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._is_closed = False
        self._pairs = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        listener = self._listener
        with suppress(OSError):
            while True:
                client = listener.accept()[0]
                if self._is_closed:  # a close does not end an accept that has begun
                    client.close()
                    return
                pair = _Pair(self, client, socket.create_connection(self._to))
                self._pairs.append(pair)
                if self._is_closed:  # meanwhile, and `cut` has not seen the pair
                    pair.end()

    def seen(self) -> Lost | None:
        """Count a commit, and return whether it is to be lost."""
        with self._lock:
            number, self.commits = self.commits, self.commits + 1
            return self._lose[1] if self._lose is not None and self._lose[0] == number else None


class _Pair:
    """One connection through a proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._is_silent = False
        threading.Thread(target=self._to_server, daemon=True).start()
        threading.Thread(target=self._to_client, daemon=True).start()

    def _to_server(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(65536):
                lost = self._proxy.seen() if data.startswith(b"Q") and b"COMMIT\0" in data else None
                if lost == "before":
                    break
                self._is_silent = lost == "after"
                self._proxy.flows.wait()
                self._server.sendall(data)
        if not self._is_silent:
            self.end()

    def _to_client(self) -> None:
        with suppress(OSError):
            while (data := self._server.recv(65536)) and not self._is_silent:
                self._proxy.flows.wait()
                self._client.sendall(data)
        if self._is_silent and self._proxy.goes_away:
            self._proxy.close()
        self.end()

    def end(self) -> None:
        """Lose the connection on both sides."""
        for each in (self._client, self._server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
