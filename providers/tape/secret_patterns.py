"""What a secret looks like, and under which names it stands: rules that take it out of a text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TypeAlias

Hide: TypeAlias = "Callable[[str], str]"
"""Returns a text without what it looks for."""

HIDDEN = "[redacted]"
"""Stands for every secret, whichever rule found it: recording knows keys that a replay elsewhere does not, and both must
see one request."""


def hide_value(value: str) -> Hide:
    """Make a rule for one string."""
    return lambda text: _between_hidden(text, lambda piece: piece.replace(value, HIDDEN))


def hide_matches(pattern: re.Pattern[str]) -> Hide:
    """Make a rule for what a pattern matches."""

    def hide(piece: str) -> str:
        return pattern.sub(lambda match: HIDDEN if match[0] else "", piece)

    return lambda text: _between_hidden(text, hide)


def _hide_after_name(pattern: re.Pattern[str]) -> Hide:
    """Make a rule that leaves the first group and hides the rest of a match."""
    return lambda text: _between_hidden(text, lambda piece: pattern.sub(rf"\1{HIDDEN}", piece))


def _between_hidden(text: str, hide: Hide) -> str:
    """Apply a rule to what is not hidden yet, or it might find something in the word that hides."""
    return HIDDEN.join([hide(piece) for piece in text.split(HIDDEN)])


NAMES = (
    *("apikey", "authorization", "password", "passwd", "passphrase", "secret", "secretkey", "accesskey", "privatekey"),
    *("token", "cookie", "credential", "credentials"),
)
"""How the name of a secret ends, in small letters only: `OPENAI_API_KEY`, `x-api-key` and `dbPassword` do."""
PAGING = ("nexttoken", "pagetoken", "continuationtoken", "synctoken")
"""How names end that sound like one and are none: a tool must get back where to read on."""


@lru_cache(maxsize=1024)
def speaks_of_a_secret(name: str) -> bool:
    """Tell whether a field of this name holds a secret."""
    letters = re.sub("[^a-z]", "", name.lower())
    return letters.endswith(NAMES) and not letters.endswith(PAGING)


NAMED = (
    r"(?:api[-_]?key|authorization|passw(?:or)?d|secret(?:[-_]?access)?[-_]?key|private[-_]?key|client[-_]?secret"
    r"|(?:access|refresh|auth|bearer|session|id)[-_]?token|cookie)"
)
HEADER = r"(?:x-api-key|x-goog-api-key|authorization|set-cookie)"
SCHEME = r"(?:bearer|basic|token)"
# What is as long as a key and no word of a language: eight characters that are not all letters, or sixteen.
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
    """Return the rule for keys in PEM. It goes before all others, which would take a part and leave the rest."""
    return hide_matches(re.compile(PEM, re.DOTALL))


@cache
def shapes() -> tuple[Hide, ...]:
    """Return the rules for what looks like a secret; compiled at the first use, and not on import."""
    return (
        *[_where(words, _hide_after_name(re.compile(pattern))) for words, pattern in AFTER_A_NAME],
        *[_where(words, hide_matches(re.compile(pattern))) for words, pattern in SHAPES],
    )
