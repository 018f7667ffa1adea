"""The only module that reads environment variables for model clients: at a call, never on import."""

from __future__ import annotations

import os
from collections.abc import Mapping

from understudy.errors import ProviderError
from understudy.vocabulary.presets import PRESETS

OFFLINE = "UNDERSTUDY_OFFLINE"

KEYS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "vertex": (),
    "azure": ("AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_API_KEY"),
    **{preset.name: preset.key_variables for preset in PRESETS.values()},
}
"""Provider -> the variables of its key; the first one that is set counts."""

KEYLESS = frozenset({preset.name for preset in PRESETS.values() if not preset.needs_key})
"""Providers that may be called without a key."""


def first_set(*names: str) -> str | None:
    """Return the value of the first of these variables that is set and not blank."""
    for name in names:
        value = os.environ.get(name, "").strip()
        if value:
            return value
    return None


def keys_that_are_set() -> list[str]:
    """Return the values of all key variables that are set."""
    found = [first_set(name) for names in KEYS.values() for name in names]
    return [value for value in found if value is not None]


def refuse_offline(provider: str) -> None:
    """Raise `ProviderError` when `UNDERSTUDY_OFFLINE` is set to anything but 0."""
    if first_set(OFFLINE) not in (None, "0"):
        raise ProviderError(
            f"{provider} was not called: {OFFLINE} is set, so models on the network are off; "
            "unset it, or use model 'rehearsal'",
            provider=provider,
            code="offline",
        )
