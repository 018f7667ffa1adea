"""`python -m tests.interleavings`: record the schedules of the mutants again, after an edit that outdates them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import pytest

DESCRIPTION = """\
Record again the schedules at which the runtime fails if it has a certain mistake.

A mutant is a mistake made in the runtime's own text, such as a lock that is not taken. Each is searched for a schedule of
threads at which its model fails; the first one found is written to tests/interleavings/schedules/, where the tests follow
it again. Do this when a test says that an edit has outdated a schedule, and commit the files. To search the code as it
stands, run `pytest tests/interleavings`. docs/testing.md says more.
"""

EPILOG = """\
exit status: 0 if all were found, 1 if one was not, 2 for wrong options or without interleave-test

examples, from the project's root, in an environment of their own (docs/testing.md):
  .cache/interleavings/bin/python -m tests.interleavings                       all of them, in some minutes
  .cache/interleavings/bin/python -m tests.interleavings put_without_lock      one of them
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Search each mutant named, or all of them, and keep what is found; the status is 1 if one is not found."""
    parser = _parser()
    names: list[str] = parser.parse_args(arguments).names
    try:  # after the help, which needs no scheduler
        from .mutants import BOUND, MUTANTS
        from .search import search
    except pytest.skip.Exception as missing:
        parser.error(str(missing))
    unknown = sorted(set(names) - {mutant.name for mutant in MUTANTS})
    if unknown:
        parser.error(f"no mutant {', '.join(unknown)}; there are {', '.join([mutant.name for mutant in MUTANTS])}")
    missed = 0
    for mutant in MUTANTS:
        if names and mutant.name not in names:
            continue
        with mutant.applied():
            found = search(mutant.models[0], schedules=BOUND, granularity=mutant.granularity, mutant=mutant.name)
        if found is None:
            missed += 1
            print(f"{mutant.name}: not found in {BOUND} schedules")
        else:
            print(f"{mutant.name}: schedule {found.schedule.number}, kept in {found.schedule.keep().name}")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.interleavings",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant; all of them if none is named")
    return parser


if __name__ == "__main__":
    sys.exit(main())
