"""Rules that find secrets in a text by their shape, or by the name before them, and hide them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TypeAlias

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
