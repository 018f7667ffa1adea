"""One trial: the tests of a mutant, run in a process of their own against a copy of the package that has its fault."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.support.paths import ROOT

from .mutant import Mutant, NoMatch, copy_package

TIMEOUT = 90.0  # Seconds for one mutant: most need two, those whose tests wait for what never comes ten or twenty.
HANG = 45.0  # Seconds after which tests that may hang do hang; they need one or two, and many more on a busy machine.

# A pytest plugin. A trial in which the checkout's own code was tested would say nothing about the mutant.
ORIGIN = """
import pathlib, pytest, understudy.actors
if pathlib.Path(__file__).parent not in pathlib.Path(understudy.actors.__file__).parents:
    raise pytest.UsageError(f"the tests would test {understudy.actors.__file__}")
"""


class Verdict(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    """A test failed; or did not end, if that is the mutant's symptom."""
    SURVIVED = "SURVIVED"
    """All its tests passed."""
    TIMED_OUT = "TIMED OUT"
    """Its tests did not end, which is not its symptom."""
    BROKEN = "BROKEN"
    """Its tests could not be run, or its pattern is not found any more."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one mutant."""

    mutant: Mutant
    verdict: Verdict
    seconds: float
    said: str
    """Who killed it, or why nobody could."""
    output: str = ""
    """What pytest printed."""


def attempt(mutant: Mutant, timeout: float = TIMEOUT) -> Trial:
    """Make the mutant and run its tests for at most `timeout` seconds; blocks, and leaves no file and no process."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            mutant.apply(copy_package(folder))
        except NoMatch as error:
            return Trial(mutant, Verdict.BROKEN, 0.0, str(error))
        status, output = run_tests(folder, mutant.tests, min(timeout, HANG) if mutant.hangs else timeout)
    return Trial(mutant, *_judged(mutant, status, output, time.monotonic() - began), output)


def run_tests(folder: Path, tests: Sequence[str], timeout: float) -> tuple[int | None, str]:
    """Run `tests` of the checkout against the package in `folder`; return pytest's status, None if it did not end."""
    (folder / "origin.py").write_text(ORIGIN)
    options = ["-x", "-q", "-rfE", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-p", "origin"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment |= {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1", "HYPOTHESIS_STORAGE_DIRECTORY": str(folder)}
    said = folder / "output.txt"  # and no pipe: what outlives the tests would keep it open
    with said.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with suppress(ProcessLookupError):  # there is nobody left of its group
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return status, said.read_text(errors="replace")


def _judged(mutant: Mutant, status: int | None, output: str, seconds: float) -> tuple[Verdict, float, str]:
    if status is None and mutant.hangs:
        return Verdict.KILLED, seconds, "its tests hang, which is its symptom"
    if status is None:
        return Verdict.TIMED_OUT, seconds, "its tests did not end, which is not its symptom"
    if status == 0:
        return Verdict.SURVIVED, seconds, "all of its tests passed"
    killer = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    if status != 1 or killer is None:  # 1: tests ran and failed; anything else: they could not be run
        return Verdict.BROKEN, seconds, f"pytest ended with status {status}"
    return Verdict.KILLED, seconds, killer[1]
