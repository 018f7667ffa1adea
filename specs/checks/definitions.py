"""What a spec defines and what refers to what, read from the documents as they are; ids, references and circles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from understudy.specs.grammar.groups import DEFINES, WORKFLOW_TYPES
from understudy.specs.reading.document import Document
from understudy.specs.reading.located import LocatedValue
from understudy.specs.reading.problems import Problem, did_you_mean, listed

MAX_SHOWN = 20  # A circle of more is not read to its end.

Kind = Literal["agent", "sequential", "parallel", "workflow", "supervisor"]


@dataclass(frozen=True, slots=True)
class Definition:
    """An agent, a workflow or a supervisor, and where it stands."""

    kind: Kind
    spot: LocatedValue
    inline: tuple[Definition, ...] = ()
    """Those that are defined inside of it."""

    @property
    def id(self) -> str:
        """Its id; empty if it has none."""
        return self.spot.at("id").text or ""

    def references(self) -> Iterator[LocatedValue]:
        """Iterate over the places where it names others."""
        for part in ("sub_agents", "children", "steps", "tasks"):
            for entry in self.spot.at(part).items():
                if entry.text is not None and part in ("sub_agents", "children"):
                    yield entry
                yield from [named for key in ("ref", "agent") if (named := entry.at(key)).text is not None]

    def needs(self) -> Iterator[tuple[str, LocatedValue]]:
        """Iterate over the ids that it is made of, with the places where it says so."""
        for place in self.references():
            yield place.text or "", place
        for each in self.inline:
            yield each.id, each.spot


def definitions_in(documents: Iterable[Document]) -> list[Definition]:
    """Return all definitions, in the order of the text; those inside of others come after these."""
    found: list[Definition] = []
    for document in documents:
        top = LocatedValue.top(document)
        made = [Definition("agent", spot) for spot in top.at("agents").items() if spot.is_mapping]
        made += [one for spot in top.at("workflows").items() if (one := _workflow(spot)) is not None]
        made += [Definition("supervisor", spot) for spot in top.at("supervisors").items() if spot.is_mapping]
        found += sorted([each for one in made for each in _with_inline(one)], key=lambda each: each.spot.place)
    return found


def _workflow(spot: LocatedValue) -> Definition | None:
    kind = next((kind for kind in WORKFLOW_TYPES if spot.at("type").value == kind), None)
    if kind is None:
        return None
    steps = [step for step in spot.at("steps").items() if _is_definition(step)]
    made = [_workflow(step) if step.at("type").value is not None else Definition("agent", step) for step in steps]
    return Definition(kind, spot, tuple([each for each in made if each is not None]))  # type: ignore[arg-type]  # checked


def _is_definition(step: LocatedValue) -> bool:
    keys = [key for key, _ in step.entries()]
    return "ref" not in keys and any(key in keys for key in DEFINES)


def _with_inline(definition: Definition) -> Iterator[Definition]:
    yield definition
    for each in definition.inline:
        yield from _with_inline(each)


def check_ids(definitions: Iterable[Definition]) -> Iterator[Problem]:
    """Yield a problem for each id that stands twice."""
    first: dict[str, LocatedValue] = {}
    for definition in definitions:
        at = definition.spot.at("id")
        if at.text is None:
            continue
        if at.text in first:
            there = first[at.text]
            where = "" if there.document is at.document else f" of {there.document.source}"
            yield at.problem(f"this id stands twice, first in line {there.place.line}{where}")
        first.setdefault(at.text, at)


def check_references(definitions: Collection[Definition]) -> Iterator[Problem]:
    """Yield a problem for each reference that leads nowhere, or to a supervisor from where none may stand."""
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
    """Return all ids, each after those that it is made of; and a problem for each circle."""
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
    """Go through what `start` needs, deepest first, without recursion: a chain may be longer than the stack."""
    way: dict[str, Iterator[tuple[str, LocatedValue]]] = {start: iter(needs[start])}
    while way:
        current = next(reversed(way))
        id, place = next(way[current], ("", None))
        if place is None:
            del way[current]
            order[current] = None
        elif id in way:
            path = list(way)
            circle = [*path[path.index(id) :], id]
            shown = circle if len(circle) <= MAX_SHOWN else [*circle[: MAX_SHOWN - 2], "…", *circle[-2:]]
            yield place.problem(f"this leads back to itself: {' -> '.join(shown)}")
        elif id in needs and id not in order:
            way[id] = iter(needs[id])
