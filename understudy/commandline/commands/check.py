"""`understudy check FILE.yaml…`: lists the contents of a spec, or all its problems."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from understudy.commandline.report import COMPLETE, USAGE
from understudy.errors import SpecError
from understudy.orchestration import Agent, ParallelAgent, SequentialAgent, SubAgent, Workflow
from understudy.orchestration.graph.spec import handed_over
from understudy.providers import resolve
from understudy.providers.http.model_client import HttpModel
from understudy.vocabulary.models import ModelName, asked_in_turn

from . import options
from .loading import agents_in, load, problems_of
from .printing import put, warn

if TYPE_CHECKING:
    from understudy.specs import LoadedSpec
    from understudy.vocabulary.messages import JsonValue

ABOUT = """\
Load specs without running an agent. For each spec, print what it defines, or
all of its mistakes with file, line and column.

Only the code of --tools FILE.py is run, and with --allow-code also the files
that a spec names as FILE.py:FUNCTION. The schema of each loaded tool is built,
so a tool without a valid schema is a mistake. A tool that was not loaded, and a
key that is missing in the environment, are only notes.

examples:
  understudy check newsroom.yaml
  understudy check specs/*.yaml --tools tools.py --json

exit status:
  0    all specs can be run
  2    something is wrong with one of them
"""

PLACES = {"vertex": "vertex takes the project of Google's default credentials"}
"""Provider -> what happens without the variable of its place."""
KINDS: tuple[tuple[str, type[object]], ...] = (
    ("agents", Agent),
    ("sequences", SequentialAgent),
    ("parallel groups", ParallelAgent),
    ("workflows", Workflow),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `check`."""
    parser.add_argument("files", metavar="FILE.yaml", nargs="+", help="the specs")
    options.add_tools(parser)
    options.add_allow_code(parser)
    options.add_json(parser, "print one JSON object, also for what is wrong")


def do(arguments: argparse.Namespace, out: TextIO) -> int:
    """Check the files, and print the findings."""
    found = [_checked(file, arguments.tools, allow_code=arguments.allow_code) for file in arguments.files]
    good = all(not one.problems for one in found)
    if arguments.json:
        put(json.dumps({"ok": good, "files": [one.report() for one in found]}, ensure_ascii=False), out)
    for one in [] if arguments.json else found:
        warn("\n".join([f"understudy: {problem}" for problem in one.problems]))
        put("" if one.problems else "\n".join([f"{one.file}: all is well", *one.lines()]), out)
    return COMPLETE if good else USAGE


def _checked(file: str, tool_files: Sequence[str], *, allow_code: bool) -> Checked:
    try:
        return check(load(file, tool_files, allow_code=allow_code), file)
    except SpecError as error:
        return Checked(file, str(error).splitlines())


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings in one file.

    Attributes:
        file: the file's name.
        problems: one line for each problem.
        runners: ids of runners by kind.
        supervisors: ids of supervisors; only a program can start them, no command.
        parameters: names that a workflow's prompts need, by the workflow's id.
        handed_over: dependencies whose texts are put before a task's prompt, by the workflow's id and the task's name.
        tools: names of tools, and whether each needs an approval.
        not_loaded: names of tools in files that were not run.
        missing: the key variables of each provider for which none is set.
        places: the variables that say where providers are called, by provider, where they are not set.
    """

    file: str
    problems: list[str]
    runners: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    supervisors: list[str] = field(default_factory=list[str])
    parameters: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    handed_over: dict[str, dict[str, list[str]]] = field(default_factory=dict[str, dict[str, list[str]]])
    tools: dict[str, bool] = field(default_factory=dict[str, bool])
    not_loaded: tuple[str, ...] = ()
    missing: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    places: dict[str, str] = field(default_factory=dict[str, str])

    def lines(self) -> list[str]:
        """Return the lines for people, without the problems."""
        lines = [f"  {kind}: {', '.join(map(self._named, ids))}" for kind, ids in self.runners.items()]
        if self.supervisors:
            lines.append(f"  supervisors: {', '.join(self.supervisors)}")
        if self.tools:
            named = [f"{name} (with approval)" if asks else name for name, asks in self.tools.items()]
            lines.append(f"  tools: {', '.join(named)}")
        if self.not_loaded:
            lines.append(f"  note: {', '.join(self.not_loaded)} not loaded, for no code was run; --allow-code runs it")
        for id, tasks in self.handed_over.items():
            for name, before in tasks.items():
                told = f"the text of {', '.join(before)} is put before it"
                lines.append(f"  note: the prompt of task {name!r} in {id} names no task, so {told}")
        for provider, variables in self.missing.items():
            lines.append(f"  note: {' or '.join(variables)} is not set, so {provider} cannot be called")
        for provider, variable in self.places.items():
            instead = PLACES.get(provider, f"{provider} cannot be called")
            lines.append(f"  note: {variable} is not set, so {instead}")
        return lines

    def _named(self, id: str) -> str:
        needed = self.parameters.get(id)
        return f"{id} (--set {', '.join(needed)})" if needed else id

    def report(self) -> dict[str, JsonValue]:
        """Return the report for programs."""
        return {
            "file": self.file,
            "ok": not self.problems,
            "problems": [*self.problems],
            "runners": {kind: [*ids] for kind, ids in self.runners.items()},
            "supervisors": [*self.supervisors],
            "parameters": {id: [*names] for id, names in self.parameters.items()},
            "handed_over": {
                id: {name: [*before] for name, before in tasks.items()} for id, tasks in self.handed_over.items()
            },
            "tools": [*self.tools],
            "not_loaded": [*self.not_loaded],
            "missing_keys": {provider: [*variables] for provider, variables in self.missing.items()},
            "missing_places": {**self.places},
        }


def check(loaded: LoadedSpec, file: str) -> Checked:
    """Collect the contents of a loaded spec."""
    runners = loaded.runners.values()
    agents = agents_in(runners)
    clients = _clients(agents)
    kinds = {kind: [one.id for one in runners if isinstance(one, type_)] for kind, type_ in KINDS}
    return Checked(
        file,
        [f"{file}: {problem}" for agent in agents for problem in problems_of(agent)],
        {kind: ids for kind, ids in kinds.items() if ids},
        [*loaded.supervisors],
        {one.id: sorted(one.parameters) for one in runners if isinstance(one, Workflow) and one.parameters},
        {one.id: tasks for one in runners if isinstance(one, Workflow) and (tasks := _handed_over(one))},
        {
            tool.name: tool.approval is not False
            for agent in agents
            for tool in agent.tools
            if not isinstance(tool, SubAgent)
        },
        loaded.not_loaded,
        {client.provider: unset for client in clients if (unset := client.unset_keys())},
        {client.provider: place for client in clients if (place := client.unset_place())},
    )


def _handed_over(workflow: Workflow) -> dict[str, list[str]]:
    names = {task.name for task in workflow.tasks}
    found = {task.name: [*handed_over(task.spec(), names)] for task in workflow.tasks}
    return {name: before for name, before in found.items() if before}


def _clients(agents: Sequence[Agent[object]]) -> list[HttpModel]:
    """Return the clients of the agents' models that are on a network."""
    models = [model for agent in agents for model in asked_in_turn(agent.model)]
    clients = [resolve(model) if isinstance(model, ModelName) else model for model in models]
    return [client for client in clients if isinstance(client, HttpModel)]
