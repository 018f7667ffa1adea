"""`understudy runs export RUN`: all that a store has of a run, as JSON."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, TextIO, cast

from understudy.commandline.report import COMPLETE, UsageMistake
from understudy.providers.tape.redaction import Redactor

from . import options
from .printing import put, write
from .runs_show import told_of
from .runs_store import as_data, found, looked_at

if TYPE_CHECKING:
    from understudy.actors.stores.inspection.run_list import RunEntry
    from understudy.actors.stores.inspection.stored_runs import StoredRuns

ABOUT = """\
Print all that a store has of a run as one JSON object, to look into it or to
show it to somebody: where it stands, its calls in doubt, its entry, the rows of
its journal, and what it waits with.
What looks like a secret is hidden, and the token is left out.

examples:
  understudy runs export RUN --store sqlite:///shop.db
  understudy runs export RUN --store sqlite:///shop.db -o run.json
"""

TEXTS = ("body", "payload", "accepted", "machine", "saved")
"""Fields that hold JSON as text."""


def add_arguments(export: argparse.ArgumentParser) -> None:
    """Add the arguments of `runs export`."""
    export.add_argument("run", metavar="RUN", type=options.text, help="the id of the run")
    options.add_store(export, again=True)
    export.add_argument("-o", "--output", metavar="FILE", help="write to this file")


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Print the run."""
    runs = looked_at(arguments)
    data = _opened(_data(runs, found(runs, arguments)), "")
    text = json.dumps(Redactor().plain(data), ensure_ascii=False, indent=2)
    if arguments.output is None:
        put(text, out)
    else:
        write(text, arguments.output)
    return COMPLETE


def _data(runs: StoredRuns, entry: RunEntry) -> dict[str, object]:
    status = runs.status(entry)
    data: dict[str, object] = {**as_data(status), "in_doubt": _in_doubt(runs, entry)}
    if entry.head is not None:
        # The table of runs has a run that waits as over, for its journal ended with the pause.
        state = status.phase if entry.head.state == "over" else entry.head.state
        data["run"] = {**entry.head._asdict(), "state": state, "accepted": runs.list.accepted(entry.head)}
        data["rows"] = [row._asdict() for row in runs.list.rows(entry.head)]
    if entry.pause is not None:
        data["pause"] = {name: value for name, value in entry.pause._asdict().items() if name != "nonce"}
    return data


def _in_doubt(runs: StoredRuns, entry: RunEntry) -> list[dict[str, object]] | None:
    """Return the calls in doubt; None if what the store has cannot be read."""
    try:
        told = told_of(runs, entry)
    except UsageMistake:
        return None
    return [
        {"path": list(run.path), "id": each.call.id, "name": each.call.name, "call_key": each.key}
        for run in told.runs
        for each in run.calls
        if each.standing == "in doubt"
    ]


def _opened(value: object, name: str) -> object:
    """Return a value with the JSON that it holds as text: rules for secrets see the names of fields then."""
    if isinstance(value, str) and name in TEXTS:
        try:
            return _opened(json.loads(value), "")
        except ValueError:
            return value
    if isinstance(value, dict):
        return {key: _opened(each, key) for key, each in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_opened(each, "") for each in cast("list[object]", value)]
    return value
