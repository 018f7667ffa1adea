"""The one place that reads environment variables for model clients, when a call needs them and never on import."""

from __future__ import annotations

import os

from understudy.errors import ProviderError

OFFLINE = "UNDERSTUDY_OFFLINE"


def first_set(*names: str) -> str | None:
    """Return the value of the first of these variables that is set and not blank."""
    for name in names:
        value = os.environ.get(name, "").strip()
        if value:
            return value
    return None


def refuse_offline(provider: str) -> None:
    """Raise `ProviderError` when `UNDERSTUDY_OFFLINE` is set to anything but 0."""
    if first_set(OFFLINE) not in (None, "0"):
        raise ProviderError(
            f"{provider} was not called: {OFFLINE} is set, so models on the network are off; "
            "unset it, or use model 'rehearsal'",
            provider=provider,
            code="offline",
        )
