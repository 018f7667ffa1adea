"""`python -m tests.mutants`: whether the tests notice faults that are made on purpose."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from .catalogue import MUTANTS
from .mutant import Mutant, copy_package
from .trial import TIMEOUT, Trial, Verdict, attempt, run_tests

DESCRIPTION = """\
Make faults in the code on purpose, one at a time, and see whether the tests notice them.

A mutant is a copy of the package with one small fault, such as "a work that was given up goes on". Its tests run
against the copy, in a process of their own; the checkout is never changed. If a test fails, the mutant is killed. If
all pass, it survives: then a test is missing. First of all, the same tests run against a copy without any fault, and
must pass: a test that fails anyway kills nothing. Run it from the project's root.
"""

EPILOG = """\
reading the table:
  killed      a test failed (it is named); or hung, where the mutant says that a hang is its symptom
  SURVIVED    all of its tests passed: write the test that is missing
  TIMED OUT   its tests did not end, which is no proof that they noticed: make them fail sooner
  BROKEN      its pattern does not stand exactly once in its file, or its tests could not be run: mend the mutant

exit status: 0 if all were killed, 1 if not or if the tests fail without a fault, 2 for wrong options

examples:
  python -m tests.mutants                       all of them, in a few minutes
  python -m tests.mutants --list                their names, files and tests
  python -m tests.mutants --only "one for all"  those whose name or file has these words

A new mutant is an entry in one of the lists in tests/mutants/: a name that says what goes wrong, a file, the text to
replace, what to put there, and the tests that must fail.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    chosen = [m for m in MUTANTS if not options.only or any(word in f"{m.name} {m.file}" for word in options.only)]
    if not chosen:
        parser.error(f"no mutant's name or file has any of these words: {', '.join(options.only)}")
    if options.list:
        print("\n".join([f"{m.name}\n    {m.file}\n    {' '.join(m.tests)}" for m in chosen]))
        return 0
    if not _control(chosen, options.timeout * 4):
        return 1
    return _report(_attempts(chosen, options.jobs, options.timeout))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="say which mutants there are, and run nothing")
    parser.add_argument(
        "--only", action="append", metavar="WORDS", help="only mutants with these words; may be given several times"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="how many at the same time (default 2)")
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT, metavar="S", help=f"seconds for each (default {TIMEOUT:g})"
    )
    return parser


def _control(mutants: Iterable[Mutant], timeout: float) -> bool:
    """Run the tests of all mutants against a copy without a fault; whether they pass."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    _tell(f"without a fault: {len(tests)} tests and files must pass")
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
        copy_package(Path(folder))
        status, output = run_tests(Path(folder), tests, timeout)
    if status == 0:
        return True
    print(f"{output}\nThe tests fail without any fault (pytest's status: {status}), so they would kill everything.")
    return False


def _attempts(mutants: Sequence[Mutant], jobs: int, timeout: float) -> list[Trial]:
    trials: dict[str, Trial] = {}
    pool = ThreadPoolExecutor(max(1, jobs))
    try:
        for number, done in enumerate(as_completed([pool.submit(attempt, m, timeout) for m in mutants]), 1):
            trial = done.result()
            trials[trial.mutant.name] = trial
            _tell(f"{number} of {len(mutants)}, {trial.seconds:.0f} s: {trial.mutant.name}: {trial.verdict.value}")
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt begins no other
    return [trials[mutant.name] for mutant in mutants]


def _report(trials: Sequence[Trial]) -> int:
    left = [trial for trial in trials if trial.verdict is not Verdict.KILLED]
    for trial in left:
        print(f"--- {trial.mutant.name}, in {trial.mutant.file}\n{trial.output[-4000:]}")
    width = max(len(trial.mutant.name) for trial in trials)
    for trial in trials:
        print(f"{trial.mutant.name:<{width}}  {trial.verdict.value:<9} {trial.seconds:4.0f} s  {trial.said}")
    print(f"{len(trials) - len(left)} of {len(trials)} mutants were killed.")
    return 1 if left else 0


def _tell(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
