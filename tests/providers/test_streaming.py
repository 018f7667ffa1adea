"""Streams of model clients: attempts, time, ends, and what a stream holds while it runs."""

from __future__ import annotations

import contextvars
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

import httpx
import pytest

from tests.hosts.forking import in_child
from tests.support.http import (
    ANTHROPIC_REPLY,
    GOOGLE_REPLY,
    HELLO,
    MAKERS,
    OPENAI_REPLY,
    RESPONSES_REPLY,
    FakeTime,
    read_request,
    speaking,
    within,
)
from tests.support.scripts import WAIT, eventually
from tests.support.wire_streams import as_events, stream_cases
from understudy.errors import (
    AuthenticationError,
    BadReply,
    BudgetExceeded,
    ProviderError,
    ProviderTimeout,
    RateLimited,
    RunCancelled,
    RunTimedOut,
)
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.providers import Anthropic, Gemini, OpenAI, Vertex
from understudy.providers.http import streamed_attempt
from understudy.providers.http.model_client import HttpModel
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Budget, Spending
from understudy.vocabulary.context.scope import Scope
from understudy.vocabulary.messages import JsonValue, ModelTurn, Settings
from understudy.vocabulary.models import StreamingModel, streamed_timeout_of
from understudy.vocabulary.pieces import Piece, TextPiece, TurnEnd

Chunk: TypeAlias = bytes | Exception | Callable[[], object]


def ends(reason: str) -> bytes:
    """Return the chunk that ends a chat completion."""
    return as_events({"choices": [{"finish_reason": reason}]})


CANARY = "sk-canary-7f3a9"
SSE = {"content-type": "text/event-stream"}
BEGIN = as_events({"id": "c", "model": "m", "choices": [{"delta": {"role": "assistant", "content": ""}}]})
COUNTS = as_events({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
END = ends("stop")
DONE = as_events("[DONE]")

pytestmark = pytest.mark.usefixtures("bare_environment")


def says(words: str) -> bytes:
    return as_events({"choices": [{"delta": {"content": words}}]})


class Body(httpx.SyncByteStream):
    """A body in chunks; a chunk that is a function is called, and an error raised, when it is read."""

    def __init__(self, *chunks: Chunk) -> None:
        self._chunks = chunks
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if isinstance(chunk, Exception):
                raise chunk
            if isinstance(chunk, bytes):
                yield chunk
            else:
                chunk()

    def close(self) -> None:
        self.closed = True


class Streams(httpx.MockTransport):
    """A transport that gives these answers in turn, and keeps the requests."""

    def __init__(self, *answers: Body | httpx.Response | Exception) -> None:
        self.requests: list[httpx.Request] = []
        self._answers = list(answers)
        super().__init__(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(200, headers=SSE, stream=answer) if isinstance(answer, Body) else answer


def whole(*words: str) -> Body:
    return Body(BEGIN, *map(says, words), END, COUNTS, DONE)


def openai(transport: httpx.BaseTransport, fake: FakeTime | None = None, **options: Any) -> OpenAI:
    timing = (fake or FakeTime()).timing()
    return OpenAI("gpt-4o", api_key=CANARY, transport=transport, timing=timing, **options)


def turn_of(pieces: Iterator[Piece]) -> ModelTurn:
    assembler = TurnAssembler()
    for piece in pieces:
        assembler.add(piece)
    return assembler.turn()


def failing(pieces: Iterator[Piece]) -> tuple[str, ProviderError]:
    """Return the text of a stream that fails, and its error."""
    words: list[str] = []
    with pytest.raises(ProviderError) as caught:
        for piece in pieces:
            words += [piece.text] if isinstance(piece, TextPiece) else []
    return "".join(words), caught.value


# The request


def test_the_clients_stream() -> None:
    for make in MAKERS.values():
        assert isinstance(make(Streams(), "k"), StreamingModel)


@pytest.mark.parametrize(
    ("provider", "end", "asks"),
    [
        ("openai", "/v1/chat/completions", {"stream": True, "stream_options": {"include_usage": True}}),
        ("openai-responses", "/v1/responses", {"stream": True}),
        ("anthropic", "/v1/messages", {"stream": True}),
        ("gemini", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", {}),
        ("vertex", "/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse", {}),
    ],
)
def test_a_stream_is_asked_for_as_each_api_wants_it(provider: str, end: str, asks: dict[str, object]) -> None:
    transport = Streams(httpx.Response(400))

    failing(MAKERS[provider](transport, "k").stream(HELLO))

    request = transport.requests[0]
    body = json.loads(request.content)
    assert str(request.url).endswith(end)
    assert {key: value for key, value in body.items() if key.startswith("stream")} == asks


@pytest.mark.parametrize(
    ("given", "sent"), [({"include_obfuscation": False}, {"include_obfuscation": False}), (None, "")]
)
def test_the_options_of_a_stream_can_be_replaced_or_left_out(given: JsonValue, sent: JsonValue) -> None:
    transport = Streams(whole("Hi"))
    request = replace(HELLO, settings=Settings(extra={"stream_options": given}))

    turn_of(openai(transport).stream(request))

    assert json.loads(transport.requests[0].content).get("stream_options", "") == sent


def test_nothing_is_sent_before_the_first_piece_is_asked_for() -> None:
    transport = Streams(whole("Hi"))
    stream = openai(transport).stream(HELLO)

    assert transport.requests == []
    assert turn_of(stream).text == "Hi"
    assert len(transport.requests) == 1


# Attempts


LATE = httpx.ReadError("reset")


@pytest.mark.parametrize(
    "first",
    [
        httpx.ConnectError("refused"),
        httpx.Response(503, json={"error": {"message": "busy"}}),
        Body(LATE),
        Body(BEGIN, LATE),
        Body(BEGIN, as_events({"error": {"code": 502, "message": "upstream"}})),
        Body(BEGIN),
        Body(BEGIN, b'data: {"choices'),
        Body(),
    ],
    ids=["no connection", "503", "no byte", "reset", "error", "no end", "cut off", "empty"],
)
def test_an_attempt_that_fails_before_a_piece_is_shown_is_made_again(first: Any) -> None:
    clock = FakeTime()
    transport = Streams(first, whole("Hi", " there"))

    pieces = list(openai(transport, clock).stream(HELLO))

    assert [piece.text for piece in pieces if isinstance(piece, TextPiece)] == ["Hi", " there"]
    assert clock.slept == [0.5]
    assert len(transport.requests) == 2


def test_nothing_of_an_attempt_that_failed_is_given_but_its_tokens_count() -> None:
    thinking = as_events({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 40}})
    transport = Streams(Body(BEGIN, thinking, LATE), whole("Hi"))

    pieces = list(openai(transport).stream(HELLO))

    end = pieces[-1]
    assert isinstance(end, TurnEnd)
    assert (end.usage.input_tokens, end.usage.output_tokens) == (6, 42)
    assert turn_of(iter(pieces)).usage == end.usage


@pytest.mark.parametrize(
    ("rest", "kind", "retryable"),
    [
        ((LATE,), ProviderError, True),
        ((), BadReply, True),
        ((as_events({"error": {"code": 502, "message": "upstream"}}),), ProviderError, True),
        ((as_events("no JSON"),), BadReply, False),
        ((as_events({"choices": 5}),), BadReply, False),
        ((ends("abort"),), ProviderError, True),
    ],
    ids=["reset", "no end", "error", "no JSON", "wrong shape", "aborted there"],
)
def test_an_error_behind_a_piece_that_was_shown_is_raised_with_the_turn_so_far(
    rest: tuple[Chunk, ...], kind: type[ProviderError], retryable: bool
) -> None:
    transport = Streams(Body(BEGIN, says("Half a"), COUNTS, *rest), whole("never"))
    client = openai(transport)

    text, error = failing(client.stream(HELLO))

    assert text == "Half a"
    assert (type(error), error.retryable, error.provider) == (kind, retryable, "openai")
    assert error.partial is not None
    assert (error.partial.text, error.partial.usage.total_tokens) == ("Half a", 5)
    assert len(transport.requests) == 1
    assert client.in_flight.taken == 0


def test_the_last_error_has_the_tokens_of_all_attempts() -> None:
    transport = Streams(*[Body(BEGIN, COUNTS, LATE) for _ in range(3)])

    _, error = failing(openai(transport).stream(HELLO))

    assert error.retries_used_up
    assert error.partial is not None
    assert error.partial.usage.total_tokens == 15


def test_an_error_behind_pieces_has_the_tokens_of_attempts_before_it() -> None:
    transport = Streams(Body(BEGIN, COUNTS, LATE), Body(BEGIN, says("Hi"), COUNTS, LATE))

    _, error = failing(openai(transport).stream(HELLO))

    assert error.partial is not None
    assert (error.partial.text, error.partial.usage.total_tokens) == ("Hi", 10)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
@pytest.mark.parametrize("provider", sorted(MAKERS))
def test_an_error_before_the_stream_is_that_of_a_blocking_call(provider: str, status: int) -> None:
    def refused() -> httpx.Response:
        said = {"error": {"message": "no", "type": "kind", "code": "word"}}
        return httpx.Response(status, json=said, headers={**SSE, "retry-after": "7"})

    with pytest.raises(ProviderError) as blocking:
        MAKERS[provider](Streams(refused()), "k").complete(HELLO)
    _, streamed = failing(MAKERS[provider](Streams(refused()), "k").stream(HELLO))

    assert type(streamed) is type(blocking.value)
    assert vars(streamed) == vars(blocking.value)
    assert str(streamed) == str(blocking.value)


def test_a_refused_key_is_looked_up_again() -> None:
    keys = iter(["old", "new"])
    transport = Streams(httpx.Response(401), whole("Hi"))
    client = OpenAI("m", api_key=lambda: next(keys), transport=transport)

    assert turn_of(client.stream(HELLO)).text == "Hi"
    assert [request.headers["authorization"] for request in transport.requests] == ["Bearer old", "Bearer new"]


def test_a_setting_that_the_api_lacks_is_told_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="seed"):
        next(MAKERS["anthropic"](Streams(), "k").stream(replace(HELLO, settings=Settings(seed=1))))


# Answers of other forms


@pytest.mark.parametrize(
    ("provider", "reply"),
    [
        ("openai", OPENAI_REPLY),
        ("openai-responses", RESPONSES_REPLY),
        ("anthropic", ANTHROPIC_REPLY),
        ("gemini", GOOGLE_REPLY),
        ("vertex", GOOGLE_REPLY),
    ],
)
def test_a_server_that_answers_in_one_piece_is_read_all_the_same(provider: str, reply: JsonValue) -> None:
    client = MAKERS[provider](Streams(httpx.Response(200, json=reply), httpx.Response(200, json=reply)), "k")

    assert turn_of(client.stream(HELLO)) == client.complete(HELLO)


def test_an_error_in_an_answer_of_one_piece_is_an_error() -> None:
    full = httpx.Response(200, json={"error": {"code": 429, "message": "slow down"}})

    _, error = failing(openai(Streams(full), attempts=1).stream(HELLO))

    assert (type(error), str(error)) == (RateLimited, "slow down")


def test_a_page_in_place_of_a_stream_is_quoted() -> None:
    page = httpx.Response(200, headers={"content-type": "text/html"}, content=b"<html>Log in\n\nfirst</html>")

    _, error = failing(openai(Streams(page), attempts=1).stream(HELLO))

    assert type(error) is BadReply
    assert "a stream that ended before the model's turn did: '<html>Log in first</html>'" in str(error)


@pytest.mark.parametrize(
    "chunk",
    [
        as_events({"error": {"message": f"wrong key {CANARY}", "code": CANARY, "type": CANARY}}),
        as_events({"choices": [{"delta": {"content": CANARY, "reasoning": CANARY}}]}),
        ends(f"error {CANARY}"),
        as_events({"error": {"message": CANARY, "code": CANARY}}).replace(b"sk-c", rb"s\u006b-c"),
        as_events({"error": {"message": "no"}, "choices": [{"delta": {"content": CANARY}}]}),
        as_events(f"{CANARY} no JSON"),
        as_events({"choices": CANARY}),
        f"<html>{CANARY}".encode(),
        httpx.RemoteProtocolError(f"illegal {CANARY}"),
    ],
    ids=["error", "text", "finish reason", "escaped", "beside an error", "no JSON", "wrong shape", "page", "protocol"],
)
def test_a_key_that_the_server_quotes_is_in_no_error(chunk: Chunk) -> None:
    _, error = failing(openai(Streams(Body(BEGIN, chunk)), attempts=1).stream(HELLO))

    shown = [str(error), repr(vars(error)), repr(error.__cause__), repr(error.__context__)]
    assert not any("canary" in each for each in shown)


def test_a_stream_longer_than_the_limit_is_refused() -> None:
    endless = Body(BEGIN, *[says("x" * 100)] * 100, END, DONE)

    text, error = failing(openai(Streams(endless), max_reply_bytes=3_000).stream(HELLO))

    assert type(error) is BadReply
    assert "longer than 3000 bytes" in str(error)
    assert 0 < len(text) < 3_000
    assert endless.closed


# Time


def test_an_answer_stands_if_its_connection_is_lost_behind_the_finish_reason() -> None:
    client = openai(Streams(Body(BEGIN, says("Whole."), COUNTS, ends("stop"), LATE), whole("never")))

    turn = turn_of(client.stream(HELLO))

    assert (turn.text, turn.finish_reason, turn.usage.total_tokens) == ("Whole.", "stop", 5)
    assert client.in_flight.taken == 0


def test_a_reason_beside_words_does_not_make_an_answer_of_a_lost_connection() -> None:
    """A server may send the reason with each chunk."""
    both = as_events({"choices": [{"delta": {"content": "Ha"}, "finish_reason": "stop"}]})
    client = openai(Streams(Body(BEGIN, both, LATE), whole("never")))

    with pytest.raises(ProviderError) as caught:
        turn_of(client.stream(HELLO))

    assert isinstance(caught.value.partial, ModelTurn)
    assert caught.value.partial.text == "Ha"


def test_a_long_stream_has_no_limit_by_default() -> None:
    clock = FakeTime()
    slow = [each for word in "abcdef" for each in (lambda: clock.sleep(50.0), says(word))]

    assert turn_of(openai(Streams(Body(BEGIN, *slow, END)), clock).stream(HELLO)).text == "abcdef"


def test_silence_ends_a_stream() -> None:
    clock = FakeTime()
    body = Body(BEGIN, says("Hi"), lambda: clock.sleep(60.5), says(" there"), END)

    text, error = failing(openai(Streams(body), clock).stream(HELLO))

    assert (text, type(error)) == ("Hi", ProviderTimeout)
    assert "openai at api.openai.com sent nothing for 60 s in the middle of its answer" in str(error)
    assert body.closed


def test_a_stream_that_falls_silent_before_a_piece_is_shown_is_tried_again() -> None:
    clock = FakeTime()
    silent = Body(BEGIN, lambda: clock.sleep(8.0), says("never"))

    assert turn_of(openai(Streams(silent, whole("Hi")), clock, idle_timeout=7.0).stream(HELLO)).text == "Hi"


@pytest.mark.parametrize(("idle", "limit"), [(7.0, 120.0), (300.0, 300.0)])
def test_the_first_byte_has_two_minutes_or_as_long_as_any_silence(idle: float, limit: float) -> None:
    clock = FakeTime()

    def after(seconds: float) -> Body:
        return Body(lambda: clock.sleep(seconds), BEGIN, says("Hi"), END)

    client = openai(Streams(after(limit - 1), after(limit + 1)), clock, idle_timeout=idle, attempts=1)

    assert turn_of(client.stream(HELLO)).text == "Hi"
    _, error = failing(client.stream(HELLO))
    assert type(error) is ProviderTimeout
    assert f"did not begin its answer within {limit:g} s" in str(error)


def test_no_limit_of_silence_is_none() -> None:
    clock = FakeTime()
    body = Body(lambda: clock.sleep(5_000.0), BEGIN, lambda: clock.sleep(5_000.0), says("Hi"), END)

    assert turn_of(openai(Streams(body), clock, idle_timeout=None).stream(HELLO)).text == "Hi"


def test_what_its_reader_takes_is_not_silence() -> None:
    clock = FakeTime()
    words = ""
    for piece in openai(Streams(whole("a", "b", "c")), clock).stream(HELLO):
        clock.sleep(100.0)
        words += piece.text if isinstance(piece, TextPiece) else ""

    assert words == "abc"


@pytest.mark.parametrize("option", ["timeout", "model_timeout"])
def test_a_limit_that_was_given_holds_for_streams(option: str) -> None:
    clock = FakeTime()
    body = Body(BEGIN, says("Hi"), lambda: clock.sleep(20.0), says("b"), lambda: clock.sleep(20.0), says("c"))

    text, error = failing(openai(Streams(body), clock, **{option: 30.0}).stream(HELLO))

    assert (text, type(error)) == ("Hib", ProviderTimeout)
    assert "did not finish its answer within 30 s" in str(error)


def test_a_model_tells_the_limit_of_its_streams() -> None:
    assert streamed_timeout_of(OpenAI("m", timeout=500.0)) is None
    assert streamed_timeout_of(OpenAI("m", model_timeout=30.0)) == 30.0
    assert OpenAI("m").idle_timeout == 60.0


@pytest.mark.parametrize("make", [OpenAI, Anthropic, Gemini, Vertex])
def test_the_limit_of_silence_is_checked_when_the_client_is_made(make: type[OpenAI]) -> None:
    assert make("m", idle_timeout=None).idle_timeout is None
    with pytest.raises(ValueError, match="idle_timeout"):
        make("m", idle_timeout=0)
    with pytest.raises(TypeError, match="idle_timeout"):
        make("m", idle_timeout="long")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a caller's mistake


def test_the_deadline_of_a_run_holds() -> None:
    clock = FakeTime()
    scope = Scope(clock.now + 30.0, lambda: clock.now)
    body = Body(BEGIN, says("Hi"), lambda: clock.sleep(40.0), says("b"))

    with pytest.raises(RunTimedOut):
        within(scope, lambda: list(openai(Streams(body), clock).stream(HELLO)))
    assert body.closed


# Ends


@pytest.mark.parametrize("read", [0, 1, 2, 3, 4])
def test_a_stream_that_is_closed_frees_its_slot_and_connection(read: int) -> None:
    body = whole("a", "b", "c")
    client = openai(Streams(body))
    stream = client.stream(HELLO)
    for _ in range(read):
        next(stream)
    assert client.in_flight.taken == (1 if read else 0)

    contextvars.Context().run(stream.close)  # also in another context than it was begun in

    assert client.in_flight.taken == 0
    assert body.closed == bool(read)
    assert list(stream) == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(500), ProviderError),
        (httpx.Response(401), AuthenticationError),
        (httpx.ConnectError("no way"), ProviderError),
        (RuntimeError("a transport of the user's"), RuntimeError),
        (Body(RuntimeError("a body of the user's")), RuntimeError),
        (Body(BEGIN, says("a"), RuntimeError("a body of the user's")), RuntimeError),
        (Body(BEGIN, says("a"), LATE), ProviderError),
        (whole("a"), None),
    ],
    ids=["500", "401", "refused", "broken", "broken body", "broken later", "reset", "fine"],
)
def test_a_slot_is_free_again_however_a_stream_ends(answer: Any, error: type[Exception] | None) -> None:
    client = openai(Streams(answer), attempts=1)

    with nullcontext() if error is None else pytest.raises(error):
        list(client.stream(HELLO))

    assert client.in_flight.taken == 0


def test_a_stream_holds_its_slot_until_its_end_and_others_wait() -> None:
    client = openai(Streams(whole("a"), whole("b")), max_in_flight=1)
    first = client.stream(HELLO)
    begun = next(first)

    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(lambda: turn_of(client.stream(HELLO)).text)
        eventually(lambda: client.in_flight.waiting == 1, "it waits")
        assert turn_of(chain([begun], first)).text == "a"
        assert second.result(WAIT) == "b"


def test_a_cancelled_run_ends_its_stream_between_two_pieces() -> None:
    scope = Scope(None, time.monotonic)
    body = whole("a", "b")
    client = openai(Streams(body))
    words: list[str] = []

    def read() -> None:
        for piece in client.stream(HELLO):
            words.extend([piece.text] if isinstance(piece, TextPiece) else [])
            if words:
                scope.cancel()

    with pytest.raises(RunCancelled):
        within(scope, read)

    assert words == ["a"]
    assert body.closed
    assert client.in_flight.taken == 0


# Money


def in_turn(budget: Budget) -> tuple[Scope, Account]:
    scope = Scope(None, time.monotonic)
    scope.account = Account("clerk", "openai:gpt-4o", Spending(budget=budget))
    scope.is_turn = True
    return scope, scope.account


def test_the_tokens_of_a_stream_are_charged_before_its_end_is_given() -> None:
    scope, account = in_turn(Budget(total_tokens=100))

    def read() -> None:
        for piece in openai(Streams(whole("a"))).stream(HELLO):
            if isinstance(piece, TurnEnd):
                assert account.spending.usage.total_tokens == 5

    within(scope, read)


@pytest.mark.parametrize("how", ["closed", "cancelled"])
def test_the_known_tokens_of_a_stream_that_is_given_up_are_charged(how: str) -> None:
    scope, account = in_turn(Budget(total_tokens=100))
    client = openai(Streams(Body(BEGIN, COUNTS, LATE), Body(BEGIN, COUNTS, says("a"), says("b"), END)))

    def read() -> None:
        stream = client.stream(HELLO)
        next(piece for piece in stream if isinstance(piece, TextPiece))
        if how == "cancelled":
            scope.cancel()
            with pytest.raises(RunCancelled):
                next(stream)
        stream.close()

    within(scope, read)

    assert account.spending.usage.total_tokens == 10  # also those of the attempt before


def test_a_call_that_waited_for_its_slot_asks_the_budget_again() -> None:
    scope, account = in_turn(Budget(total_tokens=4))
    client = openai(Streams(whole("a"), whole("b")), max_in_flight=1)

    with ThreadPoolExecutor(1) as pool:
        with client.in_flight.slot():
            waiting = pool.submit(within, scope, lambda: list(client.stream(HELLO)))
            eventually(lambda: client.in_flight.waiting == 1, "it waits")
            account.pay_ahead(turn_of(openai(Streams(whole("a"))).stream(HELLO)).usage)
        error = waiting.exception(WAIT)

    assert isinstance(error, BudgetExceeded)


# Real sockets


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def framed(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def at(address: str, **options: Any) -> OpenAI:
    return OpenAI("m", api_key="k", base_url=address, attempts=1, **options)


def test_a_cancel_wakes_a_stream_that_waits_for_bytes() -> None:
    scope = Scope(None, time.monotonic)
    shown = threading.Event()

    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        connection.sendall(HEAD + framed(says("Hi")))
        over.wait(30)

    def read(client: HttpModel) -> None:
        for piece in client.stream(HELLO):
            if isinstance(piece, TextPiece):
                shown.set()

    with speaking(script) as address, at(address) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(within, scope, lambda: read(client))
        assert shown.wait(10)
        scope.cancel()
        error = waiting.exception(timeout=5)
        assert client.in_flight.taken == 0

    assert isinstance(error, RunCancelled)


def test_closing_a_stream_hangs_up() -> None:
    hung_up = threading.Event()

    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        connection.sendall(HEAD + framed(says("Hi")))
        connection.settimeout(10)
        if connection.recv(1) == b"":
            hung_up.set()

    with speaking(script) as address, at(address) as client:
        stream = client.stream(HELLO)
        assert next(stream) == TextPiece("Hi")
        stream.close()
        assert hung_up.wait(10)


def test_a_silent_server_is_given_up() -> None:
    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        connection.sendall(HEAD + framed(says("Hi")))
        over.wait(30)

    with speaking(script) as address, at(address, idle_timeout=0.2) as client:
        text, error = failing(client.stream(HELLO))

    assert (text, type(error)) == ("Hi", ProviderTimeout)
    assert "sent nothing for 0.2 s" in str(error)


def test_a_stream_that_drips_ends_with_the_time_of_its_attempt() -> None:
    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        connection.sendall(HEAD)
        while not over.wait(0.05):
            connection.sendall(framed(b": ping\n\n"))

    with speaking(script) as address, at(address, timeout=1.0, idle_timeout=0.9) as client:
        _, error = failing(client.stream(HELLO))

    assert type(error) is ProviderTimeout
    assert "did not finish its answer within 1 s" in str(error)


@pytest.mark.parametrize("end", [b"0\r\n\r\n", b""], ids=["ends its body", "keeps it open"])
def test_a_connection_is_used_again_if_the_body_ends_with_the_stream(end: bytes) -> None:
    connections: list[int] = []

    def script(connection: socket.socket, over: threading.Event) -> None:
        connections.append(1)
        while not over.is_set():
            read_request(connection)
            connection.sendall(HEAD + framed(says("Hi") + END + DONE) + end)

    with speaking(script) as address, at(address) as client:
        for _ in range(3):
            assert turn_of(client.stream(HELLO)).text == "Hi"

    assert len(connections) == (1 if end else 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_that_closes_a_stream_leaves_it_to_its_parent() -> None:
    forked = threading.Event()

    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        connection.sendall(HEAD + framed(says("Hi")))
        assert forked.wait(10)
        connection.sendall(framed(says(" there") + END + DONE) + b"0\r\n\r\n")

    with speaking(script) as address, at(address, max_in_flight=1) as client:
        stream = client.stream(HELLO)
        begun = next(stream)

        def close() -> None:
            stream.close()
            assert client.in_flight.taken == 0

        in_child(close)
        assert client.in_flight.taken == 1
        forked.set()
        assert turn_of(chain([begun], stream)).text == "Hi there"


def test_a_header_that_drips_counts_as_waiting_for_the_first_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_attempt, "FIRST_BYTE_TIMEOUT", 0.3)

    def script(connection: socket.socket, over: threading.Event) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
        while not over.wait(0.05):
            connection.sendall(b"y")

    with speaking(script) as address, at(address, idle_timeout=0.2) as client:
        _, error = failing(client.stream(HELLO))

    assert "did not begin its answer within 0.3 s" in str(error)
    assert error.retryable


# Faults of the replay server

CASE = "anthropic-msgs-text-stream-b"


def faulty(server: str, faults: str, **options: Any) -> tuple[Anthropic, FakeTime]:
    clock = FakeTime()
    base = f"{server}/~{faults},run={threading.get_ident()}{time.monotonic_ns()}/{CASE}"
    return Anthropic("claude", api_key="k", base_url=base, timing=clock.timing(), **options), clock


@pytest.mark.parametrize("faults", ["chunk=1", "chunk=7", "chunk=100,delay=1", "fail_first=2", "fail_first=2,status=0"])
def test_faults_before_the_first_piece_are_survived(server: str, faults: str) -> None:
    client, _ = faulty(server, faults)
    with client:
        assert turn_of(client.stream(HELLO)).text == "- Captain\n- Scoop"


@pytest.mark.parametrize("fault", ["drop", "truncate"])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6, 0.8, 0.99])
def test_a_stream_that_is_cut_off_gives_no_piece_twice(server: str, fault: str, share: float) -> None:
    body = next(case.body for case in stream_cases() if case.name == CASE)
    first_text = body.index(b"\n\n", body.index(b"text_delta"))
    cut = int(len(body) * share)
    client, clock = faulty(server, f"{fault}={cut},times=1,chunk=16")
    words: list[str] = []
    error: ProviderError | None = None

    with client:
        try:
            words += [piece.text for piece in client.stream(HELLO) if isinstance(piece, TextPiece)]
        except ProviderError as raised:
            error = raised
        assert client.in_flight.taken == 0

    if error is None:  # nothing was shown when it was cut off
        assert "".join(words) == "- Captain\n- Scoop"
        assert clock.slept == [0.5]
    else:
        assert error.retryable  # by the run's token, not by the client
        assert error.partial is not None
        assert "- Captain\n- Scoop".startswith(error.partial.text)
        assert clock.slept == []
    assert (error is None) == (cut <= first_text)


@pytest.mark.parametrize("events", [0, 1, 2, 3, 5])
def test_an_error_event_is_tried_again_only_before_text(server: str, events: int) -> None:
    client, clock = faulty(server, f"inject={events},times=1")

    with client:
        try:
            text, error = turn_of(client.stream(HELLO)).text, None
        except ProviderError as raised:
            text, error = "", raised

    if error is None:
        assert (text, clock.slept) == ("- Captain\n- Scoop", [0.5])
    else:
        assert (error.type, error.status, error.retryable) == ("overloaded_error", 529, True)
        assert error.partial is not None
        assert error.partial.text
    assert (error is not None) == (events == 5)


def test_a_wrong_key_of_a_stream_is_told(server: str) -> None:
    client, _ = faulty(server, "fail_first=1,status=401")

    with client, pytest.raises(AuthenticationError):
        list(client.stream(HELLO))
