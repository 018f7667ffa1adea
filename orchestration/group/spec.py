"""`GroupSpec`: the rules and limits of a sequence or parallel group, as data for its runs."""

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
    """The rules and limits of a `SequenceRun` or `ParallelRun`."""

    runner_id: str
    children: tuple[str, ...]
    """The fingerprints of the children's definitions, in order."""
    pass_output: PassOutput = False
    """Of a sequence: whether a child's input is the previous child's text, or all texts of a group as a JSON array."""
    merge: Merge | None = None
    """Of a parallel group: whether all results count, or the first success. None for a sequence."""
    max_parallel: int | None = None
    """Of a parallel group: how many children run at once; None for all."""
    on_error: OnError = "fail"
    """Of a parallel group that collects all: whether a child's failure fails the group."""

    @property
    def size(self) -> tuple[int, str]:
        """How many children or tasks the state of a run must have, and the word for them."""
        return len(self.children), "children"

    def fingerprint(self) -> str:
        """Return a short digest of the definition; equal specs have equal ones in every process."""
        parts = [self.runner_id, self.children, self.pass_output, self.merge, self.on_error]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def parts(self) -> dict[str, str]:
        """Return a short digest of each part of the fingerprint, by the part's name."""
        from understudy.orchestration.agent.spec_changes import digests

        children = {f"child {position}": print_ for position, print_ in enumerate(self.children, 1)}
        own = {
            "the id": self.runner_id,
            "pass_output": self.pass_output,
            "merge": self.merge,
            "on_error": self.on_error,
        }
        return digests({**own, **children})
