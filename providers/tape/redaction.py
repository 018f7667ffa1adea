"""Hides secrets in texts and values before they are written: known keys, texts that look like keys, and a user's rules."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeAlias, cast

from understudy.providers.http.credentials import SHORTEST_KEY, Secret
from understudy.providers.http.environment import keys_that_are_set
from understudy.vocabulary.messages import FilePart, ImagePart, JsonValue

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Hide: TypeAlias = "Callable[[str], str]"
"""A rule: returns a text with its matches hidden."""

HIDDEN = "[redacted]"
"""Replaces every secret, whichever rule found it: a recording knows keys that its replay does not, and both must see the
same request."""


def hide_value(value: str) -> Hide:
    """Make a rule for one string."""
    return lambda text: _between_hidden(text, lambda piece: piece.replace(value, HIDDEN))


def hide_matches(pattern: re.Pattern[str]) -> Hide:
    """Make a rule for the matches of a pattern."""

    def hide(piece: str) -> str:
        return pattern.sub(lambda match: HIDDEN if match[0] else "", piece)

    return lambda text: _between_hidden(text, hide)


def _hide_after_name(pattern: re.Pattern[str]) -> Hide:
    """Make a rule that keeps the first group of a match and hides the rest."""
    return lambda text: _between_hidden(text, lambda piece: pattern.sub(rf"\1{HIDDEN}", piece))


def _between_hidden(text: str, hide: Hide) -> str:
    """Apply a rule outside hidden places, so that it does not match inside `HIDDEN`."""
    return HIDDEN.join([hide(piece) for piece in text.split(HIDDEN)])


NAMES = (
    *("apikey", "authorization", "password", "passwd", "passphrase", "secret", "secretkey", "accesskey", "privatekey"),
    *("token", "cookie", "credential", "credentials"),
)
"""Endings of the names of secrets, in small letters: `OPENAI_API_KEY`, `x-api-key` and `dbPassword` have one."""
PAGING = ("nexttoken", "pagetoken", "continuationtoken", "synctoken")
"""Endings of names that look like secrets but are not: a tool must get its page token back."""


@lru_cache(maxsize=1024)
def speaks_of_a_secret(name: str) -> bool:
    """Whether a field with this name holds a secret."""
    letters = re.sub("[^a-z]", "", name.lower())
    return letters.endswith(NAMES) and not letters.endswith(PAGING)


NAMED = (
    r"(?:api[-_]?key|authorization|passw(?:or)?d|secret(?:[-_]?access)?[-_]?key|private[-_]?key|client[-_]?secret"
    r"|(?:access|refresh|auth|bearer|session|id)[-_]?token|cookie)"
)
HEADER = r"(?:x-api-key|x-goog-api-key|authorization|set-cookie)"
SCHEME = r"(?:bearer|basic|token)"
# As long as a key and not a word of a language: eight characters that are not all letters, or sixteen.
KEYISH = r"(?:(?=[\w.~+/-]*[\d_~+/-])[\w.~+/-]{8,}|[\w.~+/-]{16,})=*"
TOKEN = r"(?<!next)(?<!next[-_])(?<!page)(?<!page[-_])token"
PEM = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)"

# Each with words of which one is in every match, in small letters: to look for them is many times faster than to match.
WORDS = ("key", "authorization", "pass", "secret", "token", "cookie")
AFTER_A_NAME = (
    # In JSON and code, where the value has quotes; they may be escaped, for tools return JSON in strings.
    (WORDS, rf"(?i)((?:{NAMED}|{TOKEN}|secret|passphrase)\\*[\"']\s*[:=]\s*\\*[\"'])(?:[^\"'\\]|\\[^\"'])+"),
    (WORDS, rf"(?i)({HEADER}\\*[\"']?\s*[:=]\s*\\*[\"']?(?:{SCHEME}\s+)?)(?!{SCHEME}\b)[^\s\"'\\,;]{{4,}}"),
    (WORDS, rf"(?i)({NAMED}\s*[:=]\s*){KEYISH}"),
    # As in a shell or its environment: GITHUB_TOKEN=…
    (WORDS, rf"((?<![A-Z0-9_])[A-Z][A-Z0-9_]*_(?:TOKEN|SECRET|KEY|PASS(?:WORD)?)\s*[:=]\s*[\"']?){KEYISH}"),
    (("bearer",), rf"(?i)(\bbearer\s+){KEYISH}"),
    (("://",), r"(://[^\s/:@]*:)[^\s/]+(?=@)"),  # user:password@host
)
SHAPES = (
    (
        ("sk-",),
        r"(?<![A-Za-z0-9])sk-(?:(?=[\w-]*\d)[\w-]{8,}|[\w-]{16,})",
    ),  # OpenAI, Anthropic, and who took after them
    (("aiza",), r"(?<![A-Za-z0-9])AIza[\w-]{30,}"),  # Google's API keys
    (("ya29.",), r"(?<![A-Za-z0-9])ya29\.[\w.-]{20,}"),  # Google's access tokens
    (("akia", "asia"), r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"),  # AWS
    (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"(?<![A-Za-z0-9])(?:gh[pousr]|github_pat)_\w{20,}",
    ),  # GitHub
    (("k_live_", "k_test_"), r"(?<![A-Za-z0-9])[sr]k_(?:live|test)_\w{10,}"),  # Stripe
    (("hf_",), r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{20,}"),  # Hugging Face
    (("xox",), r"(?<![A-Za-z0-9])xox[abeprs]-[\w-]{10,}"),  # Slack
    (("eyj",), r"(?<![A-Za-z0-9])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),  # a signed JSON web token
)


def _where(words: tuple[str, ...], rule: Hide) -> Hide:
    def hide(text: str) -> str:
        small = text.lower()
        return rule(text) if any(word in small for word in words) else text

    return hide


@cache
def private_keys() -> Hide:
    """Return the rule for keys in PEM. It must run first, as other rules would hide only a part of such a key."""
    return hide_matches(re.compile(PEM, re.DOTALL))


@cache
def shapes() -> tuple[Hide, ...]:
    """Return the rules for texts that look like secrets; they are compiled at the first use, not on import."""
    return (
        *[_where(words, _hide_after_name(re.compile(pattern))) for words, pattern in AFTER_A_NAME],
        *[_where(words, hide_matches(re.compile(pattern))) for words, pattern in SHAPES],
    )


MOST_PASSES = 8  # Usually two: one hides, one finds nothing more. A rule that never settles is a mistake.

STRUCTURE = ("kind", "role", "dialect", "finish_reason", "error_kind")
"""Fields with fixed words of the vocabulary; a tape could not be read back if a rule changed them."""

Rule: TypeAlias = "str | Secret | re.Pattern[str] | Callable[[str], str]"
"""A string, a key or what a pattern matches is hidden; a function gets each text and returns it without its secrets."""

RedactLike: TypeAlias = "Rule | Iterable[Rule]"


class Redactor:
    """Hides secrets in texts and values; safe to share between threads.

    Hiding is idempotent: a result passes through it unchanged.

    Args:
        rules: rules beside keys in the environment and texts that look like keys.
        known: returns more keys; called for each value, because new keys may appear.

    Raises:
        TypeError, ValueError: an entry is not a rule, or is empty.
    """

    def __init__(self, rules: RedactLike = (), known: Callable[[], Iterable[Secret]] = tuple) -> None:
        given = _listed(rules)
        self._values = [_checked_value(rule) for rule in given if isinstance(rule, str | Secret)]
        self._rules = [_made(rule) for rule in given if not isinstance(rule, str | Secret)]
        self._known = known

    def text(self, text: str) -> str:
        """Return a text with secrets hidden."""
        return _settled(text, self._all())

    def plain(self, value: object) -> JsonValue:
        """Return a value of the vocabulary, or JSON, as JSON with secrets hidden; fields at their default are left out.

        Raises:
            TypeError: JSON cannot hold a value in it.
        """
        return _plain(value, self._all())

    def _all(self) -> list[Hide]:
        keys = [*keys_that_are_set(), *[secret.reveal() for secret in self._known()]]
        values = {*self._values, *[key for key in keys if len(key) >= SHORTEST_KEY]}
        # The longest key first: a shorter one may be its beginning.
        literal = [hide_value(value) for value in sorted(values, key=len, reverse=True)]
        return [private_keys(), *literal, *self._rules, *shapes()]


# --- rules


def _listed(rules: RedactLike) -> list[Rule]:
    # A string is iterable too, but means one rule and not its letters.
    if isinstance(rules, str | Secret | re.Pattern) or callable(rules):
        return [rules]
    if not isinstance(rules, Iterable):
        raise TypeError(f"redact takes rules or a list of them, got {type(rules).__name__}")
    return list(rules)


def _checked_value(rule: str | Secret) -> str:
    value = rule if isinstance(rule, str) else rule.reveal()
    if not value:
        raise ValueError("redact: an empty string is in every text; expected what is to be hidden")
    return value


def _made(rule: re.Pattern[str] | Callable[[str], str]) -> Hide:
    if isinstance(rule, re.Pattern):
        if not isinstance(rule.pattern, str):
            raise TypeError("redact: expected a pattern of text, got one of bytes")
        return hide_matches(rule)
    if callable(rule):
        return _checked(rule)
    raise TypeError(f"redact takes strings, Secrets, compiled patterns and functions, got {type(rule).__name__}")


def _checked(function: Callable[[str], str]) -> Hide:
    def hide(text: str) -> str:
        clean = function(text)
        if not isinstance(clean, str):
            raise TypeError(f"the function for redact must return a string, got {type(clean).__name__}")
        return clean

    return hide


def _settled(text: str, rules: Iterable[Hide]) -> str:
    for _ in range(MOST_PASSES):
        clean = text
        for rule in rules:
            clean = rule(clean)
        if clean == text:
            return text
        text = clean
    raise ValueError("redact: the rules change a text for ever; what a function has returned must come back unchanged")


# --- values


def _plain(value: object, rules: list[Hide]) -> JsonValue:
    if isinstance(value, str):
        return _settled(value, rules)
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("bytes are not JSON")
    if isinstance(value, Mapping):
        return _plain_mapping(cast("Mapping[object, object]", value), rules)
    if isinstance(value, Sequence):
        return [_plain(item, rules) for item in cast("Sequence[object]", value)]
    if is_dataclass(value) and not isinstance(value, type):
        return _plain_fields(value, rules)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _plain_mapping(mapping: Mapping[object, object], rules: list[Hide]) -> dict[str, JsonValue]:
    made: dict[str, JsonValue] = {}
    for name, value in mapping.items():
        if not isinstance(name, str):
            raise TypeError(f"the names in a JSON object are strings, got {type(name).__name__}")
        is_secret = speaks_of_a_secret(name) and _is_all_text(value)
        made[_settled(name, rules)] = HIDDEN if is_secret else _plain(value, rules)
    return made


def _is_all_text(value: object) -> bool:
    if isinstance(value, str):
        return bool(value)
    if not isinstance(value, list | tuple):
        return False
    items = cast("Sequence[object]", value)
    return bool(items) and all(isinstance(item, str) for item in items)


def _plain_fields(value: DataclassInstance, rules: list[Hide]) -> dict[str, JsonValue]:
    made: dict[str, JsonValue] = {}
    for field in fields(value):
        given: object = getattr(value, field.name)
        if field.name in STRUCTURE:
            plain = _plain(given, [])
        elif field.name == "data" and isinstance(value, ImagePart | FilePart):
            plain = _settled_base64(value.data, rules)
        else:
            plain = _plain(given, rules)
        # Compared as JSON, because a class's own comparison may skip fields. `kind` is kept: it identifies the part.
        if field.name == "kind" or not _has_default(field) or plain != _plain(_default(field), rules):
            made[field.name] = plain
    return made


def _has_default(field: Field[object]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _default(field: Field[object]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _settled_base64(data: str, rules: Iterable[Hide]) -> str:
    """Hide secrets in the bytes of a picture or file; bytes without secrets stay unchanged."""
    try:
        held = base64.b64decode(data, validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        return _settled(data, rules)
    clean = _settled(held, rules)
    return data if clean == held else base64.b64encode(clean.encode("utf-8", "surrogateescape")).decode()
