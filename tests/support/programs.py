"""Runs the API programs: text that users are shown, with the names it leaves out and models that answer.

A program file has two parts, divided by the line `MARKER`. Above it is what the text takes for granted: names such as
`bank`, and `MODELS`, the models that answer for the agents. Below it is the text as users are shown it. The file is
type-checked as a whole; when it runs, an agent is given its model as soon as the text has made it.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Generator, Mapping
from pathlib import Path

from understudy import Agent, Model

MARKER = "# The program:\n"


class Models(dict[str, Model]):
    """Agent's id -> the model that answers for it."""


def program_text(path: Path) -> str:
    """Return the part of the file that users are shown."""
    _, marker, text = path.read_text().partition(MARKER)
    assert marker, f"{path.name} has no line {MARKER!r}"
    return text.strip("\n")


@contextlib.contextmanager
def performed(path: Path) -> Generator[dict[str, object]]:
    """Run a program file and yield the names it made; its agents keep their models inside the `with` block."""
    names: dict[str, object] = {"__name__": path.stem, "__file__": str(path)}
    with contextlib.ExitStack() as overrides:
        given: set[int] = set()
        for statement in ast.parse(path.read_text(), path.name).body:
            # One statement at a time, as a line of the text may use the agent that the line before has made.
            exec(compile(ast.Module([statement], []), str(path), "exec", dont_inherit=True), names)  # noqa: S102 (it is our own file)
            for agent in _agents(names):
                if id(agent) not in given:
                    given.add(id(agent))
                    overrides.enter_context(agent.override(model=_models(names)[agent.id]))
        yield names


def _agents(names: Mapping[str, object]) -> list[Agent[object]]:
    return [value for value in names.values() if isinstance(value, Agent)]


def _models(names: Mapping[str, object]) -> Models:
    given = names["MODELS"]
    assert isinstance(given, Models)
    return given
