"""What a picture of runners shows."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.drawings import all_parts, look, pay
from understudy import (
    Agent,
    DrawingError,
    ParallelAgent,
    ScriptedModel,
    SequentialAgent,
    SubAgent,
    Task,
    TaskResult,
    ToolCall,
    Workflow,
    tool,
)
from understudy.orchestration import Runner
from understudy.specs.drawing import layout
from understudy.specs.drawing.layout import Box, Part, Picture, picture_of
from understudy.vocabulary.context.session import RunContext


def agent(id: str, *subs: Runner[object] | SubAgent) -> Agent:
    return Agent(id, model="rehearsal", sub_agents=subs)


def named(part: Part) -> str:
    return part.title or part.kind


def flow(drawn: Picture) -> list[tuple[str, str]]:
    """Tails and heads of the arrows that a run follows."""
    return [(named(a.tail), named(a.head)) for a in drawn.arrows if not a.hands_over]


def handed(drawn: Picture) -> list[tuple[str, str, str]]:
    return [(named(a.tail), named(a.head), a.label) for a in drawn.arrows if a.hands_over]


def only(drawn: Picture) -> Part:
    (part,) = drawn.parts
    return part


def box(drawn: Picture) -> Box:
    part = only(drawn)
    assert isinstance(part, Box)
    return part


def task(name: str, *needs: str) -> Task:
    return Task(name, agent(f"{name}r"), dependencies=needs)


def test_an_agent_is_a_node_with_its_model_and_its_tools() -> None:
    drawn = only(picture_of([Agent("clerk", model="openai:gpt-4o", tools=[look])]))

    assert (drawn.kind, drawn.title, drawn.notes) == ("agent", "clerk", ("openai:gpt-4o", "tool: look"))


def test_a_model_that_is_an_object_is_named_by_its_type() -> None:
    assert only(picture_of([Agent("clerk", model=ScriptedModel([]))])).notes == ("ScriptedModel",)


def test_tools_that_a_person_must_allow_are_marked() -> None:
    def large(call: ToolCall, context: RunContext) -> bool:
        return True

    @tool(approval=large)
    def refund(cents: int) -> str:
        """Pay back."""
        return ""

    drawn = only(picture_of([Agent("clerk", model="rehearsal", tools=[look, pay, refund])]))

    assert " ".join(drawn.notes[1:]) == "tools: look, pay (approval), refund (approval?)"


def test_of_many_tools_only_those_that_a_person_must_allow_are_named() -> None:
    many = [tool(name=f"look{i}")(lambda: "") for i in range(layout.MAX_TOOLS)]
    drawn = only(picture_of([Agent("clerk", model="rehearsal", tools=[*many, pay])]))

    assert drawn.notes[1:] == (f"{len(many) + 1} tools: pay (approval), …",)


def test_lists_of_tools_are_broken_between_names() -> None:
    names = [f"look_{i}_{'x' * 20}" for i in range(3)]
    drawn = only(picture_of([Agent("c", model="rehearsal", tools=[tool(name=name)(lambda: "") for name in names])]))

    assert drawn.notes[1:] == (f"tools: {names[0]},", f"{names[1]},", names[2])


def test_a_sequence_is_a_chain_in_a_box() -> None:
    drawn = picture_of([SequentialAgent("report", [agent("a"), agent("b"), agent("c")], pass_output=True)])

    assert (box(drawn).kind, box(drawn).title) == ("sequence", "report")
    assert [part.title for part in box(drawn).parts] == ["a", "b", "c"]
    assert flow(drawn) == [("a", "b"), ("b", "c")]
    assert (box(drawn).entry.title, box(drawn).exit.title) == ("a", "c")


@pytest.mark.parametrize("passes", [False, True, "combined"])
def test_a_sequence_says_what_its_steps_are_told(passes: bool) -> None:
    notes = {p: box(picture_of([SequentialAgent("s", [agent("a")], pass_output=p)])).notes for p in (False, passes)}

    assert (notes[False] == notes[passes]) == (passes is False)


def test_branches_of_a_parallel_group_part_and_meet_in_how_it_merges() -> None:
    drawn = picture_of([ParallelAgent("panel", [agent("a"), agent("b")], merge="first", max_parallel=1)])

    assert flow(drawn) == [("fork", "a"), ("a", "first"), ("fork", "b"), ("b", "first")]
    assert (box(drawn).entry.kind, box(drawn).exit.kind) == ("fork", "join")
    assert "1 at once" in box(drawn).notes


def test_arrows_lead_to_boxes_and_from_boxes() -> None:
    panel = ParallelAgent("panel", [agent("a"), agent("b")])
    drawn = picture_of([SequentialAgent("report", [agent("first"), panel, agent("last")])])

    assert [edge for edge in flow(drawn) if "panel" in edge] == [("first", "panel"), ("panel", "last")]


def test_a_workflow_is_the_graph_of_its_tasks_each_with_its_runner_inside() -> None:
    drawn = picture_of([Workflow("brief", [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c", "b")])])

    assert flow(drawn) == [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    inside = {part.title: [i.title for i in part.parts] for part in box(drawn).parts if isinstance(part, Box)}
    assert inside == {"a": ["ar"], "b": ["br"], "c": ["cr"], "d": ["dr"]}


def test_tasks_that_begin_or_end_together_part_and_meet() -> None:
    drawn = picture_of([Workflow("brief", [task("a"), task("b"), task("c", "a")])])

    assert set(flow(drawn)) == {("fork", "a"), ("fork", "b"), ("a", "c"), ("c", "join"), ("b", "join")}
    assert (box(drawn).entry.kind, box(drawn).exit.kind) == ("fork", "join")


def test_a_task_says_on_which_conditions_and_how_often_it_runs() -> None:
    a = agent("x")

    def is_good(text: str) -> bool:
        return True

    workflow = Workflow(
        "w",
        [
            Task("check", a),
            Task("each", a, for_each="${list}", retries=2),
            Task("draft", a, dependencies=["check"], when="${check.label} == spam", until=is_good, max_repeats=1),
        ],
    )
    notes = {part.title: part.notes for part in box(picture_of([workflow])).parts}

    assert notes["check"] == ()
    assert notes["each"] == ("for each of ${list}", "retries: 2")
    assert notes["draft"] == ("when ${check.label} == spam", "until is_good(), repeated once at most")
    assert "parameters: list" in box(picture_of([workflow])).notes


def test_a_function_without_a_name_stands_as_its_type() -> None:
    class Rule:
        def __call__(self, results: Mapping[str, TaskResult]) -> bool:
            return True

    drawn = box(picture_of([Workflow("w", [Task("t", agent("a"), when=Rule())])]))

    assert drawn.parts[0].notes == ("when Rule()",)


def test_long_conditions_are_cut() -> None:
    drawn = box(picture_of([Workflow("w", [Task("t", agent("a"), when="${input} == " + "x" * 200)])]))

    (note,) = drawn.parts[0].notes
    assert note.startswith("when ${input} == xxx") and note.endswith("x…")
    assert len(note) == len("when ") + layout.MAX_CONDITION


def test_sub_agents_stand_beside_their_agent_and_are_handed_over_to() -> None:
    writer = agent("the writer")
    lead = agent("lead", agent("scout", agent("eye")), SubAgent(writer, name="draft"))
    drawn = picture_of([SequentialAgent("s", [lead, agent("end")])])

    assert sorted(handed(drawn)) == [("lead", "scout", ""), ("lead", "the writer", "draft"), ("scout", "eye", "")]
    assert {part.title for part in box(drawn).parts} == {"lead", "scout", "eye", "the writer", "end"}
    assert flow(drawn) == [("lead", "end")]


def test_a_runner_that_stands_at_several_places_is_drawn_at_each() -> None:
    twice = agent("twice")
    drawn = picture_of([ParallelAgent("p", [twice, SequentialAgent("s", [twice, twice])])])
    keys = [part.key for part in all_parts(drawn.parts)]

    assert [part.title for part in all_parts(drawn.parts)].count("twice") == 3
    assert len(keys) == len(set(keys))


def test_of_several_runners_those_inside_of_others_are_not_drawn_again() -> None:
    eye, step, alone = agent("eye"), agent("step"), agent("alone")
    scout = agent("scout", eye)
    runners = [eye, step, alone, scout, SequentialAgent("s", [step, scout]), alone]

    assert [part.title for part in picture_of(runners).parts] == ["alone", "s"]


def test_ids_become_one_line_of_what_fonts_show() -> None:
    shown = only(picture_of([agent("a\tb\x00\x1b[1m\ud800\u202ec 日本\u200d")]))

    assert shown.title == "a b\\u0000\\u001b[1m\\ud800\\u202ec 日本\u200d"


def test_a_runner_of_another_kind_is_a_node_with_what_it_runs_beside() -> None:
    class Odd(Runner[str]):
        __slots__ = ()

        def __init__(self) -> None:
            object.__setattr__(self, "id", "odd")

        @property
        def inner_runners(self) -> tuple[Runner[object], ...]:
            return (inner,)

        def fingerprint(self) -> str:
            return ""

    inner = agent("inner")
    drawn = picture_of([Odd()])

    assert [(part.title, part.notes[0]) for part in drawn.parts] == [("odd", "Odd"), ("inner", "rehearsal")]
    assert handed(drawn) == [("odd", "inner", "")]


def test_what_is_nested_too_deep_is_refused() -> None:
    nested: Runner[object] = agent("core")
    for level in range(layout.MAX_DEPTH - 1):
        nested = SequentialAgent(f"s{level}", [nested])

    assert sum(1 for _ in all_parts(picture_of([nested]).parts)) == layout.MAX_DEPTH
    with pytest.raises(DrawingError, match="nested more than 50"):
        picture_of([SequentialAgent("top", [nested])])


def test_a_definition_that_doubles_at_each_level_is_refused_before_it_is_drawn() -> None:
    nested: Runner[object] = agent("core")
    for level in range(40):
        nested = SequentialAgent(f"s{level}", [nested, nested])

    with pytest.raises(DrawingError, match="more than 2,000 parts"):
        picture_of([nested])


def test_there_must_be_something_to_draw() -> None:
    with pytest.raises(DrawingError, match="nothing to draw"):
        picture_of([])
