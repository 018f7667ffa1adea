"""The header that asks for beta features (Anthropic API, Beta headers)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

NAME = re.compile(r"[A-Za-z0-9._-]+")


def checked_betas(betas: Sequence[str]) -> tuple[str, ...]:
    """Return the option `betas`; raises TypeError or ValueError if it is no list of names."""
    if not isinstance(betas, (list, tuple)):
        raise TypeError(f"betas must be a list of names, got {type(betas).__name__}")
    for name in betas:
        if not isinstance(name, str):
            raise TypeError(f"betas must be a list of names, got one that is a {type(name).__name__}")
        if not NAME.fullmatch(name):
            raise ValueError(f"betas must be names such as 'context-1m-2025-08-07', got {name!r}")
    return tuple(dict.fromkeys(betas))


def beta_header(betas: Sequence[str]) -> Mapping[str, str]:
    """Return the header for these names; none if there are no names."""
    return {"anthropic-beta": ",".join(betas)} if betas else {}
