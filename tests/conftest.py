"""Guards that hold for every test run."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.support.paths import FOLDERS


@pytest.fixture(autouse=True, scope="session")
def no_bare_imports() -> Iterator[None]:
    """Fail the session if a source folder was imported under its bare name, which makes second copies of classes."""
    yield
    stray = set(FOLDERS) & sys.modules.keys()
    assert not stray, f"import understudy.<name>, not {sorted(stray)}"
