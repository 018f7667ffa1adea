"""The actor that stands for an agent: it keeps the books of the agent's runs and never blocks."""

from __future__ import annotations

from dataclasses import dataclass

from .record import Record
from .runs import Runs


@dataclass(slots=True)
class StartRun:
    """Start a driver for a run; no reply."""

    record: Record


@dataclass(slots=True)
class RunEnded:
    """A run ended or paused; no reply."""

    run_id: str


class AgentActor:
    """Keeps track of one agent's runs."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._in_flight: dict[str, Record] = {}

    def on_receive(self, message: object) -> object:
        match message:
            case StartRun(record=record):
                if record.phase == "running":
                    self._in_flight[record.run_id] = record
                    self._runs.drive(record, record.epoch, last=True)
                return None
            case RunEnded(run_id=run_id):
                self._in_flight.pop(run_id, None)
                return None
            case _:
                raise TypeError(f"an agent's actor takes no {type(message).__name__}")
