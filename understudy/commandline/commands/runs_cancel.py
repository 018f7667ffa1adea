"""`understudy runs cancel RUN`: ends a run of any process, for good."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TextIO

from understudy.commandline.report import COMPLETE, UsageMistake

from . import options
from .printing import put
from .runs_store import found, looked_at, opened

ABOUT = """\
End a run for good: it never goes on, and its token is void. A run that waits, or
whose process died, ends at once. A living process that drives the run is asked
to cancel it, and the list shows the request until the run is over.

examples:
  understudy runs cancel RUN --store sqlite:///shop.db
"""


def add_arguments(cancel: argparse.ArgumentParser) -> None:
    """Add the arguments of `runs cancel`."""
    cancel.add_argument("run", metavar="RUN", type=options.text, help="the id of the run")
    options.add_store(cancel, again=True)


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Cancel the run, and print what came of it."""
    found(looked_at(arguments), arguments)  # before the store is opened: a look makes no tables
    runs = opened(arguments)
    change = runs.cancel_latest(partial(found, runs, arguments))
    if change == "over":
        raise UsageMistake(f"run {arguments.run} is over")
    done = "asked the process that drives it to cancel" if change == "requested" else "cancelled"
    put(f"{done}: {arguments.run}", out)
    return COMPLETE
