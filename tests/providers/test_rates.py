"""The limits of one key as a machine: when a request may go, and what answers and refusals change."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.limited_servers import Server, by_chance, by_the_bucket, by_the_window, play
from understudy.providers.http.limits.bucket import per_minute
from understudy.providers.http.limits.rates import LONGEST_STOP, RETRIES, Rates, Sent
from understudy.providers.http.limits.told import Told, told_by

NOW = 1_000.0
NOTHING: dict[str, Told] = {}


def sent_at(rates: Rates, now: float, size: int = 400) -> Sent:
    """Send a request, whatever the limits say."""
    sent = Sent(size)
    rates.send(sent, now)
    return sent


def sent_by(rates: Rates, now: float, size: int = 400) -> int:
    """Send what may be sent now, at most 1,000 requests, without an answer; return how many."""
    sent = 0
    while sent < 1_000 and rates.admits(Sent(size), now):
        sent += 1
    return sent


# --- the user's limits


@given(
    most=st.integers(1, 300),
    gaps=st.lists(st.floats(0, 30), max_size=60),
)
def test_no_minute_has_more_requests_than_the_user_allows(most: int, gaps: list[float]) -> None:
    bucket, now, sent = per_minute(most, NOW), NOW, list[float]()
    for gap in [*gaps, 0.0]:
        now += gap
        while bucket.wait(now, 1.0) == 0.0:
            bucket.take(now, 1.0)
            sent.append(now)

    assert all(len([each for each in sent if begin <= each < begin + 60]) <= most for begin in sent)


def test_requests_of_the_user_are_spread_over_the_minute_behind_the_first_tenth() -> None:
    rates = Rates()
    rates.set_limits(60, None, NOW)

    assert sent_by(rates, NOW) == 6
    assert rates.wait(NOW, 400) == pytest.approx(60 / 55)
    assert sent_by(rates, NOW + 60) == 6


def test_tokens_are_estimated_by_the_length_of_a_request_and_put_right_by_its_answer() -> None:
    rates = Rates()
    rates.set_limits(None, 6_000, NOW)  # 600 at once, and then 90 a second

    sent = sent_at(rates, NOW, 400)  # taken for 100 tokens
    rates.succeeded(sent, NOW, 1_050, NOTHING)

    assert rates.wait(NOW, 0) == pytest.approx(450 / 90, rel=0.01)
    assert rates.wait(NOW, 400) > 550 / 90  # requests of this length are expected to need more than they were


def test_a_request_that_is_larger_than_all_tokens_waits_until_all_are_there_and_goes_then() -> None:
    rates = Rates()
    rates.set_limits(None, 600, NOW)

    assert rates.wait(NOW, 1_000_000) == 0.0
    sent_at(rates, NOW, 1_000_000)
    assert rates.wait(NOW + 60, 4) > 60


# --- refusals


def test_a_refusal_stops_every_request_until_the_named_time_and_then_lets_in_one_after_the_other() -> None:
    rates = Rates()
    first, *others = [sent_at(rates, NOW, 400) for _ in range(10)]
    for each in others:
        rates.succeeded(each, NOW + 0.1, None, NOTHING)

    rates.refused(first, NOW + 0.2, 7.0, NOTHING)

    assert rates.wait(NOW + 0.2, 400) == pytest.approx(7.0)
    assert rates.stopped_until == NOW + 7.2
    assert sent_by(rates, NOW + 7.2) == 1
    assert rates.wait(NOW + 7.2, 400) == pytest.approx(7.2 / 9 / 0.9)  # nine were answered in this time


def test_the_other_requests_of_a_herd_do_not_slow_it_down_further_and_keep_their_retries() -> None:
    rates = Rates()
    herd = [sent_at(rates, NOW, 400) for _ in range(50)]
    retried = 0
    paces: set[float | None] = set()
    for each in herd:
        rates.refused(each, NOW + 0.1, 5.0, NOTHING)
        paces.add(rates.pace)
        retried += rates.take_retry()

    assert (len(paces), retried) == (1, 50)
    assert rates.retries >= RETRIES - 2


def test_a_wait_of_hours_is_kept_for_two_minutes_and_then_one_request_looks() -> None:
    rates = Rates()
    rates.refused(sent_at(rates, NOW, 400), NOW, 7_200.0, NOTHING)

    assert rates.wait(NOW, 400) == LONGEST_STOP
    assert sent_by(rates, NOW + LONGEST_STOP) == 1


def test_without_a_named_wait_the_stops_grow_until_an_answer_comes() -> None:
    rates, now, stops = Rates(), NOW, list[float]()
    for _ in range(6):
        now += 100.0
        rates.refused(sent_at(rates, now, 400), now, None, NOTHING)
        stops.append(rates.stopped_until - now)
    rates.succeeded(sent_at(rates, now + 100, 400), now + 100, None, NOTHING)
    rates.refused(sent_at(rates, now + 200, 400), now + 200, None, NOTHING)

    assert stops == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert rates.stopped_until - (now + 200) == 0.5


def test_a_pace_is_forgotten_after_enough_answers() -> None:
    rates, now = Rates(), NOW
    rates.refused(sent_at(rates, now, 400), now, 1.0, NOTHING)
    assert rates.pace is not None
    for _ in range(300):
        now += 10.0
        rates.succeeded(sent_at(rates, now, 400), now, None, NOTHING)

    assert rates.pace is None
    assert sent_by(rates, now) == 1_000


# --- retries


def test_failures_take_retries_until_none_is_left_and_five_successes_give_one_back() -> None:
    rates = Rates()
    taken = sum(rates.take_retry() for _ in range(1_000))
    for _ in range(6):
        rates.succeeded(sent_at(rates, NOW, 400), NOW, None, NOTHING)

    assert taken == RETRIES
    assert [rates.take_retry(), rates.take_retry()] == [True, False]


# --- what answers tell


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, {}),
        (
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-limit-tokens": "150000",
                "x-ratelimit-remaining-tokens": "149984",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            {"requests": Told(60.0, 59.0, 1.0), "tokens": Told(150_000.0, 149_984.0, 360.0)},
        ),
        (
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2m59.56s"},
            {"requests": Told(None, 0.0, 179.56)},
        ),
        (
            {"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "12ms"},
            {"tokens": Told(None, 5.0, 0.012)},
        ),
        (
            {
                "anthropic-ratelimit-input-tokens-limit": "50000",
                "anthropic-ratelimit-input-tokens-remaining": "49000",
                "anthropic-ratelimit-input-tokens-reset": "2026-01-01T00:00:03Z",
                "anthropic-ratelimit-output-tokens-remaining": "8000",
                "anthropic-ratelimit-output-tokens-reset": "2025-12-31T23:59:00Z",
            },
            {"input tokens": Told(50_000.0, 49_000.0, 3.0), "output tokens": Told(None, 8_000.0, 0.0)},
        ),
        ({"x-ratelimit-remaining-requests": "-1"}, {}),
        ({"x-ratelimit-remaining-requests": "many", "x-ratelimit-reset-requests": "1s"}, {}),
        (
            {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "soon"},
            {"requests": Told(None, 3.0, None)},
        ),
        (
            {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "9" * 400 + "s"},
            {"requests": Told(None, 3.0, None)},
        ),
        (
            {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "2026-01-01T00:00:03"},
            {"requests": Told(None, 3.0, None)},  # without a zone nobody knows when that is
        ),
        ({"x-ratelimit-remaining-requests": "1" * 41}, {}),
        (
            {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "1" * 40 + "s"},
            {"requests": Told(None, 3.0, None)},
        ),
        (
            {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "1s and 2s"},
            {"requests": Told(None, 3.0, None)},
        ),
        (
            {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "1e400"},
            {"requests": Told(None, 3.0, None)},
        ),
    ],
)
def test_headers_say_what_is_left_and_what_cannot_be_read_is_left_out(
    headers: dict[str, str], expected: dict[str, Told]
) -> None:
    midnight = 1_767_225_600.0  # 2026-01-01T00:00:00Z

    assert told_by(headers, lambda: midnight) == expected


@pytest.mark.parametrize("word", ["1" * 60_000, "1." * 30_000, "1s" * 30_000 + "x"])
def test_a_long_header_takes_no_time_to_read(word: str) -> None:
    began = time.process_time()
    told_by({"x-ratelimit-remaining-requests": word, "x-ratelimit-reset-requests": word}, lambda: 0.0)
    told_by({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": word}, lambda: 0.0)

    assert time.process_time() - began < 0.5  # a search that begins again at each digit takes minutes


@pytest.mark.parametrize(
    ("told", "sent", "wait"),
    [
        ({"requests": Told(10.0, 3.0, 7.0)}, 3, 1.0),  # seven come back in seven seconds
        ({"requests": Told(10.0, 0.0, 60.0)}, 0, 6.0),
        ({"requests": Told(None, 0.0, 60.0)}, 0, 60.0),
        ({"tokens": Told(1_000.0, 250.0, 75.0)}, 2, 5.0),  # requests of 400 bytes are taken for 100 tokens
        ({"output tokens": Told(1_000.0, 0.0, 100.0)}, 0, 0.1),
        ({"requests": Told(10.0, 0.0, None)}, 1_000, 0.0),  # it does not say when there will be more
        ({"requests": Told(10.0, 0.0, 0.0)}, 1_000, 0.0),
    ],
)
def test_no_more_is_sent_than_an_answer_says_is_left(told: dict[str, Told], sent: int, wait: float) -> None:
    rates = Rates()
    rates.succeeded(sent_at(rates, NOW, 400), NOW, None, told)

    assert sent_by(rates, NOW) == sent
    assert rates.wait(NOW, 400) == pytest.approx(wait)


@pytest.mark.parametrize("reset", [3_600.0, 1_767_225_600.0, 2.5e11, 1e308])
def test_a_limit_that_is_told_for_long_is_kept_for_two_minutes_and_then_one_request_looks(reset: float) -> None:
    rates, told = Rates(), {"requests": Told(None, 0.0, reset)}
    rates.succeeded(sent_at(rates, NOW), NOW, None, told)
    later = NOW + LONGEST_STOP

    assert (rates.wait(NOW, 400), sent_by(rates, later - 1)) == (LONGEST_STOP, 0)
    look = Sent(400)
    assert (rates.admits(look, later), rates.wait(later, 400)) == (True, LONGEST_STOP)
    rates.gave_up(look)  # nothing was learned, so the next one looks two minutes later
    assert (sent_by(rates, later + LONGEST_STOP - 1), sent_by(rates, later + LONGEST_STOP)) == (0, 1)
    rates.succeeded(look, later + LONGEST_STOP, None, {"requests": Told(10.0, 10.0, 1.0)})
    assert sent_by(rates, later + LONGEST_STOP) > 1


def test_requests_under_way_count_as_not_seen_by_the_provider_yet() -> None:
    rates = Rates()
    first, *_ = [sent_at(rates, NOW, 400) for _ in range(4)]
    rates.succeeded(first, NOW, None, {"requests": Told(10.0, 5.0, 60.0)})

    assert sent_by(rates, NOW) == 2


def test_an_answer_that_says_nothing_more_ends_what_the_ones_before_said() -> None:
    rates = Rates()
    rates.succeeded(sent_at(rates, NOW, 400), NOW, None, {"requests": Told(10.0, 1.0, 60.0)})
    rates.succeeded(sent_at(rates, NOW, 400), NOW, None, NOTHING)

    assert sent_by(rates, NOW) == 1_000


# --- with servers


@pytest.mark.parametrize("latency", [0.02, 3.0])
@pytest.mark.parametrize(
    ("server", "per_second", "share"),
    [
        (lambda: by_the_window(60, 60.0), 1.0, 1.25),
        (lambda: by_the_window(10, 60.0), 10 / 60, 1.25),
        (lambda: by_the_window(10, 60.0, names_wait=False), 10 / 60, 1.3),
        (lambda: by_the_bucket(60, 60.0), 1.0, 1.2),
        (lambda: by_the_bucket(5, 60.0), 5 / 60, 1.3),
        (lambda: by_the_bucket(60, 60.0, tells=True), 1.0, 1.0),
    ],
    ids=["window", "narrow", "says no wait", "bucket", "small", "tells"],
)
def test_fifty_callers_finish_nearly_as_fast_as_the_server_allows_and_few_requests_are_refused(
    server: Callable[[], Server], per_second: float, share: float, latency: float
) -> None:
    played = play(Rates(), server(), callers=50, calls=10, latency=latency)

    assert played.answered == 500
    assert played.requests <= 500 * share  # with the forty of the first moment, when nobody knew of a limit
    assert played.seconds <= 500 / per_second * 1.2
    assert played.most_at_once <= 1


@pytest.mark.parametrize("share", [0.05, 0.12, 0.2])
def test_refusals_by_chance_do_not_slow_requests_down_without_end(share: float) -> None:
    played = play(Rates(), by_chance(share, 1.0), callers=16, calls=10, latency=0.02)

    refused = played.requests - played.answered
    assert played.answered == 160
    assert played.seconds <= 160 / 0.75 + refused * 2.0 + 5  # three quarters of a request in the wait that is named
