"""The limit of calls in flight: held, fair, left at once by whoever has no time, and never leaked."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from concurrent.futures import Future

import httpx
import pytest

from tests.hosts.forking import in_child
from tests.support.http import EVERYWHERE, HEAD, HELLO, REPLY, Answers, FakeTime, pool, read_request, speaking, within
from tests.support.scripts import WAIT, eventually
from understudy.errors import ProviderError, ProviderTimeout, RunCancelled, RunTimedOut, UnderstudyError
from understudy.providers import Anthropic, Gemini, OpenAI, Timing, Vertex
from understudy.providers.http.in_flight import InFlight
from understudy.vocabulary.context.scope import Scope, current_scope


class Busy:
    """What a server does whose answers wait for a gate; counts what it works on at once, and its connections."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.connections = 0
        self.served = 0
        self.now = 0
        self.most = 0
        self._lock = threading.Lock()

    def __call__(self, connection: socket.socket, over: threading.Event) -> None:
        with self._lock:
            self.connections += 1
        while read_request(connection):
            with self._lock:
                self.served += 1
                self.now += 1
                self.most = max(self.most, self.now)
            self.gate.wait(WAIT)
            with self._lock:
                self.now -= 1
            connection.sendall(HEAD + REPLY)


def model(address: str, most: int) -> OpenAI:
    return OpenAI("m", api_key="k", base_url=address, attempts=1, max_in_flight=most)


def take(limit: InFlight) -> str:
    with limit.slot():
        return "had a slot"


# --- the limit


def test_no_more_calls_are_in_flight_than_allowed_and_all_are_answered() -> None:
    server = Busy()
    with speaking(server) as address, model(address, 5) as client, pool(50) as threads:
        asked = [threads.submit(client.complete, HELLO) for _ in range(50)]
        eventually(lambda: (server.now, client.in_flight.waiting) == (5, 45), "five calls are served and the rest wait")
        server.gate.set()
        texts = [turn.result(WAIT).text for turn in asked]

    assert texts == ["Hi."] * 50
    assert (server.most, server.served) == (5, 50)
    assert (client.in_flight.taken, client.in_flight.waiting) == (0, 0)


def test_two_hundred_threads_open_one_connection_each_and_use_it_again() -> None:
    server = Busy()
    with speaking(server) as address, model(address, 200) as client, pool(200) as threads:
        first = [threads.submit(client.complete, HELLO) for _ in range(200)]
        eventually(lambda: server.now == 200, "two hundred calls are served at once")
        server.gate.set()
        texts = [turn.result(WAIT).text for turn in first]
        second = [threads.submit(client.complete, HELLO) for _ in range(200)]
        texts += [turn.result(WAIT).text for turn in second]

    assert texts == ["Hi."] * 400
    assert server.connections == 200


def test_slots_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    limit, order = InFlight(1), list[int]()

    def work(number: int) -> None:
        with limit.slot():
            order.append(number)

    with pool(10) as threads:
        with limit.slot():
            waiting: list[Future[None]] = []
            for number in range(10):
                waiting.append(threads.submit(work, number))
                eventually(lambda: limit.waiting == number + 1, "it waits")  # noqa: B023 (called in this turn)
        for each in waiting:
            each.result(WAIT)

    assert order == list(range(10))


# --- waiting


@pytest.mark.parametrize("through_parent", [False, True])
def test_a_waiter_that_is_cancelled_leaves_at_once_without_a_slot(through_parent: bool) -> None:
    limit, parent = InFlight(1), Scope(None, time.monotonic)
    scope = Scope(None, time.monotonic, parent=parent)

    with pool(1) as threads, limit.slot():
        waiter = threads.submit(within, scope, lambda: take(limit))
        eventually(lambda: limit.waiting == 1, "it waits")
        (parent if through_parent else scope).cancel()
        error = waiter.exception(WAIT)  # while the only slot is still held

        assert isinstance(error, RunCancelled)
        assert (limit.taken, limit.waiting) == (1, 0)
    assert limit.taken == 0


def test_a_call_that_is_cancelled_while_it_waits_sends_nothing() -> None:
    server, scope = Busy(), Scope(None, time.monotonic)
    with speaking(server) as address, model(address, 1) as client, pool(2) as threads:
        first = threads.submit(client.complete, HELLO)
        eventually(lambda: server.now == 1, "the first call is served")
        second = threads.submit(within, scope, lambda: client.complete(HELLO))
        eventually(lambda: client.in_flight.waiting == 1, "the second one waits")
        scope.cancel()
        error = second.exception(WAIT)
        server.gate.set()

        assert isinstance(error, RunCancelled)
        assert first.result(WAIT).text == "Hi."
    assert server.served == 1


def test_a_waiter_whose_deadline_passes_leaves_without_a_slot() -> None:
    limit = InFlight(2)

    with limit.slot(), limit.slot():
        with pytest.raises(RunTimedOut, match="all 2 calls that may be in flight"):
            within(Scope(time.monotonic() + 0.05, time.monotonic), lambda: take(limit))

        assert (limit.taken, limit.waiting) == (2, 0)


def test_a_scope_without_time_left_waits_for_nothing_and_one_with_time_gets_its_slot() -> None:
    limit = InFlight(1)

    with limit.slot(), pytest.raises(RunTimedOut):
        within(Scope(1.0, lambda: 2.0), lambda: take(limit))

    with pool(1) as threads:
        with limit.slot():
            waiter = threads.submit(within, Scope(time.monotonic() + WAIT, time.monotonic), lambda: take(limit))
            eventually(lambda: limit.waiting == 1, "it waits")
        assert waiter.result(WAIT) == "had a slot"


def test_a_slot_that_comes_to_one_who_gives_up_goes_to_the_next() -> None:
    limit = InFlight(1)
    held = limit.slot()
    held.__enter__()

    class TooLate(Scope):
        def check(self) -> None:
            held.__exit__(None, None, None)  # the slot comes while the waiter is about to leave
            raise RunCancelled("gone")

    with pytest.raises(RunCancelled, match="gone"):
        within(TooLate(None, time.monotonic), lambda: take(limit))

    assert (limit.taken, limit.waiting) == (0, 0)
    assert take(limit) == "had a slot"


def test_a_waiter_leaves_nothing_behind_with_its_scope() -> None:
    limit, scope = InFlight(1), Scope(time.monotonic() + 0.02, time.monotonic)

    with limit.slot(), pytest.raises(RunTimedOut):
        within(scope, lambda: take(limit))

    assert scope._callbacks == {}  # pyright: ignore[reportPrivateUsage]  # a leak shows nowhere else


# --- given back


@pytest.mark.parametrize("name", sorted(EVERYWHERE))
@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(401),
        httpx.Response(200, content=b"no JSON"),
        httpx.ConnectError("no way"),
        httpx.ReadTimeout("slow"),
        RuntimeError("a transport of the user's"),
    ],
    ids=["500", "401", "garbage", "refused", "slow", "broken"],
)
def test_a_slot_is_free_again_after_an_error(name: str, answer: httpx.Response | Exception) -> None:
    client = EVERYWHERE[name](Answers(answer), "k")

    with pytest.raises((ProviderError, RuntimeError)):
        client.complete(HELLO)

    assert client.in_flight.taken == 0


def test_a_slot_is_free_again_after_an_attempt_that_was_cancelled() -> None:
    server, scope = Busy(), Scope(None, time.monotonic)
    with speaking(server) as address, model(address, 1) as client, pool(1) as threads:
        asked = threads.submit(within, scope, lambda: client.complete(HELLO))
        eventually(lambda: server.now == 1, "the call is served")
        scope.cancel()
        error = asked.exception(WAIT)
        server.gate.set()

        assert isinstance(error, RunCancelled)
        assert client.in_flight.taken == 0
        assert client.complete(HELLO).text == "Hi."


def test_no_slot_is_held_while_backing_off_or_looking_for_a_key() -> None:
    held: dict[str, list[int]] = {"sleep": [], "key": [], "transport": []}

    def key() -> str:
        held["key"].append(client.in_flight.taken)
        return "k"

    def answer(_: httpx.Request) -> httpx.Response:
        held["transport"].append(client.in_flight.taken)
        return httpx.Response([503, 401, 200][len(held["transport"]) - 1], content=REPLY)

    timing = Timing(sleep=lambda _: held["sleep"].append(client.in_flight.taken))
    client = OpenAI("m", api_key=key, transport=httpx.MockTransport(answer), timing=timing, max_in_flight=1)

    assert client.complete(HELLO).text == "Hi."
    assert held == {"sleep": [0], "key": [0, 0, 0], "transport": [1, 1, 1]}


def test_two_hundred_calls_that_end_in_every_way_leave_no_slot_taken() -> None:
    chance, lock = random.Random(7), threading.Lock()
    most = [0]
    ends: list[str] = []

    def answer(_: httpx.Request) -> httpx.Response:
        with lock:
            most[0] = max(most[0], client.in_flight.taken)
            end = chance.choice(["fine", "500", "garbage", "refused", "cancelled"])
        scope = current_scope()
        assert scope is not None
        if end == "cancelled":
            scope.cancel()
        if end in ("cancelled", "refused"):
            raise httpx.ConnectError(end)
        return httpx.Response(500 if end == "500" else 200, content=b"?" if end == "garbage" else REPLY)

    client = OpenAI("m", api_key="k", transport=httpx.MockTransport(answer), attempts=1, max_in_flight=3)

    def call(left: float | None, cancelled: bool) -> None:
        scope = Scope(None if left is None else time.monotonic() + left, time.monotonic)
        if cancelled:
            scope.cancel()
        try:
            within(scope, lambda: client.complete(HELLO))
        except (UnderstudyError, httpx.HTTPError) as error:
            ends.append(type(error).__name__)
        else:
            ends.append("fine")

    with pool(20) as threads:
        calls = [
            threads.submit(call, chance.choice([None, 0.0, 0.001, WAIT]), chance.random() < 0.1) for _ in range(200)
        ]
        for each in calls:
            each.result(WAIT)

    assert (client.in_flight.taken, client.in_flight.waiting) == (0, 0)
    assert 1 <= most[0] <= 3
    assert {"fine", "ProviderError", "BadReply", "RunCancelled", "RunTimedOut"} <= set(ends)
    assert len(ends) == 200


# --- whose limit it is


@pytest.mark.parametrize("make", [OpenAI, Anthropic, Gemini, Vertex])
def test_the_limit_is_a_number_of_at_least_one(make: type[OpenAI]) -> None:
    assert make("m").in_flight.most == 256
    assert make("m", max_in_flight=3).in_flight.most == 3
    with pytest.raises(ValueError, match="max_in_flight must be at least 1"):
        make("m", max_in_flight=0)
    with pytest.raises(TypeError, match="max_in_flight must be a whole number"):
        make("m", max_in_flight=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a caller's mistake


# --- forks


def test_slots_that_are_held_at_a_fork_are_the_parents() -> None:
    limit = InFlight(1)

    with limit.slot():
        limit.start_afresh()
        assert limit.taken == 0

    assert limit.taken == 0  # what the child never took it does not give back
    assert take(limit) == "had a slot"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_the_calls_of_its_parent() -> None:
    client = OpenAI("m", api_key="k", transport=Answers(httpx.Response(200, content=REPLY)), max_in_flight=1)

    with client.in_flight.slot():
        in_child(lambda: within(Scope(time.monotonic() + WAIT, time.monotonic), lambda: client.complete(HELLO)))

    assert client.in_flight.taken == 0


@pytest.mark.parametrize("clock", [None, FakeTime()], ids=["real", "stands still"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_outside_of_a_run_waits_for_a_slot_no_longer_than_it_may_take(
    clock: FakeTime | None, streamed: bool
) -> None:
    answers = Answers(httpx.Response(200, content=REPLY))
    timing = Timing() if clock is None else clock.timing()
    client = OpenAI("m", api_key="k", transport=answers, timing=timing, max_in_flight=1, model_timeout=0.05)
    ask = (lambda: list(client.stream(HELLO))) if streamed else (lambda: client.complete(HELLO))

    with pool(1) as threads, client.in_flight.slot():
        error = threads.submit(ask).exception(WAIT)

        assert isinstance(error, ProviderTimeout), error
        assert "all 1 calls that may be in flight" in str(error)
        assert (client.in_flight.taken, client.in_flight.waiting) == (1, 0)
    assert answers.requests == []


def test_an_attempt_after_a_wait_for_a_slot_has_only_what_is_left_of_the_call() -> None:
    clock = FakeTime()
    answers = Answers(httpx.Response(200, content=REPLY))
    client = OpenAI(
        "m", api_key="k", transport=answers, timing=clock.timing(), max_in_flight=1, timeout=60.0, model_timeout=100.0
    )

    with pool(1) as threads:
        with client.in_flight.slot():
            asked = threads.submit(client.complete, HELLO)
            eventually(lambda: client.in_flight.waiting == 1, "it waits")
            clock.now += 70.0
        assert asked.result(WAIT).text == "Hi."

    assert answers.requests[0].extensions["timeout"]["read"] == 30.0


def test_time_that_was_waited_for_a_slot_is_not_taken_from_the_attempt() -> None:
    clock = FakeTime()
    answers = Answers(httpx.Response(200, content=REPLY))
    client = OpenAI("m", api_key="k", timeout=7.0, transport=answers, timing=clock.timing(), max_in_flight=1)

    with pool(1) as threads:
        with client.in_flight.slot():
            asked = threads.submit(client.complete, HELLO)
            eventually(lambda: client.in_flight.waiting == 1, "it waits")
            clock.now += 100.0
        assert asked.result(WAIT).text == "Hi."

    assert answers.requests[0].extensions["timeout"]["read"] == 7.0
