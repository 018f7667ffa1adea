"""The page on a support chat, whose commands are some twenty processes, runs as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.test_pages import check_page
from tests.support.paths import ROOT


@pytest.mark.timeout(300)
def test_the_blocks_of_the_page_run_as_they_stand(tmp_path: Path) -> None:
    check_page(ROOT / "docs" / "support-chat.md", tmp_path, timeout=280)
