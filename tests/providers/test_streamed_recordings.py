"""Every recorded stream: cut anywhere it gives the turn that the same answer gives when it comes whole."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.providers.test_wire_recordings import normalised
from tests.support import wire
from tests.support.clients import client
from tests.support.cuts import check_cuts
from tests.support.http import HELLO
from tests.support.wire import obj
from tests.support.wire_streams import StreamCase, read, reader_of, stream_cases, turn_of
from understudy.errors import ProviderError, RateLimited
from understudy.orchestration.streaming.turn_assembler import TurnAssembler
from understudy.vocabulary.messages import ModelTurn
from understudy.vocabulary.pieces import TurnEnd, is_visible

CASES = stream_cases()
ANSWERED = [case for case in CASES if case.expected["error"] is None]
SHORT = 3_000
"""Bytes of a body, or of an event, that is cut at each of its bytes."""

pytestmark = pytest.mark.skipif(not wire.FOLDER.is_dir(), reason=wire.MISSING)
each_answer = pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case.name)


def test_there_are_30_recorded_streams() -> None:
    assert (len(CASES), len(ANSWERED)) == (30, 27)


@each_answer
def test_a_stream_gives_the_turn_of_the_whole_answer_and_of_the_official_library(case: StreamCase) -> None:
    turn = turn_of(case.api, case.body)

    assert turn == case.turn
    assert turn.usage.raw == case.turn.usage.raw
    assert normalised(case, turn) == case.expected


@each_answer
def test_a_stream_that_comes_byte_by_byte_gives_the_same_turn(case: StreamCase) -> None:
    assert turn_of(case.api, *[case.body[i : i + 1] for i in range(len(case.body))]) == case.turn


@pytest.mark.parametrize("case", [case for case in ANSWERED if len(case.body) <= SHORT], ids=lambda case: case.name)
def test_a_stream_cut_in_two_anywhere_gives_the_same_turn(case: StreamCase) -> None:
    for cut in range(len(case.body)):
        assert turn_of(case.api, case.body[:cut], case.body[cut:]) == case.turn


@each_answer
def test_a_cut_inside_of_an_event_changes_neither_events_nor_state(case: StreamCase) -> None:
    """Of the long streams, too: a reader sees events and no bytes. `test_every_cut.py` has the cuts that are left out here."""
    check_cuts(case.body, near_the_ends)


def near_the_ends(size: int) -> Iterable[int]:
    """Return the cuts of an event; of a long one those near its ends."""
    return range(size) if size <= SHORT else (*range(100), *range(size - 100, size))


@each_answer
def test_a_stream_cut_at_random_places_gives_the_same_turn(case: StreamCase) -> None:
    chance = random.Random(7)
    for _ in range(10):
        cuts = sorted(chance.choices(range(len(case.body)), k=chance.randrange(1, 200)))
        chunks = [case.body[begin:end] for begin, end in pairwise([0, *cuts, len(case.body)])]
        assert turn_of(case.api, *chunks) == case.turn


@each_answer
def test_a_client_streams_over_http_what_the_library_of_the_provider_reads(case: StreamCase, server: str) -> None:
    assembler = TurnAssembler()
    with client(case, server) as model:
        for piece in model.stream(HELLO):
            assembler.add(piece)
        assert model.in_flight.taken == 0

    turn = assembler.turn()
    assert turn == replace(case.turn, request_id=case.request_id, dialect=turn.dialect)
    assert turn.dialect.partition("/")[0] == case.turn.dialect  # a compatible server has a dialect of its own
    asked = obj(wire.log_of(server)[-1]["body"])
    assert asked.get("stream") == case.request.get("stream")
    # The recorded version of Azure is older than the option.
    asks = case.path.endswith("/chat/completions") and case.provider != "azure-openai"
    assert ("stream_options" in asked) == asks


@pytest.mark.parametrize(
    "case", [case for case in ANSWERED if case.provider not in ("gemini", "vertex")], ids=lambda case: case.name
)
def test_what_follows_the_last_event_is_ignored(case: StreamCase) -> None:
    assert turn_of(case.api, case.body + case.body) == case.turn


def test_an_error_before_the_stream_is_read_as_json_whatever_its_type(server: str) -> None:
    case = next(case for case in CASES if case.name == "gemini-gen-error-404-stream-a")
    expected = obj(case.expected["error"])

    with client(case, server) as model, pytest.raises(ProviderError) as caught:
        list(model.stream(HELLO))

    assert (caught.value.status, caught.value.type) == (404, "NOT_FOUND")
    assert str(caught.value).startswith(f"{expected['message']} (the request went to {server}/")
    assert model.in_flight.taken == 0


def test_an_error_inside_the_stream_keeps_its_words_and_what_came_before(server: str) -> None:
    case = next(case for case in CASES if case.name == "groq-chat-sse-error-event-a")
    expected = obj(case.expected["error"])

    with client(case, server) as model, pytest.raises(ProviderError) as caught:
        list(model.stream(HELLO))

    assert (caught.value.type, caught.value.code) == (expected["type"], "tool_use_failed")
    assert (caught.value.status, str(caught.value)) == (400, expected["message"])
    assert caught.value.retryable  # the model's call was wrong, and not the request
    assert isinstance(caught.value.partial, ModelTurn)
    assert caught.value.partial.thinking == case.expected["thinking"]


def test_an_error_inside_a_stream_of_responses_is_that_of_its_code(server: str) -> None:
    case = next(case for case in CASES if case.name == "openai-resp-instream-error-a")
    expected = obj(case.expected["error"])

    with client(case, server) as model, pytest.raises(RateLimited) as caught:
        list(model.stream(HELLO))

    assert (caught.value.type, str(caught.value)) == (expected["type"], expected["message"])
    assert (caught.value.status, caught.value.retryable) == (429, False)
    assert model.in_flight.taken == 0


@each_answer
def test_most_of_a_stream_is_shown_before_its_end(case: StreamCase) -> None:
    pieces = list(read(reader_of(case.api), [case.body]))

    assert isinstance(pieces[-1], TurnEnd)
    assert sum(isinstance(piece, TurnEnd) for piece in pieces) == 1
    turn = case.turn
    assert any(is_visible(piece) for piece in pieces) == bool(turn.text or turn.thinking or turn.tool_calls)
