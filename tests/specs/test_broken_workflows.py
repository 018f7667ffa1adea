"""What is wrong with workflows, references, supervisors and options is told where it stands: what `broken/` does not have."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.support.spec_objects import find
from understudy import SpecError, ask_user, load_spec_text


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
        "tasks in a circle",
        tasks("{id: t, agent: a, dependencies: @[u]}", "{id: u, agent: b, dependencies: [t]}"),
        "the tasks wait for one another: t -> u -> t",
    ),
    Broken(
        "no dependency",
        tasks("{id: t, agent: a}", "{id: u, agent: b, prompt: @'${t}'}"),
        "'t' is none of its dependencies",
    ),
    Broken(
        "supervisor as a step",
        flow("type: parallel, steps: [{ref: @s}]") + "supervisors: [{id: s, children: [a]}]\n",
        "'s' is a supervisor, and no runner",
    ),
    Broken(
        "strategy",
        AGENTS + "supervisors: [{id: s, children: [a], strategy: @one}]\n",
        "must be one of one_for_one, one_for_all, rest_for_one",
    ),
    Broken("base_url", agent("base_url: @'ftp://x'"), "base_url must look like https://host/path"),
    Broken("key", agent("@token: sk-1"), "keys never stand in a spec; they come from the environment (OPENAI_API_KEY"),
    Broken("criterion", agent("criteria: [{name: @nice}]"), "no criterion 'nice' is registered; registered: none"),
    Broken("callback", agent("callbacks: [{name: @adit}]"), "no callback 'adit' is registered"),
    Broken("schema", agent("output_schema: {type: @objct}"), "the schema['type'] is invalid"),
    Broken("memory", agent("memory: @desk"), "no memory 'desk'; there are no 'memories'"),
    Broken("options of a question", agent("tools: [@{name: ask, timeout: 3}]"), "this takes no options"),
    Broken(
        "memory limit of a thread",
        agent("tools: [{name: find, memory_limit: 9}]"),
        "memory_limit needs isolation='process'",
    ),
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
