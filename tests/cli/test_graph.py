"""`understudy graph`: drawings of specs, printed or written to a file."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from understudy.cli import main

SPEC = """\
agents:
  - {id: clerk, model: rehearsal}
  - {id: buyer, model: 'anthropic:claude-haiku-4-5'}
"""


@pytest.fixture(autouse=True)
def shop(folder: Path) -> Path:
    """A folder with a spec, which is the current one."""
    (folder / "shop.yaml").write_text(SPEC)
    return folder


def test_a_spec_is_printed_as_mermaid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "shop.yaml"]) == 0

    out, err = capsys.readouterr()
    assert re.match(r"(---|flowchart|graph)", out)
    assert "clerk" in out
    assert "buyer" in out
    assert err == ""


def test_one_runner_is_drawn_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "shop.yaml", "clerk"]) == 0

    out = capsys.readouterr().out
    assert "clerk" in out
    assert "buyer" not in out


@pytest.mark.parametrize(
    ("words", "file", "begins"),
    [
        (["-o", "shop.dot"], "shop.dot", "digraph"),
        (["-o", "shop.txt", "--format", "dot"], "shop.txt", "digraph"),
        (["-o", "shop.MMD"], "shop.MMD", "flowchart"),
    ],
)
def test_the_name_of_the_file_says_what_is_written(
    shop: Path, words: list[str], file: str, begins: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", "shop.yaml", *words]) == 0

    assert any(line.startswith(begins) for line in (shop / file).read_text().splitlines())
    assert capsys.readouterr() == ("", "")


def test_an_svg_is_drawn_by_graphviz_or_it_is_said_that_it_is_missing(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["graph", "shop.yaml", "-o", "shop.svg"])

    if shutil.which("dot"):
        assert status == 0
        assert "<svg" in (shop / "shop.svg").read_text()
    else:
        assert status == 1
        assert "Graphviz" in capsys.readouterr().err
        assert not (shop / "shop.svg").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["shop.yaml", "clark"], "did you mean 'clerk'?"),
        (["shop.yaml", "-o", "shop.png"], "-o shop.png: expected a name that ends in .mmd"),
        (["shop.yaml", "-o", "no/shop.mmd"], "-o no/shop.mmd: the file cannot be written: No such file or directory"),
        (["shop.yaml", "--format", "png"], "invalid choice: 'png'"),
    ],
)
def test_a_mistake_of_the_users_has_status_2(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", *words]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert "Traceback" not in err
