"""What is wrong with workflows, references, supervisors and options is told where it stands."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from understudy import SpecError, ask_user, load_spec_text, tool


@tool
def find(word: str) -> str:
    """Find a word."""
    return word


class Broken(NamedTuple):
    name: str
    text: str
    """With `@` before what is wrong."""
    says: str


AGENTS = "agents:\n  - {id: a, model: rehearsal}\n  - {id: b, model: rehearsal}\n"


def agent(keys: str) -> str:
    """Return a spec of one agent with these keys; what is wrong is all of it, unless they say where."""
    mapping = f"{{id: a, model: 'openai:gpt-4o', {keys}}}"
    return f"agents:\n  - {mapping if '@' in keys else '@' + mapping}\n"


def tasks(*given: str) -> str:
    lines = "".join([f"      - {each}\n" for each in given])
    return f"{AGENTS}workflows:\n  - id: w\n    type: workflow\n    tasks:\n{lines}"


def flow(keys: str) -> str:
    """Return a spec of two agents and a workflow, likewise."""
    mapping = f"{{id: w, {keys}}}"
    return f"{AGENTS}workflows:\n  - {mapping if '@' in keys else '@' + mapping}\n"


BROKEN = [
    Broken(
        "unknown step",
        flow("type: sequential, steps: [{ref: a}, {ref: @bb}]"),
        "workflow 'w', step 2: 'bb' is defined nowhere in this spec; there are a, b, w; did you mean 'b'?",
    ),
    Broken(
        "unknown type",
        flow("type: @sequental, steps: [{ref: a}]"),
        "must be one of sequential, parallel, workflow, got 'sequental'; did you mean 'sequential'?",
    ),
    Broken("no type", flow("steps: [{ref: a}]"), "must be a mapping with 'type' (sequential, parallel, workflow)"),
    Broken("no steps", flow("type: parallel, steps: @[]"), "'steps' must hold at least one step"),
    Broken("step of text", flow("type: parallel, steps: [@a]"), "workflow 'w', step 1: "),
    Broken(
        "inline without model",
        flow("type: parallel, steps: [@{id: c}]"),
        "workflow 'w', step 1: 'model' is missing",
    ),
    Broken(
        "inline unknown key",
        flow("type: parallel, steps: [{id: c, model: rehearsal, @max_turn: 1}]"),
        "an agent has no key 'max_turn'",
    ),
    Broken(
        "inline id twice",
        flow("type: parallel, steps: [{id: @b, model: rehearsal}]"),
        "this id stands twice, first in line 3",
    ),
    Broken(
        "unknown word",
        flow("type: parallel, merge_strategy: @last, steps: [{ref: a}]"),
        "must be one of collect_all, first",
    ),
    Broken("itself", flow("type: sequential, steps: [{ref: @w}]"), "this leads back to itself: w -> w"),
    Broken(
        "sub-agents in a circle",
        "agents:\n  - {id: a, model: rehearsal, sub_agents: [b]}\n  - {id: b, model: rehearsal, sub_agents: [{ref: @a}]}\n",
        "this leads back to itself: a -> b -> a",
    ),
    Broken(
        "unknown dependency",
        tasks("{id: t, agent: a}", "{id: u, agent: b, dependencies: [@tt]}"),
        "workflow 'w', task 'u': it depends on 'tt', which is no task; did you mean 't'?",
    ),
    Broken(
        "tasks in a circle",
        tasks("{id: t, agent: a, dependencies: @[u]}", "{id: u, agent: b, dependencies: [t]}"),
        "the tasks wait for one another: t -> u -> t",
    ),
    Broken("bad binding", tasks("{id: t, agent: a, prompt: @'say ${a b}'}"), "its prompt: '${a b}' is no reference"),
    Broken(
        "no dependency",
        tasks("{id: t, agent: a}", "{id: u, agent: b, prompt: @'${t}'}"),
        "'t' is none of its dependencies",
    ),
    Broken("bad condition", tasks("{id: t, agent: a, when: @maybe}"), "'maybe' is no condition"),
    Broken("task id twice", tasks("{id: t, agent: a}", "{id: @t, agent: b}"), "two tasks are named 't'"),
    Broken("task named input", tasks("{id: @input, agent: a}"), "a task cannot be named 'input'"),
    Broken("task id", tasks("{id: @a b, agent: a}"), "must be letters, digits, '_' and '-'"),
    Broken("nobody does it", tasks("@{id: t}"), "'agent' is missing"),
    Broken("two do it", tasks("{id: t, agent: a, @ref: b}"), "'agent' and 'ref' mean the same"),
    Broken(
        "backoff",
        tasks("{id: t, agent: a, backoff: @[5, 1]}"),
        "must be seconds before the first one, and the most",
    ),
    Broken(
        "supervisor as a step",
        flow("type: parallel, steps: [{ref: @s}]") + "supervisors: [{id: s, children: [a]}]\n",
        "'s' is a supervisor, and no runner",
    ),
    Broken(
        "child twice",
        AGENTS + "supervisors: [{id: s, children: [a, @a]}]\n",
        "supervisor 's': the child 'a' stands twice",
    ),
    Broken(
        "no children",
        AGENTS + "supervisors: [{id: s, children: @[]}]\n",
        "'children' must hold at least one child",
    ),
    Broken(
        "strategy",
        AGENTS + "supervisors: [{id: s, children: [a], strategy: @one}]\n",
        "must be one of one_for_one, one_for_all, rest_for_one",
    ),
    Broken("base_url", agent("base_url: @'ftp://x'"), "base_url must look like https://host/path"),
    Broken("option of another provider", agent("project: @p"), "openai has no 'project'; it takes base_url"),
    Broken("key", agent("@token: sk-1"), "keys never stand in a spec; they come from the environment (OPENAI_API_KEY"),
    Broken("criterion", agent("criteria: [{name: @nice}]"), "no criterion 'nice' is registered; registered: none"),
    Broken("callback", agent("callbacks: [{name: @adit}]"), "no callback 'adit' is registered"),
    Broken("schema", agent("output_schema: {type: @objct}"), "the schema['type'] is invalid"),
    Broken(
        "schema of a criterion",
        agent("criteria: [{type: structured_output, schema: @{$ref: '#/x'}}]"),
        "nothing at $ref '#/x'",
    ),
    Broken("memory", agent("memory: @desk"), "no memory 'desk'; there are no 'memories'"),
    Broken("memory type", agent("memory: {type: @window}"), "must be one of in_memory, windowed"),
    Broken(
        "no price",
        "agents:\n  - {id: a, model: 'openai:x', budget: {cost_usd: @1}}\n",
        "no price is known of 'openai:x'",
    ),
    Broken(
        "permits",
        agent("sub_agents: [{ref: c, allow: [x], deny: [@x]}]") + "  - {id: c, model: rehearsal}\n",
        "'x' cannot be both allowed and denied",
    ),
    Broken(
        "sub-agent named like a tool",
        agent("tools: [find], sub_agents: [@find]") + "  - {id: find, model: rehearsal}\n",
        "two tools are named 'find'",
    ),
    Broken("options of a question", agent("tools: [@{name: ask, timeout: 3}]"), "this takes no options"),
    Broken(
        "memory limit of a thread",
        agent("tools: [{name: find, memory_limit: 9}]"),
        "memory_limit needs isolation='process'",
    ),
    Broken("version", "version: @2\n" + AGENTS, "'version' must be 1, got 2"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=[broken.name for broken in BROKEN])
def test_what_is_wrong_is_told_with_its_place(broken: Broken) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec_text(broken.text.replace("@", ""), tools={"find": find, "ask": ask_user})

    before = broken.text.partition("@")[0]
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    lines = str(caught.value).splitlines()
    assert len(lines) == 1, lines
    assert broken.says in lines[0]
    assert lines[0].startswith("<text>:{}:{}: ".format(*place)), lines
    assert "sk-1" not in lines[0]


def test_a_chain_of_references_may_be_longer_than_the_stack() -> None:
    steps = [f"  - {{id: w{n}, type: sequential, steps: [{{ref: w{n + 1}}}]}}\n" for n in range(3000)]
    text = "agents: [{id: w3000, model: rehearsal}]\nworkflows:\n" + "".join(steps)

    assert len(load_spec_text(text).runners) == 3001
