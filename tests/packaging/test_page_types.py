"""The Python blocks of the README and of docs/ pass a strict type checker, as a reader who copies them would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.packaging.test_pages import PAGES
from tests.support.paths import ROOT
from tests.support.run_page import blocks_of

FRAGMENTS = ("class DjangoStore:",)
"""How blocks begin that are part of a program which the page does not show."""
UNTYPED = ("shop/tasks.py",)
"""Files of pages that import a package without types."""


def test_the_blocks_of_all_pages_are_well_typed(tmp_path: Path) -> None:
    programs = [program for page in PAGES for program in written(page, tmp_path)]

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *map(str, programs)],
        cwd=ROOT,  # mypy's cache is there
        env={**os.environ, "MYPYPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(programs) > len(PAGES)


def written(page: Path, folder: Path) -> Iterator[Path]:
    """Write the blocks of a page as one module, and each file that it shows as one; yield them.

    A line of a module is the line of the page.
    """
    module = folder / f"page_{re.sub(r'[^a-z]', '_', page.stem.lower())}.py"
    lines: list[str] = []
    for block in blocks_of(page.read_text()):
        if block.file is not None:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.code)
            if path.suffix == ".py" and block.file not in UNTYPED:
                yield path
        elif not block.code.startswith(FRAGMENTS):
            lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
    module.write_text("\n".join(lines) + "\n")
    yield module
