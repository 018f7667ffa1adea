"""`LoadedSpec`: what a spec described."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from understudy.errors import SpecError
from understudy.orchestration import Agent

from .problems import did_you_mean, listed


@dataclass(frozen=True, slots=True, eq=False)
class LoadedSpec:
    """The definitions made from one spec; they are what Python code would have made.

    Attributes:
        source: the file, or `<text>`.
        agents: by id, in the order of the text.
    """

    source: str
    agents: Mapping[str, Agent]

    def __post_init__(self) -> None:
        object.__setattr__(self, "agents", MappingProxyType(dict(self.agents)))

    def agent(self, id: str) -> Agent:
        """Return the agent with this id.

        Raises:
            SpecError: there is none; the message names those there are.
        """
        found = self.agents.get(id)
        if found is None:
            there = listed(self.agents, "no agents")
            raise SpecError(f"{self.source}: no agent {id!r}; it has {there}{did_you_mean(id, self.agents)}")
        return found
