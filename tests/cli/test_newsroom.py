"""The newsroom of `examples/`: it runs in rehearsal as its pages say, and its drawing shows what it is."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import understudy as us
from tests.support.paths import ROOT
from understudy.cli import main
from understudy.specs import load_tool_file

EXAMPLE = ROOT / "examples" / "newsroom"
PAGE = (ROOT / "docs" / "newsroom.md").read_text(encoding="utf-8")
RUN = ("front_page", "--set", "topic=the spring tide")
STORED = ("--tools", "tools.py", "--rehearse", "--store", "sqlite:///newsroom.db")


@pytest.fixture(autouse=True)
def newsroom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, which is the current folder, for it prints beside its tools; no key and no network."""
    folder = tmp_path / "newsroom"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("printed", "__pycache__"))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("UNDERSTUDY_OFFLINE", "1")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("UNDERSTUDY_STORE", raising=False)
    return folder


def test_it_waits_for_a_person_and_prints_once_one_agrees(newsroom: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "newsroom.yaml", *RUN, *STORED]) == 3

    said = capsys.readouterr().err
    assert "front_page > review > readers > skipper: turn 1" in said
    assert "front_page > researcher > archivist: search_archive gave" in said
    assert "print_story(headline='Flood gate closes on three mornings'" in said
    assert not (newsroom / "printed").exists()

    token = re.findall(r"understudy resume (\S+) ", said)[0]
    assert main(["resume", token, "newsroom.yaml", *STORED, "--approve"]) == 0

    printed = (newsroom / "printed" / "flood-gate-closes-on-three-mornings.md").read_text(encoding="utf-8")
    assert printed.startswith("# Flood gate closes on three mornings\n")
    assert "2 of 2 tools were called" in capsys.readouterr().out


def test_a_no_leaves_the_page_unprinted(newsroom: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "newsroom.yaml", *RUN, *STORED])
    token = re.findall(r"understudy resume (\S+) ", capsys.readouterr().err)[0]

    assert main(["resume", token, "newsroom.yaml", *STORED, "--reject", "the ferry runs after all"]) == 0

    assert "the ferry runs after all" in capsys.readouterr().out  # in rehearsal the answer reports what calls gave
    assert not (newsroom / "printed").exists()


def test_nothing_is_wrong_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "newsroom.yaml", "--tools", "tools.py"]) == 0

    assert "front_page" in capsys.readouterr().out


def company() -> us.LoadedSpec:
    return us.load_spec("newsroom.yaml", tools=load_tool_file("tools.py").tools)


def inside(runner: us.Runner[object]) -> Iterator[us.Runner[object]]:
    yield runner
    for each in runner.inner_runners:
        yield from inside(each)


def test_its_drawing_shows_who_is_in_it() -> None:
    drawn = ElementTree.parse(ROOT / "docs" / "newsroom.svg").getroot()
    texts = {"".join(text.itertext()).strip() for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    page = company().workflow("front_page")

    assert {runner.id for runner in inside(page)} | {task.name for task in page.tasks} <= texts
    assert "print_story (approval)" in texts


def test_the_page_shows_the_program_that_does_the_same(
    newsroom: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = newsroom / "newsroom.yaml"
    spec.write_text(
        spec.read_text(encoding="utf-8").replace("anthropic:claude-haiku-4-5", "rehearsal"), encoding="utf-8"
    )
    monkeypatch.setattr(sys, "path", [str(newsroom), *sys.path])
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (newsroom / "program.py").write_text(program, encoding="utf-8")

    names = runpy.run_path("program.py")

    assert "front_page > printer [('print_story'," in capsys.readouterr().out
    assert isinstance(names["outcome"], us.Complete)
    assert list((newsroom / "printed").iterdir())
