"""The runners inside of a runner: an agent's sub-agents, the children of a group, and theirs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from understudy.orchestration.runner import Runner
from understudy.orchestration.supervisors import Child


def below(runners: Iterable[Runner[object]]) -> list[Runner[object]]:
    """Return the runners inside of `runners`, at any depth, each once."""
    found: dict[Runner[object], None] = {}
    due = list(runners)
    for runner in due:  # it grows meanwhile
        for inner in runner.inner_runners:
            if inner not in found:
                found[inner] = None
                due.append(inner)
    return list(found)


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
