"""What a wheel and a source distribution hold, built from a clean copy of the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import understudy
from tests.support.paths import FOLDERS, ROOT

BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def build(what: str, source: Path, into: Path) -> Path:
    """Build a `wheel` or `sdist` with the environment's own setuptools, so that no network is needed."""
    into.mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-c", BUILD, f"build_{what}", str(into)],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (made,) = into.iterdir()
    return made


def names_in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def clean_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout without what git ignores: a left-over build folder can hide what a wheel lacks."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: a clean copy cannot be made")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    copy = tmp_path_factory.mktemp("build") / "copy"
    for name in filter(None, listing.split("\0")):
        source = ROOT / name
        if source.is_symlink() or source.exists():  # a deleted file is listed until the deletion is staged
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy / name, follow_symlinks=False)
    return copy


@pytest.fixture(scope="module")
def sdist(clean_copy: Path) -> Path:
    return build("sdist", clean_copy, clean_copy.parent / "sdist")


@pytest.fixture(scope="module")
def wheel(clean_copy: Path, sdist: Path) -> Path:
    # After the source distribution, which must not see what building a wheel leaves behind.
    return build("wheel", clean_copy, clean_copy.parent / "wheel")


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    return names_in_wheel(wheel)


def test_the_wheel_holds_every_module_and_nothing_else(clean_copy: Path, wheel_names: set[str]) -> None:
    modules = {path.relative_to(clean_copy).as_posix() for path in (clean_copy / "understudy").rglob("*.py")}
    for folder in FOLDERS:
        for path in (clean_copy / folder).rglob("*.py"):
            modules.add(f"understudy/{path.relative_to(clean_copy).as_posix()}")
    modules |= {f"understudy/demo/{path.name}" for path in (clean_copy / "examples/ledger").glob("*.py")}

    shipped = {name for name in wheel_names if name.endswith(".py")}

    assert shipped == modules


def test_the_wheel_says_that_it_is_typed(wheel_names: set[str]) -> None:
    assert "understudy/py.typed" in wheel_names


def test_the_wheel_installs_one_name(wheel_names: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel_names}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"understudy"}


def test_the_wheel_ships_the_data_of_the_packages(clean_copy: Path, wheel_names: set[str]) -> None:
    data = {f"understudy/{path.name}" for path in (clean_copy / "understudy").glob("*.json")}
    for folder in FOLDERS:
        for path in (clean_copy / folder).rglob("*.json"):
            data.add(f"understudy/{path.relative_to(clean_copy).as_posix()}")

    assert {name for name in wheel_names if name.endswith(".json")} == data


def test_the_wheel_ships_the_files_of_the_demo(clean_copy: Path, wheel_names: set[str]) -> None:
    ledger = clean_copy / "examples/ledger"
    files = {path.relative_to(ledger).as_posix() for path in ledger.rglob("*") if path.is_file()}

    assert {name for name in wheel_names if name.startswith("understudy/demo/")} == {
        f"understudy/demo/{file}" for file in files
    }


def test_every_public_name_can_be_imported_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import understudy\n"
        "for name in understudy.__all__: getattr(understudy, name)\n"
        "print(*sorted({m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'understudy'}), sep='\\n')"
    )

    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(tmp_path / "site")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert all(Path(file).is_relative_to(tmp_path / "site") for file in done.stdout.splitlines())


def test_the_source_distribution_holds_no_part_of_the_tests(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = archive.getnames()

    assert [name for name in names if name.split("/")[1:2] == ["tests"]] == []


@pytest.mark.parametrize("name", ["CHANGELOG.md", "SECURITY.md", "README.md", "LICENSE"])
def test_the_source_distribution_holds_what_people_look_for(sdist: Path, name: str) -> None:
    with tarfile.open(sdist) as archive:
        names = {"/".join(entry.split("/")[1:]) for entry in archive.getnames()}

    assert name in names


def test_the_wheel_has_the_version_that_the_package_tells(wheel: Path) -> None:
    assert wheel.name.split("-")[1] == understudy.__version__


def test_the_wheel_of_the_source_distribution_is_the_wheel_of_the_checkout(
    sdist: Path, wheel_names: set[str], tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()

    assert names_in_wheel(build("wheel", unpacked, tmp_path / "wheel")) == wheel_names
