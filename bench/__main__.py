"""`python -m bench`: what understudy costs on this machine, next to what bare threads and bare Pykka cost."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version

from . import journals, memory, postgres, table
from .bursts import CHILDREN, FEW_RUNS, MANY_AGENTS, MANY_CHILDREN, MANY_RUNS, TOOLS
from .calls import CALLS_AT_ONCE
from .circles import DEADLOCK
from .conversations import BEGINNING, TURNS_AT_ONCE
from .endings import CANCEL, DEADLINE
from .fanouts import FIRST_SUCCESS, GRAPH
from .forked import FORK
from .fresh import FIRST, IMPORT
from .limits import LIMITS
from .lives import RESTART, SPAWN
from .measure import Figures, Measure, take
from .messages import ASK, PIPELINED, TELL, TWO_HOP
from .newcomers import FIRST_RUN, NEW_AGENTS
from .programs import PROGRAMS
from .single import CONSTRUCT, RUN, TEN_ROUNDS
from .sizes import FULL, QUICK, Sizes
from .stores import STEP, STEPS
from .streams import STREAM

MEASURES = (
    *(IMPORT, FIRST, CONSTRUCT, RUN, TEN_ROUNDS, FIRST_RUN, FEW_RUNS, MANY_RUNS, MANY_AGENTS, NEW_AGENTS),
    *(TOOLS, CALLS_AT_ONCE, LIMITS, STREAM, DEADLOCK),
    *(CHILDREN, MANY_CHILDREN, FIRST_SUCCESS, GRAPH, CANCEL, DEADLINE),
    *(
        ASK,
        PIPELINED,
        TELL,
        TWO_HOP,
        *PROGRAMS,
        SPAWN,
        RESTART,
        STEP,
        STEPS,
        *postgres.MEASURES,
        *journals.MEASURES,
        BEGINNING,
        TURNS_AT_ONCE,
        *([FORK] if hasattr(os, "fork") else []),
        *memory.MEASURES,
    ),
)

DESCRIPTION = """\
Measure what understudy costs on this machine, next to what bare threads and bare Pykka cost.
The models are functions that answer at once or sleep; nothing leaves this host, and no key is needed.
Everything takes some minutes: begin with --quick. Run it from the project's root.
"""

EXAMPLES = """\
examples:
  python -m bench --quick                   every measure, with tiny sizes, in seconds: shows that it works
  python -m bench                           everything, with the sizes that the targets are meant for
  python -m bench --only run --only ask     two measures
  python -m bench --json > now.json         the same figures for programs
"""

LEGEND = """\
  median, p10, p99   wall-clock time: the middle sample, and those that 10 % and 99 % do not exceed;
                     memory instead of time where the measure's title says so
  cpu                processor time of one sample, all threads together; blank where it was not taken
  ratio              times the first reference, which is measured in turn with it, so that noise hits both
  target             what the project wants: a time, or a ratio; MISSED marks what is beyond it; the targets of
                     cancel and deadline hold for the p99 too, which with less than 100 samples is the worst one
  = ...              a reference, without understudy: the lines below a measure's own
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; a missed target is no failure."""
    options = _parser().parse_args(arguments)
    sizes = QUICK if options.quick else FULL
    if options.rounds is not None:
        sizes = replace(sizes, rounds=options.rounds)
    chosen = [measure for measure in MEASURES if not options.only or measure.name in options.only]
    if options.json:
        _print_json(chosen, sizes)
    else:
        _print_table(chosen, sizes)
    return 0


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join([f"  {m.name:<15} {m.title(FULL)}" for m in MEASURES])
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=DESCRIPTION,
        epilog=f"{EXAMPLES}\nmeasures:\n{listed}\n\nreading the table:\n{LEGEND}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, in seconds: shows that it works, no targets")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        choices=[measure.name for measure in MEASURES],
        help="measure only this; may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, seconds and bytes, and no table")
    parser.add_argument(
        "--rounds",
        type=_positive,
        metavar="N",
        help=f"how often to go around (default {FULL.rounds}); more of them for a machine that does other work too",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {number}")
    return number


def _environment() -> dict[str, object]:
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "pykka": version("pykka"),
        "pydantic": version("pydantic"),
        "understudy": version("understudy"),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _take(measure: Measure, sizes: Sizes) -> list[Figures]:
    def progress(number: int) -> None:
        print(f"{measure.name}: round {number} of {sizes.rounds}", file=sys.stderr, flush=True)

    return take(measure, sizes, progress)


def _print_table(chosen: Sequence[Measure], sizes: Sizes) -> None:
    print(", ".join([f"{name} {value}" for name, value in _environment().items() if value is not None]))
    if sizes.quick:
        print("quick: sizes too small to compare with the targets")
    width = 2 + max(len(side.label) for measure in chosen for side in measure.sides)
    print(table.heading(width), flush=True)
    for measure in chosen:
        print(table.block(f"{measure.name}: {measure.title(sizes)}", _take(measure, sizes), width), flush=True)
    print(f"\n{LEGEND}", end="")


def _print_json(chosen: Sequence[Measure], sizes: Sizes) -> None:
    environment = _environment()
    figures = [each for measure in chosen for each in _take(measure, sizes)]
    rows = [asdict(each) | {"missed": each.missed} for each in figures]
    print(json.dumps({"environment": environment, "quick": sizes.quick, "rows": rows}, indent=2))


if __name__ == "__main__":
    sys.exit(main())
