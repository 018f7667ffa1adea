"""What the front door and the packages behind it offer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import understudy
from tests.support.paths import FOLDERS, ROOT

ALL: list[str] = vars(understudy)["__all__"]  # type checkers do not see it
FRONT_DOOR = ROOT / "understudy" / "__init__.py"
INITS = sorted(path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("__init__.py"))
PACKAGES = [FRONT_DOOR.parent, *((ROOT / init).parent for init in INITS)]


def body_of(path: Path) -> list[ast.stmt]:
    """Return the module's statements without its docstring."""
    body = ast.parse(path.read_text()).body
    return body[1:] if ast.get_docstring(ast.parse(path.read_text())) is not None else body


def all_of(statements: list[ast.stmt]) -> list[str] | None:
    """Return what `__all__` is assigned, or None if it is not."""
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                names: list[str] = ast.literal_eval(value)
                return names
            case _:
                pass
    return None


def imported(statements: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of the `from … import` statements; a relative module begins with dots."""
    for statement in statements:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                yield "." * statement.level + (statement.module or ""), alias.asname or alias.name


def front_door() -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return (module, name) pairs: those that type checkers see, and those of the table used at run time."""
    for statement in body_of(FRONT_DOOR):
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for at_run_time in statement.orelse:
                match at_run_time:
                    case ast.Assign(targets=[ast.Name(id="_HOMES")], value=value):
                        homes: dict[str, tuple[str, ...]] = ast.literal_eval(value)
                        table = {(module, name) for module, names in homes.items() for name in names}
                        return set(imported(statement.body)), table
                    case _:
                        pass
    raise AssertionError("the front door has no `if TYPE_CHECKING:` with a table `_HOMES` under its `else:`")


def test_type_checkers_and_the_run_time_see_the_same_front_door() -> None:
    seen, table = front_door()

    assert seen == table


def test_type_checkers_take_every_name_of_the_front_door_as_public() -> None:
    (names,) = [each.body for each in body_of(FRONT_DOOR) if isinstance(each, ast.If)]
    imports = [each for each in names if isinstance(each, ast.ImportFrom)]

    assert [alias.name for each in imports for alias in each.names if alias.asname != alias.name] == []


def test_all_of_the_front_door_is_what_it_offers() -> None:
    seen, _ = front_door()

    assert sorted(ALL) == sorted(name for _, name in seen)


def test_all_of_the_front_door_is_sorted() -> None:
    assert ALL == sorted(ALL)


@pytest.mark.parametrize("name", ALL)
def test_a_public_name_can_be_imported(name: str) -> None:
    assert getattr(understudy, name) is not None


def test_dir_shows_every_public_name() -> None:
    assert set(ALL) <= set(dir(understudy))


def test_a_misspelt_name_is_an_attribute_error() -> None:
    misspelt = "Agnet"

    with pytest.raises(AttributeError, match="module 'understudy' has no attribute 'Agnet'"):
        getattr(understudy, misspelt)


@pytest.mark.parametrize("path", INITS)
def test_an_init_holds_only_imports_and_a_sorted_all(path: str) -> None:
    body = body_of(ROOT / path)
    others = [
        ast.unparse(s)
        for s in body
        if not isinstance(s, ast.Import | ast.ImportFrom) and not ast.unparse(s).startswith("__all__ =")
    ]
    names = all_of(body)

    assert others == []
    assert (names or []) == sorted(names or [])
    assert set(names or []) == {name for _, name in imported(body)}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(ROOT)))
def test_no_submodule_bears_the_name_of_something_public(package: Path) -> None:
    # Importing the submodule would put it in the place of what users mean.
    body = body_of(package / "__init__.py")
    public = set(ALL) if package == FRONT_DOOR.parent else {name for _, name in imported(body)}
    submodules = {p.stem for p in package.glob("*.py")} | {p.parent.name for p in package.glob("*/__init__.py")}

    assert public & submodules == set()


@pytest.mark.parametrize("module", sorted({module for module, _ in front_door()[0]}))
def test_the_front_door_takes_only_what_a_package_offers(module: str) -> None:
    offered: list[str] | None = getattr(import_module(module), "__all__", None)
    taken = {name for home, name in front_door()[0] if home == module}

    if offered is not None:
        assert taken <= set(offered)
