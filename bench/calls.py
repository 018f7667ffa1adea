"""Many threads calling a model over HTTP: with one shared client of ours, or a client or a socket for each thread."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import httpx

from understudy import OpenAI
from understudy.vocabulary.messages import ModelRequest, user_message

from .batch import Round, timed, warmed
from .fakes import ANSWER
from .fresh import ROOT
from .http_process import REPLY
from .measure import Measure, Side
from .sizes import Sizes

CALLS = 2
QUESTION = ModelRequest([user_message("go")])
PAYLOAD = json.dumps({"model": "m", "messages": [{"role": "user", "content": "go"}]}).encode()


@contextmanager
def _server(nap: float) -> Generator[int]:
    """Start the server in a process of its own; gives its port."""
    command = [sys.executable, "-m", "bench.http_process", str(nap)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())  # leaving the block closes the input, which ends the server


def _in_threads(threads: int, work: Callable[[], object]) -> None:
    """Do the same work in `threads` threads at once; a failure in any thread fails the measure."""
    done: list[object] = []

    def call() -> None:
        work()
        done.append(None)

    started = [threading.Thread(target=call, daemon=True) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert len(done) == threads


def _shared(threads: int, port: int) -> None:
    """Make one client, and call it from all threads."""
    with OpenAI("m", api_key="k", base_url=f"http://127.0.0.1:{port}/v1") as client:

        def calls() -> None:
            for _ in range(CALLS):
                assert client.complete(QUESTION).text == ANSWER

        _in_threads(threads, calls)


def _one_each(threads: int, port: int, trust: ssl.SSLContext) -> None:
    """Make an httpx client in each thread; the expensive SSL context is made before, as it is for our client."""

    def calls() -> None:
        with httpx.Client(verify=trust) as client:
            for _ in range(CALLS):
                reply = client.post(f"http://127.0.0.1:{port}/v1/chat/completions", content=PAYLOAD, timeout=60.0)
                assert reply.json()["choices"][0]["message"]["content"] == ANSWER

    _in_threads(threads, calls)


def _sockets(threads: int, port: int) -> None:
    """Write the same bytes to a socket in each thread, and read the same answer."""
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: {len(PAYLOAD)}\r\n\r\n"
    request = head.encode() + PAYLOAD

    def calls() -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            for _ in range(CALLS):
                connection.sendall(request)
                left = len(REPLY)
                while left:
                    received = connection.recv(left)
                    assert received
                    left -= len(received)

    _in_threads(threads, calls)


@contextmanager
def _calls(sizes: Sizes) -> Generator[Round]:
    trust = httpx.create_ssl_context()
    with _server(sizes.nap) as port:
        sides = {
            "one provider client between them": partial(timed, lambda: _shared(sizes.callers, port)),
            "an httpx.Client each, one SSL context": partial(timed, lambda: _one_each(sizes.callers, port, trust)),
            "a raw socket each": partial(timed, lambda: _sockets(sizes.callers, port)),
        }
        yield warmed(sides, sizes.samples)


CALLS_AT_ONCE = Measure(
    name="calls-200",
    title=lambda sizes: (
        f"{sizes.callers} threads, {CALLS} model calls of {sizes.nap * 1000:g} ms each, by HTTP on this host"
    ),
    ours=(Side(label="one provider client between them", target=0.400),),
    references=(Side(label="an httpx.Client each, one SSL context"), Side(label="a raw socket each")),
    prepare=_calls,
)
