"""What depends on the kind of a runner: the record of its run, and who drives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.messages import Part
from understudy.orchestration import Agent

from .driver import Driver
from .record import Record
from .runrecord import RunDriver, RunRecord

if TYPE_CHECKING:
    from understudy.orchestration.port import RunOptions
    from understudy.orchestration.runner import Runner
    from understudy.scope import Scope

    from .actorcell import ActorCell
    from .runs import Runs


def new_record(
    run_id: str,
    runner: Runner[object],
    input: str | Sequence[Part],
    options: RunOptions,
    scope: Scope,
    runs: Runs,
    cell: ActorCell,
) -> RunRecord:
    """Return the record of a run that begins; what is wrong with the definition is raised here, and not by a driver."""
    if isinstance(runner, Agent):
        _ = runner.run_spec
        return Record(run_id, runner, input, options, scope, runs, cell)
    raise TypeError(f"expected an agent, got {runner!r}")


def driver_of(runs: Runs, record: RunRecord, epoch: int) -> RunDriver:
    """Return a driver for a run from `epoch` on."""
    assert isinstance(record, Record)
    return Driver(runs, record, epoch)
