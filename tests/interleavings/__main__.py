"""Record the schedules of the mutants again, after an edit that outdates them: `python -m tests.interleavings [NAME ...]`."""

from __future__ import annotations

import sys

from .mutants import BOUND, MUTANTS
from .search import search


def main(names: list[str]) -> int:
    """Search each mutant named, or all of them, and keep what is found; the status is 1 if one is not found."""
    missed = 0
    for mutant in MUTANTS:
        if names and mutant.name not in names:
            continue
        with mutant.applied():
            found = search(mutant.model, schedules=BOUND, granularity=mutant.granularity, mutant=mutant.name)
        if found is None:
            missed += 1
            print(f"{mutant.name}: not found in {BOUND} schedules")
        else:
            print(f"{mutant.name}: schedule {found.schedule.number}, kept in {found.schedule.keep().name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
