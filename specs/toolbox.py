"""Where a spec's tool names lead: to tools that were registered, or to functions in files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import cast

from understudy.errors import SpecError
from understudy.tools import Tool, ToolChanges
from understudy.toolsets import ToolSource, is_toolset, tools_in

from .problems import did_you_mean, listed
from .toolfiles import load_tool_file


class Toolbox:
    """Finds tools and toolsets by the names that specs use.

    Args:
        registered: tools by name. A plain function becomes a tool of that name; a tool keeps its own.
        folder: where the files of `tools.py:function` are looked up; None refuses them.
        unusable: names that look like tools and are none, with the reason.
    """

    def __init__(
        self,
        registered: Mapping[str, ToolSource],
        *,
        folder: Path | None = None,
        unusable: Mapping[str, str] | None = None,
    ) -> None:
        self._tools: dict[str, ToolSource] = {name: named_tool(name, given) for name, given in registered.items()}
        self._folder = folder
        self._unusable = unusable or {}

    def find(self, reference: str) -> ToolSource | str:
        """Return the tool or toolset, or say why there is none."""
        known = self._tools.get(reference)
        if known is not None:
            return known
        if reference in self._unusable:
            return f"{reference!r} cannot be a tool: {self._unusable[reference]}"
        file, colon, name = reference.rpartition(":")
        if colon and file.endswith(".py"):
            return self._from_file(reference, file, name)
        there = listed(sorted(self._tools), "no tools")
        near = did_you_mean(reference, self._tools)
        if self._folder is None:
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
        if self._folder is None:
            return f"{reference!r} names a file, which only the command line loads; register the function instead"
        try:
            found = load_tool_file(self._folder / file)
        except SpecError as error:
            return str(error)
        if name in found.unusable:
            return f"{name!r} in {file} cannot be a tool: {found.unusable[name]}"
        if name not in found.tools:
            return f"{file} has no tool {name!r}; it has {listed(found.tools, 'none')}{did_you_mean(name, found.tools)}"
        tool = self._tools[reference] = found.tools[name]
        return tool


def named_tool(name: str, given: ToolSource) -> ToolSource:
    """Return the tool that is registered as `name`, or the toolset.

    Raises:
        TypeError: `given` is no function, or its signature is not that of a tool.
        ValueError: it is a toolset that has no tools.
    """
    found: object = given  # what is narrowed loses its parameters
    if isinstance(found, Tool):
        return cast("Tool[..., object]", found)
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
