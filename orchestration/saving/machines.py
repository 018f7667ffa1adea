"""Makes and loads the machine that fits a kind of orchestrator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from understudy.orchestration.definitions.groups import Group, ParallelAgent, SequentialAgent
from understudy.orchestration.definitions.runner import Runner
from understudy.orchestration.definitions.workflow import Workflow
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.group.parallel_run import ParallelRun
from understudy.orchestration.group.sequence_run import SequenceRun
from understudy.vocabulary.messages import JsonValue, Part

Orchestrator: TypeAlias = Group | Workflow
"""A runner whose runs only start other runs."""

Machine: TypeAlias = SequenceRun | ParallelRun | GraphRun


def begun(
    runner: Orchestrator, input: str | Sequence[Part], parameters: Mapping[str, JsonValue] | None = None
) -> Machine:
    """Return the machine of a new run.

    Raises:
        ValueError: parameters are missing, unknown, or given to what takes none.
        TypeError: no machine is known for this kind of runner.
    """
    match runner:
        case Workflow():
            return GraphRun(runner.run_spec, input, parameters)
        case _ if parameters is not None:
            raise ValueError(f"{runner.id!r} takes no parameters; a Workflow does")
        case SequentialAgent():
            return SequenceRun(runner.run_spec, input)
        case ParallelAgent():
            return ParallelRun(runner.run_spec, input)
        case _:
            raise TypeError(f"{runner!r} is no sequence, parallel group or workflow")


def loaded(runner: Orchestrator, text: str, *, adopt: bool = False) -> Machine:
    """Return the machine that was saved by `to_json`.

    Raises:
        SpecChanged: the run was saved with another definition of the runner, and `adopt` is false.
        ValueError: the text is no saved run, or of another number of children.
        TypeError: no machine is known for this kind of runner.
    """
    match runner:
        case Workflow():
            return GraphRun.from_json(text, runner.run_spec, adopt=adopt)
        case SequentialAgent():
            return SequenceRun.from_json(text, runner.run_spec, adopt=adopt)
        case ParallelAgent():
            return ParallelRun.from_json(text, runner.run_spec, adopt=adopt)
        case _:
            raise TypeError(f"{runner!r} is no sequence, parallel group or workflow")


def runner_at(runner: Orchestrator, machine: Machine, position: int) -> Runner[object]:
    """Return the runner of the child at a position."""
    if isinstance(runner, Workflow):
        assert isinstance(machine, GraphRun)
        return runner.tasks[machine.task_at(position)].runner
    return runner.children[position]
