"""The lists in `pyproject.toml` that are green when they forget something."""

from __future__ import annotations

import tomllib

from tests.support.paths import FOLDERS, ROOT

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())
CHECKED = [name for name in ("tests", "bench", "examples") if any((ROOT / name).rglob("*.py"))]


def test_pyright_is_told_of_every_folder() -> None:
    # It does not follow links, and says nothing of the files it does not see.
    included = set(CONFIG["tool"]["pyright"]["include"])

    assert included == {"understudy", *(f"understudy/{folder}" for folder in FOLDERS), *CHECKED}


def test_mypy_is_told_of_every_folder() -> None:
    assert set(CONFIG["tool"]["mypy"]["files"]) == {"understudy", *CHECKED}


def test_everything_below_the_front_door_is_kept_from_importing_it() -> None:
    contracts = CONFIG["tool"]["importlinter"]["contracts"]
    (layers,) = [c["layers"] for c in contracts if c.get("containers") == ["understudy"]]
    (sources,) = [c["source_modules"] for c in contracts if c.get("forbidden_modules") == ["understudy"]]

    below = [module for layer in layers[layers.index("specs") :] for module in layer.split(" : ")]
    expected = {f"understudy.{module}" for module in below}
    expected |= {f"understudy.{folder}.**" for folder in (*FOLDERS, "vocabulary")}

    assert set(sources) == expected
