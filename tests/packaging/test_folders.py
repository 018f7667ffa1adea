"""The source folders stand at the root and are imported as `understudy.NAME`, and under no other name."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.support.paths import FOLDERS, ROOT

MADE = (".cache", ".git")
"""Where paths may lead to nothing: a run makes the first, and an unpacked archive has no second."""


def run_python(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def test_every_source_package_ships_in_the_wheel() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(config["tool"]["setuptools"]["packages"])

    found = {
        ".".join(("understudy", *init.parent.relative_to(ROOT).parts))
        for folder in FOLDERS
        for init in (ROOT / folder).rglob("__init__.py")
    }
    own = {
        ".".join(("understudy", *init.parent.relative_to(ROOT / "understudy").parts))
        for init in (ROOT / "understudy").rglob("*/__init__.py")  # follows no links, which the floors are here
    }

    assert listed == {"understudy", "understudy.demo"} | found | own


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_bare_folder_name_is_no_module(folder: str, tmp_path: Path) -> None:
    done = run_python(f"import {folder}", tmp_path)

    assert done.returncode != 0
    assert f"No module named '{folder}'" in done.stderr


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_a_part_of_the_package(folder: str, tmp_path: Path) -> None:
    done = run_python(f"import understudy.{folder}", tmp_path)

    assert done.returncode == 0, done.stderr


def test_the_links_for_type_checkers_are_committed_as_links() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: what is committed cannot be seen")
    paths = [f"understudy/{folder}" for folder in FOLDERS]

    listing = subprocess.run(
        ["git", "ls-files", "--stage", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout

    assert [(line.split()[0], line.split("\t")[1]) for line in listing.splitlines()] == [("120000", p) for p in paths]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_link_leads_to_its_folder(folder: str) -> None:
    link = ROOT / "understudy" / folder

    assert link.is_symlink()
    assert link.readlink() == Path("..", folder)


def test_each_path_that_a_test_or_measure_names_is_there() -> None:
    named = {
        f"{file.relative_to(ROOT)} names {path}": path
        for folder in ("tests", "bench")
        for file in (ROOT / folder).rglob("*.py")
        for path in paths_in(file)
    }
    named |= {f"SLOW names {path}": f"tests/{path}" for path in SLOW}

    assert "tests/interleavings/search.py names actors" in named
    assert [words for words, path in named.items() if not (ROOT / path).exists()] == []


def paths_in(file: Path) -> Iterator[str]:
    """Yield each path below the checkout that is written as `ROOT / "…" / "…"`, as far as it is written out."""
    divisions = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.BinOp)]
    longer = {id(node.left) for node in divisions}
    for node in divisions:
        parts = written_out(node)
        if id(node) not in longer and parts and parts[0] not in MADE:
            yield "/".join(parts)


def written_out(node: ast.expr) -> list[str]:
    """Return the texts behind `ROOT` in a chain of divisions, up to the first that is no constant; else an empty list."""
    chain = list[ast.expr]()
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        chain.insert(0, node.right)
        node = node.left
    if not (isinstance(node, ast.Name) and node.id == "ROOT"):
        return []
    parts = list[str]()
    for each in chain:
        if not (isinstance(each, ast.Constant) and isinstance(each.value, str)):
            break
        parts.append(each.value)
    return parts
