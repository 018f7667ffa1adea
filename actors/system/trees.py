"""Who is spawned together with a runner: the runners inside of it."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.orchestration.definitions.runner import below
from understudy.orchestration.supervision.supervisor import Child


def children_below(children: Sequence[Child]) -> list[Child]:
    """Return how the runners inside of `children` are spawned; those that are children themselves are among them.

    Raises:
        ValueError: one has the name of a child that is no runner, or the id of one that is defined in another way.
    """
    named = {child.name: child.runner for child in children if child.name}
    found = below([child.runner for child in children if child.runner is not None])
    for runner in found:
        before = named.setdefault(runner.id, runner)
        if before is None or (before is not runner and before.fingerprint() != runner.fingerprint()):
            what = "an actor" if before is None else "an agent that is defined in another way"
            raise ValueError(f"sub-agent {runner.id!r} has the id of {what}; take another one")
    return [Child(runner) for runner in found]
