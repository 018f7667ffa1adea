"""Where commands are run, and what watches them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.canaries import Seen, serving, watching


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty folder the current one; no keys and no store are in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "UNDERSTUDY_STORE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    """Serve models that know secrets."""
    with serving() as found:
        yield found


@pytest.fixture
def seen() -> Generator[Seen]:
    """Watch what comes out."""
    with watching() as found:
        yield found
