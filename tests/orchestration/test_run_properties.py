"""What holds for every run, whatever the model, the tools and the driver do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.machines import make_spec, reloaded
from understudy.errors import MaxIterationsExceeded, ProtocolViolation, UnderstudyError
from understudy.messages import FinishReason, Message, ModelTurn, ReasoningPart, TextPart, ToolCall, ToolResult, Usage
from understudy.orchestration import (
    AgentRun,
    AwaitApproval,
    AwaitInput,
    CallModel,
    CallTools,
    Done,
    FailRun,
    RepairCall,
    RetryTurn,
    RunSpec,
    SkipCall,
    StopRun,
)
from understudy.orchestration.steps import Resolution
from understudy.outcomes import Approve, Decision, Reject

FAST = settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

# --- scripts: what a model says, and what those around it do


@dataclass(frozen=True)
class Line:
    """One model turn, and what the driver feeds with it."""

    turn: ModelTurn
    problems: Mapping[int, str] = field(default_factory=dict[int, str])
    resolution: Resolution | None = None
    """What to do with each invalid call of the turn."""
    approvals: Mapping[int, bool] = field(default_factory=dict[int, bool])
    met: str | None = None


names = st.sampled_from(["look", "refund", "rule", "lok"])
ids = st.sampled_from(["", "a", "b", "c", "call-1-0", "call-2-1"])
tool_calls = st.builds(
    ToolCall,
    ids,
    names,
    st.dictionaries(st.sampled_from(["sku", "cents"]), st.integers(0, 9), max_size=2),
    st.sampled_from([None, None, None, None, "{sku: "]),
)
numbers = st.none() | st.integers(0, 50)
usages = st.builds(Usage, numbers, numbers, numbers, numbers, numbers)
texts = st.sampled_from(["", "Seven.", "__ask_user__: Which?", "So it is."])
text_parts = st.builds(TextPart, texts, st.sampled_from([None, None, "proof"]))
REASONS: list[FinishReason] = ["stop", "stop", "stop", "tool_calls", "length", "blocked", "other"]
reasons = st.sampled_from(REASONS)


@st.composite
def model_turns(draw: st.DrawFn) -> ModelTurn:
    words = draw(st.lists(text_parts | st.builds(ReasoningPart, st.just("Hm.")), max_size=2))
    calls = draw(st.lists(tool_calls, max_size=4)) if draw(st.integers(0, 3)) else []
    return ModelTurn((*words, *calls), draw(usages), draw(reasons), refusal=draw(st.sampled_from(["", "", "", "No."])))


resolutions = st.sampled_from(
    [None, None, None, RetryTurn("Again."), SkipCall("No need."), RepairCall("look", {}), FailRun(), StopRun("Enough.")]
)
lines = st.builds(
    Line,
    model_turns(),
    st.dictionaries(st.integers(0, 3), st.just("argument 'sku' is missing"), max_size=1),
    resolutions,
    st.dictionaries(st.integers(0, 3), st.booleans(), max_size=2),
    st.sampled_from([None, "a criterion was met"]),
)
scripts = st.lists(lines, max_size=9)


@st.composite
def specs(draw: st.DrawFn) -> RunSpec:
    return make_spec(
        "look",
        "refund",
        "rule",
        approvals={"refund": True, "rule": None},
        tool_choice=draw(st.sampled_from(["auto", "auto", "auto", "none", "required", "look"])),
        max_iterations=draw(st.integers(0, 4)),
        max_turns=draw(st.integers(0, 8)),
        criteria=draw(st.booleans()),
        max_continues=draw(st.integers(0, 2)),
        max_invalid_retries=draw(st.integers(0, 2)),
    )


def result_for(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, f"{call.name} gave {sorted(call.arguments)}")


def decision_for(call: ToolCall) -> Decision:
    """Decide by what the call is, so that each driver of a run decides alike."""
    if call.arguments.get("cents") == 0:
        return Reject("too much")
    return Approve(arguments={"cents": 1}) if "sku" in call.arguments else Approve()


def resolutions_for(run: AgentRun, line: Line) -> dict[int, Resolution]:
    if line.resolution is None:
        return {}
    return {bad.position: line.resolution for bad in run.invalid_calls(line.turn, line.problems) if line.resolution}


def say(run: AgentRun, line: Line) -> None:
    """Feed a line; a repair that cannot be is left out."""
    chosen = resolutions_for(run, line)
    try:
        run.model_response(
            line.turn, problems=line.problems, resolutions=chosen, approvals=line.approvals, met=line.met
        )
    except ProtocolViolation:
        if not any(isinstance(r, RepairCall) for r in chosen.values()):
            raise
        run.model_response(line.turn, problems=line.problems, approvals=line.approvals, met=line.met)


# --- drivers

Swap = Callable[[AgentRun], AgentRun]
Pick = Callable[[int], list[int]]


@dataclass(frozen=True)
class Played:
    """What a run came to."""

    history: list[Message]
    ending: object
    steps: list[object]


def all_of(count: int) -> list[int]:
    return list(range(count))


def same(run: AgentRun) -> AgentRun:
    return run


def play(
    spec: RunSpec, script: list[Line], *, pick: Pick = all_of, swap: Swap = same, whole_steps: bool = True
) -> Played:
    """Carry a run to its end, or to the end of the script.

    Args:
        pick: which of so many pending results or decisions to feed next, in that order.
        swap: what to go on with after each step, such as the run saved and loaded.
        whole_steps: whether to note each step; they differ where results come in parts.
    """
    run = swap(AgentRun(spec, "Hi"))
    steps: list[object] = []
    waiting = list(script)
    ending: object = None
    while ending is None:
        try:
            step = run.next_step()
        except UnderstudyError as error:
            ending = (type(error), str(error))
            break
        if whole_steps:
            steps.append(step)
        run = swap(run)
        match step:
            case CallModel():
                if not waiting:
                    ending = "the script is over"
                else:
                    say(run, waiting.pop(0))
            case CallTools(calls=calls):
                run.tool_results([result_for(calls[i]) for i in pick(len(calls))])
            case AwaitApproval(calls=calls):
                run.decisions({calls[i].id: decision_for(calls[i]) for i in pick(len(calls))})
            case AwaitInput(question=question):
                run.answer(f"An answer to {question}")
            case Done(outcome=outcome):
                ending = outcome
        run = swap(run)
    check_invariants(run)
    return Played(list(run.messages), ending, steps)


def check_invariants(run: AgentRun) -> None:
    """Check what must hold in every state."""
    state = run.state
    assert state.iterations <= state.max_iterations
    assert state.turns <= state.max_turns
    assert state.continues <= state.max_continues
    history = list(run.messages)
    open_calls = () if state.round is None else history[-1].tool_calls
    assert state.round is None or [c.id for c in open_calls] == [c.id for c in state.round.calls]
    for message in history:
        assert message.parts, "an empty message is refused by providers"
        assert len({c.id for c in message.tool_calls} - {""}) == len(message.tool_calls)
    for message, following in pairwise(history):
        answered = [(c.id, c.name) for c in message.tool_calls]
        assert [(r.call_id, r.name) for r in following.tool_results] == answered
        assert message.role == "user" or following.role == "user", "a turn follows a turn"
    if state.round is None:
        assert not history[-1].tool_calls
    if state.phase == "model":
        assert history[-1].role == "user"


@given(specs(), scripts)
@FAST
def test_saving_and_loading_at_every_point_changes_nothing(spec: RunSpec, script: list[Line]) -> None:
    assert play(spec, script, swap=reloaded) == play(spec, script)


@given(specs(), scripts, st.data())
@FAST
def test_partial_results_in_any_order_give_one_and_the_same_history(
    spec: RunSpec, script: list[Line], data: st.DataObject
) -> None:
    def some(count: int) -> list[int]:
        shuffled = data.draw(st.permutations(range(count)))
        return list(shuffled[: data.draw(st.integers(1, count))])

    piecewise = play(spec, script, pick=some, whole_steps=False)

    assert piecewise == play(spec, script, whole_steps=False)


# --- anything at any time


@dataclass(frozen=True)
class Move:
    """Something a driver tries, due or not."""

    feed: Literal["turn", "results", "decisions", "answer", "extend", "reload"]
    line: Line
    picks: tuple[int, ...]
    """Which ids: positions among the calls of the open round, and one past the end for an id of nobody's."""
    number: int


moves = st.lists(
    st.builds(
        Move,
        st.sampled_from(["turn", "turn", "results", "results", "decisions", "decisions", "answer", "extend", "reload"]),
        lines,
        st.lists(st.integers(0, 4), max_size=3).map(tuple),
        st.integers(0, 12),
    ),
    max_size=25,
)


def step_of(run: AgentRun) -> object:
    try:
        return run.next_step()
    except UnderstudyError as error:
        return error


def ids_of(run: AgentRun, picks: tuple[int, ...]) -> list[str]:
    calls = run.state.round.calls if run.state.round else ()
    return [calls[i].id if i < len(calls) else "nobody's" for i in picks]


def is_due(run: AgentRun, step: object, move: Move) -> bool:
    """Say whether the machine must take the move, by the step it gave and the calls it named."""
    chosen = ids_of(run, move.picks)
    at_tools = isinstance(step, (CallTools, AwaitApproval))
    match move.feed:
        case "turn":
            return isinstance(step, CallModel)
        case "results":
            pending = [c.id for c in step.calls] if isinstance(step, CallTools) else []
            return bool(chosen) and len(set(chosen)) == len(chosen) and set(chosen) <= set(pending)
        case "decisions":
            waiting = run.state.round.waiting if run.state.round and at_tools else ()
            return bool(chosen) and set(chosen) <= set(waiting)
        case "answer":
            return isinstance(step, AwaitInput)
        case "extend":
            return move.number >= run.state.max_iterations
        case "reload":
            return True


def make(run: AgentRun, move: Move) -> AgentRun:
    chosen = ids_of(run, move.picks)
    match move.feed:
        case "turn":
            say(run, move.line)
        case "results":
            run.tool_results([ToolResult(id, "7") for id in chosen])
        case "decisions":
            run.decisions({id: Reject() if i % 2 else Approve() for i, id in enumerate(chosen)})
        case "answer":
            run.answer("Paris")
        case "extend":
            run.extend(max_iterations=move.number)
        case "reload":
            return reloaded(run)
    return run


@given(specs(), moves)
@FAST
def test_what_is_due_is_always_taken_and_what_is_not_changes_nothing(spec: RunSpec, tried: list[Move]) -> None:
    run = AgentRun(spec, "Hi")
    for move in tried:
        step = step_of(run)
        before = run.to_json()
        if is_due(run, step, move):
            run = make(run, move)
        else:
            with pytest.raises((ProtocolViolation, ValueError)):
                make(run, move)
            assert run.to_json() == before
            again = step_of(run)
            assert again == step or str(again) == str(step)
        check_invariants(run)


@given(specs(), scripts)
@FAST
def test_a_run_that_reached_a_limit_goes_on_as_if_there_had_been_none(spec: RunSpec, script: list[Line]) -> None:
    def raised(run: AgentRun) -> AgentRun:
        if isinstance(step_of(run), MaxIterationsExceeded):
            run.extend(max_iterations=run.state.max_iterations + 1, max_turns=run.state.max_turns + 1)
        return run

    unlimited = replace(spec, max_iterations=100, max_turns=100)

    assert play(spec, script, swap=raised) == play(unlimited, script)
