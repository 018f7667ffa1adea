"""Results of calls that are done while others of their turn run: they outlive a kill, with all that the calls changed."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import understudy as us
from tests.support.journal_lines import EARLY, events_in, is_early, results_in
from tests.support.killing import Effects, killed
from tests.support.scripts import WAIT, eventually, finished, needs_approval
from understudy.actors.runs import run_actor
from understudy.actors.stores.runs import Claim, RunRow, RunTable
from understudy.errors import LeaseLost, StoreError
from understudy.orchestration.journal.rows import LINE
from understudy.orchestration.runs.events import Changes, ResultCame, SessionChanged
from understudy.testing import calls, says

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed after a fork")


class Shop:
    """A store in a file, and tools whose calls are known by their words."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "runs.db"
        self.effects = Effects(folder / "effects")
        self.is_deadly = True

    def system(self, store_patience: float = WAIT) -> us.ActorSystem:
        return us.ActorSystem("shop", store=f"sqlite:///{self.file}", store_patience=store_patience)

    def has_results(self, ids: Iterable[str]) -> bool:
        with sqlite3.connect(self.file) as database:
            rows = database.execute(EARLY).fetchall()
        return {came.result.call_id for came in results_in(body for (body,) in rows)} >= set(ids)

    def until_written(self, *ids: str) -> None:
        """Wait until calls have results in the store, if this process is the one that dies."""
        if self.is_deadly:
            eventually(lambda: self.has_results(ids), f"results of {ids} are written")

    def die(self) -> None:
        """Die, or go on in the process that takes the run over."""
        if self.is_deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def hang(self) -> None:
        """Be under way until the process dies."""
        if self.is_deadly:
            threading.Event().wait()

    def tool(self, act: Callable[[us.ToolContext, str], str], *, idempotent: bool) -> us.Tool[..., object]:
        def noted(ctx: us.ToolContext, word: str) -> str:
            """Act."""
            self.effects.note(word)
            return act(ctx, word)

        return us.tool(name="act", idempotent=idempotent, max_result=100)(noted)

    def left(self, agent: us.Agent) -> us.Outcome[object]:
        """Have a process die in a run, and go on with the run in this one."""
        assert killed(lambda: agent.run("go", system=self.system()))
        self.is_deadly = False
        (handle,) = self.system().recover(runners=[agent])
        return handle.result(timeout=WAIT)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def agent_with(tool: us.Tool[..., object], words: Sequence[str], limit: int | None = None) -> us.Agent:
    """Return an agent that calls a tool with all words in one turn, and says what it was told."""

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        told = request.messages[-1].tool_results
        if told:
            return says("; ".join([result.content[:20] for result in told]))
        return us.ModelTurn(tuple([us.ToolCall(word, "act", {"word": word}) for word in words]))

    return us.Agent("clerk", model=us.FunctionModel(next_turn), tools=[tool], max_parallel_calls=limit)


def first_is_done(shop: Shop) -> Callable[[us.ToolContext, str], str]:
    def act(ctx: us.ToolContext, word: str) -> str:
        if word == "a":
            ctx.session["app:shelf"] = "B-7"
            ctx.session["temp:hand"] = "left"
            return "a" * 500
        if word == "d":
            shop.until_written("a")
            eventually(lambda: set(shop.effects.noted) == {*"abcd"}, "all calls have begun")
            shop.die()
        shop.hang()
        return f"did {word}"

    return act


def test_only_the_calls_under_way_are_in_doubt(shop: Shop) -> None:
    agent = agent_with(shop.tool(first_is_done(shop), idempotent=False), "abcd")

    waits = needs_approval(shop.left(agent))

    assert [call for pause in waits.pauses for call in pause.in_doubt] == ["b", "c", "d"]
    assert waits.session == {"app:shelf": "B-7"}
    assert [(each.call_id, each.text) for each in waits.artifacts.values()] == [("a", "a" * 500)]
    answers = {call: us.Approve() for call in "bcd"}
    approved = finished(agent.resume(waits.token, answers, system=shop.system()))
    assert approved.text.endswith("did b; did c; did d")
    assert Counter(shop.effects.noted) == {"a": 1, "b": 2, "c": 2, "d": 2}


def test_only_the_calls_under_way_are_made_again(shop: Shop) -> None:
    agent = agent_with(shop.tool(first_is_done(shop), idempotent=True), "abcd")

    outcome = finished(shop.left(agent))

    assert outcome.text.endswith("did b; did c; did d")
    assert Counter(shop.effects.noted) == {"a": 1, "b": 2, "c": 2, "d": 2}
    assert outcome.session == {"app:shelf": "B-7"}
    later = us.Agent("other", model=us.ScriptedModel([says("hello")]))
    assert finished(later.run("go", system=shop.system())).session == {"app:shelf": "B-7"}


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_call_that_gets_the_place_of_another_one_begins_when_that_one_is_written(
    shop: Shop, idempotent: bool
) -> None:
    def act(ctx: us.ToolContext, word: str) -> str:
        if word == "c":
            shop.die()
        if word == "b":
            shop.hang()
        return f"did {word}"

    outcome = shop.left(agent_with(shop.tool(act, idempotent=idempotent), "abc", limit=2))

    if idempotent:
        assert finished(outcome).text == "did a; did b; did c"
    else:
        assert needs_approval(outcome).pauses[0].in_doubt == ("b", "c")
    assert shop.effects.noted.count("a") == 1


def test_changes_of_the_session_are_kept_in_the_order_of_the_calls(shop: Shop) -> None:
    def act(ctx: us.ToolContext, word: str) -> str:
        if word == "a":
            shop.until_written("b")
            ctx.session["app:last"] = word
            ctx.session["app:gone"] = word
        elif word == "b":
            ctx.session["app:last"] = word
            ctx.session["app:gone"] = word
            del ctx.session["app:gone"]
        else:
            shop.until_written("a", "b")
            shop.die()
        return f"did {word}"

    outcome = finished(shop.left(agent_with(shop.tool(act, idempotent=True), "abc")))

    assert outcome.session == {"app:last": "b"}
    assert Counter(shop.effects.noted) == {"a": 1, "b": 1, "c": 2}


def test_what_a_sub_agents_call_changed_is_kept(shop: Shop) -> None:
    agent = agent_with(shop.tool(first_is_done(shop), idempotent=True), "abcd")

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        asks = us.ModelTurn((us.ToolCall("s", "clerk", {"input": "go"}),))
        return says("done") if request.messages[-1].tool_results else asks

    lead = us.Agent("lead", model=us.FunctionModel(next_turn), sub_agents=[agent])

    outcome = finished(shop.left(lead))

    assert outcome.session == {"app:shelf": "B-7"}
    assert Counter(shop.effects.noted) == {"a": 1, "b": 2, "c": 2, "d": 2}


def test_what_a_sub_agents_last_turn_spent_is_kept(shop: Shop) -> None:
    def inner_turn(request: us.ModelRequest) -> us.ModelTurn:
        if request.messages[-1].text == "b":
            shop.until_written("a")
            shop.die()
        return replace(says("done"), usage=us.Usage(1, 0))

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        asks = us.ModelTurn(tuple([us.ToolCall(word, "clerk", {"input": word}) for word in "ab"]))
        return replace(says("done") if request.messages[-1].tool_results else asks, usage=us.Usage(100, 0))

    clerk = us.Agent("clerk", model=us.FunctionModel(inner_turn))
    lead = us.Agent("lead", model=us.FunctionModel(next_turn), sub_agents=[clerk])

    assert finished(shop.left(lead)).usage == us.Usage(202, 0)


def test_that_a_lone_call_took_too_long_is_written_before_callbacks_see_it(shop: Shop) -> None:
    class Deadly(us.AgentCallback):
        def after_tool_call(self, ctx: us.RunContext, call: us.ToolCall, result: us.ToolResult) -> None:
            shop.die()

    @us.tool(timeout=0.05)
    def act() -> str:
        """Act."""
        shop.effects.note("act")
        threading.Event().wait()
        raise NotImplementedError

    model = us.FunctionModel(lambda request: calls("act") if request.turn == 1 else says("done"))

    outcome = finished(shop.left(us.Agent("clerk", model=model, tools=[act], callbacks=[Deadly()])))

    assert (outcome.text, shop.effects.noted) == ("done", ["act"])


class Commits:
    """The rows that runs write; what `fault` says comes of the writing of an early result."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fault: Callable[[], bool] = lambda: True) -> None:
        self.rows: list[RunRow] = []
        self.written = threading.Event()
        commit = RunTable.commit

        def noted(
            table: RunTable,
            claim: Claim,
            rows: Sequence[RunRow],
            drop: Iterable[str] = (),
        ) -> bool:
            early = any(row.kind == LINE and is_early(row.body) for row in rows)
            if early and not fault():
                return False
            done = commit(table, claim, rows, drop)
            self.rows += rows
            if early:
                self.written.set()
            return done

        monkeypatch.setattr(RunTable, "commit", noted)

    def results(self) -> list[ResultCame]:
        return results_in(self.lines())

    def lines(self) -> list[str]:
        return [row.body for row in self.rows if row.kind == LINE]


def waiting_for(commits: Commits) -> Callable[[us.ToolContext, str], str]:
    def act(ctx: us.ToolContext, word: str) -> str:
        ctx.session[word] = True
        assert word == "a" or commits.written.wait(WAIT)
        return f"did {word}"

    return act


def test_each_result_is_written_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = Commits(monkeypatch)
    agent = agent_with(shop.tool(waiting_for(commits), idempotent=False), "ab")

    outcome = finished(agent.run("go", system=shop.system()))

    assert outcome.text == "did a; did b"
    assert outcome.session == {"a": True, "b": True}
    (early, last) = commits.results()
    assert [early.result.call_id, last.result.call_id] == ["a", "b"]
    assert (early.changes, last.changes) == (Changes({"a": True}), None)
    told = [each for each in events_in(commits.lines()) if isinstance(each, SessionChanged)]
    assert told == [SessionChanged(Changes({"b": True}))]


def test_a_step_writes_the_keys_that_it_changed_and_not_the_whole_session(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(ctx: us.ToolContext, word: str) -> str:
        ctx.session["words"] = word
        return word

    commits = Commits(monkeypatch)
    model = us.ScriptedModel([*[calls("act", word=word) for word in "abc"], says("done")])
    agent = us.Agent("clerk", model=model, tools=[shop.tool(act, idempotent=False)])

    agent.run("go", session={"book": "x" * 50_000, "temp:book": "x" * 50_000}, system=shop.system())

    assert len([row for row in commits.rows if len(row.body) > 40_000]) == 1
    told = [each.changes for each in events_in(commits.lines()) if isinstance(each, SessionChanged)]
    assert told == [Changes({"words": word}) for word in "abc"]


@pytest.mark.parametrize("error", [StoreError("the disk is full"), None])
def test_a_result_that_cannot_be_written_ends_the_run_which_stays_where_it_was(
    error: StoreError | None, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def fault() -> bool:
        if error is not None:
            raise error
        return False

    def act(ctx: us.ToolContext, word: str) -> str:
        assert word == "a" or over.wait(WAIT)
        return f"did {word}"

    agent = agent_with(shop.tool(act, idempotent=True), "ab")
    with monkeypatch.context() as patch:
        Commits(patch, fault)
        with pytest.raises(LeaseLost if error is None else StoreError):
            agent.run("go", system=shop.system(store_patience=0.0))
    over.set()

    if error is not None:
        (handle,) = shop.system().recover(runners=[agent])
        assert finished(handle.result(timeout=WAIT)).text == "did a; did b"


@pytest.mark.parametrize("error", [KeyError("a fault of the runtime's own"), SystemExit("a serializer of a user's")])
def test_whatever_else_fails_when_a_result_is_written_the_run_hears_of_the_call(
    error: BaseException, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()

    def fail(*_: object) -> None:
        tried.set()
        raise error

    monkeypatch.setattr(run_actor, "write_result", fail)
    agent = agent_with(
        shop.tool(lambda ctx, word: f"did {word}" * (word == "a" or tried.wait(WAIT)), idempotent=True), "ab"
    )

    outcome = finished(agent.submit("go", system=shop.system()).result(timeout=WAIT))

    assert outcome.text == "did a; did b"


def test_a_result_that_comes_when_the_run_is_over_is_not_written(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = Commits(monkeypatch)
    began, back = threading.Barrier(3), threading.Event()

    def act(ctx: us.ToolContext, word: str) -> str:
        began.wait(WAIT)
        assert back.wait(WAIT)
        return f"did {word}"

    with shop.system() as system:
        handle = agent_with(shop.tool(act, idempotent=False), "ab").submit("go", system=system)
        began.wait(WAIT)
        handle.cancel()
        with pytest.raises(us.RunCancelled):
            handle.result(timeout=WAIT)
        back.set()

    assert commits.results() == []


def test_without_a_journal_nothing_is_written(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = Commits(monkeypatch)
    system = us.ActorSystem("shop", store=f"sqlite:///{shop.file}", journal=False)
    agent = agent_with(shop.tool(lambda ctx, word: f"did {word}", idempotent=False), "abcd")

    finished(agent.run("go", system=system))

    assert commits.rows == []
