"""A spec makes the workflows, sub-agents and supervisors that Python code would have made."""

from __future__ import annotations

import pytest

from understudy import (
    Agent,
    Child,
    OneForOne,
    ParallelAgent,
    RestForOne,
    SequentialAgent,
    SpecError,
    SubAgent,
    Supervisor,
    Task,
    Workflow,
    load_spec_text,
)
from understudy.orchestration import Runner
from understudy.testing import ScriptedModel, says

AGENTS = """\
agents:
  - {id: a, model: rehearsal}
  - {id: b, model: rehearsal, description: Knows b.}
"""
A, B = Agent("a", model="rehearsal"), Agent("b", model="rehearsal", description="Knows b.")

SAME: dict[str, tuple[str, Runner[object]]] = {
    "sequence": (
        "  - {id: w, type: sequential, pass_output: combined, description: d, steps: [{ref: a}, {ref: b}, {ref: a}]}\n",
        SequentialAgent("w", [A, B, A], pass_output="combined", description="d"),
    ),
    "panel": (
        "  - {id: w, type: parallel, merge_strategy: first, max_parallel: 1, on_error: collect, steps: [{ref: b}, {ref: a}]}\n",
        ParallelAgent("w", [B, A], merge="first", max_parallel=1, on_error="collect"),
    ),
    "inline": (
        """\
  - id: w
    type: sequential
    steps:
      - {id: c, model: rehearsal, max_turns: 2}
      - {id: p, type: parallel, steps: [{ref: a}, {id: g, type: workflow, tasks: [{id: t, agent: b}]}]}
""",
        SequentialAgent(
            "w",
            [
                Agent("c", model="rehearsal", max_turns=2),
                ParallelAgent("p", [A, Workflow("g", [Task("t", B)])]),
            ],
        ),
    ),
    "graph": (
        """\
  - id: w
    type: workflow
    max_parallel: 2
    tasks:
      - {id: fetch, agent: a, prompt: "Gather ${topic}", retries: 2, backoff: [0.5, 4]}
      - {id: write, ref: b, prompt: "${fetch} $${x}", dependencies: [fetch], when: "${fetch} != no", until: "${write} == ok", max_repeats: 1}
      - {id: each, agent: b, prompt: "${item}", dependencies: [fetch], for_each: "${fetch.list}"}
""",
        Workflow(
            "w",
            [
                Task("fetch", A, prompt="Gather ${topic}", retries=2, backoff=(0.5, 4)),
                Task(
                    "write",
                    B,
                    prompt="${fetch} $${x}",
                    dependencies=["fetch"],
                    when="${fetch} != no",
                    until="${write} == ok",
                    max_repeats=1,
                ),
                Task("each", B, prompt="${item}", dependencies=["fetch"], for_each="${fetch.list}"),
            ],
            max_parallel=2,
        ),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_a_workflow_is_the_one_that_python_makes(name: str) -> None:
    text, same = SAME[name]

    made = load_spec_text(f"{AGENTS}workflows:\n{text}").runner("w")

    assert type(made) is type(same)
    assert made.fingerprint() == same.fingerprint()
    assert made.description == same.description


def test_options_that_are_no_part_of_a_fingerprint_arrive_too() -> None:
    text, _ = SAME["panel"]

    made = load_spec_text(f"{AGENTS}workflows:\n{text}").parallel("w")

    assert (made.merge, made.max_parallel, made.on_error) == ("first", 1, "collect")
    assert load_spec_text(f"{AGENTS}workflows:\n{SAME['graph'][0]}").workflow("w").max_parallel == 2


def test_a_runner_may_be_used_before_it_is_defined_and_is_one_object_everywhere() -> None:
    loaded = load_spec_text(
        """
workflows:
  - {id: first, type: sequential, steps: [{ref: second}, {ref: a}]}
  - {id: second, type: parallel, steps: [{ref: a}, {id: inner, model: rehearsal}]}
agents:
  - {id: a, model: rehearsal, sub_agents: [b]}
  - {id: b, model: rehearsal}
"""
    )

    first, second = loaded.sequential("first"), loaded.parallel("second")
    assert first.steps == (second, loaded.agent("a"))
    assert second.children == (loaded.agent("a"), loaded.agent("inner"))
    assert list(loaded.runners) == ["first", "second", "inner", "a", "b"]


def test_sub_agents_are_those_that_python_makes() -> None:
    loaded = load_spec_text(
        """
agents:
  - id: boss
    model: rehearsal
    sub_agents:
      - b
      - {agent: a, name: ask_a, description: Asks a., allow: [x], deny: [y], timeout: 3}
      - {ref: line}
  - {id: a, model: rehearsal}
  - {id: b, model: rehearsal, description: Knows b.}
workflows:
  - {id: line, type: sequential, steps: [{ref: a}], description: A line.}
"""
    )

    line = SequentialAgent("line", [A], description="A line.")
    asks = SubAgent(A, name="ask_a", description="Asks a.", allow=["x"], deny=["y"], timeout=3)
    boss = loaded.agent("boss")
    assert boss.fingerprint() == Agent("boss", model="rehearsal", sub_agents=[B, asks, line]).fingerprint()
    assert (boss.sub_agents[1].allow, boss.sub_agents[1].deny, boss.sub_agents[1].timeout) == (("x",), ("y",), 3)


def test_supervisors_are_those_that_python_makes() -> None:
    loaded = load_spec_text(
        AGENTS
        + """
supervisors:
  - {id: top, children: [desk, {ref: b, restart: permanent}], strategy: rest_for_one, max_restarts: 7, within: 60, backoff: [1, 30]}
  - {id: desk, children: [a]}
"""
    )

    top = loaded.supervisor("top")
    assert top.strategy == RestForOne(max_restarts=7, within=60, backoff=(1, 30))
    assert top.children == (loaded.supervisor("desk"), Child(loaded.agent("b"), restart="permanent"))
    assert loaded.supervisor("desk").strategy == OneForOne()
    assert isinstance(loaded.supervisors["desk"], Supervisor)
    assert list(loaded.runners) == ["a", "b"]
    with pytest.raises(SpecError, match="<text>: no supervisor 'dask'; it has top, desk; did you mean 'desk'"):
        loaded.supervisor("dask")


def test_a_loaded_sequence_runs() -> None:
    loaded = load_spec_text(
        AGENTS + "workflows: [{id: w, type: sequential, pass_output: true, steps: [{ref: a}, {ref: b}]}]"
    )
    second = ScriptedModel([says("done")])

    with loaded.agent("a").override(model=ScriptedModel([says("half")])), loaded.agent("b").override(model=second):
        assert loaded.runner("w").run("begin").text == "done"

    assert second.requests[0].messages[-1].text == "half"


def test_the_parameters_of_a_workflow_are_left_to_its_run() -> None:
    loaded = load_spec_text(f"{AGENTS}workflows:\n{SAME['graph'][0]}")

    assert loaded.workflow("w").parameters == {"topic"}
