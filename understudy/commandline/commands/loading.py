"""Loads specs for the command line: with files of tools, and with checks that a run would make later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from understudy.commandline.report import UsageMistake
from understudy.orchestration import Agent
from understudy.orchestration.definitions.runner import Runner, below
from understudy.specs import LoadedSpec, SpecLoader, load_tool_file


def load(file: str, tool_files: Sequence[str], *, allow_code: bool = True) -> LoadedSpec:
    """Load a spec with the tools and other objects of these files.

    Args:
        file: the spec.
        tool_files: files to run for their tools and objects.
        allow_code: whether files that the spec itself names for a tool are run too.
    """
    loader = SpecLoader(tool_files=True if allow_code else tool_files)
    objects: dict[str, object] = {}  # two files may use one name for a helper; the first file wins
    for tool_file in tool_files:
        found = load_tool_file(tool_file)
        for name, tool in found.tools.items():
            try:
                loader.register_tool(name, tool)
            except ValueError as error:
                raise UsageMistake(f"--tools {tool_file}: {error}") from error
        objects = {**found.objects, **objects}
        for name, reason in found.unusable.items():
            loader.explain_missing_tool(name, reason)
    for name, each in objects.items():
        loader.register_object(name, each)
    return loader.load_file(file)


def agents_in(runners: Iterable[Runner[object]]) -> list[Agent[object]]:
    """Return the agents among and inside these runners, each once."""
    given = list(runners)
    return [one for one in dict.fromkeys([*given, *below(given)]) if isinstance(one, Agent)]


def check_tools(runner: Runner[object]) -> None:
    """Build the schemas of all tools now: a mistake in them is reported to the user before a run fails."""
    for agent in agents_in([runner]):
        for problem in problems_of(agent):
            raise UsageMistake(problem)


def problems_of(agent: Agent[object]) -> list[str]:
    """Return why a command cannot run an agent's tools, one sentence for each problem."""
    try:
        _ = agent.run_spec
    except (TypeError, ValueError) as error:
        return [f"agent {agent.id!r}: {error}"]
    return [
        f"agent {agent.id!r}: tool {tool.name!r} has isolation='caller', which needs a program that waits in run()"
        for tool in agent.tools
        if tool.isolation == "caller"
    ]
