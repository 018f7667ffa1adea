"""Tools, and other objects that specs name, out of a Python file, for the command line: it runs the file, as `python FILE.py` would."""

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

from understudy.errors import SpecError
from understudy.vocabulary.tools.definition import Tool
from understudy.vocabulary.tools.toolset import ToolSource, is_toolset, tools_in

from .registered_objects import ERROR, OFFERED


@dataclass(frozen=True, slots=True)
class ToolFile:
    """What a file offers.

    Attributes:
        tools: by the names the model calls them; toolsets and their classes by the names they have in the file.
        unusable: public functions and toolsets that cannot be tools, with the reason.
        objects: what else a spec may name: the file's own functions and classes, classes of errors that it imported, and
            objects of a kind that specs name.
    """

    tools: dict[str, ToolSource] = field(default_factory=dict[str, ToolSource])
    unusable: dict[str, str] = field(default_factory=dict[str, str])
    objects: dict[str, object] = field(default_factory=dict[str, object])

    def add(self, name: str, tool: ToolSource, path: str | Path) -> None:
        """Add a tool; of two under one name neither may stand for the other, whose approval it might lack."""
        if self.tools.setdefault(name, tool) is not tool:
            raise SpecError(f"{path}: two tools are named {name!r}; give one another name: @tool(name=…)")


def load_tool_file(path: str | Path) -> ToolFile:
    """Run a Python file and return its tools: what `@tool` made, and its own public functions with full annotations.

    Its own classes of toolsets and all toolsets are among them. What else a spec may name stands in `objects`, the functions
    among the tools included.

    A file is run once in a process. Its folder is added to the end of `sys.path`, for what it imports from beside it.

    Raises:
        SpecError: the file is missing, is not Python, or raises, when the message names the line; or two tools have one name.
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
    """Whether a spec may name a value of a file: not what the file imported for its own use."""
    if not isinstance(value, type) and not inspect.isroutine(value):
        return any(not kind.misfit(value) for kind in OFFERED)
    is_own = getattr(value, "__module__", "") == module
    return is_own or not ERROR.misfit(value)


def _add_toolsets(module: ModuleType, made: ToolFile, path: str | Path) -> None:
    """Add what the file made of toolsets; classes that it imported are for those that it derives from them."""
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
    sys.modules[name] = module  # before it runs: dataclasses and pydantic look annotations up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise SpecError(f"{path}:{_line(error, where)}: {type(error).__name__}: {error}") from error
    return module


def _line(error: BaseException, path: Path) -> int:
    """Return the line of the file that the error came through last."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 1
    lines = [frame.lineno or 1 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else 1
