"""`python -m bench` runs and shows every line. What the lines say is the machine's business: no time is asserted."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

LINES = {
    "import": ("import understudy", "import understudy, and name us.Agent", "= import pykka", "= python -c pass"),
    "first": ("import, tool, agent, run", "= bare: import pykka, pydantic; one model, one ask"),
    "construct": (
        "5 tools decorated before",
        "decorating 5 functions included",
        "= inspect.signature of 5 functions",
        "= 5 plain dataclasses",
    ),
    "run": ("agent.run", "= ask a bare Pykka actor", "= ask a bare thread by SimpleQueue"),
    "rounds": ("agent.run", "= the same loop by hand, on a bare Pykka actor", "= ask a bare Pykka actor"),
    "runs-100": ("cold", "warm", "= raw threads"),
    "runs-1000": ("cold", "warm", "= raw threads"),
    "agents-1000": ("cold", "warm", "= raw threads"),
    "tools-50": ("cold", "warm", "= raw threads"),
}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )


def test_the_table_shows_every_line_of_every_measure() -> None:
    done = bench("--quick")

    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    for name, expected in LINES.items():
        start = next(i for i, line in enumerate(lines) if line.startswith(f"{name}: "))
        shown = lines[start + 1 : start + 1 + len(expected)]
        assert all(line.startswith(label) for line, label in zip(shown, expected, strict=True)), shown


def test_progress_goes_to_standard_error() -> None:
    done = bench("--quick", "--only", "construct", "--rounds", "2")

    assert done.stderr.splitlines() == ["construct: round 1 of 2", "construct: round 2 of 2"]
    assert "round 1" not in done.stdout


def test_json_holds_one_object_with_a_row_for_each_line() -> None:
    done = bench("--quick", "--json", "--only", "run", "--only", "construct")

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {row["measure"] for row in report["rows"]} == {"construct", "run"}
    assert len(report["rows"]) == len(LINES["construct"]) + len(LINES["run"])
    assert report["quick"] is True
    assert {"python", "cores", "pykka"} <= report["environment"].keys()


def test_quick_sizes_are_held_to_no_target() -> None:
    report = json.loads(bench("--quick", "--json", "--only", "construct").stdout)

    assert [row["target"] for row in report["rows"]] == [None] * len(LINES["construct"])
    assert not any(row["missed"] for row in report["rows"])


@pytest.mark.parametrize("name", LINES)
def test_help_names_every_measure(name: str) -> None:
    assert f"\n  {name} " in bench("--help").stdout


@pytest.mark.parametrize("arguments", [("--only", "weather"), ("--rounds", "0"), ("--rounds", "many")])
def test_a_wrong_option_is_refused_with_a_usage_line(arguments: tuple[str, str]) -> None:
    done = bench(*arguments)

    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m bench")
