"""Which limiter a call has: one for each provider, address, family of models and key of a process."""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from urllib.parse import urlsplit

from understudy.providers.http.forks import renew_after_fork
from understudy.providers.http.in_flight import InFlight
from understudy.providers.http.retries import Timing
from understudy.vocabulary.checks import UNSET, Unset
from understudy.vocabulary.other_names import OF_LIMITS, explains_parameters

from .limiter import Limiter, LimitFigures, Sleep
from .settings import Given, GivenLimits, checked_limit, checked_number, subject_of

MOST_KEPT = 1_000  # Limiters. A key function may give a new token each hour; the ones not used for longest are dropped.
_DATE = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|\d{3}|latest)$")
_CLAUDE = re.compile(r"(claude-(?:opus|sonnet|haiku)-\d+)(?:-\d{1,2})?$")
_SALT = secrets.token_bytes(16)

Identity = tuple[str, str, str, bytes]
"""Provider, host, family, digest of the key."""


class Limits:
    """The limiters of a process, or of a client with a clock or transport of its own; safe to share between threads."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Sleep | None = None,
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._known: dict[Identity, Limiter] = {}
        """The one that was not asked for longest comes first."""
        self._servers: dict[str, InFlight] = {}
        """Host -> the calls in flight of all its models, where the user limited those."""
        self.start_afresh()
        renew_after_fork(self)
        _all.add(self)

    @classmethod
    def on(cls, timing: Timing) -> Limits:
        """Return limiters on the clock of a client; outside of runs they wait by its sleep if that is not the usual one."""
        sleep = None if timing.sleep is time.sleep else timing.sleep
        return cls(clock=timing.clock, wall_clock=timing.wall_clock, sleep=sleep)

    def start_afresh(self) -> None:
        self._lock = threading.Lock()
        """Guards the limiters."""

    def of(self, provider: str, url: str, model: str, account: str) -> Limiter:
        """Return the limiter of calls, the same one for equal arguments.

        Args:
            url: where the calls go; its host counts.
            model: the name of the model; models of one family share a limiter.
            account: the key, or what else the provider counts by. Only a digest is kept.
        """
        host, family = urlsplit(url).netloc, family_of(model)
        identity = (provider, host, family, _digest(account))
        with self._lock:
            limiter = self._known.pop(identity, None)
            if limiter is None:
                limiter = self._make(identity)
            self._known[identity] = limiter
            return limiter

    def _make(self, identity: Identity) -> Limiter:
        provider, host, family, _ = identity
        if len(self._known) >= MOST_KEPT:
            idle = next((each for each, limiter in self._known.items() if limiter.is_idle), None)
            if idle is not None:
                del self._known[idle]
        name = f"{provider}:{family} at {host}"
        settings = _given.of(provider, host, family)
        limiter = Limiter(name, settings=settings, clock=self._clock, wall_clock=self._wall_clock, sleep=self._sleep)
        limiter.server = self._server(provider, host, family)
        return limiter

    def _server(self, provider: str, host: str, family: str) -> InFlight | None:
        most = _given.of_server(provider, host, family)
        if most is None:
            return None
        found = self._servers.setdefault(host, InFlight(most))
        with found.slots.lock:
            found.resize(most)
        return found

    def apply_settings(self) -> None:
        """Give every limiter the settings that hold for it now."""
        with self._lock:
            known = list(self._known.items())
            for (provider, host, family, _), limiter in known:
                limiter.server = self._server(provider, host, family)
        for (provider, host, family, _), limiter in known:
            limiter.apply(_given.of(provider, host, family))

    def figures(self) -> tuple[LimitFigures, ...]:
        """Return the figures of all limiters, by name."""
        with self._lock:
            known = list(self._known.values())
        return tuple(sorted([each.figures() for each in known], key=lambda each: each.name))


_given = GivenLimits()
_all: weakref.WeakSet[Limits] = weakref.WeakSet()
shared = Limits()
"""The limiters of all clients without a clock or transport of their own."""


def limit_figures() -> tuple[LimitFigures, ...]:
    """Return the figures of all keys that clients of this process have in use, by name."""
    return shared.figures()


@explains_parameters("set_limits", OF_LIMITS)
def set_limits(
    name: str,
    *,
    in_flight: int | Unset = UNSET,
    requests_per_minute: int | Unset | None = UNSET,
    tokens_per_minute: int | Unset | None = UNSET,
) -> None:
    """Set the limits that calls of this process keep, for each key and family of models by itself.

    They hold for calls that have not been sent yet, also for those that wait. What is not named stays as it is.

    Args:
        name: a provider (`"openai"`), a model string (`"openai:gpt-4o"`), or the address of a server
            (`"http://127.0.0.1:11434/v1"`). What is said of a model goes before what is said of its address, and that before its
            provider.
        in_flight: how many calls may be under way at once; 256 unless it is set. The number of an address holds for all calls to
            it together, but not for a model with a number of its own. A client made with `max_in_flight=` keeps its own.
        requests_per_minute: how many requests may be sent in any minute; a tenth of them at once. None for no limit.
        tokens_per_minute: how many tokens requests and answers may have in a minute, by an estimate from the length of the
            request that is put right by the answer. None for no limit.

    Raises:
        TypeError: an argument has the wrong type, or no limit is named.
        ValueError: the name is unknown, or a number is below 1 or above 10**12.
    """
    provider, rest = subject_of(name)
    if all(isinstance(each, Unset) for each in (in_flight, requests_per_minute, tokens_per_minute)):
        raise TypeError("set_limits: expected in_flight, requests_per_minute or tokens_per_minute, got no limit")
    if not isinstance(in_flight, Unset):
        in_flight = checked_number(in_flight, "in_flight")
    given = Given(
        in_flight=in_flight,
        requests=checked_limit(requests_per_minute, "requests_per_minute"),
        tokens=checked_limit(tokens_per_minute, "tokens_per_minute"),
    )
    with _given.lock:
        _given.note((provider, family_of(rest) if provider else rest), given)
        for limits in list(_all):
            limits.apply_settings()


if hasattr(os, "register_at_fork"):  # a child that begins in the middle of a `set_limits` would keep half of it
    os.register_at_fork(before=lambda: _given.lock.acquire(), after_in_parent=lambda: _given.lock.release())


def family_of(model: str) -> str:
    """Return the name that versions of one model share, because providers limit them together.

    OpenAI API, Rate limits: versions of a model by date. Anthropic API, Rate limits: all of a class, such as Opus 4.x.
    """
    name = _DATE.sub("", model.removeprefix("models/"))
    claude = _CLAUDE.match(name)
    return name if claude is None else claude[1]


def _digest(account: str) -> bytes:
    import hashlib  # imported here: it takes a millisecond, and a program may call no model

    return hashlib.blake2b(account.encode("utf-8", "surrogatepass"), digest_size=16, key=_SALT).digest()
