"""`python -m bench` runs and shows every line. What the lines say is the machine's business: no time is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

STATUS = Path("/proc/self/status")
"""Where there is none, memory is not measured."""
MEMORY = ("an actor without messages", "= a bare Pykka actor without messages")
HELD = (
    "in line",
    "in a conversation",
    "before headers",
    "in the body",
    "TLS handshake",
    "backing off",
    "one tool",
    "50 tools",
    "sub-agents",
)
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
    "new-agent": ("its first run", "= its second run"),
    "new-agents-1000": ("make the agents and their tools, run each once", "= as many bare Pykka actors"),
    "runs-100": ("cold", "warm", "= raw threads"),
    "runs-1000": ("cold", "warm", "= raw threads"),
    "agents-1000": ("cold", "warm", "= raw threads"),
    "tools-50": ("cold", "warm", "= raw threads"),
    "calls-200": (
        "one provider client between them",
        "= an httpx.Client each, one SSL context",
        "= a raw socket each",
    ),
    "limits": (
        "no limit is known",
        "each answer tells two limits",
        "= a count of calls in flight",
        "= a bare lock",
    ),
    "stream-1000": ("OpenAI.stream", "= httpx and json by hand"),
    "deadlock": (
        "a tool that runs its own agent again",
        "two runs, each waiting for the other",
        "= a bare Pykka actor that asks itself",
    ),
    "group-1000": ("cold", "warm", "= raw threads"),
    "group-of-1000": ("cold", "warm", "= raw threads"),
    "first-100": (
        'ParallelAgent(merge="first").run',
        "= concurrent.futures.wait(FIRST_COMPLETED), as many raw threads",
    ),
    "graph-1000": ("Workflow.run", "= one thread that sleeps through the longest way"),
    "cancel": (*HELD, "= wake a thread that waits for a threading.Event"),
    "deadline": (
        *[held for held in HELD if held != "backing off"],
        "= a thread that waits so long for a threading.Event",
    ),
    "ask": ("ActorRef.ask", "= ask a bare Pykka actor"),
    "pipelined": ("ask_future, then result()", "= Pykka's ask(block=False), then get()"),
    "tell": ("ActorRef.tell, then one ask", "= Pykka's tell, then one ask"),
    "two-hop": ("ask an actor that asks another", "= the same on bare Pykka actors"),
    **{
        program: ("actors of understudy's", "= bare Pykka actors")
        for program in ("ping-pong", "thread-ring", "big", "philosophers")
    },
    "spawn": ("spawn, on_start, stop", "= a bare Pykka actor: start, on_start, stop"),
    "restart": ("restart in place", "= a bare Pykka actor: stop it, start another"),
    "store-step": (
        "on a thread of its own",
        "the same, on the disk (durability=full)",
        "on the main thread",
        "= sqlite3: BEGIN IMMEDIATE, INSERT, COMMIT",
        "= sqlite3, on the disk (synchronous=FULL)",
    ),
    "store-steps": (
        "16 threads, one store",
        "= one thread, sqlite3",
        "= 16 threads, one sqlite3 connection, one lock",
    ),
    "journal-step": (
        "a step of the journal, alone",
        "a step, with all that the run does beside it",
        "= sqlite3: as many transactions of as many bytes",
    ),
    "journal-steps": ("a step of 16 runs at once", "= sqlite3: as many transactions of as many bytes"),
    "journal-bytes": ("handed to the store", "in the SQLite file", "= the tools' arguments and results"),
    "conversation": (
        "in a conversation of many turns",
        "in a new conversation",
        "= in a new one in memory",
    ),
    "turns": (
        "16 threads, PersistentMemory",
        "16 whole runs, with their tickets",
        "= 16 threads, sqlite3, one lock",
    ),
    **({"fork": ("agent.run with one tool", "= start a bare thread and join it")} if hasattr(os, "fork") else {}),
    **({"rss-1000": MEMORY, "rss-10000": MEMORY} if STATUS.exists() else {}),
}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )


@pytest.mark.timeout(300)
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


NEEDS_STATUS = pytest.mark.skipif(not STATUS.exists(), reason="the system does not tell what a process has in memory")


@NEEDS_STATUS
def test_memory_is_told_in_bytes_and_time_in_seconds() -> None:
    report = json.loads(bench("--quick", "--json", "--only", "rss-1000", "--only", "ask").stdout)

    assert {(row["measure"], row["unit"]) for row in report["rows"]} == {("ask", "seconds"), ("rss-1000", "bytes")}


@NEEDS_STATUS
def test_memory_is_shown_in_its_own_unit() -> None:
    lines = bench("--quick", "--only", "rss-1000").stdout.splitlines()

    bare = next(line for line in lines if MEMORY[1] in line)
    assert bare.count(" KiB ") == 3


def test_quick_sizes_are_held_to_no_target() -> None:
    report = json.loads(bench("--quick", "--json", "--only", "construct").stdout)

    assert [row["target"] for row in report["rows"]] == [None] * len(LINES["construct"])
    assert not any(row["missed"] for row in report["rows"])


def test_help_names_every_measure() -> None:
    shown = bench("--help").stdout

    assert [name for name in LINES if f"\n  {name} " not in shown] == []


@pytest.mark.parametrize("arguments", [("--only", "weather"), ("--rounds", "0"), ("--rounds", "many")])
def test_a_wrong_option_is_refused_with_a_usage_line(arguments: tuple[str, str]) -> None:
    done = bench(*arguments)

    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m bench")
