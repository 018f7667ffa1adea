"""The differences between the definition that a run was saved with and the present one, in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from understudy.errors import SpecChanged

MOST_SHOWN = 5


def digests(parts: Mapping[str, object]) -> dict[str, str]:
    """Return a short digest of each part of a definition, by the part's name."""
    return {
        name: hashlib.sha256(json.dumps(part, sort_keys=True, default=dict).encode()).hexdigest()[:8]
        for name, part in parts.items()
    }


def spec_changed(whose: str, prints: tuple[str, str], before: Mapping[str, str], now: Mapping[str, str]) -> SpecChanged:
    """Return the error for a run that was saved with another definition.

    Args:
        whose: the owner of the definition, in words.
        prints: the fingerprints of the saved and of the present definition.
        before: the digests of the saved definition's parts; empty in texts of versions that had no such digests.
        now: the digests of the present definition's parts.
    """
    changes = [f"{part} was removed" for part in before if part not in now]
    changes += [f"{part} was added" for part in now if part not in before]
    changes += [f"{part} changed" for part in before if part in now and before[part] != now[part]]
    more = f", and {len(changes) - MOST_SHOWN} other changes" if len(changes) > MOST_SHOWN else ""
    what = ", ".join(changes[:MOST_SHOWN]) + more if before and changes else f"{prints[0]}, now {prints[1]}"
    return SpecChanged(
        f"the run was saved with another definition of {whose} ({what}); pass adopt=True to go on with the one at hand"
    )
