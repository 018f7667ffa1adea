"""`understudy runs`: the runs of all processes that have a store."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

from understudy.commandline.report import COMPLETE, one_line

from . import options
from .printing import put, warn
from .runs_store import as_data, in_words, looked_at, time_in_words

if TYPE_CHECKING:
    from understudy.vocabulary.runs.stored_runs import StoredRunStatus

ABOUT = """\
List the runs that a store has, of all processes, or look after one of them.
A look makes no file and no table, and changes no run.

  under way      a living process drives it
  left           its process died; system.recover() or 'runs resume' goes on
  waits          for a person, or for 'runs resume' after an error or at a limit
  cannot go on   no process goes on with it
  over           it ended; shown with --all, for 30 days

examples:
  understudy runs --store sqlite:///shop.db
  understudy runs --store sqlite:///shop.db --system shop --all --json
  understudy runs show RUN --store sqlite:///shop.db
"""

ACTIONS = {
    "show": "tell what one run has done, what is in doubt, and what it waits for",
    "resume": "go on with a run that waits, or whose process died",
    "cancel": "end a run for good",
    "export": "print all that the store has of a run, as JSON",
    "delete": "remove a run, or old runs, from the store",
}


def add_arguments(runs: argparse.ArgumentParser) -> None:
    """Add the arguments of `runs`, and its actions."""
    options.add_store(runs)
    runs.add_argument("--system", metavar="NAME", type=options.text, default="", help="only the runs of this system")
    runs.add_argument("--all", action="store_true", help="those that are over, too")
    options.add_json(runs, "print one JSON object")
    raw = argparse.RawDescriptionHelpFormatter
    actions = runs.add_subparsers(title="actions", metavar="ACTION", dest="action")
    for name, help in ACTIONS.items():
        module = import_module(f"understudy.commandline.commands.runs_{name}")
        each = actions.add_parser(name, help=help, formatter_class=raw, allow_abbrev=False, description=module.ABOUT)
        module.add_arguments(each)
        each.set_defaults(do=module.do)


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Print the runs, or carry out the action."""
    action: Callable[[argparse.Namespace, TextIO], int] | None = getattr(arguments, "do", None)
    if action is not None:
        return action(arguments, out)
    statuses = list(looked_at(arguments).statuses(arguments.system, over=arguments.all))
    if arguments.json:
        put(json.dumps({"runs": [as_data(each) for each in statuses]}, ensure_ascii=False), out)
    elif statuses:
        put(_table(statuses), out)
    else:
        warn("no runs")
    return COMPLETE


HEADS = ("RUN", "RUNNER", "STATUS", "TIME", "TAKEOVERS", "USER")


def _table(statuses: Iterable[StoredRunStatus]) -> str:
    rows = [HEADS, *[_row(each) for each in statuses]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows])


def _row(status: StoredRunStatus) -> tuple[str, ...]:
    cells = (status.run_id, status.runner_id, in_words(status), time_in_words(status), f"{status.takeovers}")
    return tuple([one_line(cell) or "-" for cell in (*cells, status.user_id or "")])
