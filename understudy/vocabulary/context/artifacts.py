"""Artifacts: the full texts of tool results that were too long for the model, which gets their head and tail."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

MAX_KEPT = 32 * 2**20  # Characters of one run's artifacts together; the oldest go first.
NAMED = "artifact-"  # The first part of ids; the number of the artifact in its run follows.


@dataclass(frozen=True, slots=True)
class Artifact:
    """The full text of a tool result of which the model got a part."""

    id: str
    """Unique in its run; the cut result quotes it."""
    tool: str
    """The name of the tool that returned it."""
    call_id: str
    """The call that returned it; unique within its turn."""
    text: str


class Artifacts(Mapping[str, Artifact]):
    """The artifacts of one run, by id, in the order in which they came. Safe to use from many threads.

    It holds at most `MAX_KEPT` characters: when there are more, the oldest artifacts are forgotten.

    Args:
        kept: the artifacts of the same run before its pause, in order.
    """

    __slots__ = ("_kept", "_lock", "_made", "_size")

    def __init__(self, kept: Iterable[Artifact] = ()) -> None:
        self._lock = threading.Lock()
        """Guards the artifacts, their size and their number."""
        self._kept: dict[str, Artifact] = {}
        self._size = 0
        self._made = 0
        for artifact in kept:
            self._kept[artifact.id] = artifact
            self._size += len(artifact.text)
            if artifact.id.startswith(NAMED):  # adopted artifacts have other ids
                # The newest is never forgotten, so its number is how many were made.
                self._made = int(artifact.id.removeprefix(NAMED))

    def add(self, tool: str, call_id: str, text: str) -> Artifact:
        """Keep a text, and return its artifact."""
        with self._lock:
            self._made += 1
            artifact = Artifact(f"{NAMED}{self._made}", tool, call_id, text)
            self._keep(artifact)
        return artifact

    def take(self, prefix: str, artifacts: Mapping[str, Artifact]) -> None:
        """Adopt the artifacts of an inner run under ids that begin with `prefix`; replaces those with the prefix."""
        with self._lock:
            for id in [id for id in self._kept if id.startswith(prefix)]:
                self._size -= len(self._kept.pop(id).text)
            for artifact in artifacts.values():
                self._keep(replace(artifact, id=prefix + artifact.id))

    def _keep(self, artifact: Artifact) -> None:
        self._kept[artifact.id] = artifact
        self._size += len(artifact.text)
        while self._size > MAX_KEPT and len(self._kept) > 1:
            oldest = self._kept.pop(next(iter(self._kept)))
            self._size -= len(oldest.text)

    def snapshot(self) -> dict[str, Artifact]:
        """Return a copy of the artifacts."""
        if not self._kept:  # as in most runs
            return {}
        with self._lock:
            return dict(self._kept)

    def __getitem__(self, id: str) -> Artifact:
        return self._kept[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.snapshot())

    def __len__(self) -> int:
        return len(self._kept)


def cut(text: str, limit: int, mark: str) -> str:
    """Return the head and the tail of a text, `limit` characters together, with a mark about the rest between them.

    Args:
        text: longer than `limit`.
        limit: at least 1.
        mark: the text about the rest; not counted in the limit.
    """
    tail = limit // 4  # The start usually matters most; the end has the conclusion.
    head = limit - tail
    told = f"[… {len(text) - limit:,} of {len(text):,} characters are left out here{mark} …]"
    return "\n".join([text[:head], told, text[len(text) - tail :]])
