"""What several tests of model clients and tapes begin with."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import wire


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a tape may be written."""
    return tmp_path / "tape.jsonl"


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    """Serve the recorded exchanges."""
    if not wire.FOLDER.is_dir():
        pytest.skip(wire.MISSING)
    with wire.replaying() as address:
        yield address
