"""The limits of one key as a machine: when a request may go, and what answers and refusals change."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.limited_servers import Server, by_chance, by_the_bucket, by_the_last, by_the_window, once, play, said
from understudy.providers.http.limits.bucket import Bucket, per_minute
from understudy.providers.http.limits.rates import LONGEST_STOP, RETRIES, Rates, Sent
from understudy.providers.http.limits.told import Left, Told, left_by

NOW = 1_000.0


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


@given(
    now=st.floats(0, 1e9),
    rate=st.floats(1e-3, 1e12),
    capacity=st.floats(1, 1e9),
    level=st.floats(-1e3, 1),
)
def test_a_wait_ends_on_a_clock_that_only_waiting_moves(now: float, rate: float, capacity: float, level: float) -> None:
    bucket = Bucket(capacity=capacity, rate=rate, level=level, at=now)

    for _ in range(4):
        now += bucket.wait(now, 1.0)

    assert bucket.wait(now, 1.0) == 0.0


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
    rates.succeeded(sent, NOW, 1_050)

    assert rates.wait(NOW, 0) == pytest.approx(450 / 90, rel=0.01)
    assert rates.wait(NOW, 400) > 550 / 90  # requests of this length are expected to need more than they were


def test_a_request_that_is_larger_than_all_tokens_waits_until_all_are_there_and_goes_then() -> None:
    rates = Rates()
    rates.set_limits(None, 600, NOW)

    assert rates.wait(NOW, 1_000_000) == 0.0
    sent_at(rates, NOW, 1_000_000)
    assert rates.wait(NOW + 30, 4) > 60


@pytest.mark.parametrize("used", [10**7, 10**30, 10**400])
@pytest.mark.parametrize("tokens", [1, 30_000, None])
def test_an_answer_that_counts_too_many_tokens_holds_requests_back_for_two_minutes_at_most(
    used: int, tokens: int | None
) -> None:
    rates = Rates()
    rates.set_limits(None, tokens, NOW)
    rates.succeeded(sent_at(rates, NOW, 40), NOW, used)
    rates.set_limits(None, 30_000, NOW)

    now, waits = NOW, list[float]()
    for _ in range(5):
        waits.append(rates.wait(now, 40_000))
        now += waits[-1] + 1e-6
        sent = Sent(40_000)
        assert rates.admits(sent, now)
        assert rates.wait(now, 40_000) <= LONGEST_STOP + 7  # until a tenth of the minute's tokens is there again
        rates.succeeded(sent, now, 10_000)

    assert max(waits) <= LONGEST_STOP + 7
    assert waits[-1] == pytest.approx(10_000 / 450, rel=0.01)


def test_new_limits_give_back_nothing_that_was_used() -> None:
    rates = Rates()
    rates.set_limits(20, 6_000, NOW)

    for more in range(5):
        assert sent_by(rates, NOW) == (2 if more == 0 else 0)
        rates.set_limits(20 + 10 * more, 60_000 + more, NOW)

    assert rates.wait(NOW, 400) == pytest.approx(60 / 55)  # one of 60 a minute
    rates.set_limits(None, None, NOW)
    assert rates.wait(NOW, 400) == 0.0


def test_a_lower_limit_makes_nobody_wait_for_longer_than_an_answer_can() -> None:
    rates = Rates()
    rates.set_limits(None, 6_000_000, NOW)
    rates.succeeded(sent_at(rates, NOW, 400), NOW, 5_000_000)

    rates.set_limits(None, 600, NOW)

    assert LONGEST_STOP < rates.wait(NOW, 400) < LONGEST_STOP + 7


# --- refusals


def test_a_refusal_stops_every_request_until_the_named_time_and_then_lets_in_one_after_the_other() -> None:
    rates = Rates()
    first, *others = [sent_at(rates, NOW, 400) for _ in range(10)]
    for each in others:
        rates.succeeded(each, NOW + 0.1, None)

    rates.refused(first, NOW + 0.2, 7.0)

    assert rates.wait(NOW + 0.2, 400) == pytest.approx(7.0)
    assert rates.stopped_until == NOW + 7.2
    assert sent_by(rates, NOW + 7.2) == 1
    assert rates.wait(NOW + 7.2, 400) == pytest.approx(7.2 / 9 / 0.9)  # nine were answered in this time


def test_requests_under_way_at_a_refusal_count_as_taken_until_they_are_refused_too() -> None:
    rates = Rates()
    herd = [sent_at(rates, NOW, 400) for _ in range(50)]
    paces: list[float | None] = []
    retried = 0
    for each in herd[:30]:
        rates.refused(each, NOW + 0.1, 4.9)
        paces.append(rates.pace)
        retried += rates.take_retry()
    for each in herd[30:]:  # they were sent before, so they do not say that more than these may be sent
        rates.succeeded(each, NOW + 3.0, None)

    assert paces == pytest.approx([0.9 * (50 - refused) / 5.0 for refused in range(1, 31)])
    assert rates.pace == paces[-1]
    assert retried == 30
    assert rates.retries >= RETRIES - 2  # nobody knew of the limit when they were sent


def test_a_refusal_of_a_request_that_was_sent_before_the_time_that_was_measured_changes_nothing_but_the_wait() -> None:
    rates = Rates()
    old, first = sent_at(rates, NOW), sent_at(rates, NOW)
    rates.refused(first, NOW + 1.0, 1.0)
    paced = sent_at(rates, NOW + 2.0)
    rates.refused(paced, NOW + 3.0, 1.0)
    before = rates.pace

    rates.refused(old, NOW + 3.5, 7.0)

    assert rates.pace == before
    assert rates.wait(NOW + 4.0, 400) == pytest.approx(6.5)


def test_requests_sent_at_the_very_moment_of_a_refusal_were_under_way() -> None:
    rates = Rates()
    first, second = sent_at(rates, NOW), sent_at(rates, NOW)
    rates.refused(first, NOW, 1.0)
    rates.refused(second, NOW, 3.0)

    assert rates.pace == pytest.approx(0.9 / 3.0)  # one at most, and none before the longer wait is over


@given(
    events=st.lists(
        st.tuples(
            st.sampled_from(["send", "succeeded", "refused", "gave up"]),
            st.sampled_from([0.0, 0.001, 0.3, 7.0, 100.0]),
            st.sampled_from([None, 0.0, 0.001, 1.0, 60.0, 7_200.0]),
            st.integers(0, 20),
        ),
        max_size=60,
    )
)
def test_whatever_comes_a_request_may_go_after_the_time_that_it_is_told_to_wait(
    events: list[tuple[str, float, float | None, int]],
) -> None:
    rates, now, under_way = Rates(), NOW, list[Sent]()
    for what, seconds, wait, number in events:
        now += seconds
        if what == "send":
            now += rates.wait(now, 400)
            sent = Sent(400)
            assert rates.admits(sent, now)
            under_way.append(sent)
        elif under_way:
            sent = under_way.pop(number % len(under_way))
            match what:
                case "succeeded":
                    rates.succeeded(sent, now, None)
                case "refused":
                    rates.refused(sent, now, wait)
                case _:
                    rates.gave_up(sent)
        assert rates.pace is None or 0.0 < rates.pace < inf
        assert rates.is_open is bool(under_way)


def answers_until_forgotten(rates: Rates, now: float) -> int:
    answers = 0
    while rates.pace is not None:
        now += 100.0
        rates.succeeded(sent_at(rates, now), now, None)
        answers += 1
    return answers


def test_after_a_first_refusal_the_rate_grows_fast_and_after_a_second_one_slowly() -> None:
    stray, confirmed = Rates(), Rates()
    for rates in (stray, confirmed):
        rates.refused(sent_at(rates, NOW), NOW, 1.0)
    confirmed.refused(sent_at(confirmed, NOW + 1.0), NOW + 1.0, 1.0)

    assert answers_until_forgotten(stray, NOW) < 50
    assert answers_until_forgotten(confirmed, NOW) > 200


@pytest.mark.parametrize(("failed", "pace"), [(0, 0.3), (4, 4.0)])
def test_refusals_hold_a_rate_down_unless_enough_other_requests_were_taken_or_failed(failed: int, pace: float) -> None:
    rates, now = Rates(), NOW
    for sent in (100, 100, *[1 + failed] * 20):  # a burst, the refusal that confirms a limit, and more
        first, *others = [sent_at(rates, now) for _ in range(sent)]
        for each in others:
            rates.gave_up(each)
        rates.refused(first, now, 1.0)
        now += 3.0

    assert rates.pace == pytest.approx(pace)  # nine tenths of one in three seconds, or four in the longest named wait


def test_a_high_rate_that_was_confirmed_by_few_requests_grows_slowly_all_the_same() -> None:
    rates = Rates()
    burst = [sent_at(rates, NOW) for _ in range(101)]
    rates.refused(burst[0], NOW + 0.1, 0.1)
    paced = [sent_at(rates, NOW + 0.2) for _ in range(5)]
    rates.refused(paced[0], NOW + 0.21, 0.01)

    assert rates.pace == pytest.approx(0.9 * 4 / 0.02)
    assert answers_until_forgotten(rates, NOW) > 5_000  # two seconds of requests count as taken, not four


def test_a_wait_of_hours_is_kept_for_two_minutes_and_then_one_request_looks() -> None:
    rates = Rates()
    rates.refused(sent_at(rates, NOW, 400), NOW, 7_200.0)

    assert rates.wait(NOW, 400) == LONGEST_STOP
    assert sent_by(rates, NOW + LONGEST_STOP) == 1


def test_without_a_named_wait_the_stops_grow_until_an_answer_comes() -> None:
    rates, now, stops = Rates(), NOW, list[float]()
    for _ in range(6):
        now += 100.0
        rates.refused(sent_at(rates, now, 400), now, None)
        stops.append(rates.stopped_until - now)
    rates.succeeded(sent_at(rates, now + 100, 400), now + 100, None)
    rates.refused(sent_at(rates, now + 200, 400), now + 200, None)

    assert stops == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert rates.stopped_until - (now + 200) == 0.5


def test_a_pace_is_forgotten_after_enough_answers() -> None:
    rates, now = Rates(), NOW
    rates.refused(sent_at(rates, now, 400), now, 1.0)
    assert rates.pace is not None
    for _ in range(300):
        now += 10.0
        rates.succeeded(sent_at(rates, now, 400), now, None)

    assert rates.pace is None
    assert sent_by(rates, now) == 1_000


# --- retries


def test_failures_take_retries_until_none_is_left_and_five_successes_give_one_back() -> None:
    rates = Rates()
    taken = sum(rates.take_retry() for _ in range(1_000))
    for _ in range(6):
        rates.succeeded(sent_at(rates, NOW, 400), NOW, None)

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

    left = left_by(headers, lambda: midnight)

    assert ({} if left is None else left.limits()) == expected


@pytest.mark.parametrize("word", ["1" * 60_000, "1." * 30_000, "1s" * 30_000 + "x"])
def test_a_long_header_takes_no_time_to_read(word: str) -> None:
    began = time.process_time()
    left = left_by({"x-ratelimit-remaining-requests": word, "x-ratelimit-reset-requests": word}, lambda: 0.0)
    assert left is None
    left = left_by({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": word}, lambda: 0.0)
    assert left is not None and left.limits() == {"requests": Told(None, 1.0, None)}

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
        ({"tokens": Told(1_000.0, 900.0, 10.0), "input tokens": Told(1_000.0, 250.0, 75.0)}, 2, 5.0),
        ({"requests": Told(10.0, 5.0, 50.0), "output tokens": Told(10.0, 3.0, 7.0)}, 3, 1.0),
        ({"requests": Told(10.0, 1.0, None), "tokens": Told(1_000.0, 250.0, 75.0)}, 2, 5.0),
    ],
)
def test_no_more_is_sent_than_an_answer_says_is_left(told: dict[str, Told], sent: int, wait: float) -> None:
    rates = Rates()
    rates.succeeded(sent_at(rates, NOW, 400), NOW, None, said(told))

    assert sent_by(rates, NOW) == sent
    assert rates.wait(NOW, 400) == pytest.approx(wait)


@pytest.mark.parametrize("reset", [3_600.0, 1_767_225_600.0, 2.5e11, 1e308])
def test_a_limit_that_is_told_for_long_is_kept_for_two_minutes_and_then_one_request_looks(reset: float) -> None:
    rates, told = Rates(), {"requests": Told(None, 0.0, reset)}
    rates.succeeded(sent_at(rates, NOW), NOW, None, said(told))
    later = NOW + LONGEST_STOP

    assert (rates.wait(NOW, 400), sent_by(rates, later - 1)) == (LONGEST_STOP, 0)
    look = Sent(400)
    assert (rates.admits(look, later), rates.wait(later, 400)) == (True, LONGEST_STOP)
    rates.gave_up(look)  # nothing was learned, so the next one looks two minutes later
    assert (sent_by(rates, later + LONGEST_STOP - 1), sent_by(rates, later + LONGEST_STOP)) == (0, 1)
    rates.succeeded(look, later + LONGEST_STOP, None, said({"requests": Told(10.0, 10.0, 1.0)}))
    assert sent_by(rates, later + LONGEST_STOP) > 1


def test_what_is_left_grows_from_the_time_of_the_answer() -> None:
    rates = Rates()
    rates.succeeded(sent_at(rates, NOW), NOW, None, said({"requests": Told(10.0, 3.0, 7.0)}))  # one more each second

    assert [sent_by(rates, NOW + 2), sent_by(rates, NOW + 4)] == [5, 2]


@given(
    most=st.integers(1, 20),
    length=st.sampled_from([0.5, 1.0, 60.0]),
    steps=st.lists(st.tuples(st.sampled_from([0.0, 0.01, 0.3, 2.0, 90.0]), st.integers(0, 30), st.integers(0, 30))),
)
def test_a_server_that_tells_its_limit_refuses_nothing(
    most: int, length: float, steps: list[tuple[float, int, int]]
) -> None:
    rates, server, now = Rates(), by_the_bucket(most, length, tells=True), 0.0
    rates.succeeded(sent_at(rates, now), now, None, server(now)[2])
    under_way = deque[tuple[Sent, Left | None]]()
    for gap, calls, answers in steps:
        now += gap
        for _ in range(calls):
            sent = Sent(400)
            if rates.admits(sent, now):
                fine, _, left = server(now)
                assert fine
                under_way.append((sent, left))
        for _ in range(min(answers, len(under_way))):
            sent, left = under_way.popleft()
            rates.succeeded(sent, now, None, left)


def test_a_limit_of_the_users_holds_beside_one_that_an_answer_tells() -> None:
    rates = Rates()
    rates.set_limits(60, None, NOW)  # six at once
    rates.succeeded(sent_at(rates, NOW), NOW, None, said({"requests": Told(10.0, 3.0, 7.0)}))
    at_once = sent_by(rates, NOW)
    rates.succeeded(sent_at(rates, NOW + 60), NOW + 60, None, said({"requests": Told(100.0, 90.0, 7.0)}))

    assert (at_once, sent_by(rates, NOW + 60)) == (3, 5)


def test_requests_under_way_count_as_not_seen_by_the_provider_yet() -> None:
    rates = Rates()
    first, *_ = [sent_at(rates, NOW, 400) for _ in range(4)]
    rates.succeeded(first, NOW, None, said({"requests": Told(10.0, 5.0, 60.0)}))

    assert sent_by(rates, NOW) == 2


def test_an_answer_that_says_nothing_more_ends_what_the_ones_before_said() -> None:
    rates = Rates()
    rates.succeeded(sent_at(rates, NOW, 400), NOW, None, said({"requests": Told(10.0, 1.0, 60.0)}))
    rates.succeeded(sent_at(rates, NOW, 400), NOW, None)

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


SERVERS: list[Callable[[int, float, float], Server]] = [
    lambda most, length, began: by_the_window(most, length, began=began),
    lambda most, length, began: by_the_last(most, length),
    lambda most, length, began: by_the_bucket(most, length),
]
"""By the number of requests, the time in which so many are answered, and how long ago the first window began."""


@pytest.mark.parametrize("latency", [0.05, 1.0, 5.0])
@pytest.mark.parametrize("most", [40, 400, 1_000])
@pytest.mark.parametrize("server", SERVERS, ids=["window", "sliding", "bucket"])
def test_a_storm_whose_refusals_come_before_its_answers_is_held_back_by_the_limit_and_no_further(
    server: Callable[[int, float, float], Server], most: int, latency: float
) -> None:
    calls = max(8, 3 * most // 50)
    for seed in range(3):
        limited = server(most, 60.0, seed * 20.0)
        played = play(Rates(), limited, callers=50, calls=calls, latency=latency, refusal=0.02, seed=seed)

        assert played.answered == 50 * calls
        assert played.requests <= 1.1 * played.answered
        fastest = max(50 * calls / most * 60.0, calls * latency)
        assert played.seconds <= 1.15 * fastest


@given(
    server=st.sampled_from(SERVERS),
    most=st.integers(40, 1_000),
    length=st.sampled_from([1.0, 60.0]),
    began=st.floats(0, 1),
    latency=st.floats(0.01, 3.0),
    refusal=st.floats(0.05, 1.0),  # of the time of an answer
    seed=st.integers(0, 1_000),
)
def test_of_six_requests_to_a_limited_server_at_most_one_is_refused(
    server: Callable[[int, float, float], Server],
    most: int,
    length: float,
    began: float,
    latency: float,
    refusal: float,
    seed: int,
) -> None:
    limited, calls = server(most, length, began * length), max(8, 2 * most // 50)
    played = play(Rates(), limited, callers=50, calls=calls, latency=latency, refusal=refusal * latency, seed=seed)

    assert played.answered == 50 * calls
    assert played.requests <= 1.2 * played.answered


@pytest.mark.parametrize("latency", [0.02, 1.0])
@pytest.mark.parametrize("which", [1, 2, 3, 20])
def test_fifty_callers_are_held_back_by_one_stray_refusal_for_seconds(which: int, latency: float) -> None:
    played = play(Rates(), once(which, 1.0), callers=50, calls=20, latency=latency, refusal=0.02)

    assert played.refused == 1
    assert played.seconds <= 20 * latency + 12.0


@pytest.mark.parametrize("wait", [1.0, 10.0, 60.0])
@pytest.mark.parametrize("which", [1, 2, 20])
def test_a_caller_that_asks_one_thing_after_another_is_held_back_by_one_stray_refusal_for_its_wait_alone(
    which: int, wait: float
) -> None:
    played = play(Rates(), once(which, wait), callers=1, calls=40, latency=0.1, refusal=0.02)

    assert played.refused == 1
    assert played.seconds == pytest.approx(40 * 0.1 + 0.02 + wait)


def test_after_a_second_refusal_such_a_caller_keeps_to_the_rate_too() -> None:
    played = play(Rates(), by_the_bucket(1, 1.0), callers=1, calls=50, latency=0.01)

    assert played.answered == 50
    assert played.requests <= 60


@pytest.mark.parametrize("share", [0.05, 0.12, 0.2])
def test_refusals_by_chance_do_not_slow_requests_down_without_end(share: float) -> None:
    played = play(Rates(), by_chance(share, 1.0), callers=16, calls=10, latency=0.02)

    assert played.answered == 160
    assert (
        played.seconds <= 160 / 0.75 + played.refused * 2.0 + 5
    )  # three quarters of a request in the wait that is named


@pytest.mark.parametrize("share", [0.05, 0.1])
@pytest.mark.parametrize("wait", [1.0, 5.0])
def test_where_few_requests_are_refused_by_chance_one_is_answered_in_each_named_wait(share: float, wait: float) -> None:
    for seed in range(5):
        played = play(Rates(), by_chance(share, wait, seed), callers=50, calls=20, latency=1.0, refusal=0.03, seed=seed)

        assert played.answered == 1_000
        assert played.seconds <= (1_000 + played.refused) * wait
