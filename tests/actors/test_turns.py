"""Runs that go on one turn at a time: in memory, and over a store that gives leases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any, TypeVar, cast

import pytest

import understudy as us
from tests.support.gates import Gate
from tests.support.scripts import WAIT, eventually
from tests.support.stores import DictStore, LeasedDictStore, sqlite_pauses
from tests.support.tools import refund
from understudy.actors.pauses import tokens
from understudy.actors.runs.run_handle import Handle
from understudy.actors.system.actor_system import runs_of
from understudy.orchestration.definitions.port import ResumeOptions
from understudy.testing import FunctionModel, ScriptedModel, calls, says

T = TypeVar("T")


def look(order: str) -> str:
    return f"order {order}"


def note(ctx: us.ToolContext, word: str) -> str:
    ctx.session["word"] = word
    return str(ctx.deps)


TOOLS: tuple[us.ToolLike, ...] = (refund, look, note)
LOOKS = calls("look", order="7")
ASKS = calls("refund", order="7", cents=1200)


def clerk(*turns: us.ModelTurn | Exception, **options: Any) -> us.Agent:
    """Make an agent as a worker does: of the same definition, and with what its model says from now on."""
    return us.Agent("clerk", model=ScriptedModel(turns), tools=TOOLS, **options)


def more(step: us.TurnOutcome[object]) -> us.MoreTurns:
    assert isinstance(step, us.MoreTurns), step
    return step


def done(step: us.TurnOutcome[T]) -> us.Complete[T]:
    assert isinstance(step, us.Complete), step
    return step


class Clock:
    """Seconds since 1970, as a test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "store"])
def system(request: pytest.FixtureRequest, tmp_path: Any) -> Generator[us.ActorSystem]:
    store = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/shop.db"
    with us.ActorSystem("first", store=store) as made:
        yield made


@pytest.fixture
def stores(tmp_path: Any, clock: Clock) -> Callable[[], us.PauseStore]:
    return lambda: sqlite_pauses(str(tmp_path / "shop.db"), clock=clock)


@pytest.fixture
def one(stores: Callable[[], us.PauseStore]) -> Generator[us.ActorSystem]:
    with us.ActorSystem("one", store=stores()) as made:
        yield made


@pytest.fixture
def other(stores: Callable[[], us.PauseStore]) -> Generator[us.ActorSystem]:
    with us.ActorSystem("other", store=stores()) as made:
        yield made


# --- one turn


def test_a_turn_is_one_call_of_the_model_with_its_tools(system: us.ActorSystem) -> None:
    agent = clerk(LOOKS, LOOKS, says("Done."))

    first = more(agent.run_turn("Look", system=system))
    second = more(agent.run_turn(token=first.token, system=system))
    last = done(agent.run_turn(token=second.token, system=system))

    assert [(step.turns, step.iterations, len(step.messages)) for step in (first, second, last)] == [
        (1, 1, 3),
        (2, 2, 5),
        (3, 2, 6),
    ]
    assert {first.run_id, second.run_id, last.run_id} == {first.run_id}
    assert last.text == "Done."


def test_an_unfinished_run_has_neither_text_nor_output(system: us.ActorSystem) -> None:
    step = more(clerk(LOOKS).run_turn("Look", system=system))

    for name in ("text", "output"):
        with pytest.raises(us.UnfinishedRun, match="its next turn is due") as caught:
            getattr(step, name)
        assert caught.value.token == step.token
    assert step.to_dict()["status"] == "more_turns"


def test_a_run_of_one_turn_is_complete_at_once(system: us.ActorSystem) -> None:
    assert done(clerk(says("Done.")).run_turn("Hello", system=system)).text == "Done."


def test_an_answer_that_does_not_fit_counts_as_a_turn(system: us.ActorSystem) -> None:
    agent = us.Agent("clerk", model=ScriptedModel([says("seven"), says("7")]), output_type=int, output_mode="native")

    first = more(agent.run_turn("How many?", system=system))

    assert done(agent.run_turn(token=first.token, system=system)).output == 7


def test_resume_carries_the_run_to_its_end(system: us.ActorSystem) -> None:
    agent = clerk(LOOKS, LOOKS, says("Done."))
    first = more(agent.run_turn("Look", system=system))

    assert agent.resume(first.token, system=system).text == "Done."


def test_an_approval_is_given_with_the_token_and_finishes_the_turn_that_waited(system: us.ActorSystem) -> None:
    agent = clerk(ASKS, says("Done."))
    waiting = agent.run_turn("Refund", system=system)
    assert isinstance(waiting, us.NeedsApproval)

    step = more(agent.run_turn(token=waiting.token, answer=us.Approve(), system=system))

    assert step.turns == 1
    assert done(agent.run_turn(token=step.token, system=system)).text == "Done."


def test_an_answer_to_the_model_begins_the_next_turn(system: us.ActorSystem) -> None:
    agent = clerk(says("__ask_user__: Which?"), LOOKS, says("Done."))
    waiting = agent.run_turn("Look", system=system)
    assert isinstance(waiting, us.NeedsInput)

    step = more(agent.run_turn(token=waiting.token, answer="7", system=system))

    assert step.turns == 2


def test_a_limit_is_raised_as_by_run_and_may_be_raised_with_its_token(system: us.ActorSystem) -> None:
    agent = clerk(LOOKS, LOOKS, says("Done."), max_iterations=1)
    first = more(agent.run_turn("Look", system=system))

    with pytest.raises(us.MaxIterationsExceeded) as caught:
        agent.run_turn(token=first.token, system=system)
    step = more(agent.run_turn(token=caught.value.token, max_iterations=2, system=system))

    assert step.iterations == 2


def test_session_and_deps_of_each_turn(system: us.ActorSystem) -> None:
    agent = clerk(calls("note", word="a"), calls("note", word="b"), says("Done."))
    first = more(agent.run_turn("Note", session={"customer": "ada"}, deps="first", system=system))
    second = more(agent.run_turn(token=first.token, deps="second", system=system))
    last = done(agent.run_turn(token=second.token, system=system))

    assert first.session == {"customer": "ada", "word": "a"}
    assert last.session == {"customer": "ada", "word": "b"}
    assert [result.content for message in last.messages for result in message.tool_results] == ["first", "second"]


class Book(us.AgentCallback):
    def __init__(self) -> None:
        self.told: list[str] = []

    def after_tool_call(self, ctx: us.RunContext, call: us.ToolCall, result: us.ToolResult) -> us.CallbackAction:
        self.told.append(call.name)
        return us.Continue()

    def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> us.CallbackAction:
        self.told.append(outcome.status)
        return us.Continue()


def test_callbacks_hear_of_the_end_of_the_run_and_of_no_other_turn(system: us.ActorSystem) -> None:
    book = Book()
    agent = clerk(LOOKS, says("Done."), callbacks=[book])

    first = more(agent.run_turn("Look", system=system))
    agent.run_turn(token=first.token, system=system)

    assert book.told == ["look", "complete"]


def test_a_conversation_is_stored_when_the_run_is_complete(system: us.ActorSystem) -> None:
    memory = us.InMemoryMemory()
    agent = clerk(LOOKS, says("Done."), memory=memory)
    first = more(agent.run_turn("Look", conversation_id="c", user_id="u", system=system))

    agent.run_turn(token=first.token, system=system)

    later = clerk(says("Yes."), memory=memory)
    later.run("Again?", conversation_id="c", user_id="u", system=system)
    assert isinstance(later.model, ScriptedModel)
    assert [message.text for message in later.model.requests[0].messages][-2:] == ["Done.", "Again?"]


# --- tokens


def test_a_second_delivery_is_told_the_next_token(system: us.ActorSystem) -> None:
    agent = clerk(LOOKS, LOOKS, LOOKS, says("Done."))
    first = more(agent.run_turn("Look", system=system))
    second = more(agent.run_turn(token=first.token, system=system))

    with pytest.raises(us.TokenUsed) as caught:
        agent.run_turn(token=first.token, system=system)
    assert caught.value.next == second.token
    third = more(agent.run_turn(token=second.token, system=system))
    for used in (first, second):
        with pytest.raises(us.TokenUsed) as caught:
            agent.run_turn(token=used.token, system=system)
        assert caught.value.next == third.token


def test_the_token_of_a_run_that_is_over_has_no_next_one(system: us.ActorSystem) -> None:
    agent = clerk(LOOKS, says("Done."))
    first = more(agent.run_turn("Look", system=system))
    agent.run_turn(token=first.token, system=system)

    with pytest.raises(us.TokenUsed) as caught:
        agent.run_turn(token=first.token, system=system)

    assert caught.value.next is None


def test_what_resume_has_taken_has_no_next_token(system: us.ActorSystem) -> None:
    agent = clerk(LOOKS, says("__ask_user__: Which?"))
    first = more(agent.run_turn("Look", system=system))
    agent.resume(first.token, system=system)

    with pytest.raises(us.TokenUsed) as caught:
        agent.run_turn(token=first.token, system=system)

    assert caught.value.next is None


def test_a_token_that_is_under_way_is_leased_to_everybody_else_and_dropped_for_nobody(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "KEPT", 1)
    gate, ended = Gate(), list[object]()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 1:
            return LOOKS
        gate()
        return says("Done.")

    agent = us.Agent("clerk", model=FunctionModel(answer), tools=TOOLS)
    first = more(agent.run_turn("Look", system=system))
    worker = threading.Thread(target=lambda: ended.append(agent.run_turn(token=first.token, system=system)))
    worker.start()
    assert gate.entered.wait(WAIT)

    with pytest.raises(us.TokenLeased) as caught:
        agent.run_turn(token=first.token, system=system)
    with pytest.raises(us.TokenLeased):
        agent.resume(first.token, system=system)
    assert caught.value.until > 0
    for _ in range(2):
        more(agent.run_turn("Look", system=system))
    gate.open()
    worker.join(WAIT)

    assert [type(each) for each in ended] == [us.Complete]


def test_an_error_that_passes_has_the_token_of_the_turn_that_is_done_again(system: us.ActorSystem) -> None:
    agent = clerk(LOOKS, us.RateLimited("slow down"), says("Done."))
    first = more(agent.run_turn("Look", system=system))

    with pytest.raises(us.RateLimited) as caught:
        agent.run_turn(token=first.token, system=system)
    with pytest.raises(us.TokenUsed) as used:
        agent.run_turn(token=first.token, system=system)

    assert used.value.next == caught.value.token
    assert done(agent.run_turn(token=caught.value.token, system=system)).turns == 2


def test_an_interrupt_gives_the_token_back_and_the_turn_is_done_from_its_beginning(system: us.ActorSystem) -> None:
    gate, calls_made = Gate(), list[int]()

    def slow() -> str:
        calls_made.append(1)
        if len(calls_made) == 2:
            gate()
        return "done"

    agent = us.Agent("clerk", model=ScriptedModel([calls("slow")] * 3), tools=[slow])
    first = more(agent.run_turn("Go", system=system))
    record = runs_of(system).paused.go_on_turn(agent, first.token, None, ResumeOptions(system=system), 60.0)
    record.host.launch(record)
    assert gate.entered.wait(WAIT)
    Handle(record).drop()  # as Ctrl-C does where run_turn waits
    gate.open()

    second = more(again(agent, first.token, system))

    assert (second.turns, len(second.messages), len(calls_made)) == (2, 5, 3)


def test_a_turn_that_failed_for_good_uses_its_token_up(system: us.ActorSystem) -> None:
    agent = clerk(LOOKS, us.AuthenticationError("no key"))
    first = more(agent.run_turn("Look", system=system))

    with pytest.raises(us.AuthenticationError):
        agent.run_turn(token=first.token, system=system)
    with pytest.raises(us.TokenUsed) as caught:
        agent.run_turn(token=first.token, system=system)

    assert caught.value.next is None


def again(agent: us.Agent, token: str, system: us.ActorSystem) -> us.TurnOutcome[str]:
    """Do a turn whose last worker gives its token back about now."""
    found: list[us.TurnOutcome[str]] = []

    def taken() -> bool:
        try:
            found.append(agent.run_turn(token=token, system=system))
        except us.TokenLeased:
            return False
        return True

    eventually(taken, "the token was given back")
    return found[0]


# --- workers that die, and workers that come back


def test_a_worker_whose_lease_is_over_cannot_commit_when_another_one_has_the_token(
    one: us.ActorSystem, other: us.ActorSystem, clock: Clock
) -> None:
    gate, failed = Gate(), list[BaseException]()
    first = more(clerk(LOOKS).run_turn("Look", system=one))
    slow = clerk()

    def work() -> None:
        try:
            with slow.override(model=FunctionModel(gate.then(says("Late.")))):
                slow.run_turn(token=first.token, system=one)
        except us.UnderstudyError as error:
            failed.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    assert gate.entered.wait(WAIT)
    with pytest.raises(us.TokenLeased) as caught:
        clerk().run_turn(token=first.token, system=other)
    assert caught.value.until == clock.now + 60
    clock.now += 60
    second = more(clerk(LOOKS).run_turn(token=first.token, system=other))
    gate.open()
    worker.join(WAIT)

    assert [type(error) for error in failed] == [us.LeaseLost]
    assert done(clerk(says("Done.")).run_turn(token=second.token, system=one)).text == "Done."


def test_a_lease_that_is_over_and_that_nobody_took_can_still_be_committed(one: us.ActorSystem, clock: Clock) -> None:
    first = more(clerk(LOOKS).run_turn("Look", system=one))

    def late(request: us.ModelRequest) -> us.ModelTurn:
        clock.now += 1000
        return says("Late.")

    agent = clerk()
    with agent.override(model=FunctionModel(late)):
        assert done(agent.run_turn(token=first.token, system=one)).text == "Late."


def test_the_lease_of_a_long_turn_is_renewed(one: us.ActorSystem, other: us.ActorSystem, clock: Clock) -> None:
    renewed = threading.Event()
    first = more(clerk(LOOKS).run_turn("Look", system=one))

    def slow(request: us.ModelRequest) -> us.ModelTurn:
        clock.now += 0.05
        eventually(lambda: leased_until(other, first.token) > 1000.06, "the lease was renewed")
        renewed.set()
        return says("Done.")

    agent = clerk()
    with agent.override(model=FunctionModel(slow)):
        agent.run_turn(token=first.token, lease=0.06, system=one)

    assert renewed.is_set()


def leased_until(system: us.ActorSystem, token: str) -> float:
    """Return when the lease on a token ends, as another worker is told."""
    with pytest.raises(us.TokenLeased) as caught:
        clerk().run_turn(token=token, system=system)
    return caught.value.until


def test_resume_takes_a_token_whose_lease_is_over(one: us.ActorSystem, other: us.ActorSystem, clock: Clock) -> None:
    first = more(clerk(LOOKS).run_turn("Look", system=one))
    agent, ended = clerk(), list[str]()

    def late(request: us.ModelRequest) -> us.ModelTurn:
        clock.now += 1000
        ended.append(clerk(says("Done.")).resume(first.token, system=other).text)
        return says("Late.")

    with agent.override(model=FunctionModel(late)), pytest.raises(us.LeaseLost):
        agent.run_turn(token=first.token, system=one)

    assert ended == ["Done."]


def test_an_answer_that_does_not_fit_leaves_the_token_without_a_lease(system: us.ActorSystem) -> None:
    agent = clerk(ASKS, says("Done."))
    waiting = agent.run_turn("Refund", system=system)
    assert isinstance(waiting, us.NeedsApproval)

    for answer in ("yes", {"nobody": us.Approve()}):
        with pytest.raises((TypeError, us.ProtocolViolation)):
            agent.run_turn(token=waiting.token, answer=answer, system=system)

    assert isinstance(agent.run_turn(token=waiting.token, answer=us.Approve(), system=system), us.MoreTurns)


# --- stores that fail, or give no leases


@pytest.mark.parametrize(("method", "turns"), [("commit", (LOOKS,)), ("finish", (says("Done."),))])
def test_a_turn_that_cannot_be_committed_is_done_again(method: str, turns: tuple[us.ModelTurn]) -> None:
    store, broken = LeasedDictStore(), [method]

    def fail(called: str) -> None:
        if called in broken:
            raise OSError("disk full")

    with us.ActorSystem("first", store=store) as system:
        first = more(clerk(LOOKS).run_turn("Look", system=system))
        store.on_call = fail
        with pytest.raises(us.StoreError, match="disk full"):
            clerk(*turns).run_turn(token=first.token, system=system)
        broken.clear()

        step = clerk(*turns).run_turn(token=first.token, system=system)

    assert step.turns == 2


def test_a_store_that_refuses_the_commit_has_given_the_token_to_another_worker() -> None:
    store = LeasedDictStore()
    with us.ActorSystem("first", store=store) as system:
        first = more(clerk(LOOKS).run_turn("Look", system=system))
        store.on_call = lambda called: store.forget_holders() if called == "finish" else None

        with pytest.raises(us.LeaseLost):
            clerk(says("Done.")).run_turn(token=first.token, system=system)


def test_a_store_that_says_neither_yes_nor_no_begins_no_turn() -> None:
    store = OddLeases()
    agent = clerk(LOOKS)
    with us.ActorSystem("first", store=store) as system:
        first = more(clerk(LOOKS).run_turn("Look", system=system))
        with pytest.raises(us.StoreError, match=r"lease\(\) must return True or False"):
            agent.run_turn(token=first.token, system=system)

    assert isinstance(agent.model, ScriptedModel)
    assert agent.model.requests == []


class OddLeases(LeasedDictStore):
    """Answers None, as a method without `return` does."""

    def lease(self, run_id: str, revision: int, holder: str, seconds: float) -> bool:
        return cast(bool, None)


def test_a_store_without_leases_is_refused_before_the_model_is_called() -> None:
    agent = clerk(LOOKS)
    with us.ActorSystem("first", store=DictStore()) as system, pytest.raises(TypeError, match="gives no leases"):
        agent.run_turn("Look", system=system)

    assert isinstance(agent.model, ScriptedModel)
    assert agent.model.requests == []


# --- what callers do wrong


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "an input, which begins a run, or token="),
        ({"input": "Hello", "token": "x"}, "an input, which begins a run, or token="),
        ({"input": "Hello", "answer": "x"}, "answer= and lease= go with token="),
        ({"input": "Hello", "max_turns": 3}, "with an input there is no max_turns"),
        ({"token": "x", "history": ()}, "with token= there is no history"),
        ({"token": 7}, "a token is a string"),
        ({"token": "x", "lease": None}, "lease must be a number"),
        ({"token": "x", "lease": "60"}, "lease must be a number"),
    ],
)
def test_a_wrong_argument_is_a_type_error(arguments: dict[str, Any], said: str, system: us.ActorSystem) -> None:
    with pytest.raises(TypeError, match=said):
        clerk().run_turn(**arguments, system=system)


@pytest.mark.parametrize("lease", [0, -1.0, float("inf"), float("nan")])
def test_a_lease_is_some_time(lease: float, system: us.ActorSystem) -> None:
    with pytest.raises(ValueError, match="lease must be above 0"):
        clerk().run_turn(token="x", lease=lease, system=system)


def test_the_token_of_a_group_has_no_turns(system: us.ActorSystem) -> None:
    agent = clerk(ASKS)
    group = us.SequentialAgent("group", [agent])
    waiting = group.run("Refund", system=system)
    assert isinstance(waiting, us.NeedsApproval)

    with pytest.raises(ValueError, match="belongs to 'group'"):
        agent.run_turn(token=waiting.token, answer=us.Approve(), system=system)


# --- by a reference


def test_a_reference_does_one_turn_in_its_system(system: us.ActorSystem) -> None:
    ref = system.spawn(clerk(LOOKS, says("Done.")))

    first = more(ref.run_turn("Look", deps="first"))
    last = done(ref.run_turn(token=first.token, lease=5.0))

    assert (first.turns, last.text) == (1, "Done.")
    with pytest.raises(TypeError, match="takes an input, which begins a run, or token=…"):
        ref.run_turn("Look", token=first.token)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def test_a_reference_to_a_group_has_no_turns(system: us.ActorSystem) -> None:
    ref = system.spawn(us.SequentialAgent("group", [clerk()]))

    with pytest.raises(TypeError, match="'group' is no agent, and has no turns: use run or submit"):
        ref.run_turn("Look")


# --- a queue that delivers a message more than once


def test_a_message_that_comes_again_after_a_pause_asks_a_person_again_and_spoils_nothing(
    system: us.ActorSystem,
) -> None:
    agent = clerk(LOOKS, ASKS, says("Done."))
    first = more(agent.run_turn("Refund", system=system))
    waiting = agent.run_turn(token=first.token, system=system)
    assert isinstance(waiting, us.NeedsApproval)

    with pytest.raises(us.TokenUsed) as used:
        agent.run_turn(token=first.token, system=system)
    assert used.value.next == waiting.token
    for _ in range(2):
        with pytest.raises(us.AnswerMissing, match="got None") as missing:
            agent.run_turn(token=waiting.token, system=system)
        assert ([call.name for call in missing.value.calls], missing.value.questions) == (["refund"], ())
    with pytest.raises(us.AnswerMissing):
        agent.resume(waiting.token, system=system)

    assert agent.resume(waiting.token, us.Approve(), system=system).text == "Done."
