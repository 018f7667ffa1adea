"""`SpecLoader`: YAML in, definitions out; or one error that lists everything wrong."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from understudy.specs.checks.registry import Registered, checked_callback, checked_criterion
from understudy.specs.checks.tool_names import Toolbox, named_tool
from understudy.vocabulary.other_names import OF_LOADERS, explains_attributes
from understudy.vocabulary.runs.callbacks import AgentCallback
from understudy.vocabulary.runs.criteria import Criterion
from understudy.vocabulary.tools.toolset import ToolSource

from .loaded_spec import LoadedSpec

if TYPE_CHECKING:
    from understudy.specs.reading.files import Sources

T = TypeVar("T")


def load_spec(
    path: str | PathLike[str],
    *,
    tools: Mapping[str, ToolSource] | None = None,
    callbacks: Mapping[str, AgentCallback] | None = None,
    criteria: Mapping[str, Criterion] | None = None,
    objects: Mapping[str, object] | None = None,
) -> LoadedSpec:
    """Load a YAML file, with the files that it includes.

    Args:
        path: the file, in UTF-8.
        tools: functions, tools or toolsets, by the name that the spec uses. The model calls a tool by that name too; the
            tools of a toolset keep their own names.
        callbacks: callbacks by the NAME in `name: NAME` among an agent's callbacks.
        criteria: criteria by the NAME in `name: NAME` among an agent's criteria.
        objects: functions, memories, models, output types and classes of errors by name; callbacks and criteria may be
            among them. A name that the spec uses must fit its place in the spec.

    Raises:
        SpecError: a file cannot be read, or is wrong; the message has a line for each problem, with file, line and column.
        TypeError: an entry of `tools`, `callbacks` or `criteria` is not a tool, callback or criterion.
    """
    return SpecLoader(tools=tools, callbacks=callbacks, criteria=criteria, objects=objects).load_file(path)


def load_spec_text(
    text: str,
    *,
    tools: Mapping[str, ToolSource] | None = None,
    callbacks: Mapping[str, AgentCallback] | None = None,
    criteria: Mapping[str, Criterion] | None = None,
    objects: Mapping[str, object] | None = None,
) -> LoadedSpec:
    """Load YAML from a string, which cannot include files; otherwise like `load_spec`."""
    return SpecLoader(tools=tools, callbacks=callbacks, criteria=criteria, objects=objects).load_text(text)


@explains_attributes(OF_LOADERS)
class SpecLoader:
    """Loads specs, with the tools, callbacks, criteria and other objects that were registered on it.

    Args:
        tools: tools by the names that specs use; more can be registered.
        callbacks: callbacks by name; more can be registered.
        criteria: criteria by name; more can be registered.
        objects: all other objects by name; more can be registered.
        tool_files: whether specs may name tools as `FILE.py:FUNCTION`. This runs the file, so it is only for specs that may
            run code, as on a command line; the file must be in the spec's folder or below. With a list, only the listed
            files are run: tools of other files are listed in `LoadedSpec.not_loaded`, and raise when they are called.
    """

    def __init__(
        self,
        *,
        tools: Mapping[str, ToolSource] | None = None,
        callbacks: Mapping[str, AgentCallback] | None = None,
        criteria: Mapping[str, Criterion] | None = None,
        objects: Mapping[str, object] | None = None,
        tool_files: bool | Iterable[str | PathLike[str]] = False,
    ) -> None:
        self._tools: dict[str, ToolSource] = {}
        self._callbacks: dict[str, AgentCallback] = {}
        self._criteria: dict[str, Criterion] = {}
        self._objects: dict[str, object] = {}
        self._unusable: dict[str, str] = {}
        self._tool_files = tool_files is not False
        self._runs = None if isinstance(tool_files, bool) else {Path(file).resolve() for file in tool_files}
        for name, tool in _named("tools", tools, "{'on_shelf': on_shelf}").items():
            self.register_tool(name, tool)
        for name, callback in _named("callbacks", callbacks, "{'audit': Audit()}").items():
            self.register_callback(name, callback)
        for name, criterion in _named("criteria", criteria, "{'polite': is_polite}").items():
            self.register_criterion(name, criterion)
        for name, each in _named("objects", objects, "{'is_spam': is_spam}").items():
            self.register_object(name, each)

    def register_tool(self, name: str, tool: ToolSource) -> SpecLoader:
        """Let specs name this tool or toolset; the model calls a tool by this name. Returns the loader.

        Raises:
            ValueError: the name is taken, or cannot be the name of a tool.
            TypeError: the object cannot be a tool.
        """
        _register(self._tools, "a tool", name, named_tool(name, tool))
        return self

    def register_callback(self, name: str, callback: AgentCallback) -> SpecLoader:
        """Let specs name this callback. Returns the loader.

        Raises:
            ValueError: the name is taken.
            TypeError: the object is not a callback.
        """
        _register(self._callbacks, "a callback", name, checked_callback(name, callback))
        return self

    def register_criterion(self, name: str, criterion: Criterion) -> SpecLoader:
        """Let specs name this criterion. Returns the loader.

        Raises:
            ValueError: the name is taken.
            TypeError: the object is not a criterion.
        """
        _register(self._criteria, "a criterion", name, checked_criterion(name, criterion))
        return self

    def register_object(self, name: str, given: object) -> SpecLoader:
        """Let specs name this function, memory, model, type, class of errors, callback or criterion. Returns the loader.

        Raises:
            ValueError: the name is taken.
        """
        _register(self._objects, "an object", name, given)
        return self

    def explain_missing_tool(self, name: str, reason: str) -> SpecLoader:
        """Add a reason to the error of a spec that names this unusable tool. Returns the loader."""
        self._unusable[name] = reason
        return self

    def load_file(self, path: str | PathLike[str]) -> LoadedSpec:
        """Load a YAML file; raises what `load_spec` raises."""
        from understudy.specs.reading.files import read_spec_files

        return self._load(read_spec_files(path, os.environ), Path(path) if self._tool_files else None)

    def load_text(self, text: str) -> LoadedSpec:
        """Load YAML from a string; raises what `load_spec_text` raises."""
        from understudy.specs.reading.files import read_spec_text

        if not isinstance(text, str):
            raise TypeError(f"expected the text of a spec, got {type(text).__name__}")
        return self._load(read_spec_text(text, os.environ), None)

    def _load(self, sources: Sources, spec: Path | None) -> LoadedSpec:
        from .loading import load

        toolbox = Toolbox(self._tools, spec=spec, runs=self._runs, unusable=self._unusable)
        more = "; give more with --tools FILE.py" if self._tool_files else ""
        return load(sources, Registered(toolbox, self._callbacks, self._criteria, self._objects, more))


def _named(what: str, given: Mapping[str, T] | None, example: str) -> Mapping[str, T]:
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{what} must be a mapping of names to {what}, {example}; got {given!r}")
    return given or {}


def _register(known: dict[str, T], kind: str, name: str, given: T) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{kind} is registered under a string, got {name!r}")
    if name in known:
        raise ValueError(f"{kind} is already registered as {name!r}")
    known[name] = given
