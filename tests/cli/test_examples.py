"""The commands of docs/command-line.md, as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import understudy as us
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)


def block(language: str) -> str:
    """Return the one block of a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.yaml").write_text(block("yaml"))
    (folder / "tools.py").write_text(block("python"))
    us.ActorSystem("shop", store=f"sqlite:///{folder}/shop.db").stop()  # `erase` and `runs` need a store that is there
    return folder


def test_there_are_examples_of_each_command_that_needs_no_token() -> None:
    assert {word for line in COMMANDS for word in re.findall(r"understudy (\w+)", line)} == {
        "run",
        "chat",
        "check",
        "graph",
        "schema",
        "demo",
        "erase",
        "runs",
    }


@pytest.mark.skipif(sys.platform == "win32", reason="the examples are for a POSIX shell")
@pytest.mark.parametrize("line", COMMANDS)
def test_an_example_does_what_the_page_says(line: str, shop: Path) -> None:
    command, _, status = line.partition("   # exit ")
    folder = Path(sys.executable).parent
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}

    done = subprocess.run(
        ["sh", "-c", command],
        cwd=shop,
        env={**environment, "PATH": f"{folder}{os.pathsep}{environment['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == int(status or 0), done.stderr
    assert "Traceback" not in done.stderr
