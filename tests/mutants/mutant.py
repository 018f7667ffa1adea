"""A mutant: one small, deliberate fault in a copy of the package, and the tests that must notice it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import FOLDERS, ROOT


class NoMatch(Exception):
    """A mutant's pattern is not found exactly once, so its code has changed: the mutant must be changed with it."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A named fault.

    Attributes:
        name: what goes wrong, as a claim.
        file: the source file, from the checkout's root.
        old: text that stands in it exactly once.
        new: what stands there instead.
        tests: test ids or files; one of them must fail.
        hangs: whether a test that does not end is the fault's symptom; otherwise it is no proof that it was noticed.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    hangs: bool = False

    def applied_to(self, text: str) -> str:
        """Return the file's text with the fault in it. Raises `NoMatch`."""
        found = text.count(self.old)
        if found != 1:
            raise NoMatch(f"mutant {self.name!r}: its pattern stands {found} times in {self.file}, expected once")
        return text.replace(self.old, self.new)

    def check(self) -> None:
        """Raise `NoMatch` if the fault cannot be made in the checkout."""
        self.applied_to((ROOT / self.file).read_text())

    def apply(self, package: Path) -> None:
        """Make the fault in a copy of the package. Raises `NoMatch`."""
        path = package / self.file.removeprefix("understudy/")
        path.write_text(self.applied_to(path.read_text()))


def copy_package(folder: Path) -> Path:
    """Copy the package as it would be installed into `folder`, and return where it is."""
    package = folder / "understudy"
    shutil.copytree(ROOT / "understudy", package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FOLDERS:
        (package / name).unlink()  # a link in the checkout
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    return package
