"""`GroupSpec`: what the run of an orchestrator needs to know of its definition, as data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

PassOutput: TypeAlias = 'bool | Literal["combined"]'
Merge: TypeAlias = Literal["collect_all", "first"]
OnError: TypeAlias = Literal["fail", "collect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """What a `SequenceRun` or `ParallelRun` decides by."""

    runner_id: str
    children: tuple[str, ...]
    """The fingerprints of the children's definitions, in order."""
    pass_output: PassOutput = False
    """Of a sequence: whether a child is told the text of the one before it, or all texts of a group as a JSON array."""
    merge: Merge | None = None
    """Of a parallel group: whether all children count, or the first that succeeds. None for a sequence."""
    max_parallel: int | None = None
    """Of a parallel group: how many children run at once; None for all."""
    on_error: OnError = "fail"
    """Of a parallel group that merges all: whether a child's failure is the group's."""

    @property
    def size(self) -> tuple[int, str]:
        """How many parts a run must know of, and what they are called."""
        return len(self.children), "children"

    def fingerprint(self) -> str:
        """Return a short digest of the definition; equal specs have equal ones in every process."""
        parts = [self.runner_id, self.children, self.pass_output, self.merge, self.on_error]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def parts(self) -> dict[str, str]:
        """Return a short digest of each part of what the fingerprint is of, by what the part is called."""
        from understudy.orchestration.agent.spec_changes import digests

        children = {f"child {position}": print_ for position, print_ in enumerate(self.children, 1)}
        own = {
            "the id": self.runner_id,
            "pass_output": self.pass_output,
            "merge": self.merge,
            "on_error": self.on_error,
        }
        return digests({**own, **children})
