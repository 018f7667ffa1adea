"""`understudy demo`: the example that comes with the package."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from understudy.cli import main


def test_it_runs_without_a_key_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNDERSTUDY_OFFLINE", "1")

    assert main(["demo", "--json"]) == 0

    report = json.loads(capsys.readouterr().out)
    assert [call["is_error"] for call in report["tool_calls"]] == [False] * 5
    assert list(tmp_path.iterdir()) == []


def test_its_files_can_be_copied_and_run_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--into", "my shop"]) == 0
    command = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  understudy "))

    assert main(shlex.split(command)[1:]) == 0


def test_a_folder_that_is_there_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()

    assert main(["demo", "--into", "shop"]) == 2

    assert "--into shop: there is such a file or folder already" in capsys.readouterr().err
    assert list((tmp_path / "shop").iterdir()) == []
