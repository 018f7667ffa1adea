"""The actor that stands for an agent: it starts the agent's runs and never blocks."""

from __future__ import annotations

from dataclasses import dataclass

from .record import Record
from .runs import Runs


@dataclass(slots=True)
class StartRun:
    """Start a driver for a run; no reply."""

    record: Record


class AgentActor:
    """Starts the drivers of one agent's runs. Who is in flight is known to the watchdog of the system's runs."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def on_receive(self, message: object) -> None:
        if not isinstance(message, StartRun):
            raise TypeError(f"an agent's actor takes StartRun, got {type(message).__name__}")
        # The record refuses the driver if the run has ended meanwhile.
        self._runs.drive(message.record, message.record.epoch, last=True)
