"""Fifty agents on one key that the provider limits: all finish, and few requests are refused."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.storms import storm


@pytest.mark.parametrize(("most", "length"), [(100, 1.0), (40, 0.5)])  # a minute of a provider in so many seconds
def test_a_storm_on_one_key_costs_no_more_than_a_fifth_of_the_requests_that_are_allowed(
    most: int, length: float
) -> None:
    came = storm(agents=50, runs=8, most=most, length=length)

    assert came.endings == Counter({"Complete": 400})
    assert came.answered == 400
    assert came.requests <= 1.2 * came.answered
