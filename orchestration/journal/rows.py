"""The rows of a journal: their kinds."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from understudy.vocabulary.messages import JsonValue

DEFINITION, LINE = "definition", "line"
"""What a run goes by, and what has happened in it: a row for each append."""
RUN, ARTIFACT, SAVED = "run", "artifact", "saved"
"""What stands beside the line."""


SavedValue: TypeAlias = tuple[int, JsonValue, bool]
"""What a run stored of a key of its session: the version, the value, and whether it removed the key."""


class JournalRow(NamedTuple):
    """A row of one run: a later row with the same kind and key replaces it."""

    kind: str
    key: str
    body: str
