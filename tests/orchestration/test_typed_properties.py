"""What holds for every run of an agent with an output type, whatever the model says and whatever is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.machines import make_spec, reloaded
from understudy.errors import BadReply, ContentBlocked, InvalidOutput, MaxIterationsExceeded
from understudy.orchestration import AgentRun, AwaitInput, CallModel, CallTools, Done, RunSpec
from understudy.vocabulary.messages import FinishReason, ModelTurn, OutputSpec, Part, TextPart, ToolCall, ToolResult
from understudy.vocabulary.runs.outcomes import Complete

FAST = settings(max_examples=80, deadline=None, derandomize=True)
OUTPUT = OutputSpec("Number", {"type": "object", "properties": {"n": {"type": "integer"}}})
REASONS: list[FinishReason] = ["stop", "stop", "stop", "tool_calls", "length", "blocked"]


@dataclass(frozen=True)
class Line:
    """A model turn, and what is wrong with its answer if it has one."""

    turn: ModelTurn
    problem: str


ids = st.sampled_from(["", "a", "b", "call-1-0"])
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, st.sampled_from(["", "{}", "Hm.", "__ask_user__: Which?"])),
    st.builds(ToolCall, ids, st.sampled_from(["look", "look", "lok", "final_answer", "final_answer"])),
    st.builds(ToolCall, ids, st.just("final_answer"), bad_arguments=st.just("{")),
)
turns = st.builds(
    ModelTurn,
    st.lists(parts, max_size=4).map(tuple),
    finish_reason=st.sampled_from(REASONS),
    raw_finish_reason=st.sampled_from([None, "stop", "max_tokens"]),
    refusal=st.sampled_from(["", "", "I won't."]),
)
scripts = st.lists(st.builds(Line, turns, st.sampled_from(["", "wrong", "wrong"])), max_size=8)


def spec_of(tool: str, tools: tuple[str, ...], retries: int) -> RunSpec:
    return replace(make_spec(*tools, max_turns=6), output=replace(OUTPUT, tool=tool), max_output_retries=retries)


no_tools: tuple[str, ...] = ()
specs = st.builds(
    spec_of, st.sampled_from(["", "final_answer"]), st.sampled_from([no_tools, ("look",)]), st.integers(0, 2)
)


def perform(spec: RunSpec, script: list[Line], *, saving: bool = False) -> tuple[AgentRun, object]:
    """Drive a run until it ends, stops at a limit, or the script is at its end; returns how it ended."""
    run = AgentRun(spec, "Hi")
    lines = iter(script)
    while True:
        run = reloaded(run) if saving else run
        try:
            step = run.next_step()
        except (BadReply, ContentBlocked, InvalidOutput, MaxIterationsExceeded) as error:
            return run, error
        match step:
            case CallModel():
                line = next(lines, None)
                if line is None:
                    return run, None
                checked = None if run.answer_in(line.turn) is None else line.problem
                run.model_response(line.turn, output_problem=checked)
            case CallTools(calls=calls):
                run.tool_results([ToolResult(call.id, "7") for call in calls])
            case AwaitInput():
                run.answer("This one.")
            case Done(outcome=outcome):
                return run, outcome
            case _:
                raise AssertionError(step)


@FAST
@given(specs, scripts)
def test_every_call_in_the_history_is_answered_once_in_call_order_right_after_its_turn(
    spec: RunSpec, script: list[Line]
) -> None:
    run, _ = perform(spec, script)

    for message, after in pairwise([*run.messages, None]):
        assert message is not None
        if message.tool_calls:
            assert after is not None
            assert [r.call_id for r in after.tool_results] == [c.id for c in message.tool_calls]


@FAST
@given(specs, scripts)
def test_a_run_is_complete_only_with_an_answer_that_was_found_to_fit(spec: RunSpec, script: list[Line]) -> None:
    run, ending = perform(spec, script)

    if isinstance(ending, Complete):
        last = script[run.state.turns - 1]
        assert last.problem == ""
        assert run.answer_in(last.turn) == ending.text


@FAST
@given(specs, scripts)
def test_no_more_bad_answers_are_borne_than_may_be(spec: RunSpec, script: list[Line]) -> None:
    run, ending = perform(spec, script)

    assert len(run.state.problems) <= spec.max_output_retries + 1
    assert isinstance(ending, InvalidOutput) == (run.state.phase == "bad_output")
    if len(run.state.problems) > spec.max_output_retries:
        assert isinstance(ending, InvalidOutput)


@FAST
@given(specs, scripts)
def test_saving_and_loading_at_every_step_changes_nothing(spec: RunSpec, script: list[Line]) -> None:
    one, ended = perform(spec, script)
    other, as_well = perform(spec, script, saving=True)

    assert other.to_json() == one.to_json()
    assert (type(ended), str(ended)) == (type(as_well), str(as_well))


@FAST
@given(specs, scripts)
def test_a_run_without_an_answer_that_fits_can_always_go_on(spec: RunSpec, script: list[Line]) -> None:
    run, ending = perform(spec, script)

    if isinstance(ending, InvalidOutput):
        run.extend(max_output_retries=9, max_turns=20)
        step = run.next_step()
        assert isinstance(step, CallModel)
        run.model_response(ModelTurn((TextPart("{}"),)), output_problem="")
        assert isinstance(run.next_step(), Done)


def test_the_strategies_reach_every_ending() -> None:
    seen: set[str] = set()

    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(specs, scripts)
    def look(spec: RunSpec, script: list[Line]) -> None:
        seen.add(type(perform(spec, script)[1]).__name__)

    look()

    assert seen >= {"Complete", "InvalidOutput", "BadReply", "ContentBlocked", "NoneType"}
