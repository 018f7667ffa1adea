"""Doubles at the edge of a model client: answers from a function, a clock that waits instead of sleeping, hostile servers."""

from __future__ import annotations

import contextvars
import json
import socket
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import httpx

from understudy.providers import Anthropic, AzureOpenAI, Gemini, OpenAI, OpenAIResponses, Timing, Vertex, VertexClaude
from understudy.providers.http.credentials import KeyLike
from understudy.providers.http.model_client import HttpModel
from understudy.vocabulary.context.scope import Scope, enter_scope
from understudy.vocabulary.messages import JsonValue, ModelRequest, user_message

T = TypeVar("T")

HELLO = ModelRequest([user_message("Hello")])

OPENAI_REPLY: JsonValue = {"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}]}
RESPONSES_REPLY: JsonValue = {
    "status": "completed",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}],
}
ANTHROPIC_REPLY: JsonValue = {"content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn"}
REPLY = b'{"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}]}'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(REPLY)
"""An answer of OpenAI as it comes over a socket: `HEAD + REPLY`."""
GOOGLE_REPLY: JsonValue = {"candidates": [{"content": {"parts": [{"text": "Hi."}]}, "finishReason": "STOP"}]}


def within(scope: Scope, action: Callable[[], T]) -> T:
    """Do something inside a scope, on a context of its own."""

    def act() -> T:
        enter_scope(scope)
        return action()

    return contextvars.copy_context().run(act)


@contextmanager
def pool(threads: int) -> Generator[ThreadPoolExecutor]:
    """Lend threads for calls. At the end it waits for none: a call that still waits then belongs to a test that has failed."""
    lent = ThreadPoolExecutor(threads)
    try:
        yield lent
    finally:
        lent.shutdown(wait=False)


class FakeTime:
    """A clock that moves only when someone sleeps on it."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        """Remember the wait and move on by it."""
        self.slept.append(seconds)
        self.now += seconds

    def timing(self, chance: float = 0.0) -> Timing:
        """Return a client's timing on this clock."""
        return Timing(clock=lambda: self.now, wall_clock=lambda: self.now, sleep=self.sleep, random=lambda: chance)


class Answers(httpx.MockTransport):
    """A transport that gives these answers in turn, the last one for ever, and keeps the requests."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.requests: list[httpx.Request] = []
        self._answers = list(answers)
        super().__init__(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def body(self, index: int = -1) -> dict[str, JsonValue]:
        """Return the body of a request."""
        found: dict[str, JsonValue] = json.loads(self.requests[index].content)
        return found


MAKERS: dict[str, Callable[[httpx.BaseTransport, KeyLike], HttpModel]] = {
    "openai": lambda transport, key: OpenAI("gpt-4o", api_key=key, attempts=1, transport=transport),
    "openai-responses": lambda transport, key: OpenAIResponses("gpt-5", api_key=key, attempts=1, transport=transport),
    "anthropic": lambda transport, key: Anthropic("claude", api_key=key, attempts=1, transport=transport),
    "gemini": lambda transport, key: Gemini("gemini-2.5-flash", api_key=key, attempts=1, transport=transport),
    "vertex": lambda transport, key: Vertex(
        "gemini-2.5-flash", access_token=key, project="p", attempts=1, transport=transport
    ),
}
"""API -> a client with one attempt that sends to a transport."""
EVERYWHERE: dict[str, Callable[[httpx.BaseTransport, KeyLike], HttpModel]] = {
    **MAKERS,
    "groq": lambda transport, key: OpenAI("m", preset="groq", api_key=key, attempts=1, transport=transport),
    "azure": lambda transport, key: AzureOpenAI(
        "my-gpt", endpoint="https://me.test", api_key=key, attempts=1, transport=transport
    ),
    "azure with a token": lambda transport, key: AzureOpenAI(
        "my-gpt", endpoint="https://me.test", token=key, attempts=1, transport=transport
    ),
    "claude on vertex": lambda transport, key: VertexClaude(
        "claude-haiku-4-5", access_token=key, project="p", attempts=1, transport=transport
    ),
}
"""The same for every place where these APIs are."""


@contextmanager
def speaking(script: Callable[[socket.socket, threading.Event], None]) -> Generator[str]:
    """Listen on a free port of this host and run `script` for each connection; gives the address.

    The event is set when the block ends: a script that waits should wait on it.
    """
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                script(connection, over)
            except OSError:
                return  # the client has hung up, which is what some scripts are for

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # the listener was shut down
            thread = threading.Thread(target=serve, args=(connection,), name="hostile-connection", daemon=True)
            threads.append(thread)
            thread.start()

    acceptor = threading.Thread(target=accept, name="hostile-server", daemon=True)
    acceptor.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in [acceptor, *threads]:
            thread.join(10)


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
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("the client hung up")
    return data


def closed_port() -> int:
    """Return a port of this host without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
    return port


def drip(connection: socket.socket, over: threading.Event, pieces: Iterable[bytes], pause: float) -> None:
    """Send pieces with a pause before each, until the test is over."""
    for piece in pieces:
        if over.wait(pause):
            return
        connection.sendall(piece)
