"""Paused runs as the runtime keeps them, which shows nowhere else."""

from __future__ import annotations

from collections.abc import Sized
from typing import cast

from understudy.actors import ActorSystem


def tokens_of(system: ActorSystem) -> Sized:
    """Return the tokens of a system that has no store."""
    return cast(Sized, system._runs._tokens)  # pyright: ignore[reportPrivateUsage]
