"""What the two lowest floors may import; import-linter holds the rest (see `pyproject.toml`).

A contract can name what is forbidden, but not say "nothing else", so the allow-lists are here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

import grimp
import pytest

from tests.support.paths import FOLDERS, ROOT

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = [contract for contract in CONTRACTS if contract["type"] == "layers"]

PURE = {
    "__future__",
    "abc",
    "base64",
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "html",
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

SHARED = PURE | {"contextvars", "importlib", "pickle", "threading"}
"""Values that are shared between threads have locks, scopes travel in context variables, tools are found by name, and errors
see what of them can be pickled."""

SCHEMAS = {"docstring_parser", "jsonschema", "pydantic", "pydantic_core", "referencing", "typing_extensions"}
LOADED_LATE = {
    "understudy.orchestration.runs.definitions",
    "understudy.orchestration.runs.lines",
    "understudy.vocabulary.answers.json_schema",
    "understudy.vocabulary.message_json",
    "understudy.vocabulary.runs.outcome_data",
    "understudy.vocabulary.answers.output_schemas",
    "understudy.vocabulary.tools.schemas",
    "understudy.orchestration.group.snapshot",
    "understudy.orchestration.journal.accepted_run",
    "understudy.orchestration.journal.agent_rows",
    "understudy.orchestration.journal.ending_data",
    "understudy.orchestration.journal.group_rows",
    "understudy.orchestration.saving.saved_run",
    "understudy.orchestration.agent.saved_text",
    "understudy.orchestration.agent.snapshot",
}
"""The modules that may use `SCHEMAS`. The tests of the import cost see to it that they are loaded late."""

PORT = ("understudy.orchestration.definitions.port", ("understudy.actors", "understudy.providers"))
"""The one import upward: how a definition finds the runtime, at its first run."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """What is imported at run time, function-level imports included."""
    return grimp.build_graph(
        "understudy", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def orchestration(graph: grimp.ImportGraph) -> list[str]:
    return [module for module in sorted(graph.modules) if is_in(module, "understudy.orchestration")]


def vocabulary(graph: grimp.ImportGraph) -> list[str]:
    return ["understudy.errors", *(m for m in sorted(graph.modules) if is_in(m, "understudy.vocabulary"))]


def strays(graph: grimp.ImportGraph, modules: Iterable[str], allowed: set[str]) -> list[str]:
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
    assert strays(graph, vocabulary(graph), SHARED) == []


def test_the_vocabulary_names_pykka_for_type_checkers_in_one_file() -> None:
    counted = grimp.build_graph("understudy", include_external_packages=True, cache_dir=None)

    naming = [module for module in vocabulary(counted) if "pykka" in counted.find_modules_directly_imported_by(module)]

    assert naming == ["understudy.vocabulary.runs.handles"]


def test_the_port_is_the_only_way_up_from_the_two_lowest_floors(graph: grimp.ImportGraph) -> None:
    upward = {
        (module, imported)
        for module in (*vocabulary(graph), *orchestration(graph))
        for imported in graph.find_modules_directly_imported_by(module)
        if is_in(imported, "understudy")
        and imported not in vocabulary(graph)
        and not (is_in(imported, "understudy.orchestration") and is_in(module, "understudy.orchestration"))
    }

    assert {module for module, _ in upward} <= {PORT[0]}
    assert {imported for _, imported in upward} == set(PORT[1])


def test_no_module_imports_a_bare_folder_name(graph: grimp.ImportGraph) -> None:
    assert set(FOLDERS) & graph.modules == set()


def test_every_floor_has_a_contract_of_its_rooms_and_lists_all_of_them(graph: grimp.ImportGraph) -> None:
    containers = {container for contract in LAYERS for container in contract["containers"]}
    floors = {f"understudy.{name}" for name in (*FOLDERS, "vocabulary", "commandline")}

    assert containers == {"understudy", *floors}
    assert all(contract["exhaustive"] for contract in LAYERS)


def test_no_folder_holds_more_than_25_files() -> None:
    folders = {path.parent for name in (*FOLDERS, "understudy") for path in (ROOT / name).rglob("*.py")}

    def files_in(folder: Path) -> int:
        return len(list(folder.glob("*.py")))

    assert {folder.name: files_in(folder) for folder in folders if files_in(folder) > 25} == {}
