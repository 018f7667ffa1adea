"""Streams of one run to many readers, in a worker of gunicorn with threads."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from .stream_wsgi import PIECE, PIECES
from .test_gunicorn import get, serving

pytest.importorskip("gunicorn", reason="gunicorn needs a system that forks")

READERS = 12
STALLED = 4
LENGTH = len("begun") + PIECES * len(PIECE)


def text_of(stream: bytes) -> int:
    """Return how many characters of text a stream had."""
    told = [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: ")]
    return sum(len(each["text"]) for each in told if each["type"] == "text_delta")


def connected(url: str, path: str) -> socket.socket:
    """Ask for a stream, and read no more of it than its beginning."""
    found = urlsplit(url)
    reader = socket.create_connection((str(found.hostname), found.port or 0), timeout=30)
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    reader.sendall(f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
    assert reader.recv(12).startswith(b"HTTP/1.")
    return reader


def whole(reader: socket.socket) -> bytes:
    chunks: list[bytes] = []
    while chunk := reader.recv(1 << 16):
        chunks.append(chunk)
    return b"".join(chunks)


@pytest.mark.timeout(100)
def test_readers_that_stand_still_or_hang_up_hold_neither_the_run_nor_others_up() -> None:
    threads = ("-k", "gthread", "--threads", str(READERS + 8))
    with serving(*threads, workers=1, app="tests.hosts.stream_wsgi:app") as (_, url), ExitStack() as stack:
        clients = stack.enter_context(ThreadPoolExecutor(READERS))
        run = get(f"{url}/begin")
        stalled = [stack.enter_context(connected(url, f"/events/{run}")) for _ in range(STALLED)]
        connected(url, f"/events/{run}").close()
        reading = [clients.submit(get, f"{url}/events/{run}") for _ in range(READERS - STALLED)]

        get(f"{url}/open")

        assert get(f"{url}/length/{run}") == str(LENGTH)
        assert {text_of(each.result(30).encode()) for each in reading} == {LENGTH}
        assert {text_of(whole(each)) for each in stalled} == {LENGTH}
