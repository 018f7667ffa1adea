"""What names the inputs of a map in the store: a digest of the input, and which of several equal inputs it is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import cast

from understudy.orchestration.agent.feed_checks import checked_input

from .accepted_run import parts_text


class InputKeys:
    """Names the inputs of one map, in their order. For one thread at a time."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()

    def key(self, given: object) -> str:
        """Return the key of the next input: the same in each call with this input, wherever it stands.

        Raises:
            TypeError, ValueError: it is neither text, nor parts, nor parameters.
        """
        digest = sha256(_text_of(given).encode("utf-8", "surrogatepass")).digest()
        self._seen[digest] += 1
        return f"{digest.hex()}/{self._seen[digest]}"


def _text_of(given: object) -> str:
    if isinstance(given, Mapping):
        return json.dumps(dict(cast("Mapping[str, object]", given)), sort_keys=True)
    checked = checked_input(given)
    return json.dumps(checked) if isinstance(checked, str) else parts_text(checked)
