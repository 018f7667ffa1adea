"""API keys: wrapped so that no repr shows them, and looked up when a call needs one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol, TypeAlias

from understudy.errors import AuthenticationError
from understudy.vocabulary.checks import checked_plain, found_instead

from .environment import KEYLESS, KEYS, first_set, refuse_offline

SHORTEST_KEY = 8  # A shorter key is a placeholder such as `none`, and may be part of an ordinary sentence.


class Secret:
    """A key that no repr, log or pickle shows.

    `str()` and `repr()` show stars; only `reveal()` gives the value. It is found in a text also as JSON writes it, with some of
    its characters escaped (RFC 8259, 7: `\\/`, `\\u002f`).
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not isinstance(value, str):
            raise TypeError(f"a secret must be a string, got {type(value).__name__}")
        self._value = value

    def reveal(self) -> str:
        """Return the key in clear text."""
        return self._value

    def out_of(self, text: str) -> str:
        """Return `text` with stars in place of the key; a value too short to be a key is not replaced."""
        if len(self._value) < SHORTEST_KEY:
            return text
        text = text.replace(self._value, "***")
        return re.sub(_escaped(self._value), "***", text) if _may_be_escaped(text, self._value) else text

    def out_of_body(self, body: bytes) -> bytes:
        """Return an HTTP body with stars in place of the key, as `out_of` does for a text."""
        if len(self._value) < SHORTEST_KEY:
            return body
        body = body.replace(self._value.encode(), b"***")
        if not _may_be_escaped(body, self._value):
            return body
        return re.sub(_escaped(self._value).encode(), b"***", body)

    def out_of_error(self, error: BaseException) -> None:
        """Remove the key from an error's text, its causes and contexts: the HTTP library quotes what it cannot parse."""
        left: list[BaseException | None] = [error]
        seen: set[int] = set()
        while left:
            each = left.pop()
            if each is not None and id(each) not in seen:
                seen.add(id(each))
                clean = tuple([self.out_of(part) if isinstance(part, str) else part for part in each.args])
                if clean != each.args:  # changed only if needed: a context may be the caller's own error
                    each.args = clean
                left += [each.__cause__, each.__context__]

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Secret is not pickled; make it anew where it is needed")


def _may_be_escaped(text: str | bytes, value: str) -> bool:
    """Whether a text has such escapes as this value can have; most texts have none, and are not searched twice."""
    marks = ("\\u00", "\\/" if "/" in value else "", '\\"' if '"' in value else "", "\\\\" if "\\" in value else "")
    if isinstance(text, str):
        return any(mark in text for mark in marks if mark)
    return any(mark.encode() in text for mark in marks if mark)


def _escaped(value: str) -> str:
    """Return a pattern for a value of which any character may be escaped as in JSON."""
    return "".join(map(_either_way, value))


def _either_way(char: str) -> str:
    plain = re.escape(char)
    forms = [rf"\\u(?i:{ord(char):04x})", *([rf"\\{plain}"] if char in '"/\\' else []), plain]
    return f"(?:{'|'.join(forms)})"


NO_KEY = Secret("")  # For servers that want none; no header is sent.

KeyLike: TypeAlias = "str | Secret | Callable[[], str | Secret]"
"""A key, a wrapped key, or a function that returns one; it is called before each attempt."""


class KeySource(Protocol):
    """Provides a client's key."""

    def current(self) -> Secret:
        """Return the key to use now; may block."""
        ...

    def renewed(self) -> Secret | None:
        """Return another key after this one was refused, or None if there is no other."""
        ...


class FixedKey:
    """A key from a parameter or the environment; it cannot be renewed."""

    def __init__(self, key: Secret) -> None:
        self._key = key

    def current(self) -> Secret:
        return self._key

    def renewed(self) -> None:
        return None


class CalledKey:
    """A key from a user's function, called at each attempt and once more when the key is refused."""

    def __init__(self, function: Callable[[], str | Secret], provider: str) -> None:
        self._function = function
        self._provider = provider

    def current(self) -> Secret:
        return wrapped(self._function(), self._provider)

    def renewed(self) -> Secret:
        return self.current()


def checked_key(key: KeyLike | None, parameter: str) -> Secret | Callable[[], str | Secret] | None:
    """Check a key parameter without asking for the key.

    Raises:
        TypeError: the key is not a string, Secret or function, or an `async def`.
        ValueError: the key is empty.
    """
    if key is None or isinstance(key, Secret):
        return key
    if isinstance(key, str):
        if not key.strip():
            raise ValueError(f"{parameter} must not be empty; leave it out to use the environment")
        return Secret(key)
    if callable(key):
        checked_plain(parameter, key)
        return key
    raise TypeError(f"{parameter} must be a string, a Secret or a function, got {type(key).__name__}")


def key_source(
    key: Secret | Callable[[], str | Secret] | None,
    variables: tuple[str, ...],
    parameter: str,
    provider: str,
    *,
    otherwise: Secret | None = None,
) -> KeySource:
    """Return the source of the key: the parameter, else the first environment variable of `variables` that is set.

    Args:
        otherwise: the key if there is none.

    Raises:
        AuthenticationError: there is no key.
    """
    if isinstance(key, Secret):
        return FixedKey(wrapped(key, provider))
    if key is not None:
        return CalledKey(key, provider)
    found = _first_key(variables)
    if found is None and otherwise is not None:
        return FixedKey(otherwise)
    if found is None:
        raise AuthenticationError(
            f"no key for {provider}: set {' or '.join(variables)}, or pass {parameter}=", provider=provider
        )
    return FixedKey(wrapped(found, provider))


def _first_key(variables: tuple[str, ...]) -> Secret | None:
    value = first_set(*variables)
    return None if value is None else Secret(value)


def check_key(provider: str) -> None:
    """Check that a model made by name could call its provider; providers without a network always pass.

    Raises:
        AuthenticationError: there is no key in the environment; Vertex's credentials are not checked before a call.
        ProviderError: `UNDERSTUDY_OFFLINE` is set.
    """
    if provider not in KEYS:
        return
    refuse_offline(provider)
    variables = KEYS[provider]
    if variables and provider not in KEYLESS:
        key_source(None, variables, "api_key", provider)


def wrapped(key: str | Secret, provider: str) -> Secret:
    """Wrap a key after checking that it fits into a header.

    The HTTP library's own error for a key that does not fit would quote it. Crash reporters show the variables of the frames
    in a traceback, so none holds the key when an error is raised here.
    """
    value = key.reveal() if isinstance(key, Secret) else key
    if not isinstance(value, str):
        raise AuthenticationError(
            f"the key function for {provider} must return a string, got {found_instead(value)}", provider=provider
        )
    value = value.strip()
    if not value or not value.isascii() or not value.isprintable():
        del key, value
        raise AuthenticationError(
            f"the key for {provider} is empty or holds characters that no HTTP header can carry; "
            "expected printable ASCII",
            provider=provider,
        )
    return Secret(value)
