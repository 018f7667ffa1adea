"""What several tests of model clients and tapes begin with."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import wire
from understudy.providers.http.limits import registry
from understudy.vocabulary.presets import PRESETS

VARIABLES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_AD_TOKEN",
    "OPENAI_API_VERSION",
    "UNDERSTUDY_OFFLINE",
    *(name for preset in PRESETS.values() for name in (preset.address_variable, *preset.key_variables) if name),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a tape may be written."""
    return tmp_path / "tape.jsonl"


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every variable that a client reads out of the environment."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def forgotten_limits() -> None:
    """Forget what refusals have taught: a test must not wait for a limit that an earlier one met at the same server."""
    registry.shared._known.clear()  # pyright: ignore[reportPrivateUsage]  # a process keeps its limiters for good


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    """Serve the recorded exchanges."""
    if not wire.FOLDER.is_dir():
        pytest.skip(wire.MISSING)
    with wire.replaying() as address:
        yield address
