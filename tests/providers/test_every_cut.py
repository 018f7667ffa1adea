"""Every recorded stream, cut in two at every byte."""

from __future__ import annotations

import pytest

from tests.support import wire
from tests.support.cuts import check_cuts
from tests.support.wire_streams import StreamCase, stream_cases

pytestmark = pytest.mark.skipif(not wire.FOLDER.is_dir(), reason=wire.MISSING)


@pytest.mark.parametrize("case", stream_cases(), ids=lambda case: case.name)
def test_a_cut_at_any_byte_changes_neither_events_nor_state(case: StreamCase) -> None:
    assert check_cuts(case.body, range) == len(case.body)
