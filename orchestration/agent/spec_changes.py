"""What differs between the definition that a run was saved with and the one at hand, in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from understudy.errors import SpecChanged

MOST_SHOWN = 5


def digests(parts: Mapping[str, object]) -> dict[str, str]:
    """Return a short digest of each part of a definition, by what the part is called."""
    return {
        name: hashlib.sha256(json.dumps(part, sort_keys=True, default=dict).encode()).hexdigest()[:8]
        for name, part in parts.items()
    }


def spec_changed(whose: str, prints: tuple[str, str], before: Mapping[str, str], now: Mapping[str, str]) -> SpecChanged:
    """Make the error of a run that another definition made.

    Args:
        whose: whose definition it is.
        prints: the fingerprints of the saved definition and of the one at hand.
        before: the digests of the saved definition's parts; empty in texts that are older than they are.
        now: the digests of the parts at hand.
    """
    changes = [f"{part} was removed" for part in before if part not in now]
    changes += [f"{part} was added" for part in now if part not in before]
    changes += [f"{part} changed" for part in before if part in now and before[part] != now[part]]
    more = f", and {len(changes) - MOST_SHOWN} other changes" if len(changes) > MOST_SHOWN else ""
    what = ", ".join(changes[:MOST_SHOWN]) + more if before and changes else f"{prints[0]}, now {prints[1]}"
    return SpecChanged(
        f"the run was saved with another definition of {whose} ({what}); pass adopt=True to go on with the one at hand"
    )
