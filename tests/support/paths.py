"""Where the checkout and the optional folders beside it are."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

FOLDERS = ("actors", "orchestration", "providers", "specs")
"""The source folders at the root; each is imported as `understudy.NAME`."""


def wire_folder() -> Path | None:
    """Return the folder of recorded exchanges: `$UNDERSTUDY_WIRE`, else `../shared/wire`; None if there is none.

    Raises:
        FileNotFoundError: the variable names a folder that does not exist.
    """
    named = os.environ.get("UNDERSTUDY_WIRE", "")
    folder = Path(named) if named else ROOT.parent / "shared" / "wire"
    if folder.is_dir():
        return folder
    if named:
        raise FileNotFoundError(f"UNDERSTUDY_WIRE is {named!r}, which is no folder")
    return None
