"""Loads tools and other objects for specs from a Python file, for the command line. This runs the file's code."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import cast

from understudy.errors import SpecError, kind_and_message
from understudy.vocabulary.tools.definition import Tool
from understudy.vocabulary.tools.toolset import ToolSource, is_toolset, tools_in

from .registered_objects import ERROR, OFFERED


@dataclass(frozen=True, slots=True)
class ToolFile:
    """The tools and objects of a file.

    Attributes:
        tools: tools by the names the model calls them; toolsets and their classes by their names in the file.
        unusable: public functions and toolsets that cannot be tools, with the reason.
        objects: other objects that a spec may name: the file's own functions and classes, error classes that it imported,
            and objects of a kind that specs can name.
    """

    tools: dict[str, ToolSource] = field(default_factory=dict[str, ToolSource])
    unusable: dict[str, str] = field(default_factory=dict[str, str])
    objects: dict[str, object] = field(default_factory=dict[str, object])

    def add(self, name: str, tool: ToolSource, path: str | Path) -> None:
        """Add a tool. Two tools with one name are refused: one may need an approval that the other lacks."""
        if self.tools.setdefault(name, tool) is not tool:
            raise SpecError(f"{path}: two tools are named {name!r}; give one another name: @tool(name=…)")


def load_tool_file(path: str | Path) -> ToolFile:
    """Run a Python file and return its tools: the results of `@tool`, and its own public functions with full annotations.

    The tools include all toolsets, and the file's own toolset classes. `objects` has everything else that a spec may name,
    and also the functions among the tools.

    A file is run once in a process. Its folder is added to the end of `sys.path`, so that it can import its neighbours.

    Raises:
        SpecError: the file is missing, is not Python, or raises (the message then names the line); or two tools have one
            name.
    """
    module = _load(Path(path))
    made = ToolFile()
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        if isinstance(value, Tool):
            tool = cast("Tool[..., object]", value)  # narrowing loses the parameters
            made.add(tool.name, tool, path)
            continue
        if _is_offered(value, module.__name__):
            made.objects[name] = value
        if inspect.isfunction(value) and value.__module__ == module.__name__:
            try:
                plain = Tool(value)
            except (TypeError, ValueError) as error:
                made.unusable[name] = str(error)
            else:
                made.add(name, plain, path)
    _add_toolsets(module, made, path)
    return made


def _is_offered(value: object, module: str) -> bool:
    """Whether a spec may name a value of a file; values that the file imported for its own use are left out."""
    if not isinstance(value, type) and not inspect.isroutine(value):
        return any(not kind.misfit(value) for kind in OFFERED)
    is_own = getattr(value, "__module__", "") == module
    return is_own or not ERROR.misfit(value)


def _add_toolsets(module: ModuleType, made: ToolFile, path: str | Path) -> None:
    """Add the file's toolsets and its own toolset classes; an imported class may only be a base of those."""
    for name, value in vars(module).items():
        imported = isinstance(value, type) and value.__module__ != module.__name__
        if name.startswith("_") or imported or not is_toolset(value):
            continue
        try:
            tools_in(value)
        except (TypeError, ValueError) as error:
            made.unusable[name] = str(error)
        else:
            made.add(name, value, path)


def _load(path: Path) -> ModuleType:
    where = path.resolve()
    if not where.is_file():
        raise SpecError(f"{path}: there is no such file; expected a Python file with tools")
    name = f"_understudy_tools_{hashlib.sha256(str(where).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, where)
    if spec is None or spec.loader is None:
        raise SpecError(f"{path}: expected a Python file, whose name ends in .py")
    if str(where.parent) not in sys.path:
        sys.path.append(str(where.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # set before it runs: dataclasses and pydantic resolve annotations there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise SpecError(f"{path}:{_line(error, where)}: {kind_and_message(error)}") from error
    return module


def _line(error: BaseException, path: Path) -> int:
    """Return the file's innermost line in the traceback of an error."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 1
    lines = [frame.lineno or 1 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else 1
