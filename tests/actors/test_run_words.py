"""What the line of a run tells, its public events and its log lines, against what the live run told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

import pytest

import understudy as us
from tests.support import oracle_words
from tests.support.compaction import long_history
from tests.support.oracle_words import DIFFERENCES, LINE_DIFFERENCES, Difference, Words
from tests.support.scenarios import SCENARIOS
from tests.support.scenarios.on_threads import play_on_threads
from tests.support.scripts import WAIT, echo, paused
from tests.support.streaming import Tap, streaming_clerk, text_turn
from understudy.actors.stores.sessions import SessionCommit
from understudy.actors.stores.sessions_in_memory import SessionsInMemory
from understudy.actors.stores.store import Store
from understudy.orchestration.runs import events as e
from understudy.orchestration.runs.group_state import MapLineState, MapSpec
from understudy.orchestration.runs.lines import Entry
from understudy.orchestration.runs.state import AgentLineState
from understudy.orchestration.runs.words import SIGNALS, WORDS, Teller, error_of, raised_of
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.vocabulary.context.scope import current_scope

Program = Callable[[us.ActorSystem], object]
PROGRAMS: dict[str, Program] = {}


def program(play: Program) -> Program:
    """Have a function play runs for the comparison; none of them may differ from time to time in what it tells."""
    PROGRAMS[play.__name__] = play
    return play


def clerk(*turns: us.ModelTurn | Exception, id: str = "clerk", **options: Any) -> us.Agent[Any]:
    return us.Agent(id, model=ScriptedModel(turns), **options)


def failing(runner: us.Agent[Any] | us.SequentialAgent | us.ParallelAgent | us.Workflow, **options: Any) -> None:
    with pytest.raises(us.UnderstudyError):
        runner.run("go", **options)


@us.tool
def look(shelf: int = 1) -> str:
    return f"Shelf {shelf}: " + "book " * 300


@us.tool
def breaks() -> str:
    raise LookupError("no such shelf")


# --- tools


@program
def calls_that_run_together(system: us.ActorSystem) -> None:
    turn = calls("look") + calls("breaks") + calls("look", shelf=2)
    clerk(turn, says("ok"), tools=[look, breaks]).run("go", system=system)
    clerk(turn, says("ok"), tools=[look, breaks], max_parallel_calls=1).run("go", system=system)


def flaky(failures: int) -> us.Tool[[], str]:
    left = [ConnectionError("busy")] * failures

    @us.tool(name="flaky", retries=2)
    def call() -> str:
        if left:
            raise left.pop()
        return "there"

    return call


@program
def a_tool_that_is_tried_again(system: us.ActorSystem) -> None:
    clerk(calls("flaky"), says("ok"), tools=[flaky(2)]).run("go", system=system)
    clerk(calls("flaky") + calls("look"), says("ok"), tools=[flaky(2), look]).run("go", system=system)


@program
def a_tool_that_takes_too_long(system: us.ActorSystem) -> None:
    @us.tool(timeout=0.05)
    def waits(ctx: us.ToolContext) -> str:
        told = threading.Event()
        ctx.scope.on_cancel(told.set)
        assert told.wait(WAIT)
        ctx.scope.check()
        return "never"

    for turn in (calls("waits"), calls("waits") + calls("look")):
        clerk(turn, says("ok"), tools=[waits, look]).run("go", system=system)


@program
def a_tool_that_never_comes_back(system: us.ActorSystem) -> None:
    gate = threading.Event()

    @us.tool(timeout=0.05)
    def hangs() -> str:
        assert gate.wait(WAIT)
        return "late"

    clerk(calls("hangs"), says("ok"), tools=[hangs]).run("go", system=system)
    gate.set()


@program
def a_tool_that_ends_the_run(system: us.ActorSystem) -> None:
    failing(clerk(calls("breaks"), tools=[breaks], on_tool_error="raise"), system=system)


@program
def results_that_are_cut(system: us.ActorSystem) -> None:
    @us.tool(max_result=100)
    def tells() -> str:
        return "word " * 200

    clerk(calls("tells"), says("ok"), tools=[tells]).run("go", system=system)


@program
def a_run_that_is_cancelled_while_a_tool_runs(system: us.ActorSystem) -> None:
    begun, gate = threading.Event(), threading.Event()

    @us.tool
    def waits() -> str:
        begun.set()
        assert gate.wait(WAIT)
        return "late"

    handle = clerk(calls("waits"), says("ok"), tools=[waits]).submit("go", system=system)
    assert begun.wait(WAIT)
    handle.cancel()
    assert isinstance(handle.exception(WAIT), us.RunCancelled)
    gate.set()


# --- the model


@program
def a_model_that_fails(system: us.ActorSystem) -> None:
    failing(clerk(us.RateLimited("slow down", status=429, request_id="q-1"), says("ok")), system=system)
    failing(clerk(OSError("the line is cut")), system=system)


@program
def a_model_call_that_is_tried_again(system: us.ActorSystem) -> None:
    def answer(request: us.ModelRequest) -> us.ModelTurn:
        scope = current_scope()
        assert scope is not None
        scope.tell_retry(1, 0.0, us.RateLimited("slow down", request_id="q-3"))
        scope.tell_retry(2, 0.0, us.ProviderError("lost"))
        return says("ok")

    us.Agent("clerk", model=FunctionModel(answer), callbacks=[us.LoggingCallback()]).run("go", system=system)


@program
def a_turn_that_breaks_off(system: us.ActorSystem) -> None:
    agent = streaming_clerk([us.TextPiece("The ans")])
    assert isinstance(agent.submit("go", system=system).exception(WAIT), us.BadReply)


@program
def a_run_that_is_cancelled_while_its_model_writes(system: us.ActorSystem) -> None:
    tap = Tap(text_turn("half ", "a ", "word"))
    tap.let(2)
    handle = streaming_clerk(tap).submit("go", system=system)
    events = handle.events()
    next(event for event in events if isinstance(event, us.TextDelta))
    handle.cancel()
    assert isinstance(list(events)[-1], us.RunFailed)
    tap.let(3)


@program
def guardrails(system: us.ActorSystem) -> None:
    def no_cards(ctx: us.RunContext, text: str) -> str | None:
        return "it has a card in it" if "4111" in text else None

    failing(clerk(says("It is 4111 1111."), callbacks=[us.OutputGuardrail("no cards", no_cards)]), system=system)
    held = us.OutputGuardrail("no cards", no_cards, hold="turn")
    failing(clerk(says("It is 4111 1111."), callbacks=[held]), system=system)


@program
def an_answer_with_a_type(system: us.ActorSystem) -> None:
    typed = clerk(says("seven"), says('{"a": 7}'), output_type=dict[str, int])
    typed.run("go", system=system)
    failing(clerk(says("seven"), output_type=dict[str, int], max_output_retries=0), system=system)


@program
def a_run_turn_by_turn(system: us.ActorSystem) -> None:
    agent = clerk(calls("look"), says("ok"), tools=[look])
    outcome = agent.run_turn("go", system=system)
    assert not isinstance(outcome, us.Complete)
    agent.run_turn(token=outcome.token, system=system)


@program
def a_callback_that_logs(system: us.ActorSystem) -> None:
    clerk(calls("look"), says("ok"), tools=[look], callbacks=[us.LoggingCallback()]).run("go", system=system)


# --- long conversations


def librarian(*summaries: us.ModelTurn | Exception, prune: bool = False, **options: Any) -> us.Agent[Any]:
    """Return an agent whose conversation is summed up several times; the last summary is given again and again."""
    left = list(summaries)

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.system.startswith("You sum up"):
            summary = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(summary, Exception):
                raise summary
            return summary
        return calls("look", shelf=request.turn) if request.turn <= 24 else says("All seen.")

    options |= {"max_iterations": 100, "max_turns": 100}
    rule = us.Compaction(prune=prune, context_window=8_000)
    agent: us.Agent[Any] = us.Agent("librarian", model=FunctionModel(answer), tools=[look], compaction=rule, **options)
    return agent


SUMMARY = says("Shelves were looked at.", usage=us.Usage(100, 10))


@program
def a_conversation_that_is_summed_up(system: us.ActorSystem) -> None:
    librarian(SUMMARY).run("go", system=system)
    librarian(SUMMARY, prune=True).run("go", system=system)


@program
def a_conversation_that_cannot_be_summed_up(system: us.ActorSystem) -> None:
    for problem in (says("", usage=us.Usage(90, 1)), ValueError("no"), us.RateLimited("slow down", request_id="q-2")):
        librarian(problem).run("go", system=system)
        librarian(problem, SUMMARY, prune=True).run("go", system=system)
    librarian(ValueError("no"), callbacks=[us.LoggingCallback()]).run("go", system=system)


@program
def a_request_that_is_too_long(system: us.ActorSystem) -> None:
    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.system.startswith("You sum up"):
            return says("It was long.")
        if len(request.messages) > 30:
            raise us.ContextOverflow("too long", tokens=9_000, limit=8_000)
        return says("ok")

    agent = us.Agent("clerk", model=FunctionModel(answer), compaction=us.Compaction())
    agent.run("go", history=long_history(20), system=system)


# --- sessions, conversations


@us.tool
def puts(ctx: us.ToolContext, value: int) -> str:
    ctx.session["n"] = value
    return "put"


@program
def keys_in_conflict(system: us.ActorSystem) -> None:
    clerk(calls("puts", value=1) + calls("puts", value=2), says("ok"), tools=[puts]).run("go", system=system)


@program
def keys_in_conflict_of_tasks(system: us.ActorSystem) -> None:
    both = [us.Task(n, clerk(calls("puts", value=v), says("ok"), id=n, tools=[puts])) for n, v in (("a", 1), ("b", 2))]
    us.Workflow("w", both).run("go", system=system)


@program
def keys_that_another_run_has_put(system: us.ActorSystem) -> None:
    other = clerk(calls("puts", value=1), says("ok"), id="other", tools=[puts])

    @us.tool
    def put_beside(ctx: us.ToolContext) -> str:
        ctx.session["n"] = 2
        other.submit("go", conversation_id="c-1").result(WAIT)
        return "put"

    clerk(calls("put_beside"), says("ok"), tools=[put_beside]).run("go", conversation_id="c-1", system=system)


class FullDisk(SessionsInMemory):
    """Sessions that can be read and not written."""

    is_quick = False

    def __repr__(self) -> str:
        return "full disk"

    def commit(self, *arguments: object, **named: object) -> Sequence[SessionCommit]:
        raise us.StoreError("the disk is full", store="full disk")


@program
def keys_that_cannot_be_stored(_: us.ActorSystem) -> None:
    store = Store()
    store.sessions = FullDisk()
    with us.ActorSystem("full", store=store) as system:
        clerk(calls("puts", value=1), says("ok"), tools=[puts]).run("go", conversation_id="c-3", system=system)


@program
def a_conversation_that_went_on_meanwhile(system: us.ActorSystem) -> None:
    memory = us.InMemoryMemory()
    asker = clerk(says("__ask_user__: name?"), says("done"), memory=memory)
    outcome = paused(asker.run("go", conversation_id="c-2", system=system))
    clerk(says("ok"), id="talker", memory=memory).run("hi", conversation_id="c-2", system=system)
    asker.resume(outcome.token, "Ada", system=system)


# --- runs inside


@program
def a_sub_agent_that_asks(system: us.ActorSystem) -> None:
    writer = clerk(says("__ask_user__: name?"), says("Ada it is"), id="writer")
    lead = clerk(calls("writer", input="write"), says("ok"), id="lead", sub_agents=[writer])
    outcome = paused(lead.run("go", system=system))
    lead.resume(outcome.token, "Ada", system=system)


@program
def errors_from_inside(system: us.ActorSystem) -> None:
    writer = clerk(calls("look"), tools=[look], id="writer", max_iterations=0)
    lead = clerk(calls("writer", input="write"), id="lead", sub_agents=[writer], on_tool_error="raise")
    failing(lead, system=system)
    failing(us.SequentialAgent("s", [us.ParallelAgent("p", [clerk(us.BadReply("what?"))])]), system=system)


@program
def groups(system: us.ActorSystem) -> None:
    us.SequentialAgent("s", [echo("a"), echo("b")], pass_output=True).run("go", system=system)
    both = us.ParallelAgent("p", [echo("a"), clerk(us.BadReply("what?"), id="b")], on_error="collect")
    both.run("go", system=system)
    failing(us.ParallelAgent("q", [clerk(us.BadReply("what?"), id="b")]), system=system)


@program
def a_group_that_waits_for_a_person(system: us.ActorSystem) -> None:
    asks = clerk(says("__ask_user__: name?"), says("Ada"), id="asks")
    group = us.ParallelAgent("p", [asks, echo("b")])
    outcome = paused(group.run("go", system=system))
    group.resume(outcome.token, "Ada", system=system)


@program
def a_group_with_a_child_that_stops_short(system: us.ActorSystem) -> None:
    short = clerk(*[says("hm")] * 2, id="short", criteria=[us.KeywordCriteria("DONE")], max_continues=1)
    us.SequentialAgent("s", [short, echo("b")]).run("go", system=system)


@program
def a_group_whose_first_answer_counts(system: us.ActorSystem) -> None:
    begun, gate = threading.Event(), threading.Event()

    def hold(request: us.ModelRequest) -> us.ModelTurn:
        begun.set()
        assert gate.wait(WAIT)
        return says("late")

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        assert begun.wait(WAIT)
        return says("first")

    held, quick = us.Agent("held", model=FunctionModel(hold)), us.Agent("quick", model=FunctionModel(answer))
    us.ParallelAgent("p", [held, quick], merge="first").run("go", system=system)
    gate.set()


@program
def a_group_that_is_cancelled(system: us.ActorSystem) -> None:
    begun, gate = threading.Event(), threading.Event()

    def hold(request: us.ModelRequest) -> us.ModelTurn:
        begun.set()
        assert gate.wait(WAIT)
        return says("late")

    handle = us.SequentialAgent("s", [us.Agent("held", model=FunctionModel(hold))]).submit("go", system=system)
    assert begun.wait(WAIT)
    handle.cancel()
    assert isinstance(handle.exception(WAIT), us.RunCancelled)
    gate.set()


def says_neither(text: str) -> Any:
    return "neither True nor False"


@program
def a_workflow(system: us.ActorSystem) -> None:
    limited = clerk(us.RateLimited("slow down", status=429), says("there"), id="limited")
    broken = clerk(us.BadReply("what?"), id="broken")
    us.Workflow(
        "w",
        [
            us.Task("last", broken, dependencies=["first"]),
            us.Task("first", echo("first")),
            us.Task("again", limited, retries=1, backoff=(0.01, 0.01)),
            us.Task("strange", echo("strange"), until=says_neither),
            us.Task("after", echo("after"), dependencies=["last"]),
            us.Task("never", echo("never"), when=lambda tasks: False),
        ],
    ).run("go", system=system)


@program
def a_child_that_cannot_begin(system: us.ActorSystem) -> None:
    @us.tool
    def again() -> str:
        inner = us.ParallelAgent("q", [caller, echo("b")], on_error="collect")
        return inner.run("once more").unwrap().text

    model = FunctionModel(lambda request: says("ok") if request.messages[-1].tool_results else calls("again"))
    caller = us.Agent("caller", model=model, tools=[again])
    us.SequentialAgent("s", [caller]).run("go", system=system)


@program
def an_item_that_ends_when_its_task_has_failed(system: us.ActorSystem) -> None:
    failed, go = threading.Event(), threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.messages[-1].text == "bad":
            raise us.BadReply("what?")
        assert failed.wait(WAIT)
        return says("late")

    def last(request: us.ModelRequest) -> us.ModelTurn:
        assert go.wait(WAIT)
        return says("last")

    each = us.Task("each", us.Agent("e", model=FunctionModel(answer)), for_each="${list}", prompt="${item}")
    other = us.Task("other", us.Agent("o", model=FunctionModel(last)))
    handle = us.Workflow("w", [each, other]).submit(parameters={"list": ["bad", "slow"]}, system=system)
    for event in handle.events():
        if isinstance(event, us.ChildFinished) and event.error is not None:
            failed.set()
        elif isinstance(event, us.ChildFinished) and event.task == "each":
            go.set()


# --- played once for all tests


@pytest.fixture(scope="module")
def played() -> Iterator[Mapping[str, Words]]:
    """What the lines of all scenarios and programs told."""
    found: dict[str, Words] = {}
    for scenario in SCENARIOS:
        with oracle_words.installed() as found[scenario.name]:
            play_on_threads(scenario)
    for name, play in PROGRAMS.items():
        with oracle_words.installed() as found[name], us.ActorSystem("shop") as system:
            play(system)
    yield found


@pytest.mark.parametrize("name", [*[scenario.name for scenario in SCENARIOS], *PROGRAMS])
def test_a_line_tells_the_events_and_the_log_lines_that_the_live_run_told(
    played: Mapping[str, Words], name: str
) -> None:
    assert played[name].stays
    assert oracle_words.differences(played[name]) == []
    assert oracle_words.line_differences(played[name]) == []


@pytest.mark.parametrize("known", DIFFERENCES, ids=lambda known: known.what)
def test_a_known_difference_shows_still(played: Mapping[str, Words], known: Difference) -> None:
    assert any(oracle_words.differences(words, but=known) for words in played.values()), "take it out of the table"


@pytest.mark.parametrize("known", LINE_DIFFERENCES)
def test_a_known_difference_of_log_lines_shows_still(played: Mapping[str, Words], known: str) -> None:
    assert any(oracle_words.line_differences(words, but=known) for words in played.values()), "take it out of the table"


def test_each_public_event_that_the_table_has_is_made_by_a_line_here(played: Mapping[str, Words]) -> None:
    made = {type(event) for words in played.values() for stay in words.stays for event in stay.made}
    lines = {line.name for words in played.values() for stay in words.stays for line in stay.lines}

    assert {row.public for row in WORDS.values() if row.public is not None} == made
    assert oracle_words.LINES == lines


# --- the table


def test_each_class_of_events_has_its_row_with_a_public_event_or_the_reason_for_none() -> None:
    assert WORDS.keys() == set(e.KINDS.values())
    for kind, row in WORDS.items():
        assert (row.public is None) == (row.fields is None) == bool(row.why), kind


def test_each_public_event_is_made_by_a_row_or_is_a_signal() -> None:
    made = {row.public for row in WORDS.values() if row.public is not None}

    assert made | SIGNALS.keys() == set(get_args(us.Event))
    assert not made & SIGNALS.keys()


def teller() -> Teller:
    return Teller(run_id="r-1", path=("clerk",), state=AgentLineState(us.Agent("clerk", model="rehearsal").run_spec))


def test_the_number_of_a_public_event_is_the_place_of_its_event() -> None:
    told, line = (
        teller(),
        [e.Accepted("clerk", "", "Hi"), e.Opened(), e.TurnBegan(1), e.TurnTaken(says("Ho")), e.Ended()],
    )

    found = [told.tell(Entry(3 * at, 10.0 + at, event)) for at, event in enumerate(line)]

    events = [each.event for each in found if each.event is not None]
    assert [(type(event), event.seq, event.time) for event in events] == [
        (us.TurnStarted, 6, 12.0),
        (us.TurnFinished, 9, 13.0),
        (us.RunFinished, 12, 14.0),
    ]
    assert [event.duration for event in events if not isinstance(event, us.TurnStarted)] == [1.0, 4.0]  # type: ignore[union-attr]
    assert [each.line.name for each in found if each.line is not None] == [
        "run_started",
        "turn_started",
        "turn_finished",
        "run_finished",
    ]


def test_a_map_tells_nothing_and_a_sub_agent_s_run_is_told_by_its_call() -> None:
    of_map = Teller(run_id="m-1", path=("clerk",), state=MapLineState(MapSpec(max_parallel=1)))
    of_agent = teller()
    line = [e.Accepted("clerk", "", "Hi"), e.ChildBegan("0", "r-2"), e.ChildDone("0"), e.InputsEnded(), e.Ended()]

    assert {of_map.tell(Entry(at, 1.0, event)) for at, event in enumerate(line)} == {(None, None)}
    for event in (e.ChildBegan("call-1-0", "r-2"), e.ChildPaused("call-1-0", "r-2", ())):
        assert of_agent.told(Entry(4, 1.0, event)) == (None, None)


def test_an_error_is_read_in_its_class_with_its_attributes_and_without_its_token() -> None:
    limited = us.RateLimited("slow down", status=429, request_id="q-1")
    limited.token = "r-1.1.secret"
    strange = KeyError("a")
    strange.secret = "s"  # type: ignore[attr-defined]

    read = error_of(**{name: getattr(raised_of(limited), name) for name in ("kind", "message", "values")})

    assert isinstance(read, us.RateLimited)
    assert (str(read), read.status, read.request_id, read.token) == ("slow down", 429, "q-1", "")
    assert raised_of(strange) == e.Raised("KeyError", "'a'")
    assert type(error_of("KeyError", "'a'", {})) is us.RunError
