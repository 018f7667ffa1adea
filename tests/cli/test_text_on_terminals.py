"""The model's text on a terminal of its own, between lines of progress."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.terminals import STEERING, on_terminal

TOOLS = '''
from pathlib import Path
import understudy as us
from understudy.providers import Rehearsal

def look(word: str = "x") -> str:
    """Look."""
    return "7"

def stream(self, request):
    """Say a part, and the rest when somebody has written to the named pipe."""
    if request.tools and not request.tool_results:
        yield us.TextPiece("Let me look.")
        yield us.CallPiece(0, "{}", "c1", "look")
    else:
        yield us.TextPiece("**Yes**: ")
        Path("go").read_text()
        yield us.TextPiece("seven.")
    yield us.TurnEnd()

Rehearsal.stream = stream
'''
SPEC = """\
agents:
  - {id: clerk, model: rehearsal}
  - {id: looker, model: rehearsal, tools: [look]}
"""
OPTIONS = ("--tools", "tools.py")


@pytest.fixture
def shop(folder: Path) -> Path:
    (folder / "tools.py").write_text(TOOLS)
    (folder / "shop.yaml").write_text(SPEC)
    os.mkfifo(folder / "go")
    return folder


def last_screen(raw: str) -> str:
    """Return what was printed after live lines were last removed."""
    return STEERING.sub("", raw.rpartition("\x1b[?25h")[2])


@pytest.mark.parametrize("agent", ["clerk", "looker"])
def test_a_terminal_shows_a_text_before_its_end_and_the_answer_below_the_progress(shop: Path, agent: str) -> None:
    pytest.importorskip("rich")
    with on_terminal("run", "shop.yaml", agent, "go", *OPTIONS, cwd=shop) as screen:
        if agent == "looker":
            screen.wait_for("Let me look.")
            screen.wait_for("✓ look()")
        screen.wait_for("**Yes**:")
        (shop / "go").write_text("on")

        assert screen.status() == 0

    after = [line.rstrip() for line in last_screen(screen.raw).splitlines() if line.strip()]
    assert after[0] == "Yes: seven."
    assert re.fullmatch(r"\d turns?(, 1 tool call)?, \d+\.\d s", after[1])


def test_without_rich_texts_and_lines_of_progress_each_have_their_lines(shop: Path) -> None:
    (shop / "tools.py").write_text(f'import sys\nsys.modules["rich"] = None\n{TOOLS}')
    with on_terminal("run", "shop.yaml", "looker", "go", *OPTIONS, cwd=shop) as screen:
        screen.wait_for("**Yes**:")
        (shop / "go").write_text("on")

        assert screen.status() == 0

    assert re.sub(r"\d+\.\d+ s", "TIME", screen.screen).splitlines() == [
        "turn 1: asking the model",
        "Let me look.",
        "  call look()",
        "  look gave, after TIME: 7",
        "turn 2: asking the model",
        "**Yes**: seven.",
        "2 turns, 1 tool call, TIME",
    ]


def test_an_interrupt_keeps_the_part_of_a_text_that_came(shop: Path) -> None:
    pytest.importorskip("rich")
    with on_terminal("run", "shop.yaml", "clerk", "go", *OPTIONS, cwd=shop) as screen:
        screen.wait_for("**Yes**:")
        screen.type("\x03")

        assert screen.status() == 130

    assert "**Yes**:" in screen.screen[: screen.screen.rindex("understudy: interrupted")]
    assert screen.has_cursor


def test_a_chat_shows_text_before_its_end_too(shop: Path) -> None:
    with on_terminal("chat", "shop.yaml", "clerk", *OPTIONS, cwd=shop) as screen:
        screen.wait_for("> ")
        screen.type("go\n")
        screen.wait_for("**Yes**:")
        (shop / "go").write_text("on")
        screen.wait_for("seven.")
        screen.wait_for("> ")
        screen.type("\x04")

        assert screen.status() == 0


def test_a_pipe_gets_text_before_its_end(shop: Path) -> None:
    command = Path(sys.executable).with_name("understudy")
    with subprocess.Popen(
        [command, "run", "shop.yaml", "clerk", "go", *OPTIONS], cwd=shop, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 100)
        (shop / "go").write_text("on")
        rest = process.stdout.read()

    assert (first, rest, process.returncode) == (b"**Yes**: ", b"seven.\n", 0)


def test_a_reader_that_leaves_in_the_middle_of_a_text_is_no_error(shop: Path) -> None:
    run = shlex.join([str(Path(sys.executable).with_name("understudy")), "run", "shop.yaml", "clerk", "go", *OPTIONS])
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {run} | (head -c 3; echo on > go)"],
        cwd=shop,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "**Y")
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
