"""Runs whose session values the system's store keeps: what they begin with, what they leave, and what is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest

import understudy as us
from tests.hosts.forking import in_child
from tests.support.scripts import WAIT, eventually, finished, paused
from tests.support.stores import DictStore
from understudy.actors.run_view.log import Overwritten
from understudy.actors.stores import sessions_in_memory
from understudy.actors.stores.sessions import AlsoNote, SessionChange, SessionCommit, StoredValue
from understudy.actors.stores.sessions_in_memory import SessionsInMemory
from understudy.actors.stores.store import Store
from understudy.actors.system.actor_system import runs_of
from understudy.orchestration.definitions.port import RunOptions
from understudy.testing import FunctionModel, ScriptedModel, calls, says
from understudy.vocabulary.context.session_values import SessionOwner

Do = Callable[[us.ToolContext], object]


def store_of(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return cast(str, request.getfixturevalue("postgres_url"))
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/shop.db"


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[us.ActorSystem]:
    store = store_of(request, tmp_path)
    with us.ActorSystem("shop", store=store) as system:
        yield system


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[us.ActorSystem, us.ActorSystem]]:
    """Return the system where a run pauses, and the one where it goes on."""
    if request.param == "memory":
        with us.ActorSystem("shop") as only:
            yield only, only
    else:
        url = store_of(request, tmp_path)
        with us.ActorSystem("shop", store=url) as one, us.ActorSystem("shop", store=url) as other:
            yield one, other


class Doubtful(SessionsInMemory):
    """`Sessions` that block, and fail if they are told to."""

    is_quick = False

    def __init__(self) -> None:
        super().__init__()
        self.has_values = True
        self.on_call: Callable[[str], object] = lambda _: None

    def __repr__(self) -> str:
        return "doubtful"

    def load(self, owners: Sequence[SessionOwner]) -> dict[str, StoredValue]:
        self.on_call("load")
        return super().load(owners)

    def commit(
        self, run_id: str, changes: Sequence[SessionChange], *, yields: bool = False, also: AlsoNote | None = None
    ) -> Sequence[SessionCommit]:
        self.on_call("commit")
        return super().commit(run_id, changes, yields=yields, also=also)


@pytest.fixture
def doubtful() -> Doubtful:
    return Doubtful()


@pytest.fixture
def doubted(doubtful: Doubtful) -> Iterator[us.ActorSystem]:
    store = Store()
    store.sessions = doubtful
    with us.ActorSystem("shop", store=store) as system:
        yield system


def fails_at(call: str) -> Callable[[str], None]:
    def fail(called: str) -> None:
        if called == call:
            raise us.StoreError("the disk is full", store="doubtful")

    return fail


def clerk(do: Do, *, id: str = "clerk", then: str = "ok") -> us.Agent:
    """Make an agent whose run does something with its session."""

    def work(ctx: us.ToolContext) -> str:
        do(ctx)
        return "done"

    model = FunctionModel(lambda request: says(then) if request.messages[-1].tool_results else calls("work"))
    return us.Agent(id, model=model, tools=[work])


def puts(**values: us.JsonValue) -> us.Agent:
    return clerk(lambda ctx: ctx.session.update({key.replace("__", ":"): value for key, value in values.items()}))


def asker(do: Do) -> us.Agent:
    """Make an agent whose run does something, asks, and does it again."""

    def work(ctx: us.ToolContext) -> str:
        do(ctx)
        return "done"

    turns = [calls("work"), calls("pay"), calls("work"), says("ok")]
    return us.Agent("asker", model=ScriptedModel(turns), tools=[work, us.tool(approval=True)(pay)])


def pay() -> str:
    return "paid"


def seen(system: us.ActorSystem, user: str | None = "ada", conversation: str | None = "c-1") -> dict[str, us.JsonValue]:
    """Return what a run begins with."""
    reader = us.Agent("reader", model=FunctionModel(lambda request: says("ok")))
    return dict(reader.run("go", system=system, user_id=user, conversation_id=conversation).session)


def run(
    agent: us.Agent,
    system: us.ActorSystem,
    session: us.SessionState | None = None,
    during: Callable[[], object] = lambda: None,
) -> list[us.Event]:
    """Run in ada's first conversation, and return the events."""
    handle = agent.submit("go", system=system, user_id="ada", conversation_id="c-1", session=session)
    during()
    return list(handle.events())


def overwritten(events: list[us.Event]) -> list[tuple[tuple[str, ...], str]]:
    return [(each.keys, each.other_run_id) for each in events if isinstance(each, us.SessionOverwritten)]


def put_beside(system: us.ActorSystem, **values: us.JsonValue) -> str:
    """Have another run put values, and return its id."""
    return puts(**values).run("go", system=system, user_id="ada", conversation_id="c-1").run_id


# --- who sees what


def test_a_value_is_seen_by_those_whom_its_key_names(shop: us.ActorSystem) -> None:
    run(puts(app__rate=2, user__name="Ada", n=1, temp__x=1), shop)

    assert seen(shop) == {"app:rate": 2, "user:name": "Ada", "n": 1}
    assert seen(shop, conversation="c-2") == {"app:rate": 2, "user:name": "Ada"}
    assert seen(shop, user="bob") == {"app:rate": 2}
    assert seen(shop, conversation=None) == {"app:rate": 2, "user:name": "Ada"}


def test_a_run_without_a_conversation_keeps_no_plain_key_and_one_without_a_user_is_the_default_user_s(
    shop: us.ActorSystem,
) -> None:
    puts(n=1, user__name="Ada").run("go", system=shop)

    assert seen(shop, user=None) == seen(shop, user="default") == {"user:name": "Ada"}


def test_systems_of_other_names_have_values_of_their_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with us.ActorSystem("shop", store=url) as shop, us.ActorSystem("bank", store=url) as bank:
        run(puts(app__rate=2, user__name="Ada", n=1), shop)

        assert seen(bank) == {}


def test_a_removed_key_is_gone_for_the_next_run(shop: us.ActorSystem) -> None:
    run(puts(n=1, m=2), shop)
    run(clerk(lambda ctx: ctx.session.pop("n")), shop)

    assert seen(shop) == {"m": 2}


def test_prompts_and_callbacks_see_what_the_store_has(shop: us.ActorSystem) -> None:
    run(puts(user__name="Ada"), shop)
    model = ScriptedModel([says("ok")])
    agent = us.Agent("clerk", model=model, system_prompt=lambda ctx: f"For {ctx.session['user:name']}")

    agent.run("go", system=shop, user_id="ada")

    assert model.requests[0].system == "For Ada"


def test_what_the_caller_gives_stands_above_the_store_and_is_not_stored(shop: us.ActorSystem) -> None:
    run(puts(n=1, m=1), shop)
    found = dict[str, us.JsonValue]()

    run(clerk(lambda ctx: found.update(ctx.session)), shop, us.SessionState({"n": 5, "o": 5}))

    assert found == {"n": 5, "m": 1, "o": 5}
    assert seen(shop) == {"n": 1, "m": 1}


def test_a_run_inside_of_a_tool_has_the_values_too_and_those_of_a_group_share_its_session(shop: us.ActorSystem) -> None:
    run(puts(app__n=1), shop)
    found = list[dict[str, us.JsonValue]]()
    keep = clerk(lambda ctx: found.append(dict(ctx.session)), id="inner")
    outer = clerk(lambda ctx: keep.run("go"), id="outer")
    first = clerk(lambda ctx: ctx.session.update({"app:n": 2, "n": 2}), id="first")
    group = us.SequentialAgent("group", [first, keep])

    outer.run("go", system=shop)
    group.run("go", system=shop, conversation_id="c-1")

    assert found == [{"app:n": 1}, {"app:n": 2, "n": 2}]
    assert seen(shop, user=None) == {"app:n": 2, "n": 2}


# --- when it is stored


def test_values_are_there_when_the_run_is_over_or_pauses_or_fails(shop: us.ActorSystem) -> None:
    count: Do = lambda ctx: ctx.session.update(n=cast(int, ctx.session.get("n", 0)) + 1)
    agent = asker(count)

    waiting = paused(agent.run("go", system=shop, user_id="ada", conversation_id="c-1"))
    at_the_pause = seen(shop)
    agent.resume(waiting.token, us.Approve(), system=shop)
    at_the_end = seen(shop)
    with pytest.raises(us.ProviderError):
        failing = us.Agent(
            "failing", model=ScriptedModel([calls("work"), us.ProviderError("no")]), tools=[work_of(count)]
        )
        failing.run("go", system=shop, user_id="ada", conversation_id="c-1")

    assert [at_the_pause, at_the_end, seen(shop)] == [{"n": 1}, {"n": 2}, {"n": 3}]


def work_of(do: Do) -> Callable[[us.ToolContext], str]:
    def work(ctx: us.ToolContext) -> str:
        do(ctx)
        return "done"

    return work


def test_a_limit_and_a_cancelled_run_leave_their_values_too(shop: us.ActorSystem) -> None:
    limited = us.Agent("limited", model=FunctionModel(lambda _: calls("work")), tools=[work_of(lambda ctx: ctx.session.update(n=1))], max_iterations=1)  # fmt: skip
    begun, worked, hold = threading.Event(), threading.Event(), threading.Event()

    def hang(request: object) -> us.ModelTurn:
        if not begun.is_set():
            begun.set()
            return calls("work")
        worked.set()
        hold.wait(WAIT)
        return says("late")

    with pytest.raises(us.MaxIterationsExceeded):
        limited.run("go", system=shop, user_id="ada", conversation_id="c-1")
    cancelled = us.Agent("slow", model=FunctionModel(hang), tools=[work_of(lambda ctx: ctx.session.update(m=1))])
    handle = cancelled.submit("go", system=shop, user_id="ada", conversation_id="c-1")
    assert worked.wait(WAIT)
    handle.cancel()
    hold.set()

    eventually(lambda: seen(shop) == {"n": 1, "m": 1}, "the values are stored")


# --- two runs at once


def test_a_run_that_replaces_a_value_unseen_says_so_once_for_each_run_that_was_first(shop: us.ActorSystem) -> None:
    first = list[str]()

    def work(ctx: us.ToolContext) -> None:
        first.extend([put_beside(shop, n=1, m=1), put_beside(shop, o=1)])
        ctx.session.update(n=2, m=2, o=2, p=2)

    events = run(clerk(work), shop)

    assert overwritten(events) == [(("m", "n"), first[0]), (("o",), first[1])]
    assert isinstance(events[-1], us.RunFinished)
    assert seen(shop) == {"n": 2, "m": 2, "o": 2, "p": 2}


def test_equal_and_untouched_values_overwrite_nobody(shop: us.ActorSystem) -> None:
    def work(ctx: us.ToolContext) -> None:
        put_beside(shop, n=2, m=1)
        ctx.session["n"] = 2

    assert overwritten(run(clerk(work), shop)) == []
    assert seen(shop) == {"n": 2, "m": 1}


def test_a_stored_value_that_the_caller_s_hid_was_not_seen(shop: us.ActorSystem) -> None:
    first = put_beside(shop, n=1, m=1)

    events = run(puts(n=2, m=2), shop, us.SessionState({"n": 7, "m": 1}))

    assert overwritten(events) == [(("n",), first)]


def test_a_run_that_goes_on_keeps_its_view_and_is_told_at_its_commit(
    elsewhere: tuple[us.ActorSystem, us.ActorSystem],
) -> None:
    here, there = elsewhere
    found = list[dict[str, us.JsonValue]]()

    def work(ctx: us.ToolContext) -> None:
        found.append(dict(ctx.session))
        ctx.session["n"] = len(found)

    put_beside(here, n=0, m=0)
    agent = asker(work)
    waiting = paused(agent.run("go", system=here, user_id="ada", conversation_id="c-1"))
    other = put_beside(there, n=7, m=7)
    events = list(agent.submit_resume(waiting.token, us.Approve(), system=there).events())

    assert found == [{"n": 0, "m": 0}, {"n": 1, "m": 0}]
    assert overwritten(events) == [(("n",), other)]
    assert seen(there) == {"n": 2, "m": 7}


def test_a_run_that_goes_on_alone_overwrites_nobody(elsewhere: tuple[us.ActorSystem, us.ActorSystem]) -> None:
    here, there = elsewhere
    agent = asker(lambda ctx: ctx.session.update(n=cast(int, ctx.session.get("n", 0)) + 1))
    waiting = paused(agent.run("go", system=here, user_id="ada", conversation_id="c-1"))

    assert overwritten(list(agent.submit_resume(waiting.token, us.Approve(), system=there).events())) == []
    assert seen(there) == {"n": 2}


# --- resume(session=)


def test_values_given_at_a_resume_stand_above_those_of_the_run(
    elsewhere: tuple[us.ActorSystem, us.ActorSystem],
) -> None:
    here, there = elsewhere
    found = list[dict[str, us.JsonValue]]()

    def work(ctx: us.ToolContext) -> None:
        found.append(dict(ctx.session))
        ctx.session.update({"n": 1, "temp:x": 1} if len(found) == 1 else {"m": 1})

    given = us.SessionState({"n": 5, "temp:x": 5})
    agent = asker(work)
    waiting = paused(agent.run("go", system=here, session={"o": 1}))
    outcome = agent.resume(waiting.token, us.Approve(), system=there, session=given)

    assert found == [{"o": 1}, {"o": 1, "n": 5, "temp:x": 5}]
    assert outcome.session == {"o": 1, "n": 5, "m": 1}
    assert given == {"n": 5, "temp:x": 5, "m": 1}


def test_a_session_that_cannot_be_one_is_refused_before_the_token_is_used(shop: us.ActorSystem) -> None:
    agent = asker(lambda ctx: None)
    waiting = paused(agent.run("go", system=shop))

    with pytest.raises(TypeError, match="session must be a SessionState or a mapping, got int"):
        agent.resume(waiting.token, us.Approve(), system=shop, session=cast(us.SessionState, 3))
    with pytest.raises(ValueError, match="belong to the runtime"):
        agent.resume(waiting.token, us.Approve(), system=shop, session={"__x": 1})
    assert finished(agent.resume(waiting.token, us.Approve(), system=shop)).text == "ok"


# --- changes in place


def items(ctx: us.ToolContext | us.RunContext) -> list[us.JsonValue]:
    return cast("list[us.JsonValue]", ctx.session["items"])


def test_a_change_in_place_counts_if_the_call_succeeds(shop: us.ActorSystem) -> None:
    given = us.SessionState({"items": [1], "other": [1]})

    def work(ctx: us.ToolContext) -> None:
        for number in (2, 3):
            items(ctx).append(number)
        assert ctx.session["other"] == [1]

    run(clerk(work), shop, given)

    assert given == {"items": [1, 2, 3], "other": [1]}
    assert seen(shop) == {"items": [1, 2, 3]}


def test_a_change_in_place_of_a_call_that_fails_leaves_nothing(shop: us.ActorSystem) -> None:
    run(puts(items=[1]), shop)
    given = us.SessionState({"mine": {"a": [1]}})

    def fail(ctx: us.ToolContext) -> None:
        items(ctx).append(2)
        cast("dict[str, list[int]]", ctx.session["mine"])["a"].append(2)
        raise ValueError("no")

    run(clerk(fail), shop, given)

    assert given == {"mine": {"a": [1]}}
    assert seen(shop) == {"items": [1]}


def test_what_a_tool_keeps_in_hand_after_its_call_changes_nothing(shop: us.ActorSystem) -> None:
    kept: list[us.JsonValue] = [1]
    outcomes = list[us.Outcome[str]]()
    agent = clerk(lambda ctx: ctx.session.update(items=kept))

    outcomes.append(agent.run("go", system=shop, conversation_id="c-1", user_id="ada"))
    kept.append(2)
    cast("list[us.JsonValue]", outcomes[0].session["items"]).append(3)

    assert seen(shop) == {"items": [1]}


def test_a_callback_and_a_rule_change_in_place_as_a_tool_does(shop: us.ActorSystem) -> None:
    class Counting(us.AgentCallback):
        def before_model_call(self, ctx: us.RunContext, request: us.ModelRequest) -> us.CallbackAction:
            items(ctx).append("callback")
            return us.Continue()

    def prompt(ctx: us.RunContext) -> str:
        items(ctx).append("prompt")
        return ""

    def is_done(ctx: us.RunContext, text: str) -> bool:
        items(ctx).append("criterion")
        return True

    agent = us.Agent(
        "clerk", model=ScriptedModel([says("ok")]), callbacks=[Counting()], system_prompt=prompt, criteria=[is_done]
    )
    given = us.SessionState({"items": []})
    agent.run("go", system=shop, session=given)

    assert given == {"items": ["prompt", "callback", "criterion"]}


def test_parallel_children_do_not_see_one_another_s_changes_in_place(shop: us.ActorSystem) -> None:
    given = us.SessionState({"items": []})

    def append(number: int, ctx: us.ToolContext) -> None:
        items(ctx).append(number)

    children = [clerk(partial(append, number), id=f"child{number}") for number in range(2)]
    us.ParallelAgent("group", children).run("go", system=shop, session=given)

    assert given == {"items": [1]}


# --- calls and runs inside of one run, at the same time


def adder(*, together: bool, approval: bool = False) -> us.Agent:
    """Make an agent that puts its input into the cart; two runs of it read the cart before one of them writes it."""
    both = threading.Barrier(2)

    def add(ctx: us.ToolContext, item: str) -> str:
        cart = ctx.session.setdefault("cart", [])
        assert isinstance(cart, list)
        if together:
            both.wait(WAIT)
        cart.append(item.split()[-1])  # of a task that depends on others, the end of its prompt
        return "added"

    def model(request: us.ModelRequest) -> us.ModelTurn:
        made = len(request.messages) // 2
        wanted = [calls("add", item=request.messages[0].text), *([calls("pay")] if approval else []), says("ok")]
        return wanted[made]

    return us.Agent("adder", model=FunctionModel(model), tools=[add, us.tool(approval=True)(pay)])


def two_calls(name: str, argument: str) -> us.ScriptedModel:
    return ScriptedModel([calls(name, **{argument: "tea"}) + calls(name, **{argument: "cake"}), says("ok")])


def together(kind: str, *, overlap: bool = True) -> us.Agent | us.Workflow | us.ParallelAgent:
    one = adder(together=overlap)
    if kind == "calls":
        return us.Agent(
            "lead", model=two_calls("add", "item"), tools=one.tools, max_parallel_calls=None if overlap else 1
        )
    if kind == "sub-agents":
        return us.Agent(
            "lead", model=two_calls("adder", "input"), sub_agents=[one], max_parallel_calls=None if overlap else 1
        )
    if kind == "tasks":
        after = [] if overlap else ["x"]
        return us.Workflow(
            "w", tasks=[us.Task("x", one, prompt="tea"), us.Task("y", one, prompt="cake", dependencies=after)]
        )
    task = us.Task("each", one, prompt="${item}", for_each="${list}", dependencies=["list"])
    listed = us.Task("list", us.Agent("lister", model=FunctionModel(lambda request: says('["tea", "cake"]'))))
    return us.Workflow("w", tasks=[listed, task], max_parallel=None if overlap else 1)


KINDS = ["calls", "sub-agents", "tasks", "items"]


def in_conflict(events: list[us.Event]) -> list[tuple[str, ...]]:
    return [each.keys for each in events if isinstance(each, us.SessionConflict)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_that_another_one_of_the_same_run_replaces_unseen_is_told_once(kind: str) -> None:
    given = us.SessionState({"cart": ["start"], "other": 1})

    with us.ActorSystem("shop") as system:
        handle = together(kind).submit("go", session=given, system=system)
        told = in_conflict(list(handle.events(inner=True)))

    assert told == [("cart",)]
    assert len(cast("list[str]", given["cart"])) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_one_after_another_sees_what_those_before_changed_and_nothing_is_told(kind: str) -> None:
    given = us.SessionState({"cart": ["start"]})

    with us.ActorSystem("shop") as system:
        handle = together(kind, overlap=False).submit("go", session=given, system=system)
        told = in_conflict(list(handle.events(inner=True)))

    assert told == []
    assert given["cart"] == ["start", "tea", "cake"]


@pytest.mark.parametrize("kind", ["sub-agents", "tasks"])
def test_a_run_inside_that_paused_replaces_what_others_changed_meanwhile_and_says_so(
    kind: str, elsewhere: tuple[us.ActorSystem, us.ActorSystem]
) -> None:
    one, other = elsewhere
    slow, quick = adder(together=False, approval=True), adder(together=False).replace(id="quick")
    runner: us.Agent | us.Workflow
    if kind == "sub-agents":
        both = calls("adder", input="tea") + calls("quick", input="cake")
        runner = us.Agent("lead", model=ScriptedModel([both, says("ok")]), sub_agents=[slow, quick])
    else:
        runner = us.Workflow("w", tasks=[us.Task("x", slow, prompt="tea"), us.Task("y", quick, prompt="cake")])
    given: dict[str, us.JsonValue] = {"cart": ["start"]}

    outcome = paused(runner.run("go", session=given, system=one))
    assert outcome.session["cart"] == ["start", "cake"]
    handle = runner.submit_resume(outcome.token, us.Approve(), system=other)

    assert in_conflict(list(handle.events(inner=True))) == [("cart",)]
    assert handle.result(WAIT).session["cart"] == ["start", "tea"]


# --- a store that fails


def test_a_run_that_cannot_have_its_values_fails_before_any_model_call(
    doubted: us.ActorSystem, doubtful: Doubtful
) -> None:
    doubtful.on_call = fails_at("load")
    model = ScriptedModel([says("ok"), says("ok")])
    agent = us.Agent("clerk", model=model)

    for runner in (agent, us.SequentialAgent("group", [agent])):
        with pytest.raises(us.StoreError, match="cannot have the values of its session: the disk is full"):
            runner.run("go", system=doubted)
    assert model.requests == []


def test_an_outcome_is_not_lost_with_values_that_cannot_be_stored(doubted: us.ActorSystem, doubtful: Doubtful) -> None:
    doubtful.on_call = fails_at("commit")
    given = us.SessionState()

    events = run(puts(n=1, user__m=1), doubted, given)

    assert [each.keys for each in events if isinstance(each, us.SessionNotSaved)] == [("n", "user:m")]
    last = events[-1]
    assert isinstance(last, us.RunFinished)
    assert given == last.outcome.session == {"n": 1, "user:m": 1}


def test_values_that_could_not_be_stored_at_a_pause_are_stored_later(
    doubted: us.ActorSystem, doubtful: Doubtful
) -> None:
    doubtful.on_call = fails_at("commit")
    agent = asker(lambda ctx: ctx.session.get("n") or ctx.session.update(n=1))
    waiting = paused(agent.run("go", system=doubted, user_id="ada", conversation_id="c-1"))
    doubtful.on_call = lambda _: None

    agent.resume(waiting.token, us.Approve(), system=doubted)

    assert seen(doubted) == {"n": 1}


def test_a_value_that_json_cannot_carry_keeps_no_other_from_the_store(doubted: us.ActorSystem) -> None:
    events = run(puts(n=1, m=cast(us.JsonValue, {1})), doubted)

    (told,) = [each for each in events if isinstance(each, us.SessionNotSaved)]
    assert (told.keys, str(told.error)) == (
        ("m",),
        f"run {told.run_id}: session['m'] is of type set, which JSON cannot carry",
    )
    assert seen(doubted) == {"n": 1}


@pytest.mark.parametrize("call", ["load", "commit"])
def test_a_run_is_cancelled_at_once_while_the_store_hangs(
    doubted: us.ActorSystem, doubtful: Doubtful, call: str
) -> None:
    hangs, hold = threading.Event(), threading.Event()

    def hang(called: str) -> None:
        if called == call:
            hangs.set()
            hold.wait(WAIT)

    doubtful.on_call = hang
    handle = puts(user__n=1).submit("go", system=doubted)
    assert hangs.wait(WAIT)
    handle.cancel()

    with pytest.raises(us.RunCancelled):
        handle.result(timeout=WAIT / 2)
    hold.set()


def test_a_run_that_was_cancelled_leaves_what_others_changed_meanwhile(
    doubted: us.ActorSystem, doubtful: Doubtful
) -> None:
    begun, hold = threading.Event(), threading.Event()

    def hang(request: us.ModelRequest) -> us.ModelTurn:
        if not request.messages[-1].tool_results:
            return calls("work")
        begun.set()
        hold.wait(WAIT)
        return says("late")

    agent = us.Agent("slow", model=FunctionModel(hang), tools=[work_of(lambda ctx: ctx.session.update(n=1, m=1))])
    handle = agent.submit("go", system=doubted, user_id="ada", conversation_id="c-1")
    assert begun.wait(WAIT)
    put_beside(doubted, n=2)
    handle.cancel()
    hold.set()

    eventually(lambda: seen(doubted) == {"n": 2, "m": 1}, "the values are stored")


def test_a_system_that_stops_waits_until_the_values_of_the_runs_it_cancels_are_stored(tmp_path: Path) -> None:
    url, begun, hold = f"sqlite:///{tmp_path}/shop.db", threading.Event(), threading.Event()

    def hang(request: us.ModelRequest) -> us.ModelTurn:
        if not request.messages[-1].tool_results:
            return calls("work")
        begun.set()
        hold.wait(WAIT)
        return says("late")

    agent = us.Agent("slow", model=FunctionModel(hang), tools=[work_of(lambda ctx: ctx.session.update(n=1))])
    shop = us.ActorSystem("shop", store=url)
    agent.submit("go", system=shop, user_id="ada", conversation_id="c-1")
    assert begun.wait(WAIT)
    shop.stop(0.0)
    hold.set()

    with us.ActorSystem("shop", store=url) as later:
        assert seen(later) == {"n": 1}


def test_a_run_that_was_saved_before_there_were_versions_goes_on(tmp_path: Path) -> None:
    store = DictStore()
    with us.ActorSystem("shop", store=store) as shop:
        agent = asker(lambda ctx: ctx.session.update(n=cast(int, ctx.session.get("n", 0)) + 1))
        waiting = paused(agent.run("go", system=shop, conversation_id="c-1", user_id="ada"))
        (entry,) = store.runs.values()
        saved = json.loads(entry.payload)
        del saved["seen"], saved["unsaved"]
        store.runs[entry.run_id] = replace(entry, payload=json.dumps(saved))

        assert overwritten(list(agent.submit_resume(waiting.token, us.Approve(), system=shop).events())) == []
        assert seen(shop) == {"n": 2}


def test_a_forked_child_of_a_process_with_values_in_memory_can_use_them() -> None:
    sessions = SessionsInMemory()

    def use() -> None:
        change = SessionChange(SessionOwner("app", ("shop",)), "app:n", 1, False, 0)
        assert sessions.commit("r1", [change])[0].key == "app:n"

    with sessions_in_memory._lock:  # pyright: ignore[reportPrivateUsage]  # as another thread may have it at the fork
        in_child(use)


def test_a_map_leaves_the_mapping_that_it_was_given_as_it_is(shop: us.ActorSystem) -> None:
    given: dict[str, us.JsonValue] = {"n": 0}

    answers = list(puts(n=1).map(["a", "b"], session=given, system=shop))

    assert [each.outcome.session for each in answers] == [{"n": 1}, {"n": 1}]
    assert given == {"n": 0}


def test_a_value_that_yielded_is_stored_and_told_of_if_its_run_goes_on(doubted: us.ActorSystem) -> None:
    record = runs_of(doubted).prepare(puts(n=1), "go", RunOptions(user_id="ada", conversation_id="c-1"))
    other = put_beside(doubted, n=2)
    record.session["n"] = 1

    record.save_session(yields=True)
    left = seen(doubted)
    record.save_session()

    assert (left, seen(doubted)) == ({"n": 2}, {"n": 1})
    assert [fact for fact in record.log.facts if isinstance(fact, Overwritten)] == [Overwritten(("n",), other)]
