"""Guards that hold for every test run."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator

import hypothesis
import pytest

from tests.support.paths import FOLDERS, ROOT

# The same examples every time, so that nobody is stopped by what somebody else has to mend; searching for new ones is a
# job of its own: HYPOTHESIS_PROFILE=search pytest.
hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.register_profile("search", derandomize=False)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


# `nohup` and many CI shells start their children with SIGINT ignored, and a process that is started inherits that. Tests send
# Ctrl-C to themselves and to processes they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def import_bench() -> None:
    """Make `bench` importable without the root on the path, where the source folders would be found by their bare names."""
    spec = importlib.util.spec_from_file_location("bench", ROOT / "bench" / "__init__.py")
    assert spec is not None and spec.loader is not None
    sys.modules["bench"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


import_bench()


@pytest.fixture(autouse=True, scope="session")
def no_bare_imports() -> Iterator[None]:
    """Fail the session if a source folder was imported under its bare name, which makes second copies of classes."""
    yield
    stray = set(FOLDERS) & sys.modules.keys()
    assert not stray, f"import understudy.<name>, not {sorted(stray)}"
