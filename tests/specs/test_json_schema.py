"""The JSON Schema and the reference page say what the loader takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

import pytest
import yaml

from tests.support.paths import ROOT
from tests.support.spec_examples import COMPLETE, FORMAT, GRAPH, PARALLEL
from understudy import SpecError, load_spec_text
from understudy.specs import spec_schema
from understudy.specs.grammar.reference_page import reference_page
from understudy.vocabulary.answers.json_schema import misfits
from understudy.vocabulary.messages import JsonValue

NAMED = """\
agents:
  - {id: sentiment_agent, model: rehearsal}
  - {id: summary_agent, model: rehearsal}
  - {id: researcher, model: rehearsal}
  - {id: writer, model: rehearsal}
"""
GOOD = {
    "format": FORMAT,
    "complete": COMPLETE,
    "panel": NAMED + PARALLEL,
    "graph": NAMED + GRAPH,
    "supervisors": NAMED + "supervisors: [{id: desk, children: [writer, {ref: researcher, restart: permanent}]}]\n",
    "free keys": "version: 1\nx-brief: {max_tokens: 3}\n" + NAMED,
    "empty": "agents: [{id: a, model: rehearsal, memory: , criteria: [], tools: }]\nworkflows:\n",
}
MISTAKES = {
    "an unknown key": "agents: [{id: a, model: rehearsal, sytem_prompt: x}]",
    "an unknown key at the top": NAMED + "agnts: []",
    "no id": "agents: [{model: rehearsal}]",
    "text for a number": "agents: [{id: a, model: rehearsal, max_turns: many}]",
    "a number out of range": "agents: [{id: a, model: rehearsal, max_turns: 0}]",
    "an unknown type": NAMED + "workflows: [{id: w, type: sequental, steps: [{ref: writer}]}]",
    "no steps": NAMED + "workflows: [{id: w, type: parallel, steps: []}]",
    "an unknown key of a step": NAMED + "workflows: [{id: w, type: parallel, steps: [{ref: writer, x: 1}]}]",
    "an unknown word": NAMED + "workflows: [{id: w, type: parallel, merge_strategy: last, steps: [{ref: writer}]}]",
    "a window without a size": "agents: [{id: a, model: rehearsal, memory: {type: windowed}}]",
    "a task's name": NAMED + "workflows: [{id: w, type: workflow, tasks: [{id: a b, agent: writer}]}]",
    "nothing": "{}",
}


@cache
def misfit_to_schema() -> Callable[[JsonValue], list[str]]:
    return misfits(spec_schema())


@pytest.mark.parametrize("name", GOOD)
def test_what_loads_passes_the_schema(name: str) -> None:
    load_spec_text(GOOD[name])

    assert misfit_to_schema()(yaml.safe_load(GOOD[name])) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_a_typical_mistake_fails_the_schema_and_the_loader(name: str) -> None:
    with pytest.raises(SpecError):
        load_spec_text(MISTAKES[name])

    assert misfit_to_schema()(yaml.safe_load(MISTAKES[name])) != []


def test_the_schema_is_one_and_may_be_written_as_json() -> None:
    schema = spec_schema()

    misfits(schema)  # raises if it is none
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_a_number_may_come_from_the_environment_and_no_other_text() -> None:
    def fits(value: str) -> bool:
        spec: JsonValue = {"agents": [{"id": "a", "model": "rehearsal", "max_turns": value}]}
        return misfits(spec_schema())(spec) == []

    assert fits("${env:TURNS}")
    assert not fits("${TURNS}")


def test_the_reference_page_is_the_grammar() -> None:
    assert (ROOT / "docs" / "spec-reference.md").read_text() == reference_page(), (
        "write it anew: python -m understudy.specs.grammar.reference_page > docs/spec-reference.md"
    )
