"""Every Python block of the README and of docs/ runs as a reader copies it, and prints what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.run_page import Block, blocks_of, run

ELSEWHERE = {"newsroom.md"}  # tests/cli/test_newsroom.py runs it, on the example's files
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if "```python" in path.read_text() and path.name not in ELSEWHERE
]
RUNNER = ROOT / "tests" / "support" / "run_page.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_as_they_stand(page: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", str(RUNNER), str(page)],
        cwd=tmp_path,
        env={**os.environ, "UNDERSTUDY_OFFLINE": "1"},
        input="yes\n" * 50,  # what a person types, where a page asks one
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_a_block_that_prints_something_else_than_the_page_says_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the page says"):
        run(Block(1, "print(1)", "2\n", None), tmp_path / "page.md", {})


def test_blocks_are_found_with_their_lines_and_what_they_print() -> None:
    page = "# A page\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n```yaml\n# shop.yaml\nagents: []\n```\n\n```yaml\na: 1\n```\n"

    assert list(blocks_of(page)) == [
        Block(4, "print(1)\n", "1\n", None),
        Block(12, "# shop.yaml\nagents: []\n", None, "shop.yaml"),
    ]
