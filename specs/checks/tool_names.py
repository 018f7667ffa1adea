"""Resolves a spec's tool names to registered tools, or to functions in files."""

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
"""Tools that need no registration; a registered tool with the same name takes precedence."""


class Toolbox:
    """Finds tools and toolsets by the names that specs use.

    Args:
        registered: tools by the names the model calls them; toolsets by any name.
        spec: the spec's file; files named as `tools.py:function` must be in its folder. None refuses such names.
        runs: resolved paths of the files that may be run; None for all. Other files are not run: their tools are listed in
            `not_loaded`.
        unusable: names that look like tools but are not, with the reason.

    Attributes:
        not_loaded: names of tools in files that were not run, as keys, in the order of the lookups.
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
        """Return the tool or toolset, or the reason why there is none."""
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
        """Return the tool or toolset; a tool with the given changes.

        Raises:
            ValueError: there is none, or a change is out of range.
            TypeError: the tool cannot have these changes.
        """
        found = self.find(reference)
        if isinstance(found, str):
            raise ValueError(found)  # noqa: TRY004  # `found` is a reason, not a value of a wrong type
        return cast("Tool[..., object]", found).replace(**changes) if changes and isinstance(found, Tool) else found

    def _from_file(self, reference: str, file: str, name: str) -> ToolSource | str:
        if self._spec is None:
            return f"{reference!r} names a file, which only the command line loads; register the function instead"
        from understudy.specs.reading.files import (
            inside,  # this import loads YAML, which a program with a loader may never need
        )

        place = inside(self._spec.parent.resolve(), str(self._spec), file)
        if isinstance(place, str):
            return place
        path, shown = place
        if path.is_file() and (not NAME.fullmatch(name) or name.startswith("_")):  # else the file is run in vain
            return f"{reference!r} names no function: expected FILE.py:FUNCTION, with a public name"
        if self._runs is None or path in self._runs:
            found = _found_in(shown, file, name)
        else:
            found = self._stand_in(reference, path, shown, name)
        if not isinstance(found, str):
            self._tools[reference] = found
        return found

    def _stand_in(self, reference: str, path: Path, shown: str, name: str) -> ToolSource | str:
        """Return a placeholder for a tool whose file is not run, or a problem that shows without running it."""
        if not path.is_file():
            return f"{shown}: there is no such file; expected a Python file with tools"
        self.not_loaded[reference] = None
        return Tool(not_loaded, name=name)

    def stands_in(self, reference: str) -> bool:
        """Whether `find` returns a placeholder for this reference, as the tool's file was not run."""
        return reference in self.not_loaded


def not_loaded() -> str:
    """Placeholder for a tool whose file was not run."""
    raise RuntimeError("the file of this tool was not run, so that the tool can be named and not called")


def _found_in(shown: str, file: str, name: str) -> ToolSource | str:
    """Run a file and return a tool of it, or the reason why there is none."""
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
    """Return `given` as a tool with this name; the tools of a toolset keep their own names.

    Raises:
        TypeError: `given` is not a function, or its signature is not that of a tool.
        ValueError: the toolset has no tools, or no provider accepts the name.
    """
    found: object = given  # narrowing `given` itself would lose its type parameters
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
    """Return the class inside a partial; anything else unchanged."""
    return cast("partial[object]", given).func if isinstance(given, partial) else given


def tool_names(given: ToolSource) -> list[str]:
    """Return the names by which a model calls a tool, or the tools of a toolset."""
    return [tool.name for tool in tools_in(given)]
