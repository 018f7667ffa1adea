"""What a user set for the limits of keys, by provider, address and model."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from urllib.parse import urlsplit

from understudy.providers.http.forks import renew_after_fork
from understudy.providers.http.in_flight import DEFAULT_IN_FLIGHT
from understudy.providers.http.options import checked_count, checked_url
from understudy.vocabulary.checks import UNSET, Unset
from understudy.vocabulary.models import PROVIDERS, ModelName

MOST = 10**12  # Of anything in a minute: more than any provider allows, and exact as a float.
_HOST_AND_PORT = re.compile(r"(?:[\w.-]+|\[[0-9a-f:.]+\]):[0-9]+(?:/.*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The limits of one key; None for no limit."""

    in_flight: int
    requests: int | None
    tokens: int | None


NO_SETTINGS = Settings(in_flight=DEFAULT_IN_FLIGHT, requests=None, tokens=None)
"""The limits of a key of which nothing was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a user said at once; `UNSET` where nothing was said."""

    in_flight: int | Unset = UNSET
    requests: int | Unset | None = UNSET
    tokens: int | Unset | None = UNSET

    def over(self, before: Given) -> Given:
        """Return what holds when this is said after `before`."""
        return Given(
            in_flight=before.in_flight if isinstance(self.in_flight, Unset) else self.in_flight,
            requests=before.requests if isinstance(self.requests, Unset) else self.requests,
            tokens=before.tokens if isinstance(self.tokens, Unset) else self.tokens,
        )


class GivenLimits:
    """All that the user said; what was said of a model goes before what was said of an address, and that before a provider."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], Given] = {}
        """(provider, family), ("", host) or (provider, "") -> what was said. A write replaces one entry, so reading needs no lock."""
        self.start_afresh()
        renew_after_fork(self)

    def start_afresh(self) -> None:
        self.lock = threading.Lock()
        """Held from a note until every limiter has it, so that of two notes neither is lost and the later one holds."""

    def note(self, subject: tuple[str, str], given: Given) -> None:
        """Note what was said of a subject, over what was said of it before. The caller holds the lock."""
        self._given[subject] = given.over(self._given.get(subject, Given()))

    def of(self, provider: str, host: str, family: str) -> Settings:
        """Return the settings of a limiter."""
        said = Given()
        for subject in ((provider, ""), ("", host), (provider, family)):
            said = self._given.get(subject, Given()).over(said)
        return Settings(
            in_flight=DEFAULT_IN_FLIGHT if isinstance(said.in_flight, Unset) else said.in_flight,
            requests=None if isinstance(said.requests, Unset) else said.requests,
            tokens=None if isinstance(said.tokens, Unset) else said.tokens,
        )

    def of_server(self, provider: str, host: str, family: str) -> int | None:
        """Return how many calls of all its models a server may have in flight; None if nothing was said of its address.

        None too for a model of which a number was said.
        """
        most = self._given.get(("", host), Given()).in_flight
        own = self._given.get((provider, family), Given()).in_flight
        return most if isinstance(own, Unset) and not isinstance(most, Unset) else None


def subject_of(name: str) -> tuple[str, str]:
    """Return what a name stands for: a provider, a model string or the address of a server.

    Raises:
        TypeError: it is no string.
        ValueError: it is none of them.
    """
    if not isinstance(name, str):
        raise TypeError(f"set_limits: expected a provider, 'PROVIDER:MODEL' or an address, got {name!r}")
    if name.startswith(("http://", "https://")):
        return "", urlsplit(checked_url(name, "set_limits: an address")).netloc
    if name in PROVIDERS and name != "rehearsal":
        return PROVIDERS[name], ""
    if _HOST_AND_PORT.fullmatch(name) and name.partition(":")[0] not in PROVIDERS:
        raise ValueError(f"set_limits: {name!r} has no scheme; for the address of a server write 'http://{name}'")
    try:
        parsed = ModelName.parse(name)
    except ValueError as error:
        raise ValueError(f"set_limits: {error}") from None
    if parsed.provider == "rehearsal":
        raise ValueError("set_limits: 'rehearsal' has no key, so it has no limits")
    return parsed.provider, parsed.model


def checked_limit(value: int | Unset | None, name: str) -> int | Unset | None:
    """Return a limit that a user set: a whole number from 1 to `MOST`, or None for no limit."""
    return value if value is None or isinstance(value, Unset) else checked_number(value, name)


def checked_number(value: int, name: str) -> int:
    """Return a whole number from 1 to `MOST`."""
    if checked_count(value, f"set_limits: {name}") > MOST:
        raise ValueError(f"set_limits: {name} must be at most {MOST:,}")  # it may have too many digits to be shown
    return value
