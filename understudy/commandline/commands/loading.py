"""Specs as the command line loads them: with files of tools, and with all that a run would find wrong found now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from understudy.commandline.report import UsageMistake
from understudy.orchestration import Agent
from understudy.orchestration.definitions.runner import Runner, below
from understudy.specs import LoadedSpec, SpecLoader, load_tool_file


def load(file: str, tool_files: Sequence[str], *, allow_code: bool = True) -> LoadedSpec:
    """Load a spec, whose tools and other objects are in these files, or the tools where it says itself.

    Args:
        file: the spec.
        tool_files: files that are run for what they offer.
        allow_code: whether other files that the spec names for a tool are run too.
    """
    loader = SpecLoader(tool_files=True if allow_code else tool_files)
    objects: dict[str, object] = {}  # of two files that have a name for helpers of their own, the first goes before
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
    """Return the agents among these runners and inside of them, each once."""
    given = list(runners)
    return [one for one in dict.fromkeys([*given, *below(given)]) if isinstance(one, Agent)]


def check_tools(runner: Runner[object]) -> None:
    """Build the schemas of all tools now, for what is wrong with them is the user's to mend, not the run's failure."""
    for agent in agents_in([runner]):
        for problem in problems_of(agent):
            raise UsageMistake(problem)


def problems_of(agent: Agent[object]) -> list[str]:
    """Return what keeps an agent's tools from being run by a command, a sentence each."""
    try:
        _ = agent.run_spec
    except (TypeError, ValueError) as error:
        return [f"agent {agent.id!r}: {error}"]
    return [
        f"agent {agent.id!r}: tool {tool.name!r} has isolation='caller', which needs a program that waits in run()"
        for tool in agent.tools
        if tool.isolation == "caller"
    ]
