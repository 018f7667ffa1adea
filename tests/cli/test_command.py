"""The installed command, as a process: its exit status, its streams, its signals."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.paths import ROOT

COMMAND = Path(sys.executable).with_name("understudy")
# Standard error is buffered, as it is at most users': what could not be written then fails once more at exit.
QUIET_ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY") and k != "PYTHONUNBUFFERED"}
LEDGER = [
    *("run", "examples/ledger/agent.yaml", "clerk", "What needs my attention this week?"),
    *("--tools", "examples/ledger/tools.py"),
]

HANGS = """
import threading

def hang(word: str) -> str:
    print("hanging", flush=True)
    threading.Event().wait()
    return word
"""


def understudy(*argv: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return process([COMMAND, *argv], cwd)


def process(command: Sequence[str | Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without keys and input, and return what it printed."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=QUIET_ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.fixture
def hanging(tmp_path: Path) -> Path:
    """A folder whose agent has a tool that never returns."""
    (tmp_path / "tools.py").write_text(HANGS)
    (tmp_path / "spec.yaml").write_text("agents: [{id: a, model: rehearsal, tools: ['tools.py:hang']}]")
    return tmp_path


def test_the_example_reaches_the_shops_real_files_in_rehearsal() -> None:
    done = understudy(*LEDGER, "--rehearse", "--json")

    report = json.loads(done.stdout)
    results = {call["name"]: call["result"] for call in report["tool_calls"]}
    assert (done.returncode, done.stderr) == (0, "")
    assert not [call for call in report["tool_calls"] if call["is_error"]]
    assert results["find_files"].startswith("3 files match sales-*.csv: sales-2026-09.csv (68 lines)")
    assert "sales-2026-11.csv:14: 1 x D-402 makes 29.00, not 2.90" in results["audit_sales"]
    assert "order now: front light, chain 9-speed" in results["running_out"]
    assert results["summarize_sales"].startswith("2026-11: 776.50 taken on 16 days")
    assert "incidents.log:10:" in results["search_notes"]


def test_the_example_reads_well_in_a_pipe() -> None:
    done = understudy(*LEDGER, "--rehearse")

    assert done.returncode == 0
    assert done.stdout.startswith("(rehearsal) 5 of 5 tools were called:\n- find_files(pattern='sales-*.csv') gave: ")
    assert done.stderr.splitlines()[:2] == [
        "rehearsal: the tools really run, a stand-in answers for anthropic:claude-haiku-4-5",
        "turn 1: asking the model",
    ]
    assert max(map(len, done.stderr.splitlines())) < 160


def test_the_readme_shows_the_example() -> None:
    shown = (ROOT / "examples" / "ledger" / "README.md").read_text(encoding="utf-8")

    assert shlex.join(["understudy", *LEDGER, "--rehearse"]).replace("'", '"') in shown


def test_a_tool_that_hangs_keeps_nobody_from_leaving(hanging: Path) -> None:
    done = understudy("run", "spec.yaml", "a", "hello", "--timeout", "0.5", cwd=hanging)

    assert done.returncode == 1
    assert "RunTimedOut" in done.stderr
    assert "--timeout sets the limit" in done.stderr


def ends_for_people(out: str, err: str) -> None:
    assert (out, err.splitlines()[-1]) == ("", "understudy: interrupted; the run was cancelled")


def ends_in_json(out: str, err: str) -> None:
    assert json.loads(out)["outcome"] == "cancelled"


def ends_in_event_lines(out: str, err: str) -> None:
    told = [json.loads(line) for line in out.splitlines()]
    assert (told[-1]["type"], told[-1]["error"]["type"]) == ("run_failed", "RunCancelled")
    assert len({(each["run_id"], each["id"]) for each in told}) == len(told)


@pytest.mark.parametrize(
    ("options", "ends"),
    [([], ends_for_people), (["--json"], ends_in_json), (["--events"], ends_in_event_lines)],
    ids=["for people", "in JSON", "as lines of events"],
)
def test_an_interrupt_cancels_the_run(hanging: Path, options: list[str], ends: Callable[[str, str], None]) -> None:
    with subprocess.Popen(
        [COMMAND, "run", "spec.yaml", "a", "hello", *options],
        cwd=hanging,
        env=QUIET_ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        while "hanging" not in (line := process.stderr.readline()):
            assert line, "the command ended before its tool ran"
        process.send_signal(signal.SIGINT)
        status = process.wait(timeout=30)
        out, err = process.stdout.read(), process.stderr.read()

    assert status == 130
    assert "Traceback" not in err
    ends(out, err)


def test_a_reader_that_goes_away_is_no_error_of_ours() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [COMMAND, *LEDGER, "--rehearse"],
            cwd=ROOT,
            stdout=writing,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)

    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_output_that_the_encoding_cannot_show_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text("agents: [{id: a, model: rehearsal}]")

    done = subprocess.run(
        [COMMAND, "run", "spec.yaml", "a", "grüße"],
        cwd=tmp_path,
        env={**QUIET_ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        encoding="ascii",
        timeout=60,
        check=True,
    )

    assert done.stdout == "(rehearsal) You said: gr\\u00fc\\u00dfe\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_json_in_an_encoding_that_cannot_show_it(encoding: str, echo: Path) -> None:
    done = subprocess.run(
        [COMMAND, "run", "spec.yaml", "a", "grüße 🎭", "--json"],
        cwd=echo,
        env={**QUIET_ENVIRONMENT, "PYTHONIOENCODING": encoding},
        capture_output=True,
        encoding=encoding,
        timeout=60,
        check=True,
    )

    assert json.loads(done.stdout)["text"] == "(rehearsal) You said: grüße 🎭"


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    """A folder with a spec of an agent that repeats what it is told."""
    (tmp_path / "spec.yaml").write_text("agents: [{id: a, model: rehearsal}]")
    return tmp_path


def in_shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command with what a shell says of its streams."""
    return process(["sh", "-c", f"{shlex.quote(str(COMMAND))} {line}"], cwd)


@pytest.mark.parametrize(
    ("line", "status", "out", "err"),
    [
        ("run spec.yaml a hello 2>&-", 0, "(rehearsal) You said: hello\n", ""),
        ("run spec.yaml nobody hello 2>&-", 2, "", ""),
        ("run spec.yaml a hello >&-", 0, "", None),
        ("run spec.yaml a - --json <&-", 2, None, ""),
        ("chat spec.yaml a --json <&-", 0, "", None),
        ("run spec.yaml a hello <&- >&- 2>&-", 0, "", ""),
    ],
)
def test_a_stream_that_the_caller_closed_leads_nowhere(
    line: str, status: int, out: str | None, err: str | None, echo: Path
) -> None:
    done = in_shell(line, echo)

    assert done.returncode == status
    assert out is None or done.stdout == out
    assert err is None or done.stderr == err
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize(
    "line",
    [
        "run spec.yaml a hello",
        "run spec.yaml a hello --json",
        "run spec.yaml nobody hello --json",
        "graph spec.yaml",
        "schema",
        "--version",
    ],
)
def test_output_that_cannot_be_written_is_said_and_a_failure(line: str, echo: Path) -> None:
    done = in_shell(f"{line} >/dev/full", echo)

    assert done.returncode == 1
    assert "understudy: the output cannot be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_token_that_cannot_be_told_in_json_is_told_aside(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "import understudy as us\n\n@us.tool(approval=True)\ndef pay() -> int:\n    return 1\n"
    )
    (tmp_path / "spec.yaml").write_text("agents: [{id: a, model: rehearsal, tools: ['tools.py:pay']}]")

    done = in_shell("run spec.yaml a hello --json --store sqlite:///shop.db >/dev/full", tmp_path)

    assert done.returncode == 1
    assert "Go on with: understudy resume" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_progress_that_cannot_be_written_keeps_no_answer_back(echo: Path) -> None:
    done = in_shell("run spec.yaml a hello 2>/dev/full", echo)

    assert (done.returncode, done.stdout) == (0, "(rehearsal) You said: hello\n")


BYTES = "grüße".encode()
OLD_LOCALE = {**QUIET_ENVIRONMENT, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def answered(
    *argv: str | bytes, cwd: Path, input: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command with bytes that the locale may not know."""
    return subprocess.run(
        [os.fsencode(COMMAND), *map(os.fsencode, argv)],
        cwd=cwd,
        env={**OLD_LOCALE, **environment},
        input=input,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_what_is_given_in_utf_8_is_text_in_a_locale_that_does_not_know_it(echo: Path) -> None:
    given = answered("run", "spec.yaml", "a", BYTES, "--json", cwd=echo)
    piped = answered("run", "spec.yaml", "a", "-", "--json", cwd=echo, input=BYTES)
    said = answered("chat", "spec.yaml", "a", "--json", cwd=echo, input=BYTES)

    assert [json.loads(done.stdout)["text"] for done in (given, piped, said)] == ["(rehearsal) You said: grüße"] * 3


@pytest.mark.parametrize(
    ("locale", "argv", "input", "says"),
    [
        ("C", ("run", "spec.yaml", "a", b"\xff"), b"", b"argument INPUT: expected text in UTF-8, got '\\udcff'"),
        (
            "C.UTF-8",
            ("run", "spec.yaml", "a", "hi", "--set", b"n=\xff"),
            b"",
            b"argument --set: expected text in UTF-8",
        ),
        (
            "C.UTF-8",
            ("resume", "t", "spec.yaml", "--answer", b"\xff"),
            b"",
            b"argument --answer: expected text in UTF-8",
        ),
        ("C", ("run", "spec.yaml", "a", "-"), b"\xff", b"standard input is not text"),
        ("C.UTF-8", ("chat", "spec.yaml", "a"), b"\xff\n", b"standard input is not text"),
    ],
)
def test_what_is_no_text_is_refused_before_anything_runs(
    locale: str, argv: tuple[str | bytes, ...], input: bytes, says: bytes, echo: Path
) -> None:
    done = answered(*argv, cwd=echo, input=input, LC_ALL=locale)

    assert (done.returncode, done.stdout) == (2, b"")
    assert says in done.stderr
