"""Where a spec's tool names lead: to tools that were registered, or to functions in files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from understudy.errors import SpecError
from understudy.tools import Tool, ToolLike
from understudy.toolsets import is_toolset

from .problems import did_you_mean, listed
from .toolfiles import load_tool_file


class Toolbox:
    """Finds tools by the names that specs use.

    Args:
        registered: tools by name. A plain function becomes a tool of that name; a tool keeps its own.
        folder: where the files of `tools.py:function` are looked up; None refuses them.
        unusable: names that look like tools and are none, with the reason.
    """

    def __init__(
        self,
        registered: Mapping[str, ToolLike],
        *,
        folder: Path | None = None,
        unusable: Mapping[str, str] | None = None,
    ) -> None:
        self._tools: dict[str, Tool[..., object]] = {
            name: named_tool(name, given) for name, given in registered.items()
        }
        self._folder = folder
        self._unusable = unusable or {}

    def find(self, reference: str) -> Tool[..., object] | str:
        """Return the tool, or say why there is none."""
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

    def get(self, reference: str) -> Tool[..., object]:
        """Return the tool.

        Raises:
            ValueError: there is none.
        """
        match self.find(reference):
            case Tool() as found:
                return found
            case str(why):
                raise ValueError(why)

    def _from_file(self, reference: str, file: str, name: str) -> Tool[..., object] | str:
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


def named_tool(name: str, given: ToolLike) -> Tool[..., object]:
    """Return the tool that is registered as `name`.

    Raises:
        TypeError: `given` is no function, or its signature is not that of a tool.
    """
    if is_toolset(given):
        raise TypeError(f"{name!r} is a toolset, and specs name tools one by one; register those of an object of it")
    if isinstance(given, Tool):
        return cast("Tool[..., object]", given)  # narrowing loses the parameter
    return Tool(given, name=name)
