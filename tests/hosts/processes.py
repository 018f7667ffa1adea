"""Programs in processes of their own, which end with the test whatever they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress

from tests.support.paths import ROOT

WAIT = 25.0


@contextmanager
def started(*arguments: str, keep: Sequence[int] = (), stdin: int | None = None) -> Generator[subprocess.Popen[str]]:
    """Run `python ARGUMENTS`, in a group of its own that is killed at the end; `keep` names files that it inherits."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=keep,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # it has ended, and all of its children too
                os.killpg(process.pid, signal.SIGKILL)  # also children that outlived it


def check(body: str) -> None:
    """Run a program, which must come to its end without an error."""
    assert output(f"{textwrap.dedent(body)}\nprint('at its end')").endswith("at its end\n")


def output(body: str) -> str:
    """Run a program to its end, and return what it prints; it must succeed."""
    return output_of("-c", textwrap.dedent(body))


def output_of(*arguments: str, timeout: float = WAIT) -> str:
    """Run `python ARGUMENTS` to its end, and return what it prints; it must succeed."""
    with started(*arguments) as process:
        out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return out
