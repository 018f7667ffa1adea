"""Servers with limits, and clients that keep to them, on a simulated clock."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import floor

from understudy.providers.http.limits.rates import Rates, Sent
from understudy.providers.http.limits.told import ANTHROPIC, OPENAI, Left, Told, left_by

Verdict = tuple[bool, float | None, Left | None]
"""Whether a request was answered, the wait that a refusal names, and what the answer says of limits."""
Server = Callable[[float], Verdict]


def said(told: Mapping[str, Told]) -> Left | None:
    """Return what an answer says that has these limits in its headers."""
    names = ANTHROPIC | OPENAI
    headers: dict[str, str] = {}
    for what, limit in told.items():
        numbers = {"limit": limit.limit, "remaining": limit.remaining, "reset": limit.reset}
        headers |= {names[what].format(each): repr(number) for each, number in numbers.items() if number is not None}
    return left_by(headers, lambda: 0.0)


def by_the_window(most: int, length: float, *, names_wait: bool = True, began: float = 0.0) -> Server:
    """Answer so many requests in each window of time, and refuse the others until its end. The first one began so long ago."""
    served: dict[int, int] = {}

    def ask(now: float) -> Verdict:
        now += began
        window = floor(now / length)
        served[window] = served.get(window, 0) + 1
        if served[window] <= most:
            return True, None, None
        served[window] -= 1
        return False, (window + 1) * length - now if names_wait else None, None

    return ask


def by_the_last(most: int, length: float) -> Server:
    """Answer a request if so few were answered in the time before it, and refuse the others until the oldest of these is older."""
    answered: deque[float] = deque()

    def ask(now: float) -> Verdict:
        while answered and answered[0] <= now - length:
            answered.popleft()
        if len(answered) >= most:
            return False, answered[0] + length - now, None
        answered.append(now)
        return True, None, None

    return ask


def by_the_bucket(most: int, length: float, *, tells: bool = False) -> Server:
    """Answer so many requests at once, and as many in each length of time, one by one."""
    level, at = float(most), 0.0

    def ask(now: float) -> Verdict:
        nonlocal level, at
        level, at = min(most, level + (now - at) * most / length), now
        fine = level > 0.999_999  # sums of floats are not exact
        level = max(0.0, level - fine)
        left = said({"requests": Told(most, floor(level), (most - level) * length / most)}) if tells else None
        return fine, None if fine else (1.0 - level) * length / most, left

    return ask


@dataclass
class Played:
    """What came of a simulation."""

    requests: int = 0
    answered: int = 0
    seconds: float = 0.0
    most_at_once: int = 0
    """The most requests that were sent at the same moment after the first refusal came."""

    @property
    def refused(self) -> int:
        """How many requests were refused."""
        return self.requests - self.answered


def play(
    rates: Rates,
    server: Server,
    *,
    callers: int,
    calls: int,
    latency: float = 0.02,
    refusal: float | None = None,
    seed: int | None = None,
) -> Played:
    """Let so many callers make so many calls each, one after the other; a refused one is made again after the named wait.

    Args:
        latency: seconds from a request to its answer.
        refusal: seconds from a request to its refusal, half of them until the server sees it; as long as an answer by default.
        seed: of a die that makes answers take half as long to one and a half times as long.
    """
    played, number = Played(), itertools.count()
    back = latency if refusal is None else refusal
    die = None if seed is None else random.Random(seed)
    waiting = [calls] * callers
    """What waits in the queue of the limiter: for each caller the calls it still has to make."""
    events: list[tuple[float, int, Callable[[float], None]]] = []
    looks: set[float] = set()
    now, at_this_moment, refused = 0.0, 0, False

    def later(at: float, what: Callable[[float], None]) -> None:
        heapq.heappush(events, (at, next(number), what))

    def look(at: float) -> None:
        nonlocal at_this_moment
        while waiting:
            wait = rates.wait(at, 400)
            if wait > 0.0:
                if at + wait not in looks:
                    looks.add(at + wait)
                    later(at + wait, look)
                return
            sent, left = Sent(400), waiting.pop(0)
            rates.send(sent, at)
            played.requests += 1
            at_this_moment += refused
            played.most_at_once = max(played.most_at_once, at_this_moment)
            later(at + back / 2, partial(arrive, sent, left))

    def arrive(sent: Sent, left: int, at: float) -> None:
        verdict = server(at)
        answer = latency if die is None else latency * die.uniform(0.5, 1.5)
        later(at + (max(answer - back / 2, 0.0) if verdict[0] else back / 2), partial(end, sent, left, verdict))

    def end(sent: Sent, left: int, verdict: Verdict, at: float) -> None:
        nonlocal refused
        fine, wait, told = verdict
        if fine:
            rates.succeeded(sent, at, 100, told)
            played.answered += 1
            played.seconds = at
            if left > 1:
                waiting.append(left - 1)
        else:
            refused = True
            assert rates.take_retry()
            rates.refused(sent, at, wait, told)
            later(at + (0.5 if wait is None else wait), lambda _: waiting.append(left))
            later(at + (0.5 if wait is None else wait), look)
        look(at)

    later(0.0, look)
    while events:
        at, _, what = heapq.heappop(events)
        if at > now:
            now, at_this_moment = at, 0
        what(now)
    return played


def by_chance(share: float, wait: float, seed: int = 7) -> Server:
    """Refuse this share of all requests, by a repeatable die."""
    die = random.Random(seed)

    def ask(now: float) -> Verdict:
        fine = die.random() >= share
        return fine, None if fine else wait, None

    return ask


def once(which: int, wait: float) -> Server:
    """Refuse one request, the first, second or so on, and answer all others."""
    came = itertools.count(1)

    def ask(now: float) -> Verdict:
        return (False, wait, None) if next(came) == which else (True, None, None)

    return ask
