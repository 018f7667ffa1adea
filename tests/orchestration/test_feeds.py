"""What machines take: the wrong type is refused and changes nothing, and what is taken can be saved and loaded again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.machines import asks, call, gives, make_spec, reloaded, run_of, saved
from understudy.errors import UnderstudyError
from understudy.orchestration import AgentRun, ParallelRun, RepairCall, SequenceRun, SkipCall
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.graph.spec import GraphSpec, TaskSpec
from understudy.orchestration.group.children import ChildFailure, ChildResult
from understudy.orchestration.group.spec import GroupSpec
from understudy.vocabulary.citations import Citation
from understudy.vocabulary.messages import (
    ImagePart,
    Message,
    MetadataPart,
    ModelTurn,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
    says,
)
from understudy.vocabulary.runs.callbacks import RewriteArguments
from understudy.vocabulary.runs.outcomes import Approve, Pause

SPEC = make_spec("look", "refund", approvals={"refund": True, "rule": None})
GROUP = GroupSpec(runner_id="group", children=("1", "2"))
wrong: Any = cast(Any, ["a"])


def at_model() -> AgentRun:
    return AgentRun(SPEC, "Hi")


def at_tools() -> AgentRun:
    run = run_of(SPEC, [asks(call("a"), call("b"), call("c", "refund"))])
    run.next_step()
    return run


# --- what is refused


@pytest.mark.parametrize(
    ("make", "error", "why"),
    [
        (lambda: AgentRun(SPEC, wrong), TypeError, r"input\[0\] is a value of type str, expected a part"),
        (
            lambda: AgentRun(SPEC, cast(Any, 7)),
            TypeError,
            "input must be text or a sequence of parts, got a value of type int",
        ),
        (lambda: AgentRun(SPEC, []), ValueError, "input must hold at least one part"),
        (lambda: AgentRun(SPEC, [TextPart(wrong)]), TypeError, r"input\[0\]\.text is a value of type list"),
        (lambda: AgentRun(SPEC, "Hi", system=wrong), TypeError, "system must be a string or None"),
        (lambda: AgentRun(SPEC, "Hi", history=wrong), TypeError, "history must hold Message objects, got str"),
        (
            lambda: AgentRun(SPEC, "Hi", history=cast(Any, "a")),
            TypeError,
            "history must be a sequence of Message objects",
        ),
        (
            lambda: AgentRun(SPEC, "Hi", history=[Message(cast(Any, "system"), (TextPart("Be brief."),))]),
            ValueError,
            r"history\[0\] has the role 'system', expected 'user' or 'assistant'",
        ),
        (lambda: SequenceRun(GROUP, wrong), TypeError, r"input\[0\] is a value of type str"),
    ],
)
def test_a_run_is_not_made_of_what_it_could_not_load(
    make: Callable[[], object], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        make()


def cited(citations: Any) -> ModelTurn:
    return ModelTurn((TextPart("a", citations=citations),))


WRONG_FEEDS: list[tuple[Callable[[], AgentRun], Callable[[Any], object], str]] = [
    (at_model, lambda run: run.model_response("hello"), "got a value of type str, expected a ModelTurn"),
    (at_model, lambda run: run.model_response(ModelTurn(cast(Any, "hello"))), "its parts are a value of type str"),
    (at_model, lambda run: run.model_response(ModelTurn((), Usage(-1))), "usage.input_tokens is -1"),
    (at_model, lambda run: run.model_response(asks(ToolCall("a", "look", {"n": float("inf")}))), "n'] is inf"),
    (at_model, lambda run: run.model_response(cited(["a"])), r"\.citations are a value of type list"),
    (at_model, lambda run: run.model_response(cited(("a",))), r"\.citations hold a value of type str"),
    (at_model, lambda run: run.model_response(cited((Citation(url=wrong),))), r"\.citations\.url is a value of"),
    (at_model, lambda run: run.model_response(cited((Citation(start=-1),))), r"\.citations\.start is a value of"),
    (at_model, lambda run: run.model_response(cited((Citation(raw={"n": float("inf")}),))), r"\.citations\.raw\['n'\]"),
    (at_model, lambda run: run.model_response(ModelTurn((MetadataPart(wrong),))), r"\.data is a value of type"),
    (at_model, lambda run: run.model_response(says("a"), met=True), "met must be a string or None"),
    (at_model, lambda run: run.model_response(says("a"), output_problem=3), "output_problem must be a string"),
    (at_model, lambda run: run.model_response(asks(call("a")), problems={0: 3}), r"problems\[0\] must be a string"),
    (
        at_model,
        lambda run: run.model_response(asks(call("a", "lok")), resolutions={0: SkipCall(cast(Any, 3))}),
        r"resolutions\[0\]: its text must be a string",
    ),
    (
        at_model,
        lambda run: run.model_response(asks(call("a", "lok")), resolutions={0: RepairCall(arguments=wrong)}),
        r"resolutions\[0\]: arguments must be a mapping",
    ),
    (at_model, lambda run: run.turn_ruled("hello", None), "expected a ModelTurn"),
    (at_model, lambda run: run.end_by("enough"), "a ruling must be a Ruling"),
    (at_model, lambda run: run.charge(Usage(), turns="3"), "charge: turns must be a whole number"),
    (at_model, lambda run: run.extend(max_turns=True), "max_turns must be a whole number"),
    (at_tools, lambda run: run.tool_results([gives("b"), ToolResult("a", cast(Any, 3))]), r"\[1\]\.content is"),
    (at_tools, lambda run: run.tool_results([ToolResult("a", "", error_kind=cast(Any, "odd"))]), "error_kind is"),
    (at_tools, lambda run: run.tool_results([ToolResult("a", "", parts=wrong)]), r"\.parts are a value of type"),
    (at_tools, lambda run: run.tool_results(["seven"]), r"tool results\[0\] is a value of type str"),
    (at_tools, lambda run: run.guard({"a": "no"}), r"rulings\['a'\] must be a Ruling"),
    (at_tools, lambda run: run.child_paused("a", b"x", [Pause(id="q", question="?")]), "must be a string"),
    (at_tools, lambda run: run.child_paused("a", "x", ["q"]), r"pauses\[0\] must be a Pause"),
]


@pytest.mark.parametrize(("at", "feed", "why"), WRONG_FEEDS)
def test_a_feed_of_the_wrong_type_is_refused_and_changes_nothing(
    at: Callable[[], AgentRun], feed: Callable[[Any], object], why: str
) -> None:
    run = at()
    before = run.to_json()

    with pytest.raises(TypeError, match=why):
        feed(run)

    assert run.to_json() == before


WRONG_ENDS_OF_CHILDREN: list[Callable[[Any], object]] = [
    lambda run: run.child_done(0, "text"),
    lambda run: run.child_done(0, ChildResult(text=cast(Any, 3))),
    lambda run: run.child_done(0, ChildResult(usage=cast(Any, {}))),
    lambda run: run.child_failed(0, "it broke"),
    lambda run: run.child_failed(0, ChildFailure("X", "it broke"), "it broke"),
    lambda run: run.child_at_limit(0, None, ChildFailure("X", "it broke")),
    lambda run: run.child_paused(0, "SAVED", ["q"]),
]


@pytest.mark.parametrize("feed", WRONG_ENDS_OF_CHILDREN)
def test_what_no_child_can_have_come_to_is_refused_and_changes_nothing(feed: Callable[[Any], object]) -> None:
    run = ParallelRun(GROUP, "Hi")
    run.next_step()
    before = run.to_json()

    with pytest.raises(TypeError):
        feed(run)

    assert run.to_json() == before


@pytest.mark.parametrize("make", [Approve, RewriteArguments])
@pytest.mark.parametrize("value", [float("nan"), {1: "a"}, b"a", {"deep": [object()]}])
def test_arguments_that_json_cannot_carry_are_refused_where_they_are_given(
    make: Callable[[Any], object], value: object
) -> None:
    with pytest.raises(TypeError, match="which JSON cannot carry"):
        make({"n": value})


# --- what is taken loads again

anything: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(codec=None), max_size=3),
    st.binary(max_size=1),
    st.sampled_from([10**5000, "a", "user", ("a",), (TextPart("x"),), Usage(1, 2)]),
    st.dictionaries(st.text(max_size=2), st.floats() | st.integers(), max_size=2),
)


def mostly(good: Any) -> st.SearchStrategy[Any]:
    return st.one_of(st.just(good), st.just(good), st.just(good), anything)


texts = st.text(st.characters(codec=None), max_size=4)
parts = st.one_of(
    st.builds(TextPart, texts | anything, mostly(None)),
    st.builds(ToolCall, st.text(st.characters(codec=None), max_size=2) | anything, mostly("look"), mostly({})),
    st.builds(ToolCall, mostly("a"), mostly("look"), st.dictionaries(texts, anything, max_size=2), mostly(None)),
    st.builds(ImagePart, mostly(""), mostly("image/png"), mostly("https://example.org")),
    st.builds(ToolResult, mostly("a"), mostly("x"), mostly(False), mostly(""), mostly("")),
    anything,
)
some_parts = st.lists(parts, min_size=1, max_size=2).map(tuple)
turns = st.builds(
    ModelTurn,
    some_parts | anything,
    st.builds(Usage, mostly(1), mostly(None)) | anything,
    mostly("stop"),
    mostly("stop"),
    mostly(""),
    mostly(""),
)
messages = st.builds(Message, mostly("user"), some_parts | anything, mostly(""))
results = st.builds(
    ToolResult,
    mostly("a"),
    texts | anything,
    mostly(True),
    mostly("raised"),
    mostly("look"),
    st.lists(parts, max_size=1).map(tuple) | anything,
)
FAST = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def check_loads(run: AgentRun) -> None:
    text = run.to_json()
    again = AgentRun.from_json(text, run.spec)
    assert again.to_json() == text
    assert again.state.phase == run.state.phase


@given(some_parts | anything, st.lists(messages, max_size=2) | anything, mostly(None))
@FAST
def test_whatever_a_run_is_made_of_its_text_loads_again(input: Any, history: Any, system: Any) -> None:
    with contextlib.suppress(TypeError, ValueError):
        check_loads(AgentRun(SPEC, input, history=history, system=system))


@given(turns, mostly({}), mostly({}), mostly(None), st.lists(results, max_size=2), mostly(3), mostly(1.5))
@FAST
def test_whatever_a_run_takes_its_text_loads_again_and_what_it_refuses_changes_nothing(
    turn: Any, problems: Any, approvals: Any, met: Any, given_results: Any, limit: Any, amount: Any
) -> None:
    feeds: list[tuple[AgentRun, Callable[[AgentRun], object]]] = [
        (at_model(), lambda run: run.extend(max_turns=limit)),
        (at_model(), lambda run: run.charge(Usage(1, 1), amount, turns=limit, seconds=amount)),
        (at_model(), lambda run: run.model_response(turn, problems={0: problems}, approvals={0: approvals}, met=met)),
        (at_model(), lambda run: run.model_response(turn)),
        (at_tools(), lambda run: run.tool_results(given_results)),
    ]
    for run, feed in feeds:
        before = run.to_json()
        try:
            feed(run)
        except (TypeError, ValueError, UnderstudyError):
            assert run.to_json() == before
        else:
            check_loads(run)


# --- what does not load


def loaded_with(run: AgentRun, change: Callable[[Any], object]) -> None:
    data = saved(run)
    change(data["state"])
    AgentRun.from_json(json.dumps(data), run.spec)


def after_a_round() -> AgentRun:
    run = run_of(SPEC, [asks(call("a", n="1"), call("b"))])
    run.next_step()
    run.tool_results([gives("a"), gives("b")])
    run.next_step()
    return run


IMPOSSIBLE: list[tuple[Callable[[], AgentRun], Callable[[Any], object], str]] = [
    (after_a_round, lambda s: s["messages"][2]["parts"].pop(), "with the results of"),
    (after_a_round, lambda s: s["messages"][2]["parts"].reverse(), "with the results of"),
    (after_a_round, lambda s: s["messages"][2]["parts"][0].update(call_id="z"), "with the results of"),
    (after_a_round, lambda s: s["messages"].pop(1), "with the results of"),
    (after_a_round, lambda s: s["messages"].pop(2), "calls"),
    (after_a_round, lambda s: s["messages"][1]["parts"][0]["arguments"].update(n=1e999), "is not finite"),
    (after_a_round, lambda s: s.update(turns=-5), "turns is -5"),
    (after_a_round, lambda s: s.update(iterations=11), "iterations is 11, and max_iterations is 10"),
    (after_a_round, lambda s: s.update(cost=-1), "cost is -1"),
    (after_a_round, lambda s: s.update(seconds=float("nan")), "is not finite"),
    (after_a_round, lambda s: s["usage"].update(input_tokens=-1), "input_tokens is -1"),
    (at_tools, lambda s: s["round"]["calls"].pop(), "answers for|the last message calls"),
    (at_tools, lambda s: s["round"].update(results={"a": {"call_id": "b", "content": ""}}), "says that it is of"),
    (
        at_tools,
        lambda s: s["round"].update(results={"c": {"call_id": "c", "content": ""}}),
        "has its result and waits",
    ),
    (at_tools, lambda s: s["round"].update(guarded=["z"]), "answers for"),
]


@pytest.mark.parametrize(("at", "change", "why"), IMPOSSIBLE)
def test_a_saved_run_that_cannot_have_been_is_refused(
    at: Callable[[], AgentRun], change: Callable[[Any], object], why: str
) -> None:
    with pytest.raises(ValueError, match=f"not a saved run: .*({why})"):
        loaded_with(at(), change)


def test_words_that_look_like_infinite_numbers_are_no_fault() -> None:
    assert reloaded(AgentRun(SPEC, "NaN, Infinity and 1e999")).messages[0].text == "NaN, Infinity and 1e999"


IMPOSSIBLE_IN_GROUPS: list[tuple[Callable[[Any], object], str]] = [
    (lambda s: s.update(order=[0, 0]), "ended in the order"),
    (lambda s: s.update(order=[]), "ended, in the order"),
    (lambda s: s["children"][0].update(result=None), "without a result"),
    (lambda s: s["children"][0].update(attempts=-1), "attempts is -1"),
    (lambda s: s["children"][0]["result"].update(turns=-1), "turns is -1"),
    (lambda s: s["spending"].update(seconds=float("inf")), "is not finite"),
    (lambda s: s["children"][1].update(phase="limit"), "without its run"),
]


@pytest.mark.parametrize(("change", "why"), IMPOSSIBLE_IN_GROUPS)
def test_a_saved_run_of_a_group_that_cannot_have_been_is_refused(change: Callable[[Any], object], why: str) -> None:
    run = ParallelRun(GROUP, "Hi")
    run.next_step()
    run.child_done(0, ChildResult(text="a", usage=Usage(1, 2)))
    data = json.loads(run.to_json())
    change(data["state"])

    with pytest.raises(ValueError, match=why):
        ParallelRun.from_json(json.dumps(data), GROUP)


IMPOSSIBLE_IN_WORKFLOWS: list[tuple[Callable[[Any], object], str]] = [
    (lambda s: s.update(parameters={}), "parameter 'topic' has no value"),
    (lambda s: s.update(order=[0, 1]), r"children \[1\] did not end, and the order"),
    (lambda s: s["children"].__setitem__(1, {"stage": "done"}), "children.1 has no 'phase'"),
    (lambda s: s["tasks"].__setitem__(1, {"state": "done"}), "tasks.1 has no 'status'"),
]


@pytest.mark.parametrize(("change", "why"), IMPOSSIBLE_IN_WORKFLOWS)
def test_a_saved_run_of_a_workflow_that_cannot_have_been_is_refused(change: Callable[[Any], object], why: str) -> None:
    tasks = (
        TaskSpec(name="a", runner="a", prompt="Go"),
        TaskSpec(name="b", runner="b", prompt="${a}", dependencies=("a",)),
        TaskSpec(name="c", runner="c", prompt="${topic}", dependencies=("b",)),
    )
    spec = GraphSpec(runner_id="w", children=("a", "b", "c"), tasks=tasks, parameters=frozenset({"topic"}))
    run = GraphRun(spec, "Hi", {"topic": "tides"})
    run.next_step()
    run.child_done(0, ChildResult(text="a"))
    run.next_step()
    data = json.loads(run.to_json())
    change(data["state"])

    with pytest.raises(ValueError, match=f"not a saved run of a group: .*{why}"):
        GraphRun.from_json(json.dumps(data), spec)
