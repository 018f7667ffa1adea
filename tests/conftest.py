"""Guards that hold for every test run."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support import oracle, postgres
from tests.support.paths import FOLDERS, ROOT
from tests.support.signals import heed_interrupts

# The same examples every time, so that nobody is stopped by what somebody else has to mend; searching for new ones is a
# job of its own: HYPOTHESIS_PROFILE=search pytest. How long an example takes says more of the machine's other work than of
# the code; the timeout of each test holds.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", derandomize=False, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


heed_interrupts()

gc.disable()  # importing all the tests makes hardly any garbage; `pytest_collection_finish` enables it again


SLOW = (
    "bench",  # each measure of the bench, in small sizes
    "hosts",  # gunicorn, forks, processes
    "mutants",  # copies of the package with a fault each
    "peers",  # real servers and Mermaid, on node
    "soak",  # thousands of runs
    "actors/test_clock_jumps.py",  # leases of real processes, which must run out
    "actors/test_frozen_processes.py",
    "actors/test_harmful_tools.py",
    "actors/test_lock_order.py",
    "actors/test_shared_conversations.py",
    "actors/test_supervision_storms.py",
    "actors/test_trees.py",
    "actors/test_turns_in_processes.py",
    "actors/test_wait_graphs.py",
    "actors/test_workers.py",
    "cli/test_canaries.py",
    "cli/test_canaries_at_work.py",
    "cli/test_canaries_on_the_wire.py",
    "cli/test_chat.py",
    "cli/test_command.py",
    "cli/test_examples.py",
    "cli/test_text_on_terminals.py",
    "orchestration/test_run_properties.py",
    "orchestration/test_trees.py",
    "orchestration/test_typed_properties.py",
    "packaging/test_page_types.py",  # mypy over every page
    "providers/test_every_cut.py",
    "providers/test_litellm.py",
    "specs/test_hostile_specs.py",
    "specs/test_mutated_specs.py",
)
"""Folders and files of tests that `pytest` leaves out unless it is told of them, so that it takes minutes and not ten."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that say how much is run; a path that is named is run whole."""
    group = parser.getgroup("how much")
    group.addoption("--all", action="store_true", help="run the slow tests too")
    group.addoption("--slow", action="store_true", help="run the slow tests only")
    group.addoption("--replay", action="store_true", help="replay the events of every machine, and compare the states")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow tests out, or all others with `--slow`."""
    wanted = config.getoption("slow")
    if not wanted and (config.getoption("all") or config.args_source is not pytest.Config.ArgsSource.TESTPATHS):
        return
    left_out = [item for item in items if is_slow(item.path) is not wanted]
    items[:] = [item for item in items if is_slow(item.path) is wanted]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Spare every garbage collection of the tests the modules and the thousands of tests, which are there until the end.

    A test that collects garbage, or a child that it forks, would go through all of them each time.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import with `--slow` the files of all other tests, which takes as long as some of the slow ones."""
    others = config.getoption("slow") and collection_path.name.startswith("test_") and not is_slow(collection_path)
    return True if others and collection_path.is_file() else None


def is_slow(path: Path) -> bool:
    """Whether the tests of a file are left out by default."""
    inside = path.relative_to(ROOT / "tests").as_posix()
    return inside.startswith(tuple(f"{name}/" for name in SLOW)) or inside in SLOW


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


FOUND = pytest.StashKey[oracle.Oracle]()


def has_an_oracle(item: object) -> bool:
    """Whether the file of a test has runs heard by an oracle of its own."""
    names = {"oracle", "oracle_words", "replay_all"}
    return isinstance(item, pytest.Function) and not vars(item.module).keys().isdisjoint(names)


@pytest.fixture(autouse=True)
def replayed(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--replay`, have the machines of a test write their lines."""
    item = request.node
    if has_an_oracle(item) or not request.config.getoption("replay"):
        yield
        return
    with oracle.installed(places=0) as found:
        item.stash[FOUND] = found
        yield
    assert found.differences == []


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Fail a test in which the line of a machine comes to another state than the machine."""
    result = yield
    found = pyfuncitem.stash.get(FOUND, None)
    if found is not None:
        with found.writing():
            found.replay(places=1)
        told, found.differences = found.differences, []
        assert told == []
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say with `--replay` how much was replayed."""
    for what, number in sorted(oracle.TOTAL.items()) if terminalreporter.config.getoption("replay") else ():
        terminalreporter.write_line(f"{number:>9,}  {what}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """A PostgreSQL server for all tests of this process; skips where it is not installed."""
    with postgres.running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: postgres.Server) -> str:
    """The URL of a database of the test's own."""
    return postgres_server.new_database()
