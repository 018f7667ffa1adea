"""`understudy runs resume RUN FILE.yaml`: goes on with a run that waits, or whose process died."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, TextIO

from understudy.actors.pauses.stored_pauses import Token
from understudy.actors.runs.run_handle import Handle
from understudy.actors.system.actor_system import inside, runs_of
from understudy.actors.system.recovery.parked_runs import ParkedRuns
from understudy.actors.system.recovery.recovery import Recovery
from understudy.commandline.report import UsageMistake

from . import options
from .answers import refuse_unanswered
from .loading import load
from .resume import Begun, add_options, carry_out
from .runs_store import found, looked_at
from .waiting import system_of

if TYPE_CHECKING:
    from understudy.actors import ActorSystem
    from understudy.orchestration.definitions.runner import Runner
    from understudy.vocabulary.runs.handles import RunHandle

ABOUT = """\
Go on with a run by its id, as 'understudy resume' does by its token, and print
its answer. A run that waits needs an answer, if a person was asked. A run whose
process died goes on without one, from its last finished step; if it waits then,
its new token is printed. The spec must define the same agent, group or workflow.

examples:
  understudy runs resume RUN shop.yaml --store sqlite:///shop.db
  understudy runs resume RUN shop.yaml --store sqlite:///shop.db --approve
  understudy runs resume RUN shop.yaml --store sqlite:///shop.db --happened call-2-0=paid
"""


def add_arguments(resume: argparse.ArgumentParser) -> None:
    """Add the arguments of `runs resume`."""
    resume.epilog = options.EXITS
    resume.add_argument("run", metavar="RUN", type=options.text, help="the id of the run")
    add_options(resume, again=True)


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Load the spec, go on with the run, and print the answer."""
    refuse_unanswered(arguments)
    runs = looked_at(arguments)
    entry = found(runs, arguments)
    status, waits = runs.status(entry), entry.waits
    match status.phase:
        case "under_way":
            raise UsageMistake(f"a living process drives run {status.run_id}; it goes on there")
        case "over":
            raise UsageMistake(f"run {status.run_id} is over ({status.reason})")
        case "cannot_go_on" if entry.head is not None and entry.head.state == "parked":
            raise UsageMistake(f"run {status.run_id} cannot go on: {status.reason}")
        case _:
            loaded, system = load(arguments.file, arguments.tools), system_of(arguments, status.system)
    if status.phase == "waiting" and waits is not None:
        arguments.token = str(Token(entry.run_id, waits.revision, waits.nonce))
        return carry_out(loaded, system, arguments, out)
    if arguments.answers:
        raise UsageMistake(
            f"run {status.run_id} was left by its process, and does not wait yet: resume it without an answer; if it "
            "waits then, answer it"
        )
    return carry_out(loaded, system, arguments, out, Begun(status.runner_id, partial(_recovered, arguments, system)))


def _recovered(arguments: argparse.Namespace, system: ActorSystem, runner: Runner[object]) -> RunHandle[object]:
    """Go on with the run as `recover` does with all of them, or say why it stays."""
    runs, run_id = runs_of(system), arguments.run
    journals, parked = runs.journaling.journals, ParkedRuns()
    if journals is None:
        raise UsageMistake(f"run {run_id} cannot go on: there are no journals of runs in this store on this system")
    with inside(system):
        recovery = Recovery(runs, journals, {runner.id: runner}, None, parked, adopt=arguments.adopt, named=[run_id])
        left = journals.left_run(run_id)
        record = None if left is None else recovery.taken(left)
    if record is None:
        why = [
            f"run {run_id} cannot go on: {each.why}\n  here: --adopt, if its definition has changed"
            for each in parked.told()
        ]
        raise UsageMistake(*why or [f"run {run_id} goes on in another process, or is over"])
    return Handle(record)
