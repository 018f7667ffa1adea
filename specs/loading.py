"""Turns documents into definitions: checks the grammar, then the meaning, then builds if no problem was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from understudy.specs.builders.agents import AgentBuilder
from understudy.specs.builders.definitions import Builder
from understudy.specs.checks.agents import check_definition, check_memories
from understudy.specs.checks.definitions import (
    Definition,
    check_ids,
    check_references,
    definitions_in,
    in_order_of_need,
)
from understudy.specs.checks.names import check_shared_memories
from understudy.specs.checks.registry import Registered
from understudy.specs.checks.tasks import check_children, check_reach, check_tasks
from understudy.specs.grammar.conformance import check_shape
from understudy.specs.grammar.memory import DescribedMemory
from understudy.specs.grammar.spec import SpecGrammar
from understudy.specs.reading.document import Document
from understudy.specs.reading.files import Sources
from understudy.specs.reading.located import LocatedValue
from understudy.specs.reading.problems import MAX_PROBLEMS, Problem, spec_error

from .loaded_spec import LoadedSpec


def load(sources: Sources, registered: Registered) -> LoadedSpec:
    """Check a spec and build its definitions.

    Raises:
        SpecError: something is wrong; the message has a line for each problem.
    """
    documents = sources.documents
    found: list[Problem] = []
    grammars: dict[str, SpecGrammar] = {}
    for document in documents:
        if document.value is None and document.problems:
            continue
        grammar, misfits = check_shape(document)
        found += misfits
        if grammar is not None:
            grammars[document.source] = grammar
    definitions = definitions_in(documents)
    memories, twice = check_memories([LocatedValue.top(document) for document in documents])
    order, cycles = in_order_of_need(definitions)
    found += [*twice, *cycles]
    meant = (p for one in definitions for p in check_definition(one, sources, registered, memories))
    shared = check_shared_memories(memories, registered)
    for problems in (check_ids(definitions), check_references(definitions), _check_parts(definitions), shared, meant):
        found += islice(problems, MAX_PROBLEMS + 1)  # each problem costs a search for a similar name
    if not definitions and not found and not any(document.problems for document in documents):
        found += _nothing(documents[0])
    _stop_at(documents, found)
    builder = Builder(AgentBuilder(sources, registered, _memories(grammars.values())), registered)
    builder.build(definitions, grammars, order)
    _stop_at(documents, builder.problems)
    # Without this check, a definition that silently failed to build would be missed much later.
    made = builder.runners.keys() | builder.supervisors.keys()
    _stop_at(documents, [one.located.problem("this could not be made") for one in definitions if one.id not in made])
    _stop_at(documents, list(islice(check_reach(definitions, builder.runners), MAX_PROBLEMS + 1)))
    ids = [definition.id for definition in definitions]
    runners = {id: builder.runners[id] for id in ids if id in builder.runners}
    supervisors = {id: builder.supervisors[id] for id in ids if id in builder.supervisors}
    return LoadedSpec(documents[0].source, runners, supervisors, tuple(registered.toolbox.not_loaded))


def _check_parts(definitions: list[Definition]) -> Iterator[Problem]:
    for definition in definitions:
        if definition.kind == "workflow":
            yield from check_tasks(definition)
        if definition.kind == "supervisor":
            yield from check_children(definition)


def _nothing(document: Document) -> list[Problem]:
    agents = LocatedValue.top(document).at("agents")
    missing = agents.value is None
    return [agents.problem("'agents' is missing" if missing else "'agents' must hold at least one agent")]


def _stop_at(documents: list[Document], found: list[Problem]) -> None:
    """Raise one error that lists all problems, those of the text included, if there are any."""
    told = {(problem.source, problem.place) for document in documents for problem in document.problems}
    of_text = [problem for document in documents for problem in document.problems]
    # The reader put None where the text has a problem: a second problem at that place would be about that None.
    problems = [*of_text, *[problem for problem in found if (problem.source, problem.place) not in told]]
    if problems:
        raise spec_error(problems, [document.source for document in documents])


def _memories(grammars: Iterable[SpecGrammar]) -> dict[str, DescribedMemory]:
    return {name: described for grammar in grammars for name, described in (grammar.memories or {}).items()}
