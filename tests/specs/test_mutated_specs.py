"""Whatever becomes of a valid spec, it loads or a `SpecError` says where it is wrong; and how it is written changes nothing."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.spec_objects import ShopError, web_search
from understudy import AgentCallback, InMemoryMemory, LoadedSpec, Rehearsal, SpecError, load_spec_text, tool
from understudy.specs.reading.problems import MAX_PROBLEMS

VALID = """\
version: 1
x-small: {temperature: 0.0, max_tokens: 100}
memories:
  desk: {type: windowed, window_size: 10}
  shelf: {name: own_memory}
agents:
  - id: reporter
    model: anthropic:claude-haiku-4-5
    system_prompt: You report.
    tools: [web_search, {name: place_order, approval: true, timeout: 5.5}]
    restart_on: [RateLimited, ConnectionError, ShopError]
    settings: {temperature: 0.0, stop: [END], tool_choice: web_search, extra: {a: [1, {b: null}]}}
    memory: desk
    criteria: [{type: keyword, keyword: DONE}, {type: max_iterations, max: 3}, {type: structured_output, schema: {type: object}}]
    callbacks: [{type: logging, level: debug}, {name: audit}, {type: output_guardrail, check: why_not, retry: true}]
    budget: {total_tokens: 1000, cost_usd: 0.5, prices: {'openai:own': {input: 1, output: 2.5}}}
  - id: editor
    provider: openai
    model: gpt-4o
    base_url: https://models.example.com
    sub_agents: [reporter, {agent: morning, name: ask_all, allow: [reporter], timeout: 30}]
    output_schema: {type: object, properties: {title: {type: string}}, required: [title]}
    memory: {type: in_memory, max_conversations: 10}
  - id: own
    model: {name: own_model}
    system_prompt: {name: about_it}
    tools: [{name: place_order, approval: {name: why_not}}]
    on_invalid_call: {name: why_not}
    output_type: Verdict
    memory: {name: own_memory}
workflows:
  - id: morning
    type: sequential
    pass_output: combined
    steps:
      - {ref: reporter}
      - id: panel
        type: parallel
        merge_strategy: first
        max_parallel: 2
        steps: [{ref: reporter}, {id: weather, model: rehearsal}]
  - id: dag
    type: workflow
    tasks:
      - {id: fetch, agent: reporter, prompt: 'Gather ${topic}', retries: 2, backoff: [0.5, 4]}
      - {id: write, ref: morning, prompt: '${fetch}', dependencies: [fetch], when: '${fetch.ok} != no', until: '${write} == done'}
      - {id: each, agent: editor, dependencies: [fetch], for_each: '${fetch.list}', prompt: '${item}'}
      - {id: last, agent: own, when: {name: about_it}, until: {name: about_it}}
supervisors:
  - {id: house, children: [editor, {ref: dag, restart: permanent}, desks], strategy: one_for_all, max_restarts: 3, backoff: [1, 30], decider: about_it}
  - {id: desks, children: [reporter], within: 60}
"""
SPEC: dict[str, Any] = yaml.safe_load(VALID)


@tool
def place_order(text: str) -> str:
    """Order something."""
    return text


@dataclass
class Verdict:
    good: bool


def about_it(given: object) -> None:
    return None


def why_not(given: object, text: object) -> None:
    return None


OBJECTS = {
    "ShopError": ShopError,
    "Verdict": Verdict,
    "about_it": about_it,
    "why_not": why_not,
    "own_model": Rehearsal(),
    "own_memory": InMemoryMemory(),
}


def load(text: str) -> LoadedSpec:
    return load_spec_text(
        text,
        tools={"web_search": web_search, "place_order": place_order},
        callbacks={"audit": AgentCallback()},
        objects=OBJECTS,
    )


def check_told(text: str) -> None:
    """Load a spec that may be wrong: each of its problems must lie inside of the text."""
    try:
        load(text)
    except SpecError as error:
        lines = str(error).split("\n")
        assert 1 <= len(lines) <= MAX_PROBLEMS + 1
        rows = re.split(r"\r\n|[\n\r\x85\u2028\u2029]", text)
        for line in lines[:MAX_PROBLEMS]:
            place = re.match(r"<text>:(\d+):(\d+): \S", line)
            assert place is not None, line
            row, column = int(place[1]), int(place[2])
            assert 1 <= row <= len(rows) and 1 <= column <= len(rows[row - 1]) + 1, line
            assert not re.search(r"pydantic|Traceback|Input should|Value error", line)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of everything below a value."""
    found: list[tuple[Any, ...]] = []
    steps: Any = value if is_mapping(value) else range(len(value)) if is_list(value) else ()
    for step in steps:
        found += [(*path, step), *places(value[step], (*path, step))]
    return found


def is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def is_list(value: Any) -> bool:
    return isinstance(value, list)


PLACES = places(SPEC)
KEYS = sorted({step for path in PLACES for step in path if isinstance(step, str)})
TEXTS = sorted({str(value) for path in PLACES for value in [path[-1]]}) + [
    "",
    "${",
    "${a}",
    "${env:",
    "rehearsal",
    "a/b",
    "\ud7ff\u202e😀",
    "e\u0301",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.sampled_from(TEXTS) | st.text(max_size=5),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inside, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def mutated(draw: Callable[[st.SearchStrategy[Any]], Any]) -> dict[str, Any]:
    """Return the valid spec with some values deleted, replaced, moved, or under other keys."""
    spec = copy.deepcopy(SPEC)
    for path in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=4)):
        around: Any = spec
        try:
            for step in path[:-1]:
                around = around[step]
            value = around[path[-1]]
            match draw(st.sampled_from(["delete", "replace", "rename", "double", "move"])):
                case "delete":
                    del around[path[-1]]
                case "replace":
                    around[path[-1]] = draw(VALUES)
                case "rename" if is_mapping(around):
                    around[draw(st.sampled_from(KEYS) | st.text(max_size=5))] = around.pop(path[-1])
                case "double" if is_list(around):
                    around.append(copy.deepcopy(value))
                case _:
                    around[path[-1]] = copy.deepcopy(SPEC[draw(st.sampled_from(sorted(SPEC)))])
        except (LookupError, TypeError):
            continue  # a change before took the place away
    return spec


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(spec=mutated(), flow=st.sampled_from([None, True, False]))
def test_a_changed_spec_loads_or_is_told_where_it_is_wrong(spec: dict[str, Any], flow: bool | None) -> None:
    check_told(yaml.safe_dump(spec, default_flow_style=flow, sort_keys=False, allow_unicode=True))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    start=st.integers(0, len(VALID)),
    length=st.integers(0, 60),
    put=st.lists(
        st.sampled_from(
            [*"\t\n\r -[]{}:'\"&*!|>?%@#,~\u2028\x85", "\ufeff", "\\U00110000", "<<: ", "*a", "&a ", "!!int ", "---\n"]
        )
    ),
)
def test_a_cut_spec_loads_or_is_told_where_it_is_wrong(start: int, length: int, put: list[str]) -> None:
    check_told(VALID[:start] + "".join(put) + VALID[start + length :])


def fingerprints(text: str) -> dict[str, str]:
    return {id: runner.fingerprint() for id, runner in load(text).runners.items()}


@pytest.mark.parametrize("flow", [None, True, False])
@pytest.mark.parametrize("width", [20, 1000])
def test_a_spec_is_the_same_however_it_is_written(flow: bool | None, width: int) -> None:
    text = yaml.safe_dump(SPEC, default_flow_style=flow, width=width, sort_keys=False)

    assert fingerprints(text) == fingerprints(VALID)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("before", ["", "\ufeff", "\n\n", "# a comment\n", "---\n", "%YAML 1.1\n---\n"])
def test_line_ends_and_beginnings_change_nothing(end: str, before: str) -> None:
    assert fingerprints((before + VALID).replace("\n", end)) == fingerprints(VALID)


def test_anchors_change_nothing() -> None:
    text = VALID.replace(
        "x-small: {",
        "x-haiku: &haiku anthropic:claude-haiku-4-5\nx-gather: &gather {id: weather, model: rehearsal}\nx-small: {",
    )
    text = text.replace("model: anthropic:claude-haiku-4-5", "model: *haiku").replace(
        "{id: weather, model: rehearsal}]", "{<<: *gather}]"
    )

    assert text.count("*haiku") == text.count("*gather") == 1
    assert fingerprints(text) == fingerprints(VALID)


def test_the_examples_keep_their_places_in_files_with_other_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_bytes(b"agents:\r  - id: a\r\n    model: rehearsal\r    max_turns: 0\r")

    with pytest.raises(SpecError, match=r"<text>:4:16: agent 'a': 'max_turns' must be at least 1, got 0"):
        load(file.read_bytes().decode())
