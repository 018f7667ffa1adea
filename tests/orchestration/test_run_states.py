"""The state that a line comes to: each kind of event in a small line, events that do not fit, and lines that meet."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_type_hints
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import understudy as us
from tests.orchestration.test_run_lines import SOME, values_of
from tests.support.counting import calls_counted
from tests.support.machines import asks, call, gives, make_spec
from understudy.errors import ProtocolViolation
from understudy.orchestration.agent.rulings import Ruling
from understudy.orchestration.agent.run import AgentRun
from understudy.orchestration.agent.spec import CompactionRule
from understudy.orchestration.group.child_runs import ChildQueue
from understudy.orchestration.group.spec import GroupSpec
from understudy.orchestration.runs import events as e
from understudy.orchestration.runs.group_state import GroupLineState, MapLineState, MapSpec
from understudy.orchestration.runs.lines import Entry, line_of, text_of
from understudy.orchestration.runs.state import AgentLineState, Due, LineState
from understudy.orchestration.saving.machines import Machine, begun
from understudy.testing import says
from understudy.vocabulary.context.account import Account
from understudy.vocabulary.context.budget import Spending
from understudy.vocabulary.messages import ToolResult, Usage
from understudy.vocabulary.runs.compaction import Compaction

TEN = Usage(8, 2)
NOBODY: Mapping[str, str] = {}


@pytest.fixture(autouse=True, name="replayed")
def not_replayed() -> None:
    """Leave `--replay` out: the machines here are those of lines."""


# --- each kind of event in a line

LOOK = make_spec("look", "ask", approvals={"ask": True})
WATCHED = replace(LOOK, watched=True)
LONG = replace(
    make_spec(),
    compaction=CompactionRule(compaction=Compaction(context_window=500, threshold=0.8, keep=0.2), window=500),
)
HISTORY = tuple(
    [us.Message(role, (us.TextPart("word " * 100),)) for role in ("user", "assistant", "user", "assistant")]
)


def of_agent(spec: Any = LOOK) -> AgentLineState:
    return AgentLineState(spec, {"d": spec}.__getitem__)


def of_group(*children: us.Agent[Any], kind: Any = us.ParallelAgent, **options: Any) -> GroupLineState:
    spec = kind("team", list(children or AGENTS), **options).run_spec
    return GroupLineState(spec, {"d": spec}.__getitem__)


AGENTS = [us.Agent(name, model="rehearsal") for name in ("ann", "bob", "cid")]


def of_tasks(*tasks: us.Task) -> GroupLineState:
    return GroupLineState(us.Workflow("plan", list(tasks)).run_spec)


def of_map() -> MapLineState:
    return MapLineState(MapSpec(max_parallel=2))


ACCEPTED = e.Accepted("clerk", "d", "Hi")
ASKED = (ACCEPTED, e.Opened(), e.TurnBegan(1))
TWO = (*ASKED, e.TurnTaken(asks(call("a"), call("b"))), e.RoundBegan(e.Spent(tool_calls=2)))
MIXED = (*ASKED, e.TurnTaken(asks(call("a"), call("w", "ask"))), e.RoundBegan(e.Spent(tool_calls=2)))
BOTH = (ACCEPTED, e.ChildBegan("0", "/0.1"), e.ChildBegan("1", "/1.2"))
PAUSE = us.Pause(id="input", path=("ann",), question="Which?")


@dataclass(frozen=True)
class Row:
    """A line, what is due after it, and what else it came to."""

    name: str
    state: Callable[[], Any]
    line: Sequence[e.RunEvent]
    due: Sequence[Due]
    told: Callable[[Any], object] = lambda state: None
    expected: object = None


def results_in(state: AgentLineState) -> list[str]:
    """Return the contents of the results that the machine has, in the messages and in its round."""
    machine = state.machine
    assert machine is not None
    told = [each.content for message in machine.messages for each in message.tool_results]
    round_ = machine.state.round
    return told if round_ is None else told + [each.content for each in round_.results.values()]


def saved_run() -> str:
    run = AgentRun(LOOK, "Hi")
    run.next_step()
    run.model_response(asks(call("a")))
    return run.to_json()


ROWS = [
    Row(
        "what the run was given",
        of_agent,
        [replace(ACCEPTED, session={"a": 1, "b": 1}), e.Opened(session={"b": 2, "c": 2}, changes=e.Changes({"d": 3}))],
        [Due("model", "1")],
        lambda state: dict(state.session),
        {"a": 1, "b": 1, "c": 2, "d": 3},
    ),
    Row("a turn that is paid", of_agent, [*ASKED, e.TurnCame(says("Hi."))], [Due("judge", "1")]),
    Row("an answer", of_agent, [*ASKED, e.TurnCame(says("Hi.")), e.TurnTaken(says("Hi."))], [Due("finish")]),
    Row(
        "a turn that was lost",
        of_agent,
        [*ASKED, e.TurnLost(says("H"), e.Spent(TEN))],
        [Due("model", "1")],
        lambda state: state.account.spending.usage,
        TEN,
    ),
    Row(
        "a ruling that ends the run ends the runs inside",
        of_agent,
        [
            *TWO,
            e.ChildBegan("a", "/a.1"),
            e.RunRuled("on_error", Ruling("judge", us.OverrideResponse("Sorry."))),
        ],
        [Due("finish")],
        lambda state: dict(state.children),
        {},
    ),
    Row(
        "what code of users spent",
        of_agent,
        [*ASKED, e.Charged(e.Spent(TEN, 7, turns=2))],
        [Due("model", "1")],
        lambda state: (state.account.spending.usage, state.account.spending.cost, state.account.spending.all_turns),
        (TEN, 7, 2),
    ),
    Row(
        "what changed in the session besides",
        of_agent,
        [
            *ASKED,
            e.SessionChanged(e.Changes({"a": 1, "b": 2})),
            e.SessionChanged(e.Changes({"b": 3}, ("a",))),
            e.SessionChanged(e.Changes({"c": 4}, ("d",))),
            e.SessionChanged(as_begun=("c", "d")),
        ],
        [Due("model", "1")],
        lambda state: (dict(state.session), state.session.removed),
        ({"b": 3}, {"a"}),
    ),
    Row(
        "a turn that a callback rejected",
        of_agent,
        [*ASKED, e.TurnRuled(says("No."), Ruling("judge", us.RetryWithFeedback("Be kind.")))],
        [Due("model", "2")],
        lambda state: state.machine.messages[-1].text,
        "Be kind.",
    ),
    Row(
        "a request that was too long",
        lambda: of_agent(LONG),
        [ACCEPTED, e.Opened(HISTORY[:2]), e.TurnBegan(1), e.Overflowed(600, 500)],
        [Due("model", "1")],
        lambda state: state.machine.state.context.is_summing,
        True,
    ),
    Row(
        "a summary",
        lambda: of_agent(LONG),
        [ACCEPTED, e.Opened(HISTORY), e.SummaryBegan(), e.SummaryCame(says("They said words."))],
        [Due("model", "1")],
        lambda state: (state.machine.state.context.summary, state.machine.state.turns),
        ("They said words.", 0),
    ),
    Row(
        "no summary",
        lambda: of_agent(LONG),
        [ACCEPTED, e.Opened(HISTORY), e.SummaryBegan(), e.SummaryFailed("the model was away")],
        [Due("model", "1")],
        lambda state: (state.machine.state.context.is_summing, state.machine.state.context.summary),
        (False, ""),
    ),
    Row("a round that is not counted", of_agent, TWO[:-1], [Due("round", "1")]),
    Row(
        "a round", of_agent, TWO, [Due("call", "a"), Due("call", "b")], lambda state: state.machine.state.iterations, 1
    ),
    Row(
        "a call that a callback blocked",
        lambda: of_agent(WATCHED),
        [*TWO, e.CallsGuarded({"a": Ruling("guard", us.Block("No."))})],
        [Due("call", "b")],
    ),
    Row(
        "a result that a callback rewrote",
        lambda: of_agent(WATCHED),
        [
            *TWO,
            e.CallsGuarded({}),
            e.ResultCame(gives("a")),
            e.ResultCame(gives("b")),
            e.ResultsReviewed({"b": Ruling("guard", us.RewriteResult("7"))}),
        ],
        [Due("model", "2")],
        results_in,
        ["result of a", "7"],
    ),
    Row(
        "calls under way",
        of_agent,
        [*TWO, e.CallBegan("b"), e.CallBegan("a"), e.CallRetried("b")],
        [Due("call", "a"), Due("call", "b")],
        lambda state: list(state.under_way),
        ["a"],
    ),
    Row(
        "one result of two, which waits for the other",
        of_agent,
        [*TWO, e.ResultCame(gives("b"), e.Changes({"b": 1}))],
        [Due("call", "a")],
        lambda state: (results_in(state), dict(state.session)),
        (list[str](), NOBODY),
    ),
    Row(
        "both results, in call order",
        of_agent,
        [*TWO, e.ResultCame(gives("b"), e.Changes({"k": "b"})), e.ResultCame(gives("a"), e.Changes({"k": "a"}))],
        [Due("model", "2")],
        lambda state: (results_in(state), dict(state.session)),
        (["result of a", "result of b"], {"k": "b"}),
    ),
    Row(
        "one result that does not wait",
        of_agent,
        [*TWO, e.ResultCame(gives("b")), e.ResultsTaken()],
        [Due("call", "a")],
        results_in,
        ["result of b"],
    ),
    Row(
        "a call that was cut off",
        of_agent,
        [
            *TWO,
            e.CallBegan("a"),
            e.ResultCame(gives("b")),
            e.CallsCut(("a",)),
            e.Failed("RunCancelled", "", "cancelled"),
        ],
        [],
        lambda state: (state.under_way, results_in(state)[1]),
        (NOBODY, "result of b"),
    ),
    Row(
        "a run that goes on after its calls were cut off",
        of_agent,
        [*TWO, e.CallBegan("a"), e.CallBegan("b"), e.CallsCut(("a", "b")), e.Failed("RunCancelled", ""), e.Extended()],
        [Due("model", "2")],
    ),
    Row(
        "a call in doubt, whose result did not wait",
        of_agent,
        [*TWO, e.CallBegan("a"), e.CallBegan("b"), e.ResultCame(gives("b")), e.TakenOver(), e.CallsDoubted(("a",))],
        [Due("ask")],
        results_in,
        ["result of b"],
    ),
    Row(
        "a call that happened, and one that did not",
        of_agent,
        [*TWO, e.CallsDoubted(("a", "b")), e.CallsReconciled({"a": gives("a"), "b": None})],
        [Due("call", "b")],
        results_in,
        ["result of a"],
    ),
    Row(
        "a result that waits for a call which a callback blocks",
        lambda: of_agent(WATCHED),
        [
            *MIXED,
            e.CallsGuarded({}),
            e.Answered({"approval": {"w": us.Approve()}}),
            e.ResultCame(gives("a")),
            e.CallsGuarded({"w": Ruling("guard", us.Block("No."))}),
        ],
        [Due("review", "1")],
    ),
    Row(
        "a question to a person",
        of_agent,
        [*MIXED, e.ResultCame(gives("a")), e.Asked()],
        [],
        lambda state: state.asked,
        e.Asked(),
    ),
    Row(
        "an answer of a person",
        of_agent,
        [*MIXED, e.ResultCame(gives("a")), e.Asked(), e.Answered({"approval": {"w": us.Approve()}}, of=3)],
        [Due("call", "w")],
        lambda state: (state.asked, state.answered_of),
        (None, 3),
    ),
    Row(
        "a sub-agent that waits",
        of_agent,
        [*TWO, e.ChildBegan("a", "/a.5"), e.ChildPaused("a", "/a.5", (PAUSE,)), e.ResultCame(gives("b"))],
        [Due("ask")],
        lambda state: (state.children, state.machine.pauses[0].question),
        (NOBODY, "Which?"),
    ),
    Row(
        "a sub-agent that stopped with the run",
        of_agent,
        [*TWO, e.ChildBegan("a", "/a.5"), e.ChildStopped("a", "/a.5"), e.Failed("RunTimedOut", "late", "timed_out")],
        [],
        lambda state: (state.children, state.machine.child("a").saved),
        (NOBODY, "/a.5"),
    ),
    Row(
        "an end by a callback",
        of_agent,
        [ACCEPTED, e.Opened(), e.RunRuled("before_model_call", Ruling("guard", us.OverrideResponse("Closed.")))],
        [Due("finish")],
        lambda state: state.machine.state.text,
        "Closed.",
    ),
    Row(
        "an end that callbacks have heard of",
        of_agent,
        [*ASKED, e.TurnTaken(says("Hi.")), e.Closed(e.Changes({"k": 1})), e.Ended()],
        [],
        lambda state: (state.closed, state.ended, dict(state.session)),
        (True, e.Ended(), {"k": 1}),
    ),
    Row(
        "a run that goes on after an error",
        lambda: of_agent(make_spec(max_turns=1)),
        [*ASKED, e.Failed("ServerError", "500"), e.TakenOver(seconds=1.5), e.Extended({"max_turns": 5})],
        [Due("model", "1")],
        lambda state: (state.ended, state.machine.state.max_turns, state.stays, state.account.spending.seconds),
        (None, 5, 2, 1.5),
    ),
    Row("a state as text", of_agent, [e.Migrated(saved_run(), "d"), e.RoundBegan()], [Due("call", "a")]),
    Row(
        "a group",
        lambda: of_group(*AGENTS[:2]),
        [*BOTH, e.ChildDone("1", "B"), e.ChildDone("0", "A", spent=e.Spent(TEN, turns=1))],
        [Due("finish")],
        lambda state: (state.machine.outcome.combined_text, state.children, state.account.spending.usage),
        ('["A", "B"]', NOBODY, TEN),
    ),
    Row(
        "a group that fails",
        lambda: of_group(*AGENTS[:2]),
        [*BOTH, e.ChildFailed("0", "ServerError", "500")],
        [Due("fail")],
        lambda state: state.children,
        {"1": "/1.2"},
    ),
    Row(
        "a failed child whose run is kept",
        lambda: of_group(*AGENTS[:2]),
        [
            *BOTH,
            e.ChildDone("1", "B"),
            e.ChildFailed("0", "ServerError", "500"),
            e.ChildKept("0", "/0.1"),
            e.Extended(),
        ],
        [Due("child", "0")],
        lambda state: state.machine.order_of(0).paused.saved,
        "/0.1",
    ),
    Row(
        "a child that could not go on",
        lambda: of_group(*AGENTS[:2]),
        [
            *BOTH,
            e.ChildPaused("0", "/0.1", (PAUSE,)),
            e.ChildDone("1", "B"),
            e.Asked(),
            e.Answered({"child/0/input": "That."}),
            e.ChildBegan("0", "/0.1"),
            e.ChildFailed("0", "AgentStopped", "gone"),
            e.ChildRefused("0"),
            e.Extended(),
        ],
        [Due("child", "0")],
        lambda state: state.machine.order_of(0).paused.saved,
        "/0.1",
    ),
    Row(
        "a child at a limit",
        lambda: of_group(*AGENTS[:2]),
        [*BOTH, e.ChildLimited("0", "/0.1", "MaxTurnsExceeded", "2"), e.ChildDone("1", "B")],
        [Due("fail")],
        lambda state: state.machine.limited,
        {0: "/0.1"},
    ),
    Row(
        "a child whose limit was raised",
        lambda: of_group(*AGENTS[:2]),
        [
            *BOTH,
            e.ChildLimited("0", "/0.1", "MaxTurnsExceeded", "2"),
            e.ChildDone("1", "B"),
            e.Extended(places=("0",)),
        ],
        [Due("child", "0")],
    ),
    Row(
        "a task whose condition does not hold",
        lambda: of_tasks(
            us.Task("a", AGENTS[0], prompt="Go.", when=lambda _: False), us.Task("b", AGENTS[1], prompt="Go.")
        ),
        [*BOTH, e.ChildSkipped("0")],
        [Due("child", "1")],
        lambda state: state.machine.state.tasks[0].status,
        "skipped",
    ),
    Row(
        "a task after another one",
        lambda: of_tasks(
            us.Task("a", AGENTS[0], prompt="Go."), us.Task("b", AGENTS[1], prompt="${a}", dependencies=["a"])
        ),
        [ACCEPTED, e.ChildBegan("0", "/0.1"), e.ChildDone("0", "A")],
        [Due("child", "1")],
        lambda state: state.machine.order_of(1).input,
        "A",
    ),
    Row(
        "a map",
        of_map,
        [ACCEPTED, e.ChildBegan("0", "/0.1"), e.ChildBegan("1", "/1.2"), e.ChildDone("1", "B")],
        [Due("child", "0"), Due("take")],
    ),
    Row(
        "a map whose inputs end",
        of_map,
        [ACCEPTED, e.ChildBegan("0", "/0.1"), e.InputsEnded(), e.ChildDone("0", "A"), e.HandedOut()],
        [Due("finish")],
    ),
    Row(
        "a map that fails",
        of_map,
        [ACCEPTED, e.ChildBegan("0", "/0.1"), e.ChildFailed("0", "E", "e")],
        [Due("fail", "0")],
    ),
]

TOLD = [
    e.TurnTakenBack(1, "Hi", "criteria"),
    e.ContextChanged("pruned", 3, 2, 900, 400),
    e.CallNamed(call("a")),
    e.CallSettled(call("a"), gives("a")),
    e.KeysConflicted(("k",)),
    e.KeysOverwritten(("k",), "run-2"),
    e.KeysUnsaved(("k",), "StoreError", "full"),
    e.Diverged(2),
    e.Crashed("model", "TypeError", "boom"),
]
"""Events that tell a reader what those before them decided."""


def replayed(state: LineState, line: Sequence[e.RunEvent]) -> Any:
    """Have a state take a line as it is read from text."""
    for entry in line_of(text_of([Entry(seq, 0.0, event) for seq, event in enumerate(line)])):
        state.apply(entry.event)
    return state


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_line_comes_to_its_state(row: Row) -> None:
    state = replayed(row.state(), row.line)

    assert state.due() == row.due
    assert row.told(state) == row.expected


@pytest.mark.parametrize("event", TOLD, ids=lambda event: type(event).__name__)
def test_an_event_that_only_tells_changes_no_state(event: e.RunEvent) -> None:
    for row in ROWS:
        state = replayed(row.state(), row.line)
        before = picture(state)
        replayed(state, [event])
        assert picture(state) == before, row.name


def test_every_kind_of_event_is_in_a_line_that_is_replayed() -> None:
    replayed_kinds = {type(event).__name__ for row in ROWS for event in row.line}
    told = {type(event).__name__ for event in TOLD}

    assert replayed_kinds | told == e.KINDS.keys() == {cls.__name__ for cls in e.RunEvent.__subclasses__()}
    for kind in AgentLineState, GroupLineState, MapLineState:
        assert not {cls.__name__ for cls in kind.table} & told


# --- events that do not fit


def picture(state: LineState) -> dict[str, object]:
    """Return all that a state has, as data that later changes do not reach."""
    found: dict[str, object] = {"due": state.due(), "session": dict(state.session), "stays": state.stays}
    for name in vars(state).keys() - {
        "machine",
        "account",
        "session",
        "context",
        "_state",
    }:  # the last two are the machine's
        found[name] = repr(getattr(state, name))
    spending = state.account.spending
    found["spent"] = [getattr(spending, name) for name in type(spending).__slots__]
    machine: Any = getattr(state, "machine", None)
    if isinstance(state, MapLineState):
        found["machine"] = str(vars(state.machine))
    elif machine is not None:
        saved: dict[str, Any] = json.loads(machine.to_json())
        found["machine"] = saved
        context: dict[str, Any] = saved["state"].get("context") or {}
        context.pop("news", None)  # they are what the last event decided
    return found


NONE: Any = 7
MISFITS: list[tuple[str, Callable[[], Any], Sequence[e.RunEvent], e.RunEvent]] = [
    ("before the first event", of_agent, [], e.Opened()),
    ("before the first event of a group", of_group, [], e.ChildBegan("0", "/0.1")),
    ("before the first event of a map", of_map, [], e.InputsEnded()),
    ("a second beginning", of_agent, TWO, ACCEPTED),
    ("a second beginning of a group", of_group, BOTH, ACCEPTED),
    ("an opening of an open run", of_agent, TWO, e.Opened(session={"k": 1})),
    ("a turn that came before the opening", of_agent, [ACCEPTED], e.TurnCame(says("Hi."))),
    ("a turn that came and is not due", of_agent, TWO, e.TurnCame(says("Hi."))),
    ("a turn that came and is none", of_agent, ASKED, e.TurnCame(NONE)),
    ("a turn before the opening", of_agent, [ACCEPTED], e.TurnTaken(says("Hi."), changes=e.Changes({"k": 1}))),
    ("a request of a run that is not open", of_agent, [ACCEPTED], e.TurnBegan(1)),
    ("input that is none", of_agent, [replace(ACCEPTED, input=())], e.Opened(session={"k": 1})),
    ("input of a group that is none", of_group, [], replace(ACCEPTED, input=())),
    (
        "a turn with what fits no call",
        of_agent,
        ASKED,
        e.TurnTaken(asks(call("a")), resolutions={5: us.SkipCall("no")}),
    ),
    (
        "a turn that is not due",
        of_agent,
        TWO,
        e.TurnTaken(says("Hi."), changes=e.Changes({"k": 1}), spent=e.Spent(TEN)),
    ),
    ("a result of no call", of_agent, TWO, e.ResultCame(gives("z"), spent=e.Spent(TEN))),
    ("a second result", of_agent, [*TWO, e.ResultCame(gives("a"))], e.ResultCame(gives("a", "another"))),
    ("a result that is none", of_agent, [*TWO, e.ResultCame(gives("a"))], e.ResultCame(ToolResult("b", NONE))),
    ("a result of a call that waits", of_agent, MIXED, e.ResultCame(gives("w"))),
    ("a result before the round", of_agent, TWO[:-1], e.ResultCame(gives("a"))),
    ("a call that is not pending", of_agent, MIXED, e.CallBegan("w")),
    ("doubt of a call that is not pending", of_agent, TWO, e.CallsDoubted(("a", "z"))),
    ("doubt without calls", of_agent, ASKED, e.CallsDoubted(())),
    ("what is known of a call without doubt", of_agent, TWO, e.CallsReconciled({"a": None})),
    ("a round that is not due", of_agent, [ACCEPTED], e.RoundBegan()),
    (
        "rulings without a round",
        of_agent,
        ASKED,
        e.CallsGuarded({"a": Ruling("g", us.Block("No."))}, changes=e.Changes({"k": 1})),
    ),
    (
        "an action that ends no run",
        lambda: of_agent(LONG),
        [ACCEPTED, e.Opened(HISTORY)],
        e.RunRuled("before_model_call", Ruling("g", us.Block("No."))),
    ),
    (
        "an end of a run that is done",
        of_agent,
        [*ASKED, e.TurnTaken(says("Hi."))],
        e.RunRuled("on_error", Ruling("g", us.Abort("No."))),
    ),
    ("an answer to nothing", of_agent, [*MIXED, e.ResultCame(gives("a")), e.Asked()], e.Answered({"input": "x"}, of=2)),
    (
        "an answer of another kind",
        of_agent,
        [*MIXED, e.ResultCame(gives("a")), e.Asked()],
        e.Answered({"approval": "yes"}),
    ),
    ("a limit that is lower", of_agent, [*ASKED, e.Failed("ServerError", "500")], e.Extended({"max_turns": 1})),
    ("a limit that nobody knows", of_agent, [*ASKED, e.Failed("ServerError", "500")], e.Extended({"max_jokes": 1})),
    ("a definition that nobody knows", of_agent, TWO, e.TakenOver(seconds=1.0, definition="other")),
    ("a text that is no state", of_agent, TWO, e.Migrated("{}", "d")),
    ("a text that is no state of a group", of_group, BOTH, e.Migrated("{}", "d")),
    ("a child that there is not", of_group, BOTH, e.ChildBegan("3", "/3.1")),
    ("a child before the first", of_group, BOTH, e.ChildKept("-1", "/9")),
    ("a child that is not due", lambda: of_group(kind=us.SequentialAgent), [ACCEPTED], e.ChildBegan("1", "/1.1")),
    ("an end of a child that there is not", of_group, BOTH, e.ChildDone("z", "A", spent=e.Spent(TEN))),
    ("a pause without a question", of_group, BOTH, e.ChildPaused("0", "/0.1", ())),
    ("a limit of a child that reached none", of_group, BOTH, e.Extended(budget=us.Budget(turns=9), places=("0",))),
    ("an answer to no child", of_group, [*BOTH, e.ChildPaused("0", "/0.1", (PAUSE,))], e.Answered({"x": "y"}, of=1)),
    ("a refusal of a child that goes on", of_group, BOTH, e.ChildRefused("0")),
    ("an input that was left out", of_map, [ACCEPTED], e.ChildBegan("1", "/1.1")),
    ("an answer to no input", of_map, [ACCEPTED], e.ChildDone("0", "A")),
    ("an answer that there is not", of_map, [ACCEPTED], e.HandedOut()),
]


@pytest.mark.parametrize(("state", "line", "event"), [each[1:] for each in MISFITS], ids=[each[0] for each in MISFITS])
def test_an_event_that_does_not_fit_changes_nothing(
    state: Callable[[], Any], line: Sequence[e.RunEvent], event: e.RunEvent
) -> None:
    found = state()
    for each in line:
        found.apply(each)
    before = picture(found)

    with pytest.raises((ProtocolViolation, TypeError, ValueError, LookupError)):
        found.apply(event)

    assert picture(found) == before


STRANGE = st.sampled_from(
    ["a", "b", "w", "0", "1", "-1", "٣", "9" * 30, "", "/0.1", "input", "approval", "child/0/input", "d"]
)
LINES = [(row.state, row.line) for row in ROWS]


def strange_values(hint: Any) -> st.SearchStrategy[Any]:
    """Return values of a type, with the ids of the lines above among the texts."""
    return STRANGE if hint is str else values_of(hint)


@pytest.mark.parametrize("kind", e.KINDS)
@given(data=st.data())
@settings(SOME, max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_event_after_any_line_is_taken_or_changes_nothing(kind: str, data: st.DataObject) -> None:
    state, line = data.draw(st.sampled_from(LINES))
    found = state()
    for each in line[: data.draw(st.integers(0, len(line)))]:
        found.apply(each)
    cls: Any = e.KINDS[kind]
    hints = get_type_hints(cls)
    event = data.draw(st.builds(cls, **{each.name: strange_values(hints[each.name]) for each in fields(cls)}))
    before = picture(found)

    try:
        found.apply(event)
    except AssertionError:
        raise
    except Exception:  # noqa: BLE001  # a machine raises what its limits and its checks say
        assert picture(found) == before


# --- lines that meet


def of_child(*more: e.RunEvent) -> list[e.RunEvent]:
    """Return the line of a run inside another one, which asked a person."""
    return [replace(ACCEPTED, parent="/", place="0"), *MIXED[1:], e.ResultCame(gives("a")), e.Asked(), *more]


def test_a_run_inside_decides_by_its_own_line_where_a_cancel_and_an_answer_meet() -> None:
    """The line of the run around it is the same both times: it was cancelled, and goes on with an answer."""
    cancelled = e.Failed("RunCancelled", "by the run around it", "cancelled")
    answered = e.Answered({"approval": {"w": us.Approve()}}, of=1)

    first_cancelled = replayed(of_agent(), of_child(cancelled, e.TakenOver(), answered))
    first_answered = replayed(of_agent(), of_child(answered, cancelled))

    assert (first_cancelled.due(), first_cancelled.ended) == ([Due("call", "w")], None)
    assert (first_answered.due(), first_answered.ended) == ([], cancelled)
    first_answered.apply(e.TakenOver())  # another stay goes on with it
    assert first_cancelled.answered_of == first_answered.answered_of == 1  # neither is answered once more
    with pytest.raises(ProtocolViolation):
        first_answered.apply(answered)
    assert first_answered.due() == [Due("call", "w")]


AROUND: list[tuple[Callable[[], Any], Sequence[e.RunEvent], Callable[[Any], object], Due]] = [
    (
        lambda: of_group(*AGENTS[:2]),
        [*BOTH, e.ChildKept("0", "/0.1"), e.ChildKept("1", "/1.2")],
        lambda state: [order.paused.saved for order in map(state.machine.order_of, (0, 1))],
        Due("child", "0"),
    ),
    (
        of_agent,
        [
            *TWO,
            e.ChildBegan("a", "/0.1"),
            e.ChildBegan("b", "/1.2"),
            e.ChildStopped("a", "/0.1"),
            e.ChildStopped("b", "/1.2"),
        ],
        lambda state: [state.machine.child(place).saved for place in "ab"],
        Due("call", "a"),
    ),
]


@pytest.mark.parametrize(("state", "line", "goes_on_with", "due"), AROUND, ids=["group", "agent"])
def test_a_child_that_was_cancelled_with_its_parent_goes_on_from_its_own_line(
    state: Callable[[], Any], line: Sequence[e.RunEvent], goes_on_with: Callable[[Any], object], due: Due
) -> None:
    """The child's end stands in its own line alone: its parent is told no failure of it, and begins no other run."""
    cancelled = e.Failed("RunCancelled", "", "cancelled")
    around = replayed(state(), [*line, cancelled])
    inside = replayed(of_agent(), [*ASKED, e.TurnTaken(asks(call("a"))), e.RoundBegan(), cancelled])
    assert (around.due(), inside.due()) == ([], [])

    for each in around, inside:
        replayed(each, [e.TakenOver(), e.Extended()])

    assert around.due()[0] == due
    assert goes_on_with(around) == ["/0.1", "/1.2"]
    assert inside.due() == [Due("call", "a")]


def test_a_task_that_is_tried_again_has_another_line() -> None:
    """The place of a child's beginning in the line around it tells the attempts apart."""
    around: Any = of_tasks(us.Task("t", AGENTS[0], prompt="Go.", retries=1))
    replayed(around, [ACCEPTED, e.ChildBegan("0", "/0.1"), e.ChildFailed("0", "ServerError", "500", may_retry=True)])
    assert (around.due(), around.machine.order_of(0).paused) == ([Due("child", "0")], None)

    replayed(around, [e.ChildBegan("0", "/0.3")])

    assert around.children == {"0": "/0.3"}
    inside = replayed(of_agent(), [*ASKED, e.Failed("ServerError", "500")])
    with pytest.raises(ProtocolViolation, match="Accepted in the middle of a line"):  # the attempt before has this line
        inside.apply(ACCEPTED)


CROWDS: Mapping[str, Callable[[int], GroupLineState]] = {
    "in turn": lambda children: GroupLineState(GroupSpec(runner_id="team", children=("x",) * children)),
    "all at once": lambda children: GroupLineState(
        GroupSpec(runner_id="team", children=("x",) * children, merge="collect_all")
    ),
    "few at once": lambda children: GroupLineState(
        GroupSpec(runner_id="team", children=("x",) * children, merge="collect_all", on_error="collect", max_parallel=8)
    ),
    "tasks": lambda children: of_tasks(*[us.Task(f"t{at}", AGENTS[0], prompt="Go.") for at in range(children)]),
    "tasks in turn": lambda children: of_tasks(
        *[
            us.Task(f"t{at}", AGENTS[0], prompt="Go.", dependencies=[f"t{at - 1}"] if at else [])
            for at in range(children)
        ]
    ),
}


def operations(crowd: Callable[[int], GroupLineState], children: int, *, at_once: bool) -> int:
    """Return how many functions are called, and positions of children listed, for the whole line of a group."""
    began = [e.ChildBegan(str(at), f"/{at}.1") for at in range(children)]
    done = [e.ChildDone(str(at), "text", spent=e.Spent(TEN)) for at in range(children)]
    one_by_one = [each for pair in zip(began, done, strict=True) for each in pair]
    state, listed, real = crowd(children), 0, ChildQueue.due

    def due(queue: ChildQueue) -> list[int]:
        nonlocal listed
        found = real(queue)
        listed += len(found)
        return found

    with patch.object(ChildQueue, "due", due), calls_counted() as calls:
        for event in [ACCEPTED, *(began + done if at_once else one_by_one)]:
            state.apply(event)
    assert state.due() == [Due("finish")]
    return calls() + listed


@pytest.mark.parametrize(
    ("crowd", "at_once"),
    [("in turn", False), ("all at once", True), ("few at once", False), ("tasks", True), ("tasks in turn", False)],
)
def test_a_thousand_children_cost_ten_times_a_hundred(crowd: str, at_once: bool) -> None:
    few, many = [operations(CROWDS[crowd], children, at_once=at_once) for children in (100, 1_000)]

    assert many <= 10.5 * few


def running(state: GroupLineState) -> Machine:
    assert state.machine is not None
    return state.machine


def operations_of_live(crowd: Callable[[int], GroupLineState], children: int) -> int:
    """Return how many functions are called to play a live group: each child that is due begins, and the first one ends."""
    played = crowd(children)
    played.apply(ACCEPTED)
    state = GroupLineState(played.definition)
    state.go_on_with(running(played), Account("team", None, Spending()))
    under_way = deque[str]()
    with calls_counted() as calls:
        due = state.due()
        while due != [Due("finish")]:
            for each in due:
                state.apply(e.ChildBegan(each.key, ""))
                under_way.append(each.key)
            state.apply(e.ChildDone(under_way.popleft(), "text"))
            due = state.due(only_new=True)
    assert not under_way
    return calls()


@pytest.mark.parametrize("crowd", CROWDS)
def test_a_live_group_is_told_only_what_is_new(crowd: str) -> None:
    few, many = [operations_of_live(CROWDS[crowd], children) for children in (100, 1_000)]

    assert many <= 10.5 * few


def test_two_runs_that_begin_in_the_middle_have_each_a_session_of_its_own() -> None:
    """A run that goes on from a text, or that a live group begins with its machine, was accepted elsewhere."""
    members = us.SequentialAgent("team", AGENTS[:2])
    spec, done = members.run_spec, e.ChildDone("0", "Done.", changes=e.Changes({"told": 1}))
    run = begun(members, "Hi", None)
    run.next_step()
    group, live_group, agent, live_agent = (
        of_group(*AGENTS[:2], kind=us.SequentialAgent),
        GroupLineState(spec),
        of_agent(),
        of_agent(),
    )
    group.apply(e.Migrated(run.to_json(), "d"))
    live_group.go_on_with(run, Account("team", None, Spending()))
    agent.apply(e.Migrated(saved_run(), "d"))
    live_agent.go_on_with(AgentRun(LOOK, "Hi"))

    live_group.apply(done)
    agent.apply(e.Closed(changes=e.Changes({"asked": 2})))

    sessions = [dict(each.session) for each in (group, live_group, agent, live_agent)]
    assert sessions == [{}, {"told": 1}, {"asked": 2}, {}]
    assert len({id(each.session) for each in (group, live_group, agent, live_agent)}) == 4


def test_a_live_group_fails_with_the_error_itself() -> None:
    state, error = of_group(on_error="fail"), ValueError("no")
    state.apply(ACCEPTED)
    state.apply(e.ChildBegan("0", ""))
    state.raised = error

    state.apply(e.ChildFailed("0", "ValueError", "no"))

    assert state.due(only_new=True) == [Due("fail")]
    assert state.raised is not error
    with pytest.raises(ValueError, match="no") as raised:
        running(state).next_step()
    assert raised.value is error


def test_a_child_that_is_admitted_begins_although_another_one_has_failed() -> None:
    state = replayed(of_group(on_error="fail", max_parallel=2), [ACCEPTED, e.ChildBegan("0", "")])
    state.apply(e.ChildFailed("0", "ValueError", "it could not begin"))

    state.apply(e.ChildBegan("1", "/1.3"))

    assert (state.children, state.due()) == ({"1": "/1.3"}, [Due("fail")])
    assert [child.begun for child in running(state).state.children] == [False, True, False]


def test_the_lines_of_a_tree_have_all_that_was_spent_at_every_moment() -> None:
    """The line of a run has nothing of what is under way inside of it: that is in the lines of these runs."""
    lines: dict[str, LineState] = {"/": of_group(*AGENTS[:2]), "/0.1": of_agent(), "/0.1/a.5": of_agent()}
    a_turn = e.Spent(TEN, turns=1)
    asked, told = asks(call("a"), usage=TEN), us.ModelTurn((us.TextPart("Hi."),), TEN)

    def spent(name: str) -> int:
        """Return the turns of a run and of the open runs inside of it; each took ten tokens."""
        state = lines[name]
        figures = state.account.spending
        assert (figures.usage.total_tokens or 0) == 10 * figures.all_turns
        return figures.all_turns + sum([spent(each) for each in state.children.values()])

    steps: list[tuple[str, list[e.RunEvent], int]] = [
        ("/", [ACCEPTED, e.ChildBegan("0", "/0.1")], 0),
        ("/0.1", [*ASKED, e.TurnTaken(asked, spent=a_turn), e.RoundBegan(), e.ChildBegan("a", "/0.1/a.5")], 1),
        ("/0.1/a.5", [*ASKED, e.TurnTaken(told, spent=a_turn), e.Ended()], 2),
        ("/0.1", [e.ResultCame(gives("a"), spent=a_turn)], 2),
        ("/0.1", [e.TurnBegan(2), e.TurnTaken(told, spent=a_turn), e.Ended()], 3),
        ("/", [e.ChildDone("0", "B", spent=e.Spent(Usage(24, 6), turns=3))], 3),
    ]
    for name, events, expected in steps:
        replayed(lines[name], events)
        assert spent("/") == expected

    figures = lines["/"].account.spending
    assert (figures.usage, figures.all_turns, lines["/"].children) == (Usage(24, 6), 3, {})
