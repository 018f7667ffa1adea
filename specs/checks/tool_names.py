"""Where a spec's tool names lead: to tools that were registered, or to functions in files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final, cast

from understudy.errors import SpecError
from understudy.orchestration.definitions.sub_agent import SubAgent
from understudy.specs.reading.problems import did_you_mean, listed
from understudy.vocabulary.tools.definition import NAME, Tool, ToolChanges
from understudy.vocabulary.tools.questions import ask_user
from understudy.vocabulary.tools.toolset import ToolSource, is_toolset, tools_in

from .tool_files import load_tool_file

BUILT_IN: Mapping[str, ToolSource] = {ask_user.name: ask_user}
"""Tools that need no registration; what is registered by their names goes before."""


class Toolbox:
    """Finds tools and toolsets by the names that specs use.

    Args:
        registered: tools by name, which is what the model calls them; toolsets by any name.
        spec: the spec, in whose folder the files of `tools.py:function` must be; None refuses them.
        runs: the files that may be run, resolved; None for all. Of others it is said what the spec names, and nothing is run.
        unusable: names that look like tools and are none, with the reason.

    Attributes:
        not_loaded: what the spec names of files that were not run, as keys, in the order in which it was looked for.
    """

    def __init__(
        self,
        registered: Mapping[str, ToolSource],
        *,
        spec: Path | None = None,
        runs: Collection[Path] | None = None,
        unusable: Mapping[str, str] | None = None,
    ) -> None:
        self._tools: dict[str, ToolSource] = {name: named_tool(name, given) for name, given in registered.items()}
        self._spec: Final = spec
        self._runs: Final = runs
        self._unusable = unusable or {}
        self.not_loaded: dict[str, None] = {}

    def find(self, reference: str) -> ToolSource | str:
        """Return the tool or toolset, or say why there is none."""
        known = self._tools.get(reference)
        if known is not None:
            return known
        if reference in self._unusable:
            return f"{reference!r} cannot be a tool: {self._unusable[reference]}"
        if reference in BUILT_IN:
            return BUILT_IN[reference]
        file, colon, name = reference.rpartition(":")
        if colon and file.endswith(".py"):
            return self._from_file(reference, file, name)
        there = listed(sorted(self._tools), "no tools")
        near = did_you_mean(reference, [*self._tools, *BUILT_IN])
        if self._spec is None:
            return f"no tool {reference!r} is registered; registered: {there}{near}"
        return (
            f"no tool {reference!r}; there are {there}; give more with --tools FILE.py, or name FILE.py:FUNCTION{near}"
        )

    def get(self, reference: str, changes: ToolChanges) -> ToolSource:
        """Return the tool or toolset; a tool with the changes, if there are any.

        Raises:
            ValueError: there is none, or a change is out of range.
            TypeError: the tool cannot be changed so.
        """
        found = self.find(reference)
        if isinstance(found, str):
            raise ValueError(found)  # noqa: TRY004  # it is the reason, and not the value
        return cast("Tool[..., object]", found).replace(**changes) if changes and isinstance(found, Tool) else found

    def _from_file(self, reference: str, file: str, name: str) -> ToolSource | str:
        if self._spec is None:
            return f"{reference!r} names a file, which only the command line loads; register the function instead"
        from understudy.specs.reading.files import (
            inside,  # it loads YAML, which a program that makes a loader may never need
        )

        place = inside(self._spec.parent.resolve(), str(self._spec), file)
        if isinstance(place, str):
            return place
        path, shown = place
        if path.is_file() and (not NAME.fullmatch(name) or name.startswith("_")):  # before the file is run for nothing
            return f"{reference!r} names no function: expected FILE.py:FUNCTION, with a public name"
        if self._runs is None or path in self._runs:
            found = _found_in(shown, file, name)
        else:
            found = self._stand_in(reference, path, shown, name)
        if not isinstance(found, str):
            self._tools[reference] = found
        return found

    def _stand_in(self, reference: str, path: Path, shown: str, name: str) -> ToolSource | str:
        """Return what stands for a tool whose file is not run, or say what can be seen to be wrong without running it."""
        if not path.is_file():
            return f"{shown}: there is no such file; expected a Python file with tools"
        self.not_loaded[reference] = None
        return Tool(not_loaded, name=name)

    def stands_in(self, reference: str) -> bool:
        """Whether what `find` returns for a reference stands for a tool whose file was not run."""
        return reference in self.not_loaded


def not_loaded() -> str:
    """Stand for a tool whose file was not run."""
    raise RuntimeError("the file of this tool was not run, so that the tool can be named and not called")


def _found_in(shown: str, file: str, name: str) -> ToolSource | str:
    """Run a file and return a tool of it, or say why there is none."""
    try:
        found = load_tool_file(shown)
    except SpecError as error:
        return str(error)
    if name in found.unusable:
        return f"{name!r} in {file} cannot be a tool: {found.unusable[name]}"
    if name not in found.tools:
        return f"{file} has no tool {name!r}; it has {listed(found.tools, 'none')}{did_you_mean(name, found.tools)}"
    return found.tools[name]


def named_tool(name: str, given: ToolSource) -> ToolSource:
    """Return the tool that is registered as `name`, which the model calls it too; or the toolset, whose tools have their own.

    Raises:
        TypeError: `given` is no function, or its signature is not that of a tool.
        ValueError: it is a toolset that has no tools, or no provider would take the name.
    """
    found: object = given  # what is narrowed loses its parameters
    if isinstance(found, Tool):
        made = cast("Tool[..., object]", found)
        if made.name == name:
            return made
        return found.named(name) if isinstance(found, SubAgent) else made.replace(name=name)
    if is_toolset(_class_of(found)):
        tools_in(given)
        return given
    if not callable(found):
        raise TypeError(f"a tool is made from a function, got {found!r}")
    return Tool(found, name=name)


def _class_of(given: object) -> object:
    """Return what a partial makes objects of; anything else as it is."""
    return cast("partial[object]", given).func if isinstance(given, partial) else given


def tool_names(given: ToolSource) -> list[str]:
    """Return what a model calls a tool, or the tools of a toolset."""
    return [tool.name for tool in tools_in(given)]
