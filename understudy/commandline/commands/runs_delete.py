"""`understudy runs delete`: removes a run, or runs that are old, from a store."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO, TypeAlias

from understudy.commandline.report import COMPLETE, UsageMistake

from . import options
from .printing import put, warn
from .runs_store import found, looked_at, opened

if TYPE_CHECKING:
    from understudy.actors.stores.inspection.stored_runs import StoredRuns
    from understudy.vocabulary.runs.stored_runs import StoredRunStatus

IsMeant: TypeAlias = "Callable[[StoredRunStatus], bool]"
ABOUT = """\
Remove from a store all that it has of a run: its journal, what it waits with,
and its token. What conversations and sessions have of it stays. Nothing can
bring it back. A run that a living process drives is refused: cancel it first.

With --older-than, remove runs that ended so long ago, or with --waiting those
that have waited so long. Runs under way, and runs that were left, stay.

examples:
  understudy runs delete RUN --store sqlite:///shop.db
  understudy runs delete --older-than 7d --store sqlite:///shop.db --yes
  understudy runs delete --older-than 90d --waiting --store sqlite:///shop.db
"""

UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def add_arguments(delete: argparse.ArgumentParser) -> None:
    """Add the arguments of `runs delete`."""
    which = delete.add_mutually_exclusive_group(required=True)
    which.add_argument("run", metavar="RUN", nargs="?", type=options.text, help="the id of the run")
    which.add_argument("--older-than", metavar="TIME", type=age, help="such as 30d, 12h or 90m")
    kinds = delete.add_mutually_exclusive_group()
    kinds.add_argument("--ended", action="store_true", help="with --older-than: runs that are over; the default")
    kinds.add_argument("--waiting", action="store_true", help="with --older-than: runs that wait")
    delete.add_argument("--system", metavar="NAME", default=argparse.SUPPRESS, help="only those of this system")
    options.add_store(delete, again=True)
    delete.add_argument("--yes", action="store_true", help="do not ask")


def age(text: str) -> float:
    """Return a time such as `30d` in seconds."""
    read = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if read is None:
        raise argparse.ArgumentTypeError(f"expected a number of m, h, d or w, such as 30d, got {text!r}")
    return int(read[1]) * UNITS[read[2]]


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Delete the run or the runs, and print how many there were."""
    looked = looked_at(arguments)
    if arguments.older_than is None:
        is_meant = _by_id(looked, arguments)
        chosen = [arguments.run]
    else:
        is_meant = _by_age(arguments)
        chosen = _old(looked, is_meant, arguments)
    if not chosen:
        warn("no run is so old")
    elif arguments.yes or _agreed(len(chosen)):
        put(f"deleted: {_counted(_deleted(opened(arguments), chosen, is_meant))}", out)
    else:
        warn("nothing was deleted")
    return COMPLETE


def _by_id(runs: StoredRuns, arguments: argparse.Namespace) -> IsMeant:
    if arguments.ended or arguments.waiting:
        raise UsageMistake("--ended and --waiting choose among old runs; expected --older-than TIME with them")
    if runs.status(found(runs, arguments)).phase == "under_way":
        raise UsageMistake(
            f"a living process drives run {arguments.run}; first: understudy runs cancel {arguments.run}"
        )
    return lambda status: status.phase != "under_way"


def _by_age(arguments: argparse.Namespace) -> IsMeant:
    before, phase = time.time() - arguments.older_than, "waiting" if arguments.waiting else "over"
    return lambda status: status.phase == phase and status.since is not None and status.since <= before


def _old(runs: StoredRuns, is_meant: IsMeant, arguments: argparse.Namespace) -> list[str]:
    statuses = list(runs.statuses(arguments.system, over=True))
    unknown = sum([each.phase == "waiting" and each.since is None for each in statuses])
    if arguments.waiting and unknown:
        warn(f"the store does not say how long {_counted(unknown)} waited; delete them by their ids")
    return [each.run_id for each in statuses if is_meant(each)]


def _agreed(count: int) -> bool:
    if not sys.stdin.isatty():
        raise UsageMistake(f"{_counted(count)} would be deleted, and nobody can be asked here; pass --yes to delete")
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(EOFError):
        return input(f"Delete {_counted(count)}? [y/N] ").strip().lower() in ("y", "yes")
    return False


def _deleted(runs: StoredRuns, chosen: list[str], is_meant: IsMeant) -> int:
    """Delete runs, and return how many; one that has gone on since it was chosen stays."""
    deleted = 0
    for run_id in chosen:
        entry = runs.list.entry(run_id)
        if entry is not None and is_meant(runs.status(entry)) and runs.delete(entry) == "done":
            deleted += 1
        elif entry is not None:
            warn(f"run {run_id} has gone on meanwhile, and stays")
    return deleted


def _counted(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
