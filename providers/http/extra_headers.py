"""Headers that a user adds to requests: checked when a client is made, found for each attempt, and hidden as its key is."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias, cast

from understudy.vocabulary.checks import WrongReturn, found_instead, is_async

from .credentials import Secret

HeadersLike: TypeAlias = "Mapping[str, str | Secret] | Callable[[], Mapping[str, str | Secret]]"
"""Headers by name, or a function that returns them; it is called before each attempt."""

NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110, 5.6.2: a token.
CLIENTS_OWN = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "host", "te", "trailer", "transfer-encoding"}
)
"""Headers that say how the body is sent, by lower-case name: another value would break the request."""

SPEAKS_OF_A_SECRET = re.compile("auth|cookie|credential|key|pass|secret|session|sign|token", re.IGNORECASE)
SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)


class Header(Secret):
    """The value of an extra header.

    Attributes:
        is_key: whether recordings hide it: it was given as a `Secret`, or the header's name speaks of one. Other values, such
            as the name of a team, may be words of a prompt.
    """

    __slots__ = ("is_key",)

    def __init__(self, value: str, *, is_key: bool) -> None:
        super().__init__(value)
        self.is_key = is_key

    def secrets(self) -> list[Secret]:
        """Return the value, and its last part if a scheme such as `Bearer` stands before it."""
        value = self.reveal()
        bare = SCHEME.sub("", value, count=1)
        return [Secret(value)] if bare == value else [Secret(value), Secret(bare)]


class KeyAndHeaders(Secret):
    """The key of one attempt together with its extra headers; it hides the values of both."""

    __slots__ = ("headers",)

    def __init__(self, key: Secret, headers: Mapping[str, Header]) -> None:
        super().__init__(key.reveal())
        self.headers = headers

    def keys(self) -> list[Secret]:
        """Return the key, and the values of the headers that recordings hide."""
        return [
            Secret(self.reveal()),
            *[each for value in self.headers.values() if value.is_key for each in value.secrets()],
        ]

    def out_of(self, text: str) -> str:
        for value in self._longest_first():
            text = value.out_of(text)
        return text

    def out_of_body(self, body: bytes) -> bytes:
        for value in self._longest_first():
            body = value.out_of_body(body)
        return body

    def _longest_first(self) -> list[Secret]:
        """A shorter value may be the beginning of a longer one."""
        values = [each for value in self.headers.values() for each in value.secrets()]
        return sorted([Secret(self.reveal()), *values], key=lambda value: -len(value.reveal()))


class ExtraHeaders:
    """The extra headers of a client.

    Args:
        given: the headers by lower-case name, or the user's function.
        taken: lower-case names that the client sends itself.
    """

    def __init__(
        self, given: Mapping[str, Header] | Callable[[], Mapping[str, str | Secret]], taken: frozenset[str]
    ) -> None:
        self._given = given
        self._taken = taken

    def current(self) -> Mapping[str, Header]:
        """Return the headers of an attempt by lower-case name.

        Raises:
            WrongReturn: the user's function returned something else than headers.
        """
        if not callable(self._given):
            return self._given
        found: object = self._given()
        if not isinstance(found, Mapping):
            raise WrongReturn(f"the function extra_headers must return a mapping, got {found_instead(found)}")
        try:
            return _checked(found, self._taken)
        except (TypeError, ValueError) as error:
            raise WrongReturn(f"the function extra_headers returned headers that cannot be sent: {error}") from None


NO_HEADERS = ExtraHeaders({}, frozenset())


def checked_headers(given: HeadersLike | None, own: Callable[[], Collection[str]]) -> ExtraHeaders:
    """Check the option `extra_headers`; no error quotes a value.

    Args:
        own: returns the names of the headers that the client sends with its key.

    Raises:
        TypeError: neither a mapping of texts nor a function, or an `async def`.
        ValueError: a name or value that no header can have, or a header that the client sends itself.
    """
    if given is None:
        return NO_HEADERS
    taken = CLIENTS_OWN | {name.lower() for name in own()}
    whole: object = given
    if isinstance(whole, Mapping):
        return ExtraHeaders(_checked(cast("Mapping[str, str | Secret]", whole), taken), taken)
    if not callable(given):
        raise TypeError(f"extra_headers must be a mapping or a function that returns one, got {type(given).__name__}")
    if is_async(given):
        raise TypeError("extra_headers must be a plain function, not async def")
    return ExtraHeaders(given, taken)


def _checked(given: Mapping[str, str | Secret], taken: frozenset[str]) -> dict[str, Header]:
    found: dict[str, Header] = {}
    for name, value in given.items():
        if not isinstance(name, str):
            raise TypeError(f"extra_headers: names must be strings, got {type(name).__name__}")
        if not NAME.fullmatch(name):
            raise ValueError(f"extra_headers: {name[:40]!r} is not the name of a header")
        key = name.lower()
        if key in taken:
            raise ValueError(f"extra_headers must not hold {name!r}: the client sends it itself")
        if key in found:
            raise ValueError(f"extra_headers holds {name!r} twice; names do not depend on case")
        found[key] = _value(name, value)
    return found


def _value(name: str, value: str | Secret) -> Header:
    if not isinstance(value, str | Secret):
        raise TypeError(f"extra_headers: {name!r} must be a string or a Secret, got {type(value).__name__}")
    text = value.reveal() if isinstance(value, Secret) else value
    if not text.strip() or not text.isascii() or not text.isprintable():
        raise ValueError(
            f"extra_headers: {name!r} is empty or holds characters that no HTTP header can carry; "
            "expected printable ASCII"
        )
    return Header(text.strip(), is_key=isinstance(value, Secret) or bool(SPEAKS_OF_A_SECRET.search(name)))
