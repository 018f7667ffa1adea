"""The page about servers says what the code does."""

from __future__ import annotations

from tests.support.preset_table import PAGE, written


def test_the_table_of_servers_is_that_of_the_code() -> None:
    page = PAGE.read_text()

    assert page == written(page), "write it anew: python -m tests.support.preset_table"
