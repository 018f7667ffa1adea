"""The tables of edge cases in docs/testing.md name tests that are there."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT
from tests.support.scenarios import SCENARIOS

TEXT = (ROOT / "docs" / "testing.md").read_text().partition("# Edge cases")[2]
RULES = {scenario.name for scenario in SCENARIOS}
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", TEXT)))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=["::".join(each) for each in NAMED])
def test_no_table_names_a_test_that_is_not_there(file: str, name: str) -> None:
    code = (ROOT / "tests" / file).read_text()

    if file.endswith("/test_scenarios.py"):
        code = "\n".join([f"def {rule}(" for rule in RULES])
    assert not name or re.search(rf"^def {name}\(", code, re.MULTILINE)


def test_no_case_is_left_without_a_test_or_a_reason() -> None:
    cases = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith(("| case |", "| ---"))]
    covered, reasons = TEXT.partition("## Not applicable yet")[::2]

    assert len(cases) > 70
    for case in cases:
        assert "::" in case.rpartition(" | ")[2] or case in covered or case in reasons
        assert "::" in case or case in reasons
