"""Commands on runners that were made in Python, as if a spec had described them."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from understudy.commandline.commands import chat, resume, run
from understudy.commandline.commands.waiting import system_of
from understudy.orchestration.definitions.runner import Runner
from understudy.specs import LoadedSpec

FILE = "made.yaml"


def spec_of(*runners: Runner[object]) -> LoadedSpec:
    """Return a spec that holds these runners and those inside of them."""
    return LoadedSpec(FILE, {one.id: one for one in _all(runners)})


def _all(runners: Iterable[Runner[object]]) -> Iterator[Runner[object]]:
    for runner in runners:
        yield runner
        yield from _all(runner.inner_runners)


def run_made(runner: Runner[object], *words: str) -> int:
    """Carry out `understudy run made.yaml ID …` and return its status."""
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    arguments = parser.parse_args([FILE, runner.id, *words])
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        return run.carry_out(spec_of(runner), arguments, out)


def resume_made(runner: Runner[object], token: str, *words: str) -> int:
    """Carry out `understudy resume TOKEN made.yaml …` and return its status."""
    parser = argparse.ArgumentParser()
    resume.add_arguments(parser)
    arguments = parser.parse_args([token, FILE, *words])
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        return resume.carry_out(spec_of(runner), system_of(arguments), arguments, out)


def chat_made(runner: Runner[object], *words: str) -> int:
    """Carry out `understudy chat made.yaml ID …` and return its status."""
    parser = argparse.ArgumentParser()
    chat.add_arguments(parser)
    arguments = parser.parse_args([FILE, runner.id, *words])
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        return chat.carry_out(spec_of(runner), arguments, out)


def report_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the report that a command printed in JSON."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found
