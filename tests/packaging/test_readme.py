"""The README's first two shell blocks are what a newcomer and CI run, one line each."""

from __future__ import annotations

import re

import understudy
from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text()
SHELL = re.findall(r"^```(?:sh|bash|shell|console)[ \t]*\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
PYTHON = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_first_two_shell_blocks_are_one_line_each() -> None:
    assert [len(block.splitlines()) for block in SHELL[:2]] == [1, 1]


def test_the_first_line_makes_the_environment_that_the_second_uses() -> None:
    assert SHELL[0].startswith("python3 -m venv .venv && ")
    assert SHELL[1].startswith(".venv/bin/")


def test_the_second_line_runs_pytest_without_the_root_on_the_path() -> None:
    # `python -m pytest` would find the source folders under their bare names.
    assert SHELL[1].rstrip().endswith("&& .venv/bin/pytest -q -n auto")


def test_every_python_block_compiles() -> None:
    assert len(PYTHON) == len(re.findall(r"^```py", README, re.MULTILINE)) > 0  # none is missed for how it is marked
    for position, block in enumerate(PYTHON):
        compile(block, f"README.md, Python block {position + 1}", "exec")


def test_every_name_of_the_package_in_the_readme_is_public() -> None:
    used = set(re.findall(r"\bus\.(\w+)", re.sub("#.*", "", README)))

    assert used - set(vars(understudy)["__all__"]) == set()
