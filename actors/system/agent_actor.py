"""The actor that stands for a runner: it starts the runner's runs and never blocks.

It has no state of its own to lose. What a restart makes afresh is what an agent works with: its model lets go of the
connections it has.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from sys import maxsize
from typing import TYPE_CHECKING

from understudy.actors.actor.actor import Actor
from understudy.actors.runs.record import RunRecord
from understudy.orchestration import Agent
from understudy.vocabulary.actors.messages import Mailbox
from understudy.vocabulary.models import ModelName, Renewable

if TYPE_CHECKING:
    from understudy.orchestration.definitions.runner import Runner

ROOM_FOR_RUNS = Mailbox(maxsize)  # The sender of a burst of runs limits it, not the mailbox of the agent.


@dataclass(slots=True)
class StartRun:
    """Start a driver for a run, which must still be at `epoch`; no reply."""

    record: RunRecord
    epoch: int = 0


class AgentActor(Actor[StartRun]):
    """Starts the drivers of one runner's runs. Who is in flight is known to the watchdog of the system's runs.

    Args:
        runner: whose actor this is; it lives for as long as the runner does, and must not keep it alive.
    """

    def __init__(self, runner: weakref.ref[Runner[object]]) -> None:
        self._runner = runner

    def on_receive(self, message: StartRun) -> None:
        if not isinstance(message, StartRun):
            raise TypeError(f"an agent's actor takes StartRun, got {type(message).__name__}")
        # The record refuses the driver if the run has ended meanwhile.
        message.record.host.drive(message.record, message.epoch, last=True)

    def before_restart(self, error: BaseException, message: object) -> None:
        runner = self._runner()
        if not isinstance(runner, Agent):
            return
        model = runner.current_model
        if isinstance(model, ModelName):
            from understudy.providers import resolve

            model = resolve(model)
        if isinstance(model, Renewable):
            model.renew()


class Maker:
    """Makes the actors that stand for a runner, one after another."""

    __slots__ = ("_runner",)

    def __init__(self, runner: Runner[object]) -> None:
        self._runner = weakref.ref(runner)

    def __call__(self) -> AgentActor:
        return AgentActor(self._runner)
