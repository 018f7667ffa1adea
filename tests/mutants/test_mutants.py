"""Faults made on purpose: a few are tried here, and all can still be made. `python -m tests.mutants` tries all of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.paths import ROOT

from .__main__ import main
from .catalogue import MUTANTS, SHORT
from .mutant import Mutant, NoMatch
from .trial import Trial, Verdict, attempt

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
EXAMPLE = BY_NAME["a temporary child is restarted"]
HARMLESS = replace(EXAMPLE, new=f"{EXAMPLE.old}  # as it was")


@pytest.mark.parametrize("name", SHORT)
def test_a_fault_is_noticed(name: str) -> None:
    trial = attempt(BY_NAME[name])

    assert trial.verdict is Verdict.KILLED, f"{trial.said}\n{trial.output}"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_fault_can_be_made_and_its_tests_are_there(mutant: Mutant) -> None:
    mutant.check()
    assert mutant.old != mutant.new
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert not name or re.search(rf"^(def {name}\(|{name} = )", (ROOT / path).read_text(), re.MULTILINE), test


def test_names_tell_mutants_apart() -> None:
    assert [name for name, number in Counter(m.name for m in MUTANTS).items() if number > 1] == []


def test_a_fault_that_nobody_notices_survives() -> None:
    assert attempt(HARMLESS).verdict is Verdict.SURVIVED


def test_a_fault_that_breaks_the_import_is_not_taken_for_noticed() -> None:
    assert attempt(replace(EXAMPLE, new="if if:")).verdict is Verdict.BROKEN


@pytest.mark.parametrize(("hangs", "verdict"), [(True, Verdict.KILLED), (False, Verdict.TIMED_OUT)])
def test_tests_that_do_not_end_are_noticed_only_where_that_is_the_symptom(hangs: bool, verdict: Verdict) -> None:
    assert attempt(replace(EXAMPLE, hangs=hangs), timeout=0.0).verdict is verdict


@pytest.mark.parametrize("old", ["no such text", "return"])
def test_a_pattern_that_does_not_stand_once_in_its_file_names_its_mutant(old: str) -> None:
    mutant = replace(EXAMPLE, old=old)

    with pytest.raises(NoMatch, match=f"{EXAMPLE.name}.*{EXAMPLE.file}, expected once"):
        mutant.check()
    assert attempt(mutant).verdict is Verdict.BROKEN


@pytest.mark.parametrize(("verdict", "status"), [(verdict, verdict is not Verdict.KILLED) for verdict in Verdict])
def test_the_program_fails_unless_all_are_killed(
    verdict: Verdict, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def tried(mutant: Mutant, timeout: float) -> Trial:
        return Trial(mutant, Verdict.KILLED if mutant is EXAMPLE else verdict, 2.0, "said")

    def passed(folder: Path, tests: Sequence[str], timeout: float) -> tuple[int, str]:
        return 0, ""

    monkeypatch.setattr("tests.mutants.__main__.MUTANTS", (EXAMPLE, replace(HARMLESS, name="nothing goes wrong")))
    monkeypatch.setattr("tests.mutants.__main__.attempt", tried)
    monkeypatch.setattr("tests.mutants.__main__.run_tests", passed)

    assert main([]) == status

    assert capsys.readouterr().out.splitlines()[-3:] == [
        f"{EXAMPLE.name}  killed       2 s  said",
        f"nothing goes wrong              {verdict.value:<9}    2 s  said",
        f"{2 - status} of 2 mutants were killed.",
    ]


def test_tests_that_fail_without_any_fault_kill_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.mutants.__main__.MUTANTS", (replace(EXAMPLE, tests=("tests/no_such_test.py",)),))

    assert main([]) == 1
    assert "fail without any fault" in capsys.readouterr().out


def test_words_that_no_mutant_has_are_a_wrong_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--only", "no such words"])

    assert caught.value.code == 2
    assert "no such words" in capsys.readouterr().err


def test_the_program_lists_its_mutants_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--only", EXAMPLE.name]) == 0
    assert capsys.readouterr().out.split("\n    ") == [EXAMPLE.name, EXAMPLE.file, f"{EXAMPLE.tests[0]}\n"]
