"""Paused runs as the runtime keeps them, which shows nowhere else."""

from __future__ import annotations

from understudy.actors import ActorSystem
from understudy.actors.runs import Runs
from understudy.actors.saving import load, save
from understudy.actors.tokens import Tokens
from understudy.orchestration import Agent
from understudy.orchestration.saved import SavedRun
from understudy.scope import Scope


def runs_of(system: ActorSystem) -> Runs:
    return system._runs  # pyright: ignore[reportPrivateUsage]


def tokens_of(system: ActorSystem) -> Tokens:
    return runs_of(system)._tokens  # pyright: ignore[reportPrivateUsage]


def through_text(token: str, old: ActorSystem, agent: Agent, new: ActorSystem) -> str:
    """Take a paused run to another system as text, where `agent` goes on with it, and return its token there."""
    saved = SavedRun.from_json(save(tokens_of(old).take(token)))
    record = load(saved, agent, None, Scope(None, lambda: 0.0), runs_of(new), new.cell_of(agent))
    return tokens_of(new).issue(record)
