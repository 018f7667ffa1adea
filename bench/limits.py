"""What a model call pays for the limits of its key when nothing makes it wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import understudy as us
from understudy.providers.http.in_flight import InFlight
from understudy.providers.http.limits.limiter import Limiter

from .batch import Round, timing_itself, warmed
from .measure import Measure, Side
from .sizes import Sizes

TOGETHER = 200  # Calls to one sample: a clock costs nearly as much as a call.
BODY = 2_000
USAGE = us.Usage(400, 100)
PLAIN = {"content-type": "application/json", "date": "Thu, 01 Jan 2026 00:00:00 GMT"}
TOLD = PLAIN | {
    "x-ratelimit-limit-requests": "1000000",
    "x-ratelimit-remaining-requests": "999999",
    "x-ratelimit-reset-requests": "1ms",
    "x-ratelimit-limit-tokens": "200000000",
    "x-ratelimit-remaining-tokens": "199999500",
    "x-ratelimit-reset-tokens": "6ms",
}


def _each(calls: Callable[[], object]) -> float:
    """Return the seconds of one call, of `TOGETHER` in a row."""
    began = time.perf_counter()
    calls()
    return (time.perf_counter() - began) / TOGETHER


@contextmanager
def _limits(sizes: Sizes) -> Generator[Round]:
    lock, gate, plain, told = threading.Lock(), InFlight(256), Limiter("plain"), Limiter("told")

    def locked() -> None:
        for _ in range(TOGETHER):
            with lock:
                pass

    def in_flight() -> None:
        for _ in range(TOGETHER):
            with gate.slot():
                pass

    def limited(limiter: Limiter, headers: dict[str, str]) -> None:
        for _ in range(TOGETHER):
            with limiter.call(BODY) as call:
                call.headers = headers
                call.usage = USAGE

    sides: dict[str, Callable[[], object]] = {
        "no limit is known": partial(limited, plain, PLAIN),
        "each answer tells two limits": partial(limited, told, TOLD),
        "a count of calls in flight": in_flight,
        "a bare lock": locked,
    }
    yield warmed(
        {label: partial(timing_itself, partial(_each, calls)) for label, calls in sides.items()},
        max(1, sizes.calls // 10),
    )


LIMITS = Measure(
    name="limits",
    title=lambda _: "the limits of a key, of one model call that need not wait",
    ours=(Side(label="no limit is known", target=2e-6), Side(label="each answer tells two limits")),
    references=(Side(label="a count of calls in flight"), Side(label="a bare lock")),
    prepare=_limits,
)
