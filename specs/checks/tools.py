"""Checks an agent's tools: they must exist, have different names, and accept the options that the spec changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from understudy.orchestration.definitions.sub_agent import SubAgent, tool_name
from understudy.specs.grammar.agent import SubAgentGrammar
from understudy.specs.grammar.grammar import Grammar, is_meant
from understudy.specs.reading.located import LocatedValue
from understudy.specs.reading.problems import Problem, did_you_mean, listed
from understudy.vocabulary.answers.strict_schemas import strict_arguments
from understudy.vocabulary.messages import JsonObject
from understudy.vocabulary.settings import two_tools
from understudy.vocabulary.tools.definition import NAME, Tool
from understudy.vocabulary.tools.questions import asks_user
from understudy.vocabulary.tools.toolset import ToolSource, tools_in

from .tool_names import Toolbox, tool_names


def check_tools(agent: LocatedValue, toolbox: Toolbox) -> Iterator[Problem]:
    """Yield the problems of an agent's tools and sub-agents, and of the settings that are about tools."""
    names: list[str] = []
    listed_tools = agent.at("tools").items()
    problems = [*_check_listed(listed_tools, toolbox, names), *_check_sub_agents(agent.at("sub_agents").items(), names)]
    yield from problems
    if agent.at("settings").at("strict_tools").value is True:
        yield from _check_strict(listed_tools, toolbox)
    references = [_reference(entry) for entry in listed_tools]
    if problems or any(one is None or toolbox.stands_in(one) for one in references):
        return  # the set of names is incomplete
    yield from _check_settings(agent.at("settings"), names)


def _check_settings(settings: LocatedValue, names: list[str]) -> Iterator[Problem]:
    extra, choice = settings.at("extra"), settings.at("tool_choice")
    twice = two_tools(names, cast(JsonObject, extra.value)) if extra.is_mapping else ""
    if twice:
        yield extra.problem(twice)
    if choice.text is None:
        return
    known = ["auto", "none", "required", *names]
    if choice.text not in known:
        yield choice.problem(
            f"tool_choice {choice.text!r} must be one of {listed(known)}{did_you_mean(choice.text, known)}"
        )
    if choice.text == "required" and not names:
        yield choice.problem("tool_choice is 'required', but the agent has no tools")


def _check_strict(entries: list[LocatedValue], toolbox: Toolbox) -> Iterator[Problem]:
    """Yield a problem for each tool that cannot be strict; this builds the tools' schemas, as making the agent does."""
    for entry in entries:
        reference = _reference(entry)
        found = "" if reference is None or toolbox.stands_in(reference) else toolbox.find(reference)
        if isinstance(found, str):
            continue
        for each in tools_in(found):
            try:
                strict_arguments(each.name, each.spec.schema)
            except (TypeError, ValueError) as error:
                yield entry.problem(str(error))


def _check_listed(entries: list[LocatedValue], toolbox: Toolbox, names: list[str]) -> Iterator[Problem]:
    seen: dict[str, LocatedValue] = {}
    for entry in entries:
        reference = _reference(entry)
        if reference is None:
            continue
        if reference in seen:
            line = seen[reference].place.line
            yield entry.problem(f"the tool {reference!r} stands twice, first in line {line}")
            continue
        seen[reference] = entry
        found = toolbox.find(reference)
        if isinstance(found, str):
            yield entry.problem(found)
            continue
        yield from _check_changes(entry, found)
        yield from _check_names(entry, tool_names(found), names)


def _check_sub_agents(entries: list[LocatedValue], names: list[str]) -> Iterator[Problem]:
    for entry in entries:
        id = entry.text or entry.at("agent").text or entry.at("ref").text
        if entry.is_mapping:
            yield from check_one_of_two(entry, SubAgentGrammar)
            yield from _check_permits(entry)
        given = entry.at("name")
        if given.text is not None and not NAME.fullmatch(given.text):
            yield given.problem(f"'name' must be letters, digits, '_' and '-', at most 64; got {given.text[:60]!r}")
        elif id:
            yield from _check_names(entry, [given.text or tool_name(id)], names)


def check_one_of_two(entry: LocatedValue, grammar: type[Grammar]) -> Iterator[Problem]:
    """Yield a problem unless exactly one of `agent` and `ref` is given."""
    given = [key for key in ("agent", "ref") if entry.at(key).value is not None]
    if len(given) == 2:
        yield entry.at("ref").key_problem("'agent' and 'ref' mean the same; leave one of them out")
    if not given and not any(is_meant(key, one, grammar) for key, _ in entry.entries() for one in ("agent", "ref")):
        yield entry.problem("'agent' is missing; expected the id of an agent, a workflow, or another runner")


def _check_permits(entry: LocatedValue) -> Iterator[Problem]:
    allowed = [each.text for each in entry.at("allow").items()]
    for each in entry.at("deny").items():
        if each.text is not None and each.text in allowed:
            yield each.problem(f"{each.text!r} cannot be both allowed and denied")


def _check_changes(entry: LocatedValue, found: ToolSource) -> Iterator[Problem]:
    changes = [key for key, _ in entry.entries() if key != "name"]
    if not changes:
        return
    if not isinstance(found, Tool):
        yield entry.problem("a toolset takes no options here; its methods have them, by @tool(…)")
    elif asks_user(cast("Tool[..., object]", found)) or isinstance(found, SubAgent):
        yield entry.problem("this takes no options: no call of it runs as a tool's do")


def _check_names(entry: LocatedValue, new: list[str], names: list[str]) -> Iterator[Problem]:
    for name in new:
        if name in names:
            yield entry.problem(
                f"two tools are named {name!r}; give one another name: tool(name=…), 'name' of a sub-agent, "
                "or the prefix of a toolset"
            )
    names += new


def _reference(entry: LocatedValue) -> str | None:
    return entry.text if entry.text is not None else entry.at("name").text
