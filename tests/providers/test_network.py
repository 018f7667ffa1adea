"""Real sockets: time limits, cancelling, hostile bodies, connections that are kept, threads and forks."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import httpcore
import httpx
import pytest

from tests.hosts.forking import in_child
from tests.support.http import HEAD, HELLO, REPLY, FakeTime, drip, read_request, speaking, within
from tests.support.together import all_at_once
from understudy.errors import BadReply, ProviderError, ProviderTimeout, RateLimited, RunCancelled, RunTimedOut
from understudy.providers import Anthropic, OpenAI
from understudy.providers.http.connections import Connections
from understudy.providers.http.network import Line
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.messages import ModelTurn
from understudy.vocabulary.models import Renewable

CASE = "anthropic-msgs-tool-loop-a.2"


class Counting(BaseHTTPRequestHandler):
    """Answers every request and counts the connections that they came over."""

    protocol_version = "HTTP/1.1"
    connections: ClassVar[set[tuple[str, int]]]

    def do_POST(self) -> None:
        self.connections.add(self.client_address)
        self.rfile.read(int(self.headers["content-length"]))
        self.wfile.write(HEAD + REPLY)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def counted() -> Generator[tuple[str, set[tuple[str, int]]]]:
    class Handler(Counting):
        connections: ClassVar[set[tuple[str, int]]] = set()

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128  # the default of 5 makes a burst of connections wait a second

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, name="counting-server", daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", Handler.connections
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_a_key_is_in_no_log_of_a_real_request(
    counted: tuple[str, set[tuple[str, int]]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with OpenAI("m", api_key="sk-canary-7f3a9", base_url=counted[0]) as client:
        client.complete(HELLO)

    assert "send_request_headers" in caplog.text  # httpcore did log what it sent
    assert "canary" not in caplog.text


def model(address: str, *, timeout: float = 30.0) -> OpenAI:
    return OpenAI("m", api_key="k", base_url=f"{address}/v1", timeout=timeout, attempts=1)


def ask(address: str, *, timeout: float = 30.0) -> ModelTurn:
    with model(address, timeout=timeout) as client:
        return client.complete(HELLO)


# Time


@pytest.mark.parametrize(
    ("begins", "drop", "says", "retryable"),
    [(HEAD, b" ", "did not finish", False), (b"HTTP/1.1 200 OK\r\nx: ", b"y", "did not answer", True)],
    ids=["body", "headers"],
)
def test_an_answer_that_drips_ends_with_the_attempts_time(
    begins: bytes, drop: bytes, says: str, retryable: bool
) -> None:
    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        drip(connection, over, itertools.chain([begins], itertools.repeat(drop)), 0.05)

    with speaking(script) as address, pytest.raises(ProviderTimeout, match=says) as caught:
        ask(address, timeout=0.4)

    assert caught.value.retryable is retryable  # an answer that has begun may have been paid for


def test_a_run_that_is_cancelled_wakes_a_call_that_waits() -> None:
    asked = threading.Event()
    scope = Scope(None, time.monotonic)

    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        asked.set()
        over.wait(30)

    with speaking(script) as address, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(within, scope, lambda: ask(address))
        assert asked.wait(10)
        scope.cancel()
        error = waiting.exception(timeout=5)

    assert isinstance(error, RunCancelled)


def test_a_run_that_is_cancelled_wakes_a_call_whose_server_does_not_speak_tls() -> None:
    greeted = threading.Event()
    scope = Scope(None, time.monotonic)

    def script(connection: socket.socket, over: threading.Event) -> None:
        if connection.recv(65_536):
            greeted.set()
            over.wait(30)

    with speaking(script) as address, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(within, scope, lambda: ask(address.replace("http:", "https:")))
        assert greeted.wait(10)
        scope.cancel()
        error = waiting.exception(timeout=5)  # the handshake's own time is twice that

    assert isinstance(error, RunCancelled)


def test_what_reaches_a_connection_in_its_handshake_goes_with_it() -> None:
    line = Line(time.monotonic)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line.begin(time.monotonic() + 60)
        with line.wrapping(_Stream(ours)):
            ours.close()
            theirs.setblocking(False)
            with pytest.raises(BlockingIOError):  # the connection is open
                theirs.recv(1)

        assert theirs.recv(1) == b""


def test_a_run_whose_deadline_passes_ends_the_call_as_timed_out() -> None:
    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        over.wait(30)

    scope = Scope(time.monotonic() + 0.3, time.monotonic)
    with speaking(script) as address, pytest.raises(RunTimedOut):
        within(scope, lambda: ask(address))


def test_every_operation_gets_what_is_left_of_the_attempt() -> None:
    now = 100.0
    line = Line(lambda: now)
    line.begin(105.0)

    assert line.left(30.0, TimeoutError) == 5.0
    assert line.left(None, TimeoutError) == 5.0
    assert line.left(2.0, TimeoutError) == 2.0
    now = 105.0
    with pytest.raises(TimeoutError):
        line.left(30.0, TimeoutError)


def test_a_cancel_that_comes_late_does_not_end_the_next_call_on_the_connection() -> None:
    line = Line(time.monotonic)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        late = line.begin(time.monotonic() + 60)
        line.opened(_Stream(ours))
        line.finish()
        line.begin(time.monotonic() + 60)
        late()
        theirs.sendall(b"still open")

        assert ours.recv(20) == b"still open"


class _Stream(httpcore.NetworkStream):
    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw

    def get_extra_info(self, info: str) -> socket.socket:
        return self._raw


def test_httpx_still_lets_us_choose_its_network() -> None:
    """Holds down the private places that `network.install` writes to, and that a carrier asks."""
    with Connections().lease() as carrier:
        client, line = carrier._client, carrier.line  # pyright: ignore[reportPrivateUsage]  # what this test is about
        transport = client._transport_for_url(httpx.URL("https://example.org/"))  # pyright: ignore[reportPrivateUsage]
        assert isinstance(transport, httpx.HTTPTransport)
        assert isinstance(transport._pool, httpcore.ConnectionPool)  # pyright: ignore[reportPrivateUsage]
        assert transport._pool._network_backend is line  # pyright: ignore[reportPrivateUsage]


# Bodies


@pytest.mark.parametrize(
    ("sent", "kind", "says"),
    [
        (HEAD + REPLY[:20], BadReply, "cut off.*choices"),
        (b"", ProviderError, r"127\.0\.0\.1"),
        (b"220 smtp.test ESMTP\r\n", ProviderError, None),
    ],
    ids=["a body that is cut off", "a server that hangs up without a word", "no HTTP at all"],
)
def test_half_an_answer_or_none_is_an_error_worth_a_retry(
    sent: bytes, kind: type[ProviderError], says: str | None
) -> None:
    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        connection.sendall(sent)

    with speaking(script) as address, pytest.raises(ProviderError, match=says) as caught:
        ask(address)

    assert (type(caught.value), caught.value.retryable) == (kind, True)


def test_an_endless_body_is_read_to_the_limit_and_no_further() -> None:
    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        piece = b"%x\r\n%s\r\n" % (65536, b" " * 65536)
        drip(connection, over, itertools.repeat(piece), 0.0)

    with (
        speaking(script) as address,
        OpenAI("m", api_key="k", base_url=address, max_reply_bytes=1_000_000) as client,
        pytest.raises(BadReply, match="longer than 1000000 bytes"),
    ):
        client.complete(HELLO)


# Connections


def test_many_threads_share_a_client_and_no_more_connections_than_threads(
    counted: tuple[str, set[tuple[str, int]]],
) -> None:
    address, connections = counted
    with model(address) as client, ThreadPoolExecutor(16) as pool:
        turns = [turn.text for turn in pool.map(client.complete, [HELLO] * 160)]

    assert turns == ["Hi."] * 160
    assert len(connections) <= 16


def test_calls_one_after_another_use_one_connection(counted: tuple[str, set[tuple[str, int]]]) -> None:
    address, connections = counted
    with model(address) as client:
        for _ in range(5):
            client.complete(HELLO)

    assert len(connections) == 1


@pytest.mark.parametrize("afresh", [OpenAI.close, OpenAI.renew], ids=["closed", "renewed"])
def test_a_client_that_was_closed_or_renewed_opens_a_new_connection(
    afresh: Callable[[OpenAI], None], counted: tuple[str, set[tuple[str, int]]]
) -> None:
    address, connections = counted
    with model(address) as client:
        client.complete(HELLO)
        assert isinstance(client, Renewable)
        afresh(client)
        client.complete(HELLO)

    assert len(connections) == 2


def test_a_connection_that_the_server_closed_while_idle_costs_no_error() -> None:
    closed = threading.Event()

    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        connection.sendall(HEAD + REPLY)
        connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    with speaking(script) as address, model(address) as client:
        for _ in range(3):
            assert client.complete(HELLO).text == "Hi."
            assert closed.wait(10)
            closed.clear()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_uses_the_client_over_connections_of_its_own(
    counted: tuple[str, set[tuple[str, int]]],
) -> None:
    address, connections = counted
    with model(address) as client:
        client.complete(HELLO)
        in_child(lambda: client.complete(HELLO))

        assert client.complete(HELLO).text == "Hi."
        assert len(connections) == 2  # the parent's own one was neither used nor closed by the child


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_fork_while_a_lock_is_held_leaves_the_child_a_free_one() -> None:
    connections = Connections()

    def take(_: int) -> None:
        assert connections._lock.acquire(timeout=5)  # pyright: ignore[reportPrivateUsage]  # what this test is about

    with connections._lock:  # pyright: ignore[reportPrivateUsage]
        in_child(lambda: all_at_once(take, [0]))


def test_connections_of_the_parent_are_forgotten_in_a_child_but_not_closed() -> None:
    connections = Connections()
    with connections.lease() as carrier:
        inherited = weakref.ref(carrier._client)  # pyright: ignore[reportPrivateUsage]  # what must stay open
    del carrier

    connections.start_afresh()
    gc.collect()

    kept = inherited()
    assert kept is not None
    assert not kept.is_closed
    with connections.lease() as fresh:
        assert fresh._client is not kept  # pyright: ignore[reportPrivateUsage]


# Faults of the replay server


def faulty(server: str, faults: str, *, attempts: int = 3) -> tuple[Anthropic, list[float]]:
    fake = FakeTime()
    base = f"{server}/~{faults}/{CASE}"
    timing = fake.timing()
    return Anthropic(
        "claude-haiku-4-5-20251001", api_key="k", base_url=base, attempts=attempts, timing=timing
    ), fake.slept


def answer(client: Anthropic) -> str:
    with client:
        return client.complete(HELLO).text


@pytest.mark.parametrize("status", [429, 503, 529, 0])
def test_two_failures_of_a_kind_are_survived(server: str, status: int) -> None:
    client, waits = faulty(server, f"fail_first=2,status={status},run=survived{status}")

    assert answer(client).startswith("The weather in Berlin")
    assert waits == [0.5, 1.0]


def test_three_failures_are_one_too_many(server: str) -> None:
    client, waits = faulty(server, "fail_first=3,status=429,retry_after=2,run=many")

    with pytest.raises(RateLimited) as caught:
        answer(client)

    assert (caught.value.retry_after, caught.value.code) == (2.0, "rate_limit_error")
    assert waits == [2.0, 2.0]


def test_a_connection_that_drops_in_the_body_is_tried_again(server: str) -> None:
    client, waits = faulty(server, "drop=100,times=1,run=drop")

    assert answer(client).startswith("The weather in Berlin")
    assert waits == [0.5]


def test_a_body_in_small_pieces_is_read_whole(server: str) -> None:
    client, _ = faulty(server, "chunk=3,run=chunk")

    assert "15°C" in answer(client)
