"""The agents below an agent: its sub-agents, and theirs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from understudy.orchestration import Agent
from understudy.orchestration.supervisors import Child


def below(agents: Iterable[Agent[object]]) -> list[Agent[object]]:
    """Return the sub-agents of `agents`, at any depth, each once."""
    found: dict[Agent[object], None] = {}
    due = list(agents)
    for agent in due:  # it grows meanwhile
        for sub_agent in agent.sub_agents:
            runner = sub_agent.runner
            if isinstance(runner, Agent) and runner not in found:
                found[runner] = None
                due.append(runner)
    return list(found)


def children_below(children: Sequence[Child]) -> list[Child]:
    """Return how the sub-agents of `children` are spawned; those that are children themselves are among them.

    Raises:
        ValueError: one has the name of a child that is no agent, or the id of an agent that is defined in another way.
    """
    named = {child.name: child.agent for child in children if child.name}
    found = below([child.agent for child in children if child.agent is not None])
    for agent in found:
        before = named.setdefault(agent.id, agent)
        if before is None or (before is not agent and before.fingerprint() != agent.fingerprint()):
            what = "an actor" if before is None else "an agent that is defined in another way"
            raise ValueError(f"sub-agent {agent.id!r} has the id of {what}; take another one")
    return [Child(agent) for agent in found]
