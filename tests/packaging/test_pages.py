"""Every Python block of the README and of docs/ runs as a reader copies it, and prints what the page says; links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.paths import FOLDERS, ROOT
from tests.support.run_page import Block, blocks_of, run

ELSEWHERE = {"newsroom.md"}  # tests/cli/test_newsroom.py runs it, on the example's files
OF_PROCESSES = {"support-chat.md"}  # tests/hosts/test_support_chat.py runs it, with the slow tests
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if "```python" in path.read_text() and path.name not in ELSEWHERE
]
NEEDS = {"logging.md": ("flask", "structlog")}
"""Page -> packages that its blocks use; a page is left out where one of them is not installed."""
RUNNER = ROOT / "tests" / "support" / "run_page.py"
LINKING = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in OF_PROCESSES], ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_as_they_stand(page: Path, tmp_path: Path) -> None:
    for package in NEEDS.get(page.name, ()):
        pytest.importorskip(package)

    check_page(page, tmp_path)


def test_the_tests_that_a_page_shows_pass_as_they_stand(tmp_path: Path) -> None:
    for block in blocks_of((ROOT / "docs" / "testing-agents.md").read_text()):
        assert block.file is not None
        (tmp_path / block.file).write_text(block.code)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_block_that_prints_something_else_than_the_page_says_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the page says"):
        run(Block(1, "print(1)", "2\n", None), tmp_path / "page.md", {})


def test_blocks_are_found_with_their_lines_and_what_they_print() -> None:
    page = "# A page\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n```yaml\n# shop.yaml\nagents: []\n```\n\n```yaml\na: 1\n```\n"

    assert list(blocks_of(page)) == [
        Block(4, "print(1)\n", "1\n", None),
        Block(12, "# shop.yaml\nagents: []\n", None, "shop.yaml"),
    ]


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert list(dead_links(page)) == []


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_heading_of_a_page_stands_apart(page: Path) -> None:
    lines = prose(page.read_text()).splitlines()

    assert [line for before, line in pairwise(lines) if line.startswith("#") and before] == []


def test_links_to_no_file_and_to_no_heading_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A b: `c`\n\n[1](#a-b-c) [2](#d) [3](page.md#a-b-c) [4](gone.md) [5](https://x.test/#e)\n")

    assert list(dead_links(page)) == ["#d", "gone.md"]


@pytest.mark.parametrize("name", ["architecture.md", "glossary.md", "way-of-a-run.md"])
def test_every_path_that_a_page_for_contributors_names_is_there(name: str) -> None:
    named = re.findall(r"`([\w.-]+/[\w./-]+)`", (ROOT / "docs" / name).read_text())

    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", ["architecture.md", "way-of-a-run.md"])
def test_every_name_that_a_page_for_contributors_puts_into_a_file_stands_in_it(name: str) -> None:
    page = (ROOT / "docs" / name).read_text()
    named = re.findall(r"`([A-Za-z_][\w.]*)` (?:in |of |\()`([\w./]+\.py)`", page)

    assert named
    assert [
        (name, path) for name, path in named if not re.search(rf"\b{name.split('.')[-1]}\b", (ROOT / path).read_text())
    ] == []


def test_every_room_of_the_import_contracts_has_its_line_in_the_architecture() -> None:
    lines = re.findall(r"^\| `([\w./]+)` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)

    assert [room for room in rooms() if room not in lines] == []


def test_the_terms_of_the_glossary_stand_in_the_order_of_the_alphabet() -> None:
    terms = re.findall(r"^- \*\*(.+?)\*\*: .+ `[\w./]+`$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)

    assert terms == sorted(set(terms), key=str.lower)
    assert len(terms) == len(re.findall(r"^- ", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE))


def check_page(page: Path, folder: Path, timeout: float = 100) -> None:
    """Run the blocks of a page in a folder."""
    done = subprocess.run(
        [sys.executable, "-I", str(RUNNER), str(page)],
        cwd=folder,
        env={**os.environ, "UNDERSTUDY_OFFLINE": "1"},
        input="yes\n" * 50,  # what a person types, where a page asks one
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def rooms() -> list[str]:
    """Return the paths of all rooms that the import contracts know, and of the files that stand beside them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found = [
        Path(*container.split("."), name)
        for contract in contracts
        for container in contract.get("containers", ())
        for layer in contract["layers"]
        for name in re.split(r" *[|:] *", layer)
    ]
    at_root = [path.relative_to("understudy") if path.parts[1] in FOLDERS else path for path in found]
    return [f"{path}/" if (ROOT / path).is_dir() else f"{path}.py" for path in at_root if str(path) not in FOLDERS]


def prose(text: str) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^(```+).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)


def dead_links(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead to no file, or to no heading of it; links to other hosts are left out."""
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text())):
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        if re.match(r"[a-z]+:", link):
            continue
        if not target.exists() or (heading and heading not in headings(target)):
            yield link


def headings(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings; of two alike, the second one ends with -1."""
    titles = re.findall(r"^#{1,6} +(.+?) *$", prose(page.read_text()), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    seen: Counter[str] = Counter()
    found: set[str] = set()
    for anchor in [re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain]:
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found
