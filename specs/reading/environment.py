"""Fills in `${env:NAME}` in a spec from the environment; names that look like secrets are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .problems import did_you_mean, short

MARK = "${env:"
PLACE = re.compile(r"\$\$\{env:|\$\{env:([^{}]*)(\}?)")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRET = re.compile(
    r"API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(^|_)(KEY|TOKEN|PWD)$",
    re.IGNORECASE,
)
BOUND_LATER = ("prompt", "when", "for_each", "until")
"""Keys of a task whose `${…}` the workflow binds at run time; there `$${` is an escaped `${`."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A text with the environment's values filled in.

    Attributes:
        text: the text; a name with a problem is left out.
        is_whole: whether the original text was one `${env:NAME}` and nothing else.
        problems: one message for each name with a problem.
    """

    text: str
    is_whole: bool
    problems: tuple[str, ...]


def mentions_environment(text: str) -> bool:
    """Whether a text has a `${env:NAME}`, escaped or not."""
    return MARK in text


def is_bound_later(path: tuple[str | int, ...]) -> bool:
    """Whether a workflow binds the text at this path of a document again at run time."""
    if len(path) > 3 and path[-2] == "parameters":
        return path[-4] in ("steps", "tasks", "sub_agents")
    return len(path) > 2 and path[-3] == "tasks" and path[-1] in BOUND_LATER


def fill_in(text: str, environment: Mapping[str, str], *, bound_later: bool = False) -> Filled:
    """Put the environment's values into a text; `$${env:` is an escaped `${env:`.

    Args:
        text: a text of a spec.
        environment: value by name.
        bound_later: whether a workflow will bind the text again; then `$` in the values is escaped for it.
    """
    problems: list[str] = []

    def value_of(found: re.Match[str]) -> str:
        if found.group().startswith("$$"):
            return found.group() if bound_later else MARK
        name = found.group(1).strip()
        problem = _problem_with(name, found, environment)
        if problem:
            problems.append(problem)
            return ""
        return environment[name].replace("${", "$${") if bound_later else environment[name]

    filled = PLACE.sub(value_of, text)
    whole = PLACE.fullmatch(text)
    return Filled(filled, whole is not None and not text.startswith("$$"), tuple(problems))


def _problem_with(name: str, found: re.Match[str], environment: Mapping[str, str]) -> str:
    if not found.group(2) or not NAME.fullmatch(name):
        return f"{short(found.group())} names no variable; expected ${{env:NAME}}, or $${{env: for the characters themselves"
    if SECRET.search(name):
        return (
            f"${{env:{name}}} looks like a secret, and a spec holds none: it is shown, logged and drawn; "
            "keys are found in the environment by the model's provider itself"
        )
    if name not in environment:
        known = [each for each in environment if not SECRET.search(each)]
        return f"the environment has no {name}; set it before the spec is loaded{did_you_mean(name, known)}"
    return ""
