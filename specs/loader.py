"""`SpecLoader`: YAML in, definitions out; or one error that lists everything wrong."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.errors import SpecError
from understudy.messages import Settings
from understudy.orchestration import Agent
from understudy.tools import ToolLike

from .loaded import LoadedSpec
from .problems import Problem, did_you_mean, spec_error
from .toolbox import Toolbox, named_tool

if TYPE_CHECKING:
    from .document import Document
    from .grammar import AgentGrammar, SpecGrammar

TEXT = "<text>"


def load_spec(path: str | PathLike[str], *, tools: Mapping[str, ToolLike] | None = None) -> LoadedSpec:
    """Load a YAML file.

    Args:
        path: the file, in UTF-8.
        tools: what the spec's tool names mean; a plain function becomes a tool of that name.

    Raises:
        SpecError: the file cannot be read, or is wrong; the message has a line for each problem, with line and column.
        TypeError: one of `tools` cannot be a tool.
    """
    return SpecLoader(tools=tools).load_file(path)


def load_spec_text(text: str, *, tools: Mapping[str, ToolLike] | None = None) -> LoadedSpec:
    """Load YAML from a string; otherwise like `load_spec`."""
    return SpecLoader(tools=tools).load_text(text)


class SpecLoader:
    """Loads specs, with the tools that were registered on it.

    Args:
        tools: what the specs' tool names mean; more can be registered.
        tool_files: whether specs may name tools as `FILE.py:FUNCTION`, which runs the file. Only for specs that may run
            code, as on a command line.
    """

    def __init__(self, *, tools: Mapping[str, ToolLike] | None = None, tool_files: bool = False) -> None:
        self._tools: dict[str, ToolLike] = {}
        self._unusable: dict[str, str] = {}
        self._tool_files = tool_files
        if tools is not None and not isinstance(tools, Mapping):
            raise TypeError(f"tools must be a mapping of names to tools, {{'on_shelf': on_shelf}}; got {tools!r}")
        for name, tool in (tools or {}).items():
            self.register_tool(name, tool)

    def register_tool(self, name: str, tool: ToolLike) -> SpecLoader:
        """Let specs name this tool; a plain function becomes a tool of that name. Returns the loader.

        Raises:
            ValueError: the name is taken, or no name of a tool.
            TypeError: it cannot be a tool.
        """
        if name in self._tools:
            raise ValueError(f"a tool is already registered as {name!r}")
        self._tools[name] = named_tool(name, tool)
        return self

    def explain_missing_tool(self, name: str, reason: str) -> SpecLoader:
        """Have the error of a spec that names this tool say why it cannot be one. Returns the loader."""
        self._unusable[name] = reason
        return self

    def load_file(self, path: str | PathLike[str]) -> LoadedSpec:
        """Load a YAML file; raises what `load_spec` raises."""
        from .document import MAX_BYTES, decode

        file = Path(path)
        try:
            with file.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
        except OSError as error:
            raise SpecError(f"{file}: {_why(file, error)}; expected a YAML file with agents") from error
        text, problems = decode(data)
        if len(data) > MAX_BYTES:
            raise SpecError(f"{file}: the file is too large; expected at most {MAX_BYTES:,} bytes")
        if problems:
            raise spec_error(fspath(path), problems)
        return self._load(text, fspath(path), file.parent if self._tool_files else None)

    def load_text(self, text: str) -> LoadedSpec:
        """Load YAML from a string; raises what `load_spec_text` raises."""
        if not isinstance(text, str):
            raise TypeError(f"expected the text of a spec, got {type(text).__name__}")
        return self._load(text, TEXT, None)

    def _load(self, text: str, source: str, folder: Path | None) -> LoadedSpec:
        from .checks import check_meaning
        from .document import read_document
        from .shape import check_shape

        document = read_document(text)
        if document.problems and document.value is None:
            raise spec_error(source, document.problems)
        toolbox = Toolbox(self._tools, folder=folder, unusable=self._unusable)
        grammar, misfits = check_shape(document)
        unread = {problem.place for problem in document.problems}  # what stands there as None was not written so
        found = [*misfits, *check_meaning(document, toolbox)]
        problems = [*document.problems, *[problem for problem in found if problem.place not in unread]]
        if grammar is None or problems:
            raise spec_error(source, problems)
        return _build(document, grammar, toolbox, source)


def _build(document: Document, grammar: SpecGrammar, toolbox: Toolbox, source: str) -> LoadedSpec:
    agents: dict[str, Agent] = {}
    problems: list[Problem] = []
    for position, described in enumerate(grammar.agents):
        try:
            agents[described.id] = _agent(described, toolbox)
        except (TypeError, ValueError) as error:
            problems.append(Problem(document.place(("agents", position)), str(error)))
    if problems:
        raise spec_error(source, problems)
    return LoadedSpec(source, agents)


def _agent(described: AgentGrammar, toolbox: Toolbox) -> Agent:
    from .checks import model_string

    given = described.settings
    settings = Settings(
        temperature=given.temperature,
        max_tokens=given.max_tokens,
        top_p=given.top_p,
        stop=tuple(given.stop),
        seed=given.seed,
        tool_choice=given.tool_choice,
        parallel_tool_calls=given.parallel_tool_calls,
        thinking_tokens=given.thinking_tokens,
        extra=given.extra,
    )
    return Agent(
        described.id,
        model=model_string(described.provider, described.model),
        system_prompt=described.system_prompt,
        description=described.description,
        tools=[toolbox.get(name) for name in described.tools],
        settings=settings,
        max_iterations=described.max_iterations,
        max_turns=described.max_turns,
    )


def _why(file: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        folder = file.parent
        near = did_you_mean(file.name, [one.name for one in folder.iterdir()]) if folder.is_dir() else ""
        return f"there is no such file{near}"
    if isinstance(error, IsADirectoryError):
        return "this is a folder"
    return f"cannot be read: {error.strerror}"
