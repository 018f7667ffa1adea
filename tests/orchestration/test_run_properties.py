"""What holds for every run, whatever the model, the tools and the code that feeds it do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, product
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.machines import make_spec, reloaded
from understudy.errors import (
    BadReply,
    CallbackAbort,
    ContentBlocked,
    MaxIterationsExceeded,
    ProtocolViolation,
    RunCancelled,
    ToolError,
    UnderstudyError,
)
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
    Ruling,
    RunSpec,
    SkipCall,
    StopRun,
)
from understudy.orchestration.agent.steps import Resolution
from understudy.vocabulary.messages import (
    FinishReason,
    Message,
    ModelTurn,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
    Usage,
    says,
    user_message,
)
from understudy.vocabulary.runs.callbacks import (
    Abort,
    Block,
    CallbackAction,
    OverrideResponse,
    RequireApproval,
    RetryWithFeedback,
    RewriteArguments,
    RewriteResult,
    Skip,
)
from understudy.vocabulary.runs.outcomes import Approve, Decision, Reject

FAST = settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

# --- scripts: what a model says, and what those around it do


@dataclass(frozen=True)
class Line:
    """One model turn, and what is fed with it."""

    turn: ModelTurn
    problems: Mapping[int, str] = field(default_factory=dict[int, str])
    resolution: Resolution | None = None
    """What to do with each invalid call of the turn."""
    approvals: Mapping[int, bool] = field(default_factory=dict[int, bool])
    met: str | None = None
    ruling: CallbackAction | None = None
    """What a callback decides about the turn, in a run that has callbacks."""


ids = st.sampled_from(["", "", "a", "b", "call-1-0", "call-1-1", "call-1-2"])
arguments = st.dictionaries(st.sampled_from(["sku", "cents"]), st.integers(0, 9), max_size=2)
good_calls = st.builds(ToolCall, ids, st.sampled_from(["look", "refund", "rule"]), arguments)
bad_calls = st.builds(ToolCall, ids, st.just("lok"), arguments) | st.builds(
    ToolCall, ids, st.just("look"), bad_arguments=st.just("{sku: ")
)
numbers = st.none() | st.integers(0, 50)
usages = st.builds(Usage, numbers, numbers, numbers, numbers, numbers)
texts = st.sampled_from(["Seven.", "So it is.", "", "__ask_user__: Which?"])
text_parts = st.builds(TextPart, texts, st.sampled_from([None, None, "proof"])) | st.builds(
    ReasoningPart, st.just("Hm.")
)
approvals = st.dictionaries(st.integers(0, 3), st.booleans(), max_size=2)
problems = st.dictionaries(st.integers(0, 3), st.just("argument 'sku' is missing"), max_size=2)
again, skip, repair = RetryTurn("Again."), SkipCall("No need."), RepairCall("look", {})
resolutions = st.sampled_from([None, again, again, again, skip, repair, repair, FailRun(), StopRun("Enough.")])
met = st.sampled_from([None, None, "a criterion was met"])
RULINGS: Sequence[CallbackAction] = [RetryWithFeedback("Mend it.")] * 3 + [OverrideResponse("Enough."), Abort("No.")]
rulings = st.sampled_from([*[None] * 9, *RULINGS])
REASONS: list[FinishReason] = ["stop", "tool_calls", "length", "blocked", "paused", "other"]


def turns_of(*parts: st.SearchStrategy[list[Part]]) -> st.SearchStrategy[ModelTurn]:
    whole = st.tuples(*parts).map(lambda lists: tuple([part for some in lists for part in some]))
    return st.builds(ModelTurn, whole, usages, st.just("stop"))


def some(parts: st.SearchStrategy[Part], least: int, most: int) -> st.SearchStrategy[list[Part]]:
    return st.lists(parts, min_size=least, max_size=most)


KINDS = ["good calls"] * 5 + ["bad calls"] * 3 + ["text", "odd"]


@st.composite
def lines(draw: st.DrawFn) -> Line:
    kind = draw(st.sampled_from(KINDS))
    words = some(text_parts, 0, 1)
    if kind == "good calls":
        return Line(draw(turns_of(words, some(good_calls, 1, 4))), approvals=draw(approvals))
    if kind == "bad calls":
        turn = draw(turns_of(words, some(good_calls, 0, 2), some(bad_calls, 1, 1), some(good_calls, 0, 1)))
        return Line(turn, draw(problems), draw(resolutions), draw(approvals))
    if kind == "text":
        return Line(draw(turns_of(some(text_parts, 1, 2))), met=draw(met))
    turn = draw(turns_of(some(text_parts, 0, 2), some(good_calls, 0, 2), some(bad_calls, 0, 1)))
    return Line(replace(turn, finish_reason=draw(st.sampled_from(REASONS)), refusal=draw(st.sampled_from(["", "No."]))))


def ruled_line(line: Line, ruling: CallbackAction | None) -> Line:
    return replace(line, ruling=ruling)


scripts = st.lists(st.builds(ruled_line, lines(), rulings), min_size=2, max_size=9)


@st.composite
def specs(draw: st.DrawFn) -> RunSpec:
    spec = make_spec(
        "look",
        "refund",
        "rule",
        approvals={"refund": True, "rule": None},
        tool_choice=draw(st.sampled_from(["auto", "auto", "auto", "auto", "required", "look", "none"])),
        max_iterations=draw(st.sampled_from([4, 4, 4, 2, 1, 0])),
        max_turns=draw(st.sampled_from([8, 8, 8, 8, 3, 1, 0])),
        criteria=draw(st.booleans()),
        max_continues=draw(st.integers(0, 2)),
        max_invalid_retries=draw(st.integers(0, 2)),
    )
    return replace(spec, watched=draw(st.booleans()), max_rejections=draw(st.integers(0, 2)))


def result_for(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, f"{call.name} gave {sorted(call.arguments)}")


def decision_for(call: ToolCall) -> Decision:
    """Decide by what the call is, so that everybody who drives a run decides alike."""
    if call.arguments.get("cents") == 0:
        return Reject("too much")
    return Approve(arguments={"cents": 1}) if "sku" in call.arguments else Approve()


def resolutions_for(run: AgentRun, line: Line) -> dict[int, Resolution]:
    if line.resolution is None:
        return {}
    return {bad.position: line.resolution for bad in run.invalid_calls(line.turn, line.problems) if line.resolution}


GUARDS: dict[object, CallbackAction] = {
    1: Block("No."),
    2: Skip("Seven."),
    3: RewriteArguments({"cents": 1}),
    4: RequireApproval("Ask."),
    5: Abort("Enough."),
}


def settle(run: AgentRun) -> None:
    """Guard calls and review results, by what they are, so that everybody who drives a run decides alike."""
    calls, results = run.unguarded(), run.unreviewed()
    if calls:
        decided = {call.id: GUARDS.get(call.arguments.get("sku")) for call in calls}
        run.guard({call_id: Ruling("Guard", action) for call_id, action in decided.items() if action is not None})
        return settle(run)
    if results:
        rewritten = RewriteResult("***")
        run.review({call.id: Ruling("Guard", rewritten) for call, _ in results if call.arguments.get("cents") == 1})
    return None


def say(run: AgentRun, line: Line) -> None:
    """Feed a line; a repair that cannot be is left out."""
    if run.spec.watched and line.ruling is not None:
        run.turn_ruled(line.turn, Ruling("Guard", line.ruling))
        return
    chosen = resolutions_for(run, line)
    try:
        run.model_response(
            line.turn, problems=line.problems, resolutions=chosen, approvals=line.approvals, met=line.met
        )
    except ProtocolViolation:
        if not any(isinstance(r, RepairCall) for r in chosen.values()):
            raise
        run.model_response(line.turn, problems=line.problems, approvals=line.approvals, met=line.met)


# --- runs, played by hand

LONGEST = 200  # Steps: nine lines of four calls each, one result at a time, take fewer.
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
    approved = set[str]()
    ran: list[ToolCall] = []
    waiting = list(script)
    ending: object = None
    for _ in range(LONGEST):
        if ending is not None:
            break
        if spec.watched:
            settle(run)
            run = swap(run)
            assert run.unguarded() == () == run.unreviewed()
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
                approved.clear()
                if not waiting:
                    ending = "the script is over"
                else:
                    say(run, waiting.pop(0))
            case CallTools(calls=calls):
                assert {c.name for c in calls} <= {"look", "refund", "rule"}, "a call ran that was invalid"
                assert {c.id for c in calls if c.name == "refund"} <= approved, "a call ran that nobody agreed to"
                picked = [calls[i] for i in pick(len(calls))]
                ran += picked
                run.tool_results([result_for(call) for call in picked])
            case AwaitApproval(calls=calls):
                decisions = {calls[i].id: decision_for(calls[i]) for i in pick(len(calls))}
                approved.update([id for id, decision in decisions.items() if isinstance(decision, Approve)])
                run.decisions(decisions)
            case AwaitInput(question=question):
                run.answer(f"An answer to {question}")
            case Done(outcome=outcome):
                ending = outcome
        run = swap(run)
    else:
        raise AssertionError("the run goes round in circles")
    check_invariants(run, ran, pauses_in(script))
    return Played(list(run.messages), ending, steps)


def pauses_in(script: Sequence[Line]) -> int:
    """Return how many turns of a script the provider paused: the model continues such a turn with its next."""
    return sum(line.turn.finish_reason == "paused" for line in script)


def check_invariants(run: AgentRun, ran: Sequence[ToolCall], paused: int) -> None:
    """Check what must hold in every state, after so many calls ran; up to `paused` turns are continued by the next."""
    state = run.state
    assert state.iterations <= state.max_iterations
    assert state.turns <= state.max_turns
    assert state.continues <= state.max_continues
    history = list(run.messages)
    assert history.count(user_message(run.spec.continue_message)) <= state.max_continues
    retried = [m for m in history if any(r.content == again.feedback for r in m.tool_results)]
    assert len(retried) <= run.spec.max_invalid_retries + (state.failure is not None)
    assert state.rejections <= run.spec.max_rejections
    if run.spec.watched:
        assert all(c.arguments.get("sku") not in (1, 2, 5) for c in ran), "a call ran that was not to run"
    open_calls = () if state.round is None else history[-1].tool_calls
    assert state.round is None or [c.id for c in open_calls] == [c.id for c in state.round.calls]
    for message in history:
        assert message.parts, "an empty message is refused by providers"
        assert len({c.id for c in message.tool_calls} - {""}) == len(message.tool_calls)
    for message, following in pairwise(history):
        answered = [(c.id, c.name) for c in message.tool_calls]
        assert [(r.call_id, r.name) for r in following.tool_results] == answered
    continued = sum("user" not in (message.role, following.role) for message, following in pairwise(history))
    assert continued <= paused, "a turn follows a turn"
    if state.round is None:
        assert not history[-1].tool_calls
    if state.phase == "model":
        assert history[-1].role == "user" or continued < paused


@given(specs(), scripts)
@FAST
def test_saving_and_loading_at_every_point_changes_nothing(spec: RunSpec, script: list[Line]) -> None:
    assert play(spec, script, swap=reloaded) == play(spec, script)


@given(specs(), scripts, st.data())
@FAST
def test_partial_results_in_any_order_give_one_and_the_same_history(
    spec: RunSpec, script: list[Line], data: st.DataObject
) -> None:
    def some_of(count: int) -> list[int]:
        shuffled = data.draw(st.permutations(range(count)))
        return list(shuffled[: data.draw(st.integers(1, count))])

    piecewise = play(spec, script, pick=some_of, whole_steps=False)

    assert piecewise == play(spec, script, whole_steps=False)


# --- what is not due

Feed = Literal["turn", "results", "decisions", "answer", "lower"]
FEEDS: tuple[Feed, ...] = ("turn", "results", "decisions", "answer", "lower")
CHOICES = [(), *[(i,) for i in range(5)], *[(i, j) for i, j in product(range(5), repeat=2) if j in (i, i + 1, 4)]]
"""Which calls of the open round to answer, by position; one past the end is a call of nobody's."""


def ids_of(run: AgentRun, choice: tuple[int, ...]) -> list[str]:
    calls = run.state.round.calls if run.state.round else ()
    return [calls[i].id if i < len(calls) else "nobody's" for i in choice]


def is_due(run: AgentRun, step: object, feed: Feed, ids: list[str]) -> bool:
    """Say whether the machine must take this, by the step it gave."""
    match feed:
        case "turn":
            return isinstance(step, CallModel)
        case "results":
            pending = {c.id for c in step.calls} if isinstance(step, CallTools) else set[str]()
            return bool(ids) and len(set(ids)) == len(ids) and set(ids) <= pending
        case "decisions":
            open_round = run.state.round if isinstance(step, (CallTools, AwaitApproval)) else None
            return bool(ids) and open_round is not None and set(ids) <= set(open_round.waiting)
        case "answer":
            return isinstance(step, AwaitInput)
        case "lower":
            return False


def try_to(run: AgentRun, feed: Feed, ids: list[str]) -> None:
    match feed:
        case "turn":
            run.model_response(says("Seven."))
        case "results":
            run.tool_results([ToolResult(id, "7") for id in ids])
        case "decisions":
            run.decisions({id: Approve() for id in ids})
        case "answer":
            run.answer("Paris")
        case "lower":
            run.extend(max_iterations=100, max_turns=run.state.max_turns - 1)


def step_of(run: AgentRun) -> object:
    try:
        return run.next_step()
    except UnderstudyError as error:
        return (type(error), str(error))


def try_everything(run: AgentRun, paused: int) -> AgentRun:
    """Feed the run whatever could be fed: it must take what is due, and refuse the rest without a change."""
    text = run.to_json()
    # A round that was not asked for yet is not to be fed yet; asking is what counts it.
    unasked = AgentRun.from_json(text, run.spec)
    if unasked.state.round is not None and not unasked.state.round.admitted:
        for feed in ("results", "decisions"):
            with pytest.raises(ProtocolViolation):
                try_to(unasked, feed, ids_of(unasked, (0,)))
        assert unasked.to_json() == text
    probe = AgentRun.from_json(text, run.spec)
    step = step_of(probe)
    before = probe.to_json()
    for feed in FEEDS:
        for choice in CHOICES if feed in ("results", "decisions") else [()]:
            ids = ids_of(probe, choice)
            if is_due(probe, step, feed, ids):
                taken = AgentRun.from_json(before, run.spec)
                try_to(taken, feed, ids)
                assert taken.to_json() != before
                check_invariants(taken, (), paused)
            else:
                with pytest.raises(ValueError if feed == "lower" else ProtocolViolation):
                    try_to(probe, feed, ids)
                assert probe.to_json() == before
    assert step_of(probe) == step
    return run


@given(specs(), scripts, st.data())
@settings(FAST, max_examples=25)
def test_in_every_state_what_is_due_is_taken_and_what_is_not_changes_nothing(
    spec: RunSpec, script: list[Line], data: st.DataObject
) -> None:
    def some_of(count: int) -> list[int]:
        return data.draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True))

    play(spec, script, pick=some_of, swap=partial(try_everything, paused=pauses_in(script)))


@given(specs(), scripts)
@FAST
def test_a_run_that_reached_a_limit_goes_on_as_if_there_had_been_none(spec: RunSpec, script: list[Line]) -> None:
    def raised(run: AgentRun) -> AgentRun:
        if spec.watched:
            settle(run)  # or the next step would close a round that nobody has reviewed
        try:
            run.next_step()
        except MaxIterationsExceeded:
            run.extend(max_iterations=run.state.max_iterations + 1, max_turns=run.state.max_turns + 1)
        except (BadReply, CallbackAbort, ContentBlocked, RunCancelled, ToolError):
            assert run.state.failure is not None  # the run's own end, at which `play` arrives too
        return run

    unlimited = replace(spec, max_iterations=100, max_turns=100)

    assert play(spec, script, swap=raised) == play(unlimited, script)
