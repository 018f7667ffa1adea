"""`understudy schema`: what editors are given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support.paths import ROOT
from understudy.cli import main
from understudy.vocabulary.answers.json_schema import misfits


def test_it_is_a_schema_that_the_examples_fit_and_a_misspelt_key_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0

    out, err = capsys.readouterr()
    schema = json.loads(out)
    wrong = misfits(schema)  # refuses a schema that is none
    for file in sorted(ROOT.glob("examples/*/*.yaml")):
        spec = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert wrong(spec) == []
        spec["agents"][0]["modle"] = "rehearsal"
        assert wrong(spec) != []
    assert err == ""


def test_it_is_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "spec.schema.json"

    assert main(["schema", "-o", str(file)]) == 0

    assert "properties" in json.loads(file.read_text(encoding="utf-8"))
    assert capsys.readouterr() == ("", "")


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "-o", str(tmp_path / "nowhere" / "spec.json")]) == 2

    assert "the file cannot be written" in capsys.readouterr().err
