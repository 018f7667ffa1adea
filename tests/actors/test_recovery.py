"""Recovery of runs whose process was killed: each goes on from its last finished step, and nothing finished is done again."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

import understudy as us
from tests.support.deadly import DeadlyDatabase
from tests.support.killing import Effects, Runner, killed, runners, worker
from tests.support.scripts import WAIT, eventually, finished, needs_approval, needs_input
from understudy.actors.stores.database import Sql
from understudy.actors.stores.sqlite_database import SQLiteDatabase
from understudy.actors.stores.store import Store
from understudy.testing import calls, says

T = TypeVar("T")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")
KINDS = ["agent", "sub-agent", "sequence", "parallel", "workflow"]


def run_and_be_killed(runner: Runner, store: str, input: str = "go") -> None:
    assert killed(lambda: runner.run(input, system=us.ActorSystem("shop", store=store)))


def recovered(runner: Runner, store: str) -> us.Outcome[object]:
    """Go on with the one run that was left."""
    system = us.ActorSystem("shop", store=store)
    (handle,) = system.recover(runners=[runner])
    return handle.result(timeout=WAIT)


@pytest.mark.parametrize("dies_before", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_killed_at_any_of_its_effects_goes_on_to_its_end(
    kind: str, dies_before: bool, effects: Effects, tmp_path: Path
) -> None:
    _, count = runners(effects.tool())[kind]
    for deadly in range(1, count + 1):
        effects = Effects(tmp_path / f"effects-{deadly}", deadly)
        effects.dies_before = dies_before
        runner, _ = runners(effects.tool(idempotent=True))[kind]
        store = f"sqlite:///{tmp_path}/{deadly}.db"
        run_and_be_killed(runner, store)
        before, effects.deadly = effects.noted, 0

        finished(recovered(runner, store))

        last_of_each_run = {key.rpartition("/")[0]: key for key in before}
        assert len(set(effects.noted)) == count
        assert set(effects.repeated) <= set(last_of_each_run.values())
        assert kind == "parallel" or len(effects.repeated) == (0 if dies_before else 1)


def test_a_run_that_is_killed_as_soon_as_it_has_an_answer_goes_on_with_it(store: str) -> None:
    here = os.getpid()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if request.turn == 1:
            return says("__ask_user__: Which?")
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return says(f"You said: {request.messages[-1].text}")

    agent = us.Agent("clerk", model=us.FunctionModel(answer))
    waits = needs_input(agent.run("go", system=us.ActorSystem("shop", store=store)))
    assert killed(lambda: agent.resume(waits.token, "the blue one", system=us.ActorSystem("shop", store=store)))

    outcome = finished(recovered(agent, store))

    assert outcome.text == "You said: the blue one"
    assert outcome.turns == 2


@pytest.mark.parametrize("limit", [1, 100])
def test_a_line_is_read_under_the_limits_that_it_was_written_under(limit: int, effects: Effects, store: str) -> None:
    effects.deadly = 3
    agent = worker("clerk", effects.tool(idempotent=True), ["a", "b", "c"])
    run_and_be_killed(agent.replace(max_iterations=4), store)
    effects.deadly = 0

    assert finished(recovered(agent.replace(max_iterations=limit), store)).text == "did a; did b; did c"
    assert len(set(effects.noted)) == 3


def test_a_call_in_doubt_waits_for_a_person_who_may_make_it_again(effects: Effects, store: str) -> None:
    effects.deadly = 1
    agent = worker("clerk", effects.tool(), ["a", "b"])
    run_and_be_killed(agent, store)
    effects.deadly = 0
    system = us.ActorSystem("shop", store=store)
    (handle,) = system.recover(runners=[agent])

    waits = needs_approval(handle.result(timeout=WAIT))

    (pause,) = waits.pauses
    assert (pause.in_doubt, pause.calls[0].name) == (("c0",), "act")
    assert pause.reasons["c0"].startswith("in_doubt")
    assert len(effects.noted) == 1
    assert finished(agent.resume(waits.token, {"c0": us.Approve()}, system=system)).text == "did a; did b"
    assert len(effects.repeated) == 1


@pytest.mark.parametrize(
    ("answer", "told"), [(us.Reject("leave it"), "Rejected: leave it"), (us.Happened("it is done"), "it is done")]
)
def test_a_person_may_fail_a_call_in_doubt_or_give_its_result(
    answer: us.Reject | us.Happened, told: str, effects: Effects, store: str
) -> None:
    effects.deadly = 1
    agent = worker("clerk", effects.tool(), ["a", "b"])
    run_and_be_killed(agent, store)
    effects.deadly = 0
    waits = needs_approval(recovered(agent, store))

    outcome = finished(agent.resume(waits.token, {"c0": answer}, system=us.ActorSystem("shop", store=store)))

    assert outcome.text == f"{told}; did b"
    assert effects.repeated == []


def test_a_result_can_be_given_only_for_a_call_in_doubt() -> None:
    @us.tool(approval=True)
    def act() -> str:
        """Act."""
        return "did"

    agent = us.Agent("clerk", model=us.ScriptedModel([calls("act"), says("done")]), tools=[act])
    waits = needs_approval(agent.run("go"))

    with pytest.raises(us.AnswerRefused, match=r"pass Approve\(\) or Reject"):
        agent.resume(waits.token, us.Happened("it is done"))


@pytest.mark.parametrize("answer", [us.Approve(), us.Reject("no"), us.Happened("done"), {"approval": us.Approve()}])
def test_one_decision_for_all_calls_does_not_cover_a_call_in_doubt(
    answer: us.Approve | us.Reject | us.Happened, effects: Effects, store: str
) -> None:
    effects.deadly = 1
    agent = worker("clerk", effects.tool(), ["a"])
    run_and_be_killed(agent, store)
    effects.deadly = 0
    waits = needs_approval(recovered(agent, store))
    system = us.ActorSystem("shop", store=store)

    with pytest.raises(us.AnswerRefused, match="each of c0, which may have happened"):
        agent.resume(waits.token, answer, system=system)

    assert "in doubt" in waits.completion_reason
    assert finished(agent.resume(waits.token, {"c0": us.Happened("done")}, system=system)).text == "done"
    assert effects.repeated == []


def happened(key: str, arguments: us.JsonObject) -> us.Happened:
    return us.Happened(f"{arguments['word']} was done")


def happened_to(key: str, word: str) -> us.Happened:
    return us.Happened(f"{word} was done")


def happened_in(ctx: us.ToolContext, key: str, **named: object) -> us.Happened:
    return us.Happened(f"{named['word']} was done")


def did_not(ctx: us.ToolContext, key: str, arguments: us.JsonObject) -> us.DidNotHappen:
    assert ctx.call_key == key
    return us.DidNotHappen()


def cannot_tell(key: str, arguments: us.JsonObject) -> us.CannotTell:
    return us.CannotTell()


def returns_nothing(key: str, arguments: us.JsonObject) -> None:
    """Return what says nothing."""


def fails(key: str, arguments: us.JsonObject) -> us.Happened:
    raise LookupError("no such table")


def exits(key: str, arguments: us.JsonObject) -> us.Happened:
    sys.exit(1)


def is_interrupted(key: str, arguments: us.JsonObject) -> us.Happened:
    raise KeyboardInterrupt


def leaves(key: str, arguments: us.JsonObject) -> us.Happened:
    raise GeneratorExit


@pytest.mark.parametrize(
    ("ask", "told", "made"),
    [
        (happened, "a was done", 2),
        (happened_to, "a was done", 2),
        (happened_in, "a was done", 2),
        (did_not, "did a", 3),
    ],
)
def test_a_tool_that_knows_says_what_became_of_its_call(
    ask: Callable[..., object], told: str, made: int, effects: Effects, store: str
) -> None:
    effects.deadly = 1
    agent = worker("clerk", effects.tool(reconcile=ask), ["a", "b"])
    run_and_be_killed(agent, store)
    effects.deadly = 0

    assert finished(recovered(agent, store)).text == f"{told}; did b"
    assert len(effects.noted) == made


@pytest.mark.parametrize("ask", [cannot_tell, returns_nothing, fails, exits, is_interrupted, leaves])
def test_a_tool_that_does_not_say_it_leaves_its_call_to_a_person(
    ask: Callable[..., object], effects: Effects, store: str
) -> None:
    effects.deadly = 1
    agent = worker("clerk", effects.tool(reconcile=ask), ["a"])
    run_and_be_killed(agent, store)
    effects.deadly = 0

    assert needs_approval(recovered(agent, store)).pauses[0].in_doubt == ("c0",)
    assert len(effects.noted) == 1


def test_a_run_that_was_killed_before_its_first_step_begins_anew_with_its_input_and_session(store: str) -> None:
    def ask(request: us.ModelRequest) -> us.ModelTurn:
        os.kill(os.getpid(), 9)
        raise AssertionError

    session: dict[str, us.JsonValue] = {"shelf": "B-7"}
    dying = us.Agent("clerk", model=us.FunctionModel(ask))
    assert killed(lambda: dying.run("five?", session=session, system=us.ActorSystem("shop", store=store)))
    agent = us.Agent("clerk", model=us.FunctionModel(lambda request: says(request.messages[-1].text)))

    outcome = finished(recovered(agent, store))

    assert (outcome.text, outcome.session) == ("five?", {"shelf": "B-7"})


def test_session_values_of_a_killed_run_are_kept_and_stored_at_its_end(store: str, effects: Effects) -> None:
    @us.tool
    def mark(ctx: us.ToolContext, word: str) -> str:
        """Mark."""
        ctx.session[f"app:{word}"] = True
        if word == "b":
            effects.note("b")
        return "marked"

    effects.deadly = 1
    agent = worker("clerk", mark.replace(name="mark", idempotent=True), ["a", "b"])
    run_and_be_killed(agent, store)
    effects.deadly = 0

    assert finished(recovered(agent, store)).session == {"app:a": True, "app:b": True}
    later = us.Agent("other", model=us.ScriptedModel([says("hello")]))
    assert finished(later.run("go", system=us.ActorSystem("shop", store=store))).session == {
        "app:a": True,
        "app:b": True,
    }


@pytest.mark.parametrize("kind", [us.SequentialAgent, us.ParallelAgent])
def test_session_values_of_runs_inside_are_kept_and_their_keys_stay_removed(
    kind: type[us.SequentialAgent | us.ParallelAgent], store: str, effects: Effects
) -> None:
    @us.tool
    def mark(ctx: us.ToolContext, word: str) -> str:
        """Mark."""
        ctx.session[word] = [word]
        ctx.session.pop("old", None)
        if word == "b":
            effects.note("b")
        return "marked"

    def agent(name: str) -> us.Agent:
        return worker(name, mark.replace(name="mark", idempotent=True), [f"{name}-a", "b" if name == "two" else "c"])

    effects.deadly = 1
    team = kind("team", [agent("one"), agent("two")])
    begun = {"old": 1, "kept": 2}
    assert killed(lambda: team.run("go", session=begun, system=us.ActorSystem("shop", store=store)))
    effects.deadly = 0

    outcome = finished(recovered(team, store))

    assert outcome.session == {"kept": 2} | {word: [word] for word in ("one-a", "two-a", "b", "c")}


def test_a_key_that_a_call_set_and_removed_again_does_not_remove_that_of_another_run(
    store: str, effects: Effects
) -> None:
    @us.tool(idempotent=True)
    def mark(ctx: us.ToolContext, word: str) -> str:
        """Mark."""
        if word == "sibling":
            ctx.session["x"] = 1
        elif word == "fleeting":
            ctx.session["x"] = 2
            del ctx.session["x"]
        elif word == "slow":  # so that the result of the other call is written early
            threading.Event().wait(0.3)
        else:
            threading.Event().wait(0.3)  # the sibling is done by then
            effects.note(word)
        return "marked"

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        turns = [calls("mark", word="fleeting") + calls("mark", word="slow"), calls("mark", word="last"), says("done")]
        return turns[request.turn - 1]

    effects.deadly = 1
    two = us.Agent("two", model=us.FunctionModel(next_turn), tools=[mark])
    team = us.ParallelAgent("team", [worker("one", mark.replace(name="mark"), ["sibling"]), two])
    run_and_be_killed(team, store)
    effects.deadly = 0

    assert finished(recovered(team, store)).session == {"x": 1}


class DiesWithARow(DeadlyDatabase):
    """Kills the process after the write that adds the first row to a table."""

    table = ""

    def write(self, work: Callable[[Sql], T], *, durable: bool = False) -> T:
        done = super().write(work, durable=durable)
        if self.table and self.read(lambda sql: sql.execute(f"SELECT 1 FROM {self.table}").fetchone()):
            os.kill(os.getpid(), 9)
        return done


def run_and_die_with(table: str, agent: us.Agent, store: str) -> None:
    database = DiesWithARow(SQLiteDatabase(store.removeprefix("sqlite:///")))
    system = us.ActorSystem("shop", store=Store(database))

    def die() -> None:
        database.table = table
        agent.run("go", system=system, conversation_id="c-1")

    assert killed(die)


def test_a_run_whose_process_died_once_its_pause_was_stored_waits(store: str, effects: Effects) -> None:
    agent = worker("clerk", effects.tool().replace(approval=True), ["a"])
    run_and_die_with("understudy_pauses", agent, store)
    system = us.ActorSystem("shop", store=store)

    (waits,) = system.pending()
    handle = system.handle(waits.run_id)

    assert system.recover(runners=[agent]) == []
    assert handle.waiting() == waits
    assert [call.name for pause in handle.pauses() for call in pause.calls] == ["act"]
    assert finished(agent.resume(waits.token, us.Approve(), system=system)).text == "did a"
    assert len(effects.noted) == 1
    with pytest.raises(us.TokenUsed):
        agent.resume(waits.token, us.Approve(), system=system)


def test_a_run_whose_error_was_told_to_nobody_goes_on(store: str) -> None:
    here = os.getpid()

    def ask(request: us.ModelRequest) -> us.ModelTurn:
        if os.getpid() == here:
            return says("done")
        raise us.RateLimited("too many", provider="p", retryable=True)

    agent = us.Agent("clerk", model=us.FunctionModel(ask))
    run_and_die_with("understudy_pauses", agent, store)

    assert finished(recovered(agent, store)).text == "done"


@pytest.mark.parametrize("words", [[], ["a"]])
def test_a_run_that_was_killed_once_its_turn_was_remembered_ends_with_that_turn(
    words: list[str], store: str, effects: Effects
) -> None:
    asked = worker("clerk", effects.tool(), words).model
    assert isinstance(asked, us.FunctionModel)
    agent = worker("clerk", effects.tool(), words).replace(
        model=us.FunctionModel(lambda request: _signed(asked.complete(request))), memory=us.PersistentMemory()
    )
    run_and_die_with("understudy_turns", agent, store)

    system = us.ActorSystem("shop", store=store)
    (handle,) = system.recover(runners=[agent])

    outcome = finished(handle.result(timeout=WAIT))
    (turn,) = us.PersistentMemory(store).read(us.ConversationKey("shop", "default", "c-1"))
    assert outcome.text == turn.messages[-1].text
    assert not [event for event in handle.events() if isinstance(event, us.ConversationDiverged)]


def _signed(turn: us.ModelTurn) -> us.ModelTurn:
    """Have an answer differ from process to process."""
    return turn if turn.tool_calls else says(f"{turn.text} by {os.getpid()}")


def test_session_values_that_were_stored_are_not_stored_again_over_those_of_a_later_run(store: str) -> None:
    @us.tool
    def mark(ctx: us.ToolContext, word: str) -> str:
        """Mark."""
        ctx.session["app:word"] = word
        return "marked"

    def marker(word: str) -> us.Agent:
        return worker("clerk", mark.replace(name="mark"), [word])

    run_and_die_with("understudy_values", marker("first"), store)
    assert finished(marker("second").run("go", system=us.ActorSystem("shop", store=store))).status == "complete"

    (handle,) = us.ActorSystem("shop", store=store).recover(runners=[marker("first")])
    finished(handle.result(timeout=WAIT))

    assert not [event for event in handle.events() if isinstance(event, us.SessionOverwritten)]
    later = us.Agent("other", model=us.ScriptedModel([says("hello")]))
    assert finished(later.run("go", system=us.ActorSystem("shop", store=store))).session == {"app:word": "second"}


@pytest.mark.parametrize("user", ["ada", None])
def test_deps_are_given_anew_for_each_run(user: str | None, store: str, effects: Effects) -> None:
    @us.tool(idempotent=True)
    def act(ctx: us.ToolContext[str]) -> str:
        """Act."""
        effects.note("x")
        return ctx.deps

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        results = request.messages[-1].tool_results
        return says(results[0].content) if results else calls("act")

    agent = us.Agent("clerk", model=us.FunctionModel(next_turn), tools=[act])
    effects.deadly = 1
    assert killed(lambda: agent.run("go", user_id=user, deps="old", system=us.ActorSystem("shop", store=store)))
    effects.deadly = 0
    told: list[us.LeftRun] = []

    def deps(run: us.LeftRun) -> str:
        told.append(run)
        return "new"

    (handle,) = us.ActorSystem("shop", store=store).recover(runners=[agent], deps=deps)

    assert finished(handle.result(timeout=WAIT)).text == "new"
    assert [(run.runner_id, run.user_id, run.takeovers) for run in told] == [("clerk", user, 0)]


def test_a_run_that_lives_is_taken_by_nobody(store: str) -> None:
    def ask(request: us.ModelRequest) -> us.ModelTurn:
        assert us.ActorSystem("shop", store=store).recover(runners=[agent]) == []
        assert not killed(lambda: sys.exit(len(us.ActorSystem("shop", store=store).recover(runners=[agent]))))
        return says("done")

    agent = us.Agent("clerk", model=us.FunctionModel(ask))

    assert finished(agent.run("go", system=us.ActorSystem("shop", store=store))).text == "done"


def test_of_two_systems_one_goes_on_with_a_run(store: str, effects: Effects) -> None:
    effects.deadly = 1
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    run_and_be_killed(agent, store)
    effects.deadly = 0

    handles = [handle for _ in range(2) for handle in us.ActorSystem("shop", store=store).recover(runners=[agent])]

    assert [finished(handle.result(timeout=WAIT)).text for handle in handles] == ["did a"]


def test_a_run_that_goes_on_may_be_killed_again(store: str, effects: Effects) -> None:
    agent = worker("clerk", effects.tool(idempotent=True), ["a", "b", "c"])
    effects.deadly = 1
    run_and_be_killed(agent, store)
    for deadly in (3, 5):
        effects.deadly = deadly
        assert killed(lambda: recovered(agent, store))
    effects.deadly = 0

    assert finished(recovered(agent, store)).text == "did a; did b; did c"
    assert len(set(effects.noted)) == 3


def test_a_resumed_run_that_is_killed_goes_on_with_the_answer_it_was_given(store: str, effects: Effects) -> None:
    agent = worker("clerk", effects.tool(idempotent=True).replace(approval=True), ["a"])
    waits = needs_approval(agent.run("go", system=us.ActorSystem("shop", store=store)))
    effects.deadly = 1

    def answered() -> us.Outcome:
        return agent.resume(waits.token, us.Approve(), system=us.ActorSystem("shop", store=store))

    assert killed(answered)
    effects.deadly = 0

    assert finished(recovered(agent, store)).text == "did a"
    with pytest.raises(us.TokenUsed):
        answered()


def test_a_run_whose_agent_is_not_known_is_left_and_the_log_says_so(
    store: str, effects: Effects, caplog: pytest.LogCaptureFixture
) -> None:
    effects.deadly = 1
    agent = worker("clerk", effects.tool(idempotent=True), ["a"])
    run_and_be_killed(agent, store)
    effects.deadly = 0
    other = us.Agent("clerk", model=us.ScriptedModel([says("hello")]))

    with caplog.at_level(logging.ERROR, "understudy"):
        assert us.ActorSystem("shop", store=store).recover() == []
        assert us.ActorSystem("shop", store=store).recover(runners=[other]) == []

    unknown, changed = caplog.messages
    assert "no runner 'clerk' is known here" in unknown
    assert "another definition of agent 'clerk'" in changed
    assert finished(recovered(agent, store)).text == "did a"


def test_nothing_is_written_without_a_journal(store: str, effects: Effects) -> None:
    effects.deadly = 1
    agent = worker("clerk", effects.tool(), ["a"])

    assert killed(lambda: agent.run("go", system=us.ActorSystem("shop", store=store, journal=False)))

    assert us.ActorSystem("shop", store=store).recover(runners=[agent]) == []
    with pytest.raises(ValueError, match="durable store and the journal"):
        us.ActorSystem("shop").recover()


def test_calls_of_a_task_that_runs_again_have_keys_of_their_own(store: str, effects: Effects) -> None:
    task = us.Task("first", worker("one", effects.tool(), ["a"]), prompt="go", until=lambda text: False, max_repeats=2)

    finished(us.Workflow("flow", [task]).run("go", system=us.ActorSystem("shop", store=store)))

    assert len(set(effects.noted)) == 3


@pytest.mark.parametrize("tool_is_idempotent", [True, False])
def test_a_system_that_stops_leaves_its_runs_for_the_next_process(
    tool_is_idempotent: bool, store: str, effects: Effects
) -> None:
    began, release = threading.Event(), threading.Event()

    def hang(ctx: us.ToolContext, word: str) -> str:
        """Hang."""
        effects.note(ctx.call_key)
        began.set()
        release.wait(WAIT)
        return f"did {word}"

    agent = worker("clerk", us.tool(name="act", idempotent=tool_is_idempotent)(hang), ["a", "b"])
    system = us.ActorSystem("shop", store=store)
    handle = agent.submit("go", system=system)
    assert began.wait(WAIT)
    system.stop(0.0)
    stopped = handle.exception(WAIT)
    assert isinstance(stopped, us.RunCancelled)
    release.set()
    after = us.ActorSystem("shop", store=store)

    (again,) = after.recover(runners=[agent])

    outcome = again.result(timeout=WAIT)
    if not tool_is_idempotent:
        waits = needs_approval(outcome)
        assert waits.pauses[0].in_doubt == ("c0",)
        outcome = agent.resume(waits.token, {"c0": us.Approve()}, system=after)
    assert finished(outcome).text == "did a; did b"
    with pytest.raises(us.TokenUsed):
        agent.resume(stopped.token, system=after)


def test_a_run_that_its_caller_cancelled_is_not_taken_up_again(store: str) -> None:
    began, release = threading.Event(), threading.Event()

    def ask(request: us.ModelRequest) -> us.ModelTurn:
        began.set()
        release.wait(WAIT)
        return says("done")

    agent = us.Agent("clerk", model=us.FunctionModel(ask))
    system = us.ActorSystem("shop", store=store)
    handle = agent.submit("go", system=system)
    assert began.wait(WAIT)
    assert handle.cancel()
    release.set()
    system.stop()

    eventually(lambda: _left(store) == 0, "the journal of the run ends")
    assert us.ActorSystem("shop", store=store).recover(runners=[agent]) == []


def _left(store: str) -> int:
    with closing(sqlite3.connect(store.removeprefix("sqlite:///"))) as database:
        return int(database.execute("SELECT count(*) FROM understudy_runs WHERE state = 'going'").fetchone()[0])


def test_runs_that_wait_are_listed_with_their_tokens_in_every_process(store: str) -> None:
    @us.tool(approval=True)
    def act() -> str:
        """Act."""
        return "did"

    def agent(id: str) -> us.Agent:
        turns = [calls("act"), says("done")]
        return us.Agent(id, model=us.FunctionModel(lambda request: turns[int(len(request.messages) > 1)]), tools=[act])

    clerk = agent("clerk")
    waits = needs_approval(
        clerk.run("go", user_id="ada", conversation_id="c-1", system=us.ActorSystem("shop", store=store))
    )
    needs_approval(clerk.run("go", system=us.ActorSystem("other", store=store)))
    system = us.ActorSystem("shop", store=store)

    (waiting,) = system.pending()

    assert waiting == us.WaitingRun(waits.token, waits.run_id, "clerk", "ada", "c-1", by_error=False)
    assert finished(clerk.resume(waiting.token, us.Approve(), system=system)).text == "done"
    assert system.pending() == []


def test_without_a_store_the_runs_that_wait_in_this_process_are_listed() -> None:
    agent = us.Agent("clerk", model=us.ScriptedModel([says("__ask_user__: Which?"), says("done")]))
    system = us.ActorSystem("shop")
    outcome = agent.run("go", system=system)
    assert isinstance(outcome, us.NeedsInput)

    assert [(each.token, each.runner_id) for each in system.pending()] == [(outcome.token, "clerk")]


def test_the_usage_of_a_group_is_that_of_its_children_although_a_turn_was_lost(store: str) -> None:
    database = DeadlyDatabase(SQLiteDatabase(store.removeprefix("sqlite:///")))
    here, go, never = os.getpid(), threading.Event(), threading.Event()

    @us.tool(idempotent=True)
    def wait() -> str:
        assert os.getpid() == here or go.wait(WAIT)
        return "done"

    class Dies(us.AgentCallback):
        """Has the process die with the next write: the turn of this agent is in no row yet."""

        def on_finish(self, ctx: us.RunContext, outcome: us.Outcome[object]) -> None:
            if os.getpid() != here:
                database.deadly, database.before = database.writes + 1, False
                go.set()
                never.wait(WAIT)

    def turn(made: us.ModelTurn) -> us.ModelTurn:
        return us.ModelTurn(made.parts, us.Usage(10, 5))

    one = us.Agent(
        "one",
        model=us.FunctionModel(lambda request: turn(calls("wait") if request.turn == 1 else says("one"))),
        tools=[wait],
    )
    two = us.Agent("two", model=us.FunctionModel(lambda request: turn(says("two"))), callbacks=[Dies()])
    group = us.ParallelAgent("both", [one, two])
    assert killed(lambda: group.run("go", system=us.ActorSystem("shop", store=Store(database))))

    outcome = finished(recovered(group, store))

    children = [each for each in outcome.children if isinstance(each, us.Complete)]
    assert [each.text for each in children] == ["one", "two"]
    assert outcome.usage.total_tokens == sum([each.usage.total_tokens or 0 for each in children])
