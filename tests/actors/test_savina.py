"""Programs of the Savina suite run to their end: thousands of messages, each sent at the one before it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench import savina, savina_streams
from bench.programs import bare_actors, own_actors
from bench.savina import Start


@pytest.fixture(params=[own_actors, bare_actors], ids=["understudy", "Pykka"])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    with request.param() as start:
        yield start


def test_each_ping_is_answered(start: Start) -> None:
    assert savina.ping_pong(start, 1_500).play() == [1_500]


def test_a_token_goes_around_in_a_ring(start: Start) -> None:
    assert savina.thread_ring(start, 20, 3_007).play() == [3_007 % 20]


def test_actors_that_write_to_any_others_have_all_their_answers(start: Start) -> None:
    assert savina.big(start, 8, 300).play() == [300] * 8


def test_philosophers_eat_as_often_as_they_are_to(start: Start) -> None:
    assert savina.philosophers(start, 5, 400).play() == [(5 * 400, True)]


def test_a_counter_counts_what_another_actor_sends(start: Start) -> None:
    assert savina_streams.counting(start, 3_000).play() == [3_000]


def test_transfers_between_accounts_lose_no_money(start: Start) -> None:
    balances = savina_streams.bank(start, 8, 1_000).play()

    assert all(isinstance(balance, int) for balance in balances)
    assert sum(balance for balance in balances if isinstance(balance, int)) == 0
    assert any(balances)


def test_workers_have_all_their_messages(start: Start) -> None:
    assert savina_streams.fork_join(start, 8, 300).play() == [299] * 8


def test_actors_made_for_one_message_have_it(start: Start) -> None:
    ends = savina_streams.creation(start, 60).play()

    assert sorted(str(end) for end in ends) == sorted(str(number) for number in range(60))
