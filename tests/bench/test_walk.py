"""`python -m bench.walk` follows a run through the package; what its figures are is the package's business."""

from __future__ import annotations

import re
import subprocess
import sys

from bench.walk import Call, Figures, figures
from tests.support.paths import ROOT


def bench_walk(*arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.walk", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_call_changes_the_file_unless_its_caller_is_in_the_same_one() -> None:
    calls = [Call("a.py", None), Call("a.py", "a.py"), Call("b.py", "a.py"), Call("a.py", "a.py"), Call("a.py", "b.py")]

    assert figures(calls) == Figures(calls=5, files={"a.py": 4, "b.py": 1}, changes=3)


def test_a_run_is_followed_on_both_its_threads_and_each_call_is_in_a_file_that_is_named() -> None:
    head, *lines = bench_walk("--files")
    calls, files, changes = [int(number) for number in re.findall(r"\d+", head)]
    counts = {name: int(count) for count, name in (line.split() for line in lines)}

    assert sum(counts.values()) == calls and len(counts) == files
    assert files <= changes <= calls  # each file is entered from another one first
    folders = [name.partition("/")[0] for name in counts]
    assert folders[:2] == ["vocabulary", "orchestration"]  # the check of names, and `agent.run`, in the caller's thread
    assert "providers" in folders  # the model, which the run's own thread asks


def test_without_files_there_is_one_line() -> None:
    (line,) = bench_walk()

    assert re.fullmatch(r"\d+ calls, \d+ files, \d+ changes of file", line)
