"""What the two lowest floors may import; import-linter holds the rest (see `pyproject.toml`).

A contract can name what is forbidden, but not say "nothing else", so the allow-lists are here.
"""

from __future__ import annotations

from collections.abc import Iterator

import grimp
import pytest

from tests.support.paths import FOLDERS

UPPER = ("understudy.actors", "understudy.orchestration", "understudy.providers", "understudy.specs")
FRONT_DOOR = (
    "understudy.__main__",
    "understudy.cli",
    "understudy.report",
    "understudy.terminal",
    "understudy.testing",
)

PURE = {
    "__future__",
    "abc",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "inspect",
    "itertools",
    "json",
    "math",
    "operator",
    "re",
    "string",
    "textwrap",
    "types",
    "typing",
}
"""What needs no thread, clock, randomness, file or network."""

VOCABULARY = PURE | {"contextvars", "importlib", "threading"}
"""Values that are shared between threads have locks, scopes travel in context variables, tools are found by name."""

SCHEMAS = {"pydantic", "docstring_parser"}
LOADED_LATE = {"understudy.schemas", "understudy.orchestration.snapshot"}
"""The modules that may use `SCHEMAS`. The tests of the import cost see to it that they are loaded late."""

PORT = ("understudy.orchestration.port", "understudy.actors")
"""The one import upward: how a definition finds the runtime, at its first run."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """What is imported at run time, function-level imports included."""
    return grimp.build_graph(
        "understudy", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def vocabulary(graph: grimp.ImportGraph) -> Iterator[str]:
    for module in sorted(graph.modules):
        if module.startswith("understudy.") and not any(is_in(module, p) for p in (*UPPER, *FRONT_DOOR)):
            yield module


def orchestration(graph: grimp.ImportGraph) -> Iterator[str]:
    return (module for module in sorted(graph.modules) if is_in(module, "understudy.orchestration"))


def strays(graph: grimp.ImportGraph, modules: Iterator[str], allowed: set[str]) -> list[str]:
    """Return imports from outside the package that are not allowed, as `importer -> imported`."""
    return [
        f"{module} -> {imported}"
        for module in modules
        for imported in sorted(graph.find_modules_directly_imported_by(module))
        if not is_in(imported, "understudy")
        and imported not in (allowed | SCHEMAS if module in LOADED_LATE else allowed)
    ]


def test_orchestration_uses_no_thread_clock_randomness_file_or_network(graph: grimp.ImportGraph) -> None:
    assert strays(graph, orchestration(graph), PURE) == []


def test_the_vocabulary_uses_nothing_but_locks_and_context(graph: grimp.ImportGraph) -> None:
    assert strays(graph, vocabulary(graph), VOCABULARY) == []


def test_the_port_is_the_only_way_up_from_the_two_lowest_floors(graph: grimp.ImportGraph) -> None:
    above = ("understudy.actors", "understudy.providers", "understudy.specs", *FRONT_DOOR)

    upward = {
        (module, imported)
        for module in (*vocabulary(graph), *orchestration(graph))
        for imported in graph.find_modules_directly_imported_by(module)
        if any(is_in(imported, package) for package in above)
    }

    assert {module for module, _ in upward} <= {PORT[0]}
    assert all(is_in(imported, PORT[1]) for _, imported in upward)


def test_no_module_imports_a_bare_folder_name(graph: grimp.ImportGraph) -> None:
    assert set(FOLDERS) & graph.modules == set()
