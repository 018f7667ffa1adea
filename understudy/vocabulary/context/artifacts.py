"""What was too long for a model to read at once: kept whole beside the run, while the model gets its head and tail."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

MAX_KEPT = 32 * 2**20  # Characters of one run's artifacts together; the oldest go first.
NAMED = "artifact-"  # What ids begin with; the number of the artifact in its run follows.


@dataclass(frozen=True, slots=True)
class Artifact:
    """The whole of a tool's text of which the model was given a part."""

    id: str
    """Unique in its run; the mark in the cut result names it."""
    tool: str
    """The name of the tool that returned it."""
    call_id: str
    """The call that returned it; unique within its turn."""
    text: str


class Artifacts(Mapping[str, Artifact]):
    """The artifacts of one run, by id, in the order in which they came. Safe to use from many threads.

    It holds at most `MAX_KEPT` characters: when there are more, the oldest artifacts are forgotten.

    Args:
        kept: those of the same run before its pause, in their order.
    """

    __slots__ = ("_kept", "_lock", "_made", "_size")

    def __init__(self, kept: Iterable[Artifact] = ()) -> None:
        self._lock = threading.Lock()
        """Guards what is kept, its size and the number made."""
        self._kept: dict[str, Artifact] = {}
        self._size = 0
        self._made = 0
        for artifact in kept:
            self._kept[artifact.id] = artifact
            self._size += len(artifact.text)
            if artifact.id.startswith(NAMED):  # what was taken over has ids of its own
                # The newest is never forgotten, so its number is how many were made.
                self._made = int(artifact.id.removeprefix(NAMED))

    def add(self, tool: str, call_id: str, text: str) -> Artifact:
        """Keep a text, and return the artifact that it is."""
        with self._lock:
            self._made += 1
            artifact = Artifact(f"{NAMED}{self._made}", tool, call_id, text)
            self._keep(artifact)
        return artifact

    def take(self, prefix: str, artifacts: Mapping[str, Artifact]) -> None:
        """Keep those of a run inside of this one under ids that begin with `prefix`, in the place of what was there."""
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
        """Return what is kept at this moment."""
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
    """Return the head and the tail of a text, `limit` characters together, with what is missing told between them.

    Args:
        text: longer than `limit`.
        limit: at least 1.
        mark: what is said of the rest; it comes on top of the limit.
    """
    tail = limit // 4  # What comes first is mostly what matters; the end tells how it ended.
    head = limit - tail
    told = f"[… {len(text) - limit:,} of {len(text):,} characters are left out here{mark} …]"
    return "\n".join([text[:head], told, text[len(text) - tail :]])
