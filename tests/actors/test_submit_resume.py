"""`submit_resume`: a run that waited goes on, and whoever has its handle watches and ends it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any, assert_type

import pytest

import understudy as us
from tests.support.events import numbers
from tests.support.scripts import WAIT, finished, needs_approval, needs_input, paused, results_of
from tests.support.stores import DictStore
from tests.support.together import all_at_once
from understudy.actors.runs.record import RunRecord
from understudy.actors.system.paused_runs import PausedRuns
from understudy.testing import FunctionModel, ScriptedModel, calls, says

if TYPE_CHECKING:
    from _typeshed import TraceFunction

ASKS = "__ask_user__: Who?"


@us.tool(approval=True)
def refund(order: str) -> str:
    """Pay money back."""
    return f"paid {order}"


@us.tool(isolation="caller")
def sign() -> str:
    """Sign, on the thread that waits."""
    return "signed"


@pytest.fixture
def store() -> DictStore:
    return DictStore()


@pytest.fixture(params=["memory", "store"])
def system(request: pytest.FixtureRequest, store: DictStore) -> Iterator[us.ActorSystem]:
    with us.ActorSystem("shop", store=store if request.param == "store" else None) as made:
        yield made
        made.stop(0.0)


class Gate:
    """A model that asks who, and then answers when it may."""

    def __init__(self) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 1:
            return says(ASKS)
        self.entered.set()
        assert self.leave.wait(WAIT)
        return says(f"Hello {request.text}")


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.leave.set()


def asker(id: str = "asker") -> us.Agent:
    """Make an agent that asks who, and greets whoever it is, in any number of runs."""

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        return says(ASKS if request.turn == 1 else f"Hello {request.messages[-1].text}")

    return us.Agent(id, model=FunctionModel(answer))


def cashier() -> us.Agent:
    turns = [calls("refund", order="7"), says("Done.")]
    return us.Agent("cashier", model=ScriptedModel(turns), tools=[refund])


def kinds(events: list[us.Event], *path: str) -> list[str]:
    return [type(event).__name__ for event in events if event.path == path]


# --- the handle


def test_the_handle_is_of_the_same_run_and_comes_to_what_resume_returns(system: us.ActorSystem) -> None:
    agent = cashier()
    waiting = agent.run("Refund order 7", system=system)

    handle = assert_type(
        agent.submit_resume(paused(waiting).token, us.Approve(), timeout=WAIT, system=system), us.RunHandle[str]
    )

    outcome = finished(handle.result(WAIT))
    assert (handle.run_id, outcome.run_id) == (waiting.run_id, waiting.run_id)
    assert (outcome.text, results_of(outcome)[0].content) == ("Done.", "paid 7")


def test_it_does_not_wait_for_the_run(gate: Gate, system: us.ActorSystem) -> None:
    agent = us.Agent("clerk", model=gate)
    handle = agent.submit_resume(paused(agent.run("hi", system=system)).token, "Ada", system=system)
    assert gate.entered.wait(WAIT)

    status = handle.status()
    assert (status.phase, status.turns, handle.done(), handle.running()) == ("running", 1, False, True)
    assert status.doing == "waiting for the model, turn 2"
    with pytest.raises(TimeoutError):
        handle.result(0.0)
    gate.leave.set()

    assert handle.result(WAIT).text == "Hello Ada"


def test_the_run_can_be_cancelled_and_its_token_stays_used(gate: Gate, system: us.ActorSystem) -> None:
    agent = us.Agent("clerk", model=gate)
    token = paused(agent.run("hi", system=system)).token
    handle = agent.submit_resume(token, "Ada", system=system)
    assert gate.entered.wait(WAIT)

    assert handle.cancel()

    assert isinstance(handle.exception(WAIT), us.RunCancelled)
    assert handle.cancelled()
    with pytest.raises(us.TokenUsed):
        agent.submit_resume(token, "Ada", system=system)


def test_its_time_is_limited_from_now_on(gate: Gate, system: us.ActorSystem) -> None:
    agent = us.Agent("clerk", model=gate)
    handle = agent.submit_resume(paused(agent.run("hi", system=system)).token, "Ada", timeout=0.05, system=system)

    assert isinstance(handle.exception(WAIT), us.RunTimedOut)


def test_a_limit_is_raised_by_the_handle_with_the_next_token(system: us.ActorSystem) -> None:
    def look() -> str:
        return "seen"

    turns = [*[calls("look")] * 3, says("ok")]
    agent = us.Agent("clerk", model=ScriptedModel(turns), tools=[look], max_iterations=1)
    with pytest.raises(us.MaxIterationsExceeded) as first:
        agent.run("go", system=system)

    second = agent.submit_resume(first.value.token, max_iterations=2, system=system).exception(WAIT)
    assert isinstance(second, us.MaxIterationsExceeded)

    assert agent.submit_resume(second.token, max_iterations=3, system=system).result(WAIT).text == "ok"


def test_a_reference_has_it_too(system: us.ActorSystem) -> None:
    ref = system.spawn(asker())

    handle = assert_type(ref.submit_resume(paused(ref.run("hi")).token, "Ada", timeout=WAIT), us.RunHandle[str])

    assert finished(handle.result(WAIT)).text == "Hello Ada"


# --- its events


def test_the_events_are_those_since_the_run_went_on(system: us.ActorSystem) -> None:
    agent = cashier()
    handle = agent.submit_resume(paused(agent.run("go", system=system)).token, us.Approve(), system=system)

    events = list(handle.events())

    assert kinds(events, "cashier") == [
        "ToolStarted",
        "ToolFinished",
        "TurnStarted",
        "TextDelta",
        "TurnFinished",
        "RunFinished",
    ]
    assert numbers(events) == list(range(3, 8))  # it told three before it paused
    assert {event.run_id for event in events} == {handle.run_id}
    assert events == list(handle.events())


def asks_twice() -> us.Agent:
    turns = [calls("refund", order="7"), says("__ask_user__: And why?"), says("Done.")]
    return us.Agent("cashier", model=FunctionModel(lambda request: turns[request.turn - 1]), tools=[refund])


def in_a_line() -> us.SequentialAgent:
    return us.SequentialAgent("line", [asks_twice()])


def below_a_lead() -> us.Agent:
    def turn(request: us.ModelRequest) -> us.ModelTurn:
        return calls("cashier", input="x") if request.turn == 1 else says("Done.")

    return us.Agent("lead", model=FunctionModel(turn), sub_agents=[asks_twice()])


@pytest.mark.parametrize("make", [asks_twice, in_a_line, below_a_lead])
def test_each_runs_events_are_numbered_without_gaps_over_all_its_pauses(
    make: Callable[[], us.Runner[str]], system: us.ActorSystem
) -> None:
    runner = make()
    handle = runner.submit("go", system=system)
    stays = [list(handle.events(inner=True))]
    for answer in (us.Approve(), "It was broken."):
        handle = runner.submit_resume(paused(handle.result(WAIT)).token, answer, system=system)
        stays.append(list(handle.events(inner=True)))

    told = [event for stay in stays for event in stay]
    by_run = {run_id: numbers(each for each in told if each.run_id == run_id) for run_id in {e.run_id for e in told}}
    assert finished(handle.result(WAIT)).text == "Done."
    assert all(seqs == list(range(len(seqs))) for seqs in by_run.values()), by_run


def test_events_begin_at_nought_after_a_pause_that_was_kept_before_they_were_counted(store: DictStore) -> None:
    agent = asker()
    with us.ActorSystem("shop", store=store) as system:
        token = paused(agent.run("hi", system=system)).token
        (kept,) = store.runs.values()
        older = {name: value for name, value in json.loads(kept.payload).items() if name != "events"}
        store.runs[kept.run_id] = replace(kept, payload=json.dumps(older))

        events = list(agent.submit_resume(token, "Ada", system=system).events())

    assert numbers(events) == list(range(3))


def test_events_go_on_after_a_limit_was_raised(system: us.ActorSystem) -> None:
    agent = asks_twice().replace(max_turns=1, tools=[refund.replace(approval=False)])
    handle = agent.submit("go", system=system)
    before = list(handle.events())
    error = handle.exception(WAIT)
    assert isinstance(error, us.MaxIterationsExceeded)

    after = list(agent.submit_resume(error.token, max_turns=2, system=system).events())

    assert isinstance(before[-1], us.RunFailed)
    assert after[0].seq == before[-1].seq + 1


def test_they_arrive_while_it_goes_on(gate: Gate, system: us.ActorSystem) -> None:
    agent = us.Agent("clerk", model=gate)
    handle = agent.submit_resume(paused(agent.run("hi", system=system)).token, "Ada", system=system)

    told: list[us.Event] = []
    for event in handle.events():
        told.append(event)
        gate.leave.set()  # until now the model holds the run up

    assert kinds(told, "clerk") == ["TurnStarted", "TextDelta", "TurnFinished", "RunFinished"]


def test_a_run_that_pauses_again_ends_the_events_with_the_next_token(system: us.ActorSystem) -> None:
    turns = [says(ASKS), says("__ask_user__: And why?"), says("I see.")]
    agent = us.Agent("clerk", model=ScriptedModel(turns))
    handle = agent.submit_resume(paused(agent.run("hi", system=system)).token, "Ada", system=system)

    *_, last = handle.events()

    assert isinstance(last, us.RunFinished) and isinstance(last.outcome, us.NeedsInput)
    assert last.outcome.question == "And why?"
    assert agent.submit_resume(last.outcome.token, "So.", system=system).result(WAIT).text == "I see."


def settled(events: list[us.Event], *path: str) -> list[tuple[str, str]]:
    """Return the names of the calls that began and ended in the events, each with its result."""
    begun = [event.call.id for event in events if isinstance(event, us.ToolStarted) and event.path == path]
    ended = [event for event in events if isinstance(event, us.ToolFinished) and event.path == path]
    assert begun == [event.call.id for event in ended]
    return [(event.call.name, event.result.content) for event in ended]


def test_calls_that_an_answer_settles_are_told_with_their_results(system: us.ActorSystem) -> None:
    turn = calls("refund", order="7") + calls("refund", order="8") + calls("ask_user", question="Who?")
    agent = us.Agent("clerk", model=ScriptedModel([turn, says("ok")]), tools=[refund, us.ask_user])
    waiting = needs_approval(agent.run("go", system=system))
    question = waiting.pauses[1].id
    first, second = [call.id for call in waiting.calls]

    handle = agent.submit_resume(waiting.token, {second: us.Reject("too much"), question: "Ada"}, system=system)
    events = list(handle.events())
    again = agent.submit_resume(paused(handle.result(WAIT)).token, {first: us.Approve()}, system=system)

    assert settled(events, "clerk") == [("refund", "Rejected: too much"), ("ask_user", "Ada")]
    assert settled(list(again.events()), "clerk") == [("refund", "paid 7")]


def test_calls_inside_that_an_answer_settles_are_told_there(system: us.ActorSystem) -> None:
    model = ScriptedModel([calls("cashier", input="x"), says("done")])
    lead = us.Agent("lead", model=model, sub_agents=[cashier()])
    group = us.SequentialAgent("desk", [lead])

    handle = group.submit_resume(paused(group.run("go", system=system)).token, us.Reject("no"), system=system)

    assert settled(list(handle.events(inner=True)), "desk", "lead", "cashier") == [("refund", "Rejected: no")]


def test_what_happens_inside_of_a_group_that_goes_on_is_told_under_the_ids_it_had(system: us.ActorSystem) -> None:
    group = us.ParallelAgent("desk", [asker(), us.SequentialAgent("till", [cashier()])])
    begun = group.submit("go", system=system)
    before = {event.path: event.run_id for event in begun.events(inner=True)}
    waiting = needs_input(begun.result(WAIT))
    question, approval = [pause.id for pause in waiting.pauses]

    handle = group.submit_resume(waiting.token, {question: "Ada", approval: us.Approve()}, system=system)

    events = list(handle.events(inner=True))
    assert kinds(events, "desk", "asker") == ["TurnStarted", "TextDelta", "TurnFinished"]
    assert kinds(events, "desk", "till", "cashier")[:2] == ["ToolStarted", "ToolFinished"]
    assert kinds(events, "desk", "till") == ["ChildStarted", "ChildFinished"]
    assert isinstance(events[-1], us.RunFinished)
    assert {event.path: event.run_id for event in events} == before


def test_what_happens_inside_of_a_sub_agent_that_goes_on_is_told(system: us.ActorSystem) -> None:
    model = ScriptedModel([calls("cashier", input="x"), says("done")])
    lead = us.Agent("lead", model=model, sub_agents=[cashier()])

    handle = lead.submit_resume(paused(lead.run("go", system=system)).token, us.Approve(), system=system)

    events = list(handle.events(inner=True))
    assert kinds(events, "lead", "cashier")[:2] == ["ToolStarted", "ToolFinished"]
    assert kinds(events, "lead")[:2] == ["ToolStarted", "ToolFinished"]
    assert kinds(events, "lead")[-1] == "RunFinished"


def test_a_group_that_goes_on_is_cancelled_with_all_inside(gate: Gate, system: us.ActorSystem) -> None:
    group = us.SequentialAgent("desk", [us.Agent("clerk", model=gate)])
    handle = group.submit_resume(paused(group.run("hi", system=system)).token, "Ada", system=system)
    assert gate.entered.wait(WAIT)

    assert handle.cancel()

    *_, last = handle.events(inner=True)
    assert isinstance(last, us.RunFailed) and isinstance(last.error, us.RunCancelled)
    assert system.in_flight == 0


# --- what the call itself raises


@pytest.mark.parametrize(
    ("id", "wrong", "answer", "error"),
    [
        ("asker", "x", "Ada", us.UnknownToken),
        ("asker", "", us.Approve(), TypeError),
        ("asker", "", {"nothing": "Ada"}, us.ProtocolViolation),
        ("another", "", "Ada", ValueError),
    ],
)
def test_what_does_not_fit_is_raised_at_once_and_the_token_stands(
    id: str,
    wrong: str,
    answer: str | us.Decision | dict[str, us.PauseAnswer],
    error: type[Exception],
    system: us.ActorSystem,
) -> None:
    agent = asker()
    token = paused(agent.run("hi", system=system)).token

    with pytest.raises(error):
        asker(id).submit_resume(token + wrong, answer, system=system)

    assert system.in_flight == 0
    assert agent.submit_resume(token, "Ada", system=system).result(WAIT).text == "Hello Ada"


def test_the_store_is_asked_on_the_callers_thread_before_there_is_a_handle(store: DictStore) -> None:
    asked: list[tuple[str, bool]] = []
    caller = threading.get_ident()
    with us.ActorSystem("shop", store=store) as system:
        agent = asker()
        token = paused(agent.run("hi", system=system)).token
        store.on_call = lambda method: asked.append((method, threading.get_ident() == caller))

        handle = agent.submit_resume(token, "Ada", system=system)

        assert asked[:2] == [("get", True), ("take", True)]
        assert handle.result(WAIT).text == "Hello Ada"


def test_of_many_who_bring_one_token_one_gets_a_handle(system: us.ActorSystem) -> None:
    agent = asker()
    token = paused(agent.run("hi", system=system)).token
    handles: list[us.RunHandle[str]] = []
    refused: list[us.TokenUsed] = []

    def bring() -> None:
        try:
            handles.append(agent.submit_resume(token, "Ada", system=system))
        except us.TokenUsed as error:
            refused.append(error)

    all_at_once(lambda _: bring(), range(8))

    assert (len(handles), len(refused)) == (1, 7)
    assert handles[0].result(WAIT).text == "Hello Ada"


def test_whoever_finds_a_token_valid_and_is_overtaken_hears_that_it_has_been_used(
    store: DictStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, handles, loaded = Gate(), list[us.RunHandle[str]](), PausedRuns._loaded  # pyright: ignore[reportPrivateUsage]
    agent = us.Agent("asker", model=model)
    with us.ActorSystem("shop", store=store) as system:
        token = paused(agent.run("hi", system=system)).token

        def be_overtaken(*given: Any) -> RunRecord:
            record = loaded(*given)
            monkeypatch.undo()
            handles.append(agent.submit_resume(token, "Ada", system=system))
            return record

        monkeypatch.setattr(PausedRuns, "_loaded", be_overtaken)
        with pytest.raises(us.TokenUsed):
            agent.submit_resume(token, "Ada", system=system)
        model.leave.set()

        assert handles[0].result(WAIT).text == "Hello Ada"


def test_calls_for_the_callers_thread_are_refused_as_by_submit_and_the_token_stands(system: us.ActorSystem) -> None:
    turns = [says(ASKS), calls("sign"), says("ok")]
    agent = us.Agent("clerk", model=ScriptedModel(turns), tools=[sign])
    token = paused(agent.run("hi", system=system)).token

    with pytest.raises(ValueError, match=r"tool 'sign' has isolation='caller'.*after .*submit_resume\(\) none does"):
        agent.submit_resume(token, "Ada", system=system)
    with pytest.raises(ValueError, match="tool 'sign'"):
        us.SequentialAgent("desk", [agent]).submit_resume(token, "Ada", system=system)

    outcome = agent.resume(token, "Ada", system=system)
    assert [result.content for result in results_of(outcome)] == ["signed"]


# --- interrupts


@contextmanager
def interrupted_at_the_end_of(function: str) -> Generator[None]:
    """Raise a `KeyboardInterrupt` on this thread, as a signal may, when a function is about to return."""
    before = sys.gettrace()

    def calls_of(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        return its_end if frame.f_code.co_qualname == function else None

    def its_end(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        if event == "return":
            sys.settrace(before)
            raise KeyboardInterrupt
        return its_end

    sys.settrace(calls_of)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        sys.settrace(before)


def test_an_interrupt_before_there_is_a_handle_ends_the_run(gate: Gate, system: us.ActorSystem) -> None:
    agent = us.Agent("clerk", model=gate)
    token = paused(agent.run("hi", system=system)).token

    with interrupted_at_the_end_of("RunManager.launch"):
        agent.submit_resume(token, "Ada", system=system)

    assert system.in_flight == 0
    with pytest.raises(us.TokenUsed):
        agent.submit_resume(token, "Ada", system=system)


def test_an_interrupt_before_there_is_a_handle_ends_a_run_that_begins(system: us.ActorSystem) -> None:
    leave = threading.Event()

    def answer(_: us.ModelRequest) -> us.ModelTurn:
        leave.wait(WAIT)
        return says("late")

    with interrupted_at_the_end_of("RunManager.launch"):
        us.Agent("clerk", model=FunctionModel(answer)).submit("hi", system=system)

    assert system.in_flight == 0
    leave.set()


# --- inside of a run


def test_a_tool_may_go_on_with_a_run_of_its_own_agent_and_not_wait_for_it(system: us.ActorSystem) -> None:
    handles: list[us.RunHandle[str]] = []
    tokens: list[str] = []

    def again(wait: bool) -> str:
        handle = me.submit_resume(tokens.pop(), "Ada")
        handles.append(handle)
        return handle.result(WAIT).text if wait else handle.run_id

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        said = request.messages[-1]
        if said.tool_results:
            return says("ok")
        if said.text in ("yes", "no"):
            return calls("again", wait=said.text == "yes")
        return says(ASKS if request.turn == 1 else f"Hello {said.text}")

    me = us.Agent("me", model=FunctionModel(answer), tools=[again])
    tokens += [paused(me.run("ask", system=system)).token for _ in range(2)]

    waited = me.run("yes", system=system)
    begun = me.run("no", system=system)

    assert "me -> me" in results_of(waited)[0].content
    assert not results_of(begun)[0].is_error
    assert results_of(begun)[0].content == handles[1].run_id
    assert handles[1].result(WAIT).text == "Hello Ada"
