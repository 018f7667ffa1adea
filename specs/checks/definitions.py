"""Finds a spec's definitions and references in the raw documents; checks ids, references and cycles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from understudy.specs.grammar.groups import DEFINES, WORKFLOW_TYPES
from understudy.specs.reading.document import Document
from understudy.specs.reading.located import LocatedValue
from understudy.specs.reading.problems import Problem, did_you_mean, listed

MAX_SHOWN = 20  # Nobody reads a longer cycle to its end.

Kind = Literal["agent", "sequential", "parallel", "workflow", "supervisor"]


@dataclass(frozen=True, slots=True)
class Definition:
    """An agent, a workflow or a supervisor, with its place in the documents."""

    kind: Kind
    located: LocatedValue
    inline: tuple[Definition, ...] = ()
    """The definitions written inside this one."""

    @property
    def id(self) -> str:
        """The id; empty if the definition has none."""
        return self.located.at("id").text or ""

    def references(self) -> Iterator[LocatedValue]:
        """Iterate over the values that name other definitions."""
        for part in ("sub_agents", "children", "steps", "tasks"):
            for entry in self.located.at(part).items():
                if entry.text is not None and part in ("sub_agents", "children"):
                    yield entry
                yield from [named for key in ("ref", "agent") if (named := entry.at(key)).text is not None]

    def needs(self) -> Iterator[tuple[str, LocatedValue]]:
        """Iterate over the ids that must be built before this definition, each with the value that names it."""
        for place in self.references():
            yield place.text or "", place
        for each in self.inline:
            yield each.id, each.located


def definitions_in(documents: Iterable[Document]) -> list[Definition]:
    """Return all definitions, in the order of the text; an inline definition comes after the one around it."""
    found: list[Definition] = []
    for document in documents:
        top = LocatedValue.top(document)
        made = [Definition("agent", located) for located in top.at("agents").items() if located.is_mapping]
        made += [one for located in top.at("workflows").items() if (one := _workflow(located)) is not None]
        made += [Definition("supervisor", located) for located in top.at("supervisors").items() if located.is_mapping]
        found += sorted([each for one in made for each in _with_inline(one)], key=lambda each: each.located.place)
    return found


def _workflow(located: LocatedValue) -> Definition | None:
    kind = next((kind for kind in WORKFLOW_TYPES if located.at("type").value == kind), None)
    if kind is None:
        return None
    steps = [step for step in located.at("steps").items() if _is_definition(step)]
    made = [_workflow(step) if step.at("type").value is not None else Definition("agent", step) for step in steps]
    return Definition(kind, located, tuple([each for each in made if each is not None]))  # type: ignore[arg-type]  # checked


def _is_definition(step: LocatedValue) -> bool:
    keys = [key for key, _ in step.entries()]
    return "ref" not in keys and any(key in keys for key in DEFINES)


def _with_inline(definition: Definition) -> Iterator[Definition]:
    yield definition
    for each in definition.inline:
        yield from _with_inline(each)


def check_ids(definitions: Iterable[Definition]) -> Iterator[Problem]:
    """Yield a problem for each duplicate id."""
    first: dict[str, LocatedValue] = {}
    for definition in definitions:
        at = definition.located.at("id")
        if at.text is None:
            continue
        if at.text in first:
            there = first[at.text]
            where = "" if there.document is at.document else f" of {there.document.source}"
            yield at.problem(f"this id stands twice, first in line {there.place.line}{where}")
        first.setdefault(at.text, at)


def check_references(definitions: Collection[Definition]) -> Iterator[Problem]:
    """Yield a problem for each reference to an unknown id, or to a supervisor where none is allowed."""
    kinds: dict[str, Kind] = {}
    for definition in definitions:
        kinds.setdefault(definition.id, definition.kind)
    runners = {id: kind for id, kind in kinds.items() if kind != "supervisor"}
    for definition in definitions:
        known = kinds if definition.kind == "supervisor" else runners
        for place in definition.references():
            id = place.text or ""
            if id in kinds and id not in runners and definition.kind == "supervisor" and place.path[-1] == "ref":
                yield place.problem(f"{id!r} is a supervisor, and 'restart' is for runners; write its id alone")
            elif id not in known:
                what = "a supervisor, and no runner" if id in kinds else "defined nowhere in this spec"
                hint = did_you_mean(id, known)
                yield place.problem(f"{id!r} is {what}; there are {listed(islice(known, 20))}{hint}")


def in_order_of_need(definitions: Iterable[Definition]) -> tuple[list[str], list[Problem]]:
    """Return all ids, each after the ids it needs; and a problem for each cycle."""
    needs: dict[str, list[tuple[str, LocatedValue]]] = {}
    for definition in definitions:
        needs.setdefault(definition.id, list(definition.needs()))
    order: dict[str, None] = {}
    problems: list[Problem] = []
    for start in needs:
        if start not in order:
            problems += _visit(start, needs, order)
    return list(order), problems


def _visit(
    start: str, needs: Mapping[str, list[tuple[str, LocatedValue]]], order: dict[str, None]
) -> Iterator[Problem]:
    """Visit everything `start` needs, deepest first, in a loop: a chain can be deeper than the stack."""
    way: dict[str, Iterator[tuple[str, LocatedValue]]] = {start: iter(needs[start])}
    while way:
        current = next(reversed(way))
        id, place = next(way[current], ("", None))
        if place is None:
            del way[current]
            order[current] = None
        elif id in way:
            path = list(way)
            cycle = [*path[path.index(id) :], id]
            shown = cycle if len(cycle) <= MAX_SHOWN else [*cycle[: MAX_SHOWN - 2], "…", *cycle[-2:]]
            yield place.problem(f"this leads back to itself: {' -> '.join(shown)}")
        elif id in needs and id not in order:
            way[id] = iter(needs[id])
