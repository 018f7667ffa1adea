"""The rules of merges: how the endings of members, known by their places, decide the ending of the whole."""

from __future__ import annotations

import pytest

from understudy.orchestration.group.merge_rule import (
    AllDecide,
    AllValues,
    FirstSuccess,
    MemberEnds,
    MergeRule,
    NoneSucceeded,
    OneDecides,
    ValuesAndErrors,
    Verdict,
    rule_of,
)
from understudy.orchestration.group.spec import GroupSpec

ALL, NONE = AllDecide(), NoneSucceeded()


def ends(succeeded: str = "", failed: str = "", paused: str = "") -> MemberEnds:
    """Return the endings so far of three members, by their places in the order of their endings."""
    return MemberEnds(3, *[[int(place) for place in places] for places in (succeeded, failed, paused)])


@pytest.mark.parametrize(
    ("so_far", "all_values", "values_and_errors", "first_success"),
    [
        (ends(), None, None, None),
        (ends(succeeded="2"), None, None, OneDecides(2)),
        (ends(succeeded="20"), None, None, OneDecides(2)),
        (ends(failed="1"), OneDecides(1), None, None),
        (ends(failed="21"), OneDecides(2), None, None),
        (ends(paused="1"), None, None, None),
        (ends(paused="1", failed="20"), OneDecides(2), ALL, OneDecides(1)),
        (ends(paused="21", failed="0"), OneDecides(0), ALL, OneDecides(1)),
        (ends(paused="20", succeeded="1"), ALL, ALL, OneDecides(1)),
        (ends(paused="201"), ALL, ALL, OneDecides(0)),
        (ends(succeeded="201"), ALL, ALL, OneDecides(2)),
        (ends(succeeded="0", failed="21"), OneDecides(2), ALL, OneDecides(0)),
        (ends(failed="201"), OneDecides(2), NONE, NONE),
    ],
)
def test_each_rule_decides_as_soon_as_it_is_certain(
    so_far: MemberEnds, all_values: Verdict | None, values_and_errors: Verdict | None, first_success: Verdict | None
) -> None:
    assert AllValues().verdict(so_far) == all_values
    assert ValuesAndErrors().verdict(so_far) == values_and_errors
    assert FirstSuccess().verdict(so_far) == first_success


def test_the_values_that_count_are_those_of_all_or_the_winners() -> None:
    after = ends(succeeded="20")

    assert list(AllValues().counted(after)) == [0, 1, 2]
    assert list(ValuesAndErrors().counted(after)) == [0, 1, 2]
    assert list(FirstSuccess().counted(after)) == [2]
    assert list(FirstSuccess().counted(ends(failed="1"))) == []


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        (GroupSpec(runner_id="panel", children=("a",), merge="collect_all"), AllValues),
        (GroupSpec(runner_id="panel", children=("a",), merge="collect_all", on_error="collect"), ValuesAndErrors),
        (GroupSpec(runner_id="panel", children=("a",), merge="first"), FirstSuccess),
        (GroupSpec(runner_id="panel", children=("a",), merge="first", on_error="collect"), FirstSuccess),
    ],
)
def test_a_groups_merge_and_its_way_with_errors_name_the_rule(spec: GroupSpec, rule: type[MergeRule]) -> None:
    assert type(rule_of(spec)) is rule
