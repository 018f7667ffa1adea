"""Agents that were spawned: found by id, restarted when their own code fails, given up, and tried again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pydantic
import pytest

import understudy as us
from tests.support.scripts import WAIT, contents_of, eventually, finished
from understudy.actors.actor import actor_cell, lifecycle
from understudy.testing import FunctionModel, ScriptedModel, calls, says


class Renewed:
    """A model that counts how often it was to let go of what it holds."""

    def __init__(self, *turns: us.ModelTurn | Exception) -> None:
        self.turns = list(turns)
        self.renewals = 0

    def complete(self, request: us.ModelRequest) -> us.ModelTurn:
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return turn

    def renew(self) -> None:
        self.renewals += 1


def sick(failures: int, *, id: str = "clerk") -> us.Agent:
    """Make an agent whose prompt raises so often, over all its runs, and whose runs say "ok" otherwise."""
    left = [failures]

    def prompt(context: us.RunContext) -> str:
        if left[0]:
            left[0] -= 1
            raise LookupError(f"{left[0]} to come")
        return ""

    return us.Agent(id, model=FunctionModel(lambda request: says("ok")), system_prompt=prompt)


def figures(system: us.ActorSystem, address: str) -> us.ActorFigures:
    (found,) = [actor for actor in system.health().actors if actor.address == address]
    return found


# --- names


def test_a_spawned_agent_runs_by_its_reference_and_by_its_id(system: us.ActorSystem) -> None:
    ref = system.spawn(us.Agent("clerk", model=ScriptedModel([says("one"), says("two"), says("three")])))

    assert finished(ref.run("hi", user_id="ada", timeout=WAIT)).text == "one"
    assert finished(ref.submit("hi", conversation_id="c-42", timeout=WAIT).result(WAIT)).text == "two"
    assert finished(system.ref("clerk").run("hi")).text == "three"
    assert (ref.address, ref.is_alive(), system.ref("clerk") == ref) == ("shop/clerk", True, True)
    assert [actor.address for actor in system.health().actors] == ["shop/clerk"]


def test_a_paused_run_goes_on_by_the_reference(system: us.ActorSystem) -> None:
    ref = system.spawn(us.Agent("clerk", model=ScriptedModel([says("__ask_user__: Who?"), says("Hello Ada")])))

    outcome = ref.run("hi")

    assert isinstance(outcome, us.NeedsInput)
    assert finished(ref.resume(outcome.token, "Ada", timeout=WAIT)).text == "Hello Ada"


def test_an_equal_definition_is_the_same_agent_and_another_one_is_refused(system: us.ActorSystem) -> None:
    model = ScriptedModel([says("ok")])
    ref = system.spawn(us.Agent("clerk", model=model, system_prompt="Be brief."))

    again = us.Agent("clerk", model=model, system_prompt="Be brief.")
    assert system.spawn(again) == ref
    assert finished(again.run("hi", system=system)).text == "ok"
    assert figures(system, "shop/clerk").handled == 1  # the run: there is one cell
    with pytest.raises(ValueError, match="'clerk' already, and it is defined in another way"):
        system.spawn(us.Agent("clerk", model=model, system_prompt="Be long."))


def test_an_agent_and_an_actor_cannot_have_one_name(system: us.ActorSystem) -> None:
    system.spawn(us.Actor, name="clerk")

    with pytest.raises(ValueError, match="has an actor 'clerk' already"):
        system.spawn(sick(0))
    with pytest.raises(ValueError, match="has an actor 'clerk' already"):
        system.spawn(us.Agent("lead", model=ScriptedModel([]), sub_agents=[sick(0)]))
    with pytest.raises(ValueError, match="would have two actors 'clerk'"):
        system.spawn(us.Supervisor("desk", [sick(0)]))
    with pytest.raises(KeyError, match="no agent 'clerk'; it has: none"):
        system.ref("clerk")


def test_names_that_are_made_up_keep_clear_of_those_that_are_given(system: us.ActorSystem) -> None:
    system.spawn(us.Supervisor("desk", [us.Actor, us.Child(us.Actor, "actor-1")]))

    assert [a.address for a in system.health().actors] == ["shop/desk/actor-2", "shop/desk/actor-1"]


def test_the_messages_of_an_agent_are_inputs_and_nothing_else(system: us.ActorSystem) -> None:
    ref = system.spawn(sick(0))
    untyped: Any = ref

    for send in (untyped.tell, untyped.ask, untyped.ask_future):
        with pytest.raises(TypeError, match="input"):
            send(42)
    with pytest.raises(KeyError, match="no actor 'clerk'"):
        system.find("clerk")
    assert figures(system, "shop/clerk").failed == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"name": "other"}, "goes by its id"),
        ({"mailbox": us.Mailbox(3)}, "no mailbox"),
        ({"turn_timeout": 1.0}, "no turn_timeout"),
    ],
)
def test_an_agent_in_a_group_has_its_own_name_and_no_mailbox(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        us.Child(sick(0), **options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_an_agent_that_was_stopped_takes_no_more_runs_and_its_id_is_free(system: us.ActorSystem) -> None:
    agent = sick(0)
    ref = system.spawn(agent)
    assert ref.stop(timeout=WAIT)

    with pytest.raises(us.AgentDown, match="shop/clerk has stopped"):
        agent.run("hi", system=system)
    with pytest.raises(KeyError):
        system.ref("clerk")
    assert finished(system.spawn(agent).run("hi")).text == "ok"


def test_the_end_of_the_system_is_the_end_of_its_agents() -> None:
    with us.ActorSystem("shop") as system:
        ref = system.spawn(us.Supervisor("desk", [sick(0), sick(0, id="cashier")]))
        clerk = system.ref("clerk")
        lone = sick(0, id="lone")
        assert finished(lone.run("hi", system=system)).text == "ok"

    assert not clerk.is_alive()
    assert not ref.is_alive()
    for agent in (clerk.agent, lone):
        with pytest.raises(us.AgentDown, match="'shop' has stopped"):
            agent.run("hi", system=system)


@pytest.mark.parametrize("grouped", [False, True], ids=["alone", "in a group"])
def test_the_tree_shows_the_runs_of_an_agent_wherever_it_stands(system: us.ActorSystem, grouped: bool) -> None:
    entered, gate = threading.Event(), threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        entered.set()
        assert gate.wait(WAIT)
        return says("ok")

    agent = us.Agent("clerk", model=FunctionModel(answer))
    system.spawn(us.Supervisor("desk", [agent])) if grouped else system.spawn(agent)
    handle = system.ref("clerk").submit("hi")
    assert entered.wait(WAIT)
    lines, health = system.tree().splitlines(), system.health()
    gate.set()
    handle.result(WAIT)

    assert lines[2] == f"    {handle.run_id}: waiting for the model, turn 1"
    assert [run.run_id for run in health.runs] == [handle.run_id]


def test_who_is_refused_in_a_group_is_told_of_by_its_address(system: us.ActorSystem) -> None:
    heard: list[us.CircleRefused] = []
    system.subscribe(heard.append, us.CircleRefused)

    def again() -> str:
        return finished(system.ref("clerk").run("again")).text

    agent = us.Agent("clerk", model=ScriptedModel([calls("again"), says("ok")]), tools=[again])
    system.spawn(us.Supervisor("desk", [agent]))
    system.ref("clerk").run("go")
    system.stop()

    assert [event.address for event in heard] == ["shop/desk/clerk"]


# --- failing


def test_a_failing_agent_is_restarted_and_its_run_goes_on(system: us.ActorSystem) -> None:
    model = Renewed(says("ok"))
    failures = iter([LookupError("one"), LookupError("two")])

    def prompt(context: us.RunContext) -> str:
        for failure in failures:
            raise failure
        return ""

    ref = system.spawn(us.Agent("clerk", model=model, system_prompt=prompt))

    assert finished(ref.run("hi")).text == "ok"
    found = figures(system, "shop/clerk")
    assert (found.state, found.failed, found.restarts, model.renewals) == ("running", 2, 2, 2)


def test_others_of_its_group_are_restarted_with_it(system: us.ActorSystem) -> None:
    let_go: list[str] = []

    class Cache(us.Actor[str]):
        def before_restart(self, error: BaseException, message: object) -> None:
            let_go.append(type(error).__name__)

    sibling = Renewed(says("unharmed"))
    system.spawn(
        us.Supervisor(
            "desk",
            [us.Child(Cache, "cache"), sick(1), us.Agent("cashier", model=sibling)],
            strategy=us.OneForAll(),
        )
    )

    assert finished(system.ref("clerk").run("hi")).text == "ok"
    eventually(lambda: figures(system, "shop/desk/cashier").restarts == 1, "the last one of the group has begun again")
    assert let_go == ["LookupError"]
    assert sibling.renewals == 1
    assert finished(system.ref("cashier").run("hi")).text == "unharmed"


def test_an_agent_that_fails_too_often_is_given_up_and_says_why(system: us.ActorSystem) -> None:
    ref = system.spawn(sick(9), strategy=us.OneForOne(max_restarts=1, within=60))

    with pytest.raises(us.AgentCrashed):  # its three failures count once
        ref.run("hi")
    with pytest.raises(us.AgentDown, match="shop/clerk failed too often.*LookupError: 5 to come") as caught:
        ref.run("hi")
    with pytest.raises(us.AgentDown):
        ref.run("again")

    assert isinstance(caught.value.__cause__, LookupError)
    assert not ref.is_alive()
    assert "shop/clerk" in system.health().advice


def fails_for_want_of_deps(**definition: Any) -> us.Agent:
    """Make an agent whose prompt needs the caller's `deps`."""

    def prompt(context: us.RunContext) -> str:
        deps: Any = context.deps
        return f"You serve {deps['name']}."

    return us.Agent("clerk", model=FunctionModel(lambda request: says("ok")), system_prompt=prompt, **definition)


def test_callers_that_do_something_wrong_take_the_agent_from_nobody_else(system: us.ActorSystem) -> None:
    agent = fails_for_want_of_deps()

    for number in range(100):
        wrong = agent.submit("hi", system=system).exception(WAIT)
        assert isinstance(wrong, us.AgentCrashed)
        assert [type(cause) for cause in wrong.causes] == [TypeError] * 3
        if number % 19 == 18:  # so many runs in a row are borne, and a success begins the count anew
            assert finished(agent.run("hi", deps={"name": "Ada"}, system=system)).text == "ok"


@pytest.mark.parametrize("spawned", [True, False], ids=["spawned", "not spawned"])
def test_an_agent_is_given_up_when_twenty_runs_in_a_row_failed_it(system: us.ActorSystem, spawned: bool) -> None:
    agent = fails_for_want_of_deps()
    if spawned:
        system.spawn(agent)

    found = [agent.submit("hi", system=system).exception(WAIT) for _ in range(21)]

    assert [isinstance(error, us.AgentDown) for error in found] == [False] * 19 + [True] * 2


def test_the_runs_inside_of_one_run_that_fail_an_agent_count_as_one(system: us.ActorSystem) -> None:
    agent = fails_for_want_of_deps()
    together = us.ParallelAgent("all", [agent] * 30, on_error="collect")

    with pytest.raises(Exception, match="every child of 'all' failed"):
        together.run("hi", system=system)

    assert finished(agent.run("hi", deps={"name": "Ada"}, system=system)).text == "ok"


class Locked(us.InMemoryMemory):
    """A memory whose store cannot be written to."""

    def append(self, key: us.ConversationKey, messages: Sequence[us.Message], run_id: str = "") -> None:
        raise OSError("database is locked")


def name_in_deps(ctx: us.RunContext, *_: object) -> Any:
    deps: Any = ctx.deps
    return deps["name"]


class Reads(us.AgentCallback):
    def before_model_call(self, ctx: us.RunContext, request: us.ModelRequest) -> us.CallbackAction:
        return us.OverrideResponse(name_in_deps(ctx))


class Answer(pydantic.BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def check(cls, n: int) -> int:
        raise LookupError("no such table")


@pytest.mark.parametrize(
    "wrong",
    [
        {"callbacks": [Reads()]},
        {"criteria": [name_in_deps]},
        {"output_type": Answer, "model": FunctionModel(lambda request: says('{"n": 1}'))},
        {"memory": Locked()},
    ],
    ids=["callback", "criterion", "validator", "memory"],
)
def test_a_function_of_the_user_s_that_fails_a_run_each_time_leaves_the_agent_to_others(
    wrong: dict[str, Any], system: us.ActorSystem
) -> None:
    given: dict[str, Any] = {"model": FunctionModel(lambda request: says("ok")), **wrong}
    agent = us.Agent("clerk", **given)

    for _ in range(5):
        error = agent.submit("hi", system=system, conversation_id="c").exception(WAIT)
        assert isinstance(error, us.AgentCrashed)
        assert len(error.causes) == 3

    assert figures(system, "shop/clerk").state == "running"


def test_a_function_of_the_user_s_that_returns_something_wrong_fails_its_run_and_restarts_nothing(
    system: us.ActorSystem,
) -> None:
    asked: list[int] = []

    def prompt(context: us.RunContext) -> Any:
        asked.append(1)
        return 7

    agent = us.Agent("clerk", model=FunctionModel(lambda request: says("ok")), system_prompt=prompt)

    with pytest.raises(
        us.AgentCrashed, match="failed once.*system_prompt must return a string, got a value of"
    ) as caught:
        agent.run("hi", system=system)

    assert isinstance(caught.value.__cause__, TypeError)
    assert asked == [1]
    assert (figures(system, "shop/clerk").failed, figures(system, "shop/clerk").restarts) == (0, 0)


def test_an_agent_that_was_given_up_is_tried_again(system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "LONGEST_BACKOFF", 0.0)
    ref = system.spawn(sick(1), strategy=us.OneForOne(max_restarts=0))

    # The run's way on from its record comes to the agent after its fall, and is the attempt.
    assert finished(ref.run("hi")).text == "ok"
    assert figures(system, "shop/clerk").restarts == 1


def test_runs_under_way_end_well_when_their_agent_is_given_up(system: us.ActorSystem) -> None:
    entered, gate = threading.Event(), threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        entered.set()
        assert gate.wait(WAIT)
        return says("ok")

    def prompt(context: us.RunContext) -> str:
        if context.input == "sick":
            raise LookupError("no")
        return ""

    agent = us.Agent("clerk", model=FunctionModel(answer), system_prompt=prompt)
    ref = system.spawn(agent, strategy=us.OneForOne(max_restarts=0))
    handle = ref.submit("healthy")
    assert entered.wait(WAIT)

    with pytest.raises(us.AgentDown):
        ref.run("sick")
    gate.set()

    assert finished(handle.result(WAIT)).text == "ok"


def test_runs_wait_while_their_agent_backs_off(system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    alarms: list[Callable[[], object]] = []

    def note(when: float, ring: Callable[[], object]) -> None:
        alarms.append(ring)

    monkeypatch.setattr(actor_cell, "ring_at", note)
    ref = system.spawn(sick(1), strategy=us.OneForOne(backoff=(5.0, 5.0)))

    failed = ref.submit("fails once")
    eventually(lambda: len(alarms) == 1, "the agent backs off")
    new = ref.submit("comes meanwhile")
    assert not failed.done() and not new.done()
    assert figures(system, "shop/clerk").state == "restarting"
    alarms.pop()()

    assert finished(failed.result(WAIT)).text == "ok"
    assert finished(new.result(WAIT)).text == "ok"


@pytest.mark.parametrize(
    ("directive", "restarts"), [("resume", 0), ("restart", 1)], ids=["resume keeps it", "restart renews it"]
)
def test_a_decider_says_what_an_error_of_an_agent_deserves(
    system: us.ActorSystem, directive: Literal["resume", "restart"], restarts: int
) -> None:
    ref = system.spawn(sick(1), strategy=us.OneForOne(decider=lambda error: directive))

    assert finished(ref.run("hi")).text == "ok"
    assert figures(system, "shop/clerk").restarts == restarts


def test_an_agent_that_is_to_stop_when_it_fails_stops(system: us.ActorSystem) -> None:
    ref = system.spawn(sick(1), strategy=us.OneForOne(decider=lambda error: "stop"))

    with pytest.raises(us.AgentDown, match="shop/clerk has stopped"):
        ref.run("hi")
    ref.stop(timeout=WAIT)


def test_a_temporary_agent_is_not_restarted(system: us.ActorSystem) -> None:
    system.spawn(us.Supervisor("desk", [us.Child(sick(1), restart="temporary"), sick(0, id="cashier")]))

    with pytest.raises(us.AgentDown):
        system.ref("clerk").run("hi")
    assert finished(system.ref("cashier").run("hi")).text == "ok"


def test_what_a_work_fails_of_whose_run_is_over_does_not_fail_its_agent(system: us.ActorSystem) -> None:
    entered, gate, returned = threading.Event(), threading.Event(), threading.Event()

    def prompt(context: us.RunContext) -> str:
        entered.set()
        assert gate.wait(WAIT)
        returned.set()
        raise LookupError("too late to matter")

    ref = system.spawn(us.Agent("clerk", model=ScriptedModel([]), system_prompt=prompt))
    handle = ref.submit("hi")
    assert entered.wait(WAIT)
    assert handle.cancel()
    gate.set()
    assert returned.wait(WAIT)
    eventually(lambda: system.hung == 0, "the work has come back")

    assert (figures(system, "shop/clerk").failed, figures(system, "shop/clerk").restarts) == (0, 0)


# --- errors after which an agent wants to be restarted


@pytest.mark.parametrize(
    ("error", "named"),
    [(us.ProviderError("the line is dead"), us.ProviderError), (ConnectionResetError("gone"), ConnectionError)],
    ids=["of a client", "of a model object, by what it raised"],
)
def test_an_error_of_the_model_that_is_named_restarts_the_agent_and_is_asked_again(
    system: us.ActorSystem, error: Exception, named: type[Exception]
) -> None:
    model = Renewed(error, says("ok"))
    ref = system.spawn(us.Agent("clerk", model=model, restart_on=[named]))

    assert finished(ref.run("hi")).text == "ok"
    assert (model.renewals, figures(system, "shop/clerk").restarts) == (1, 1)


def test_an_error_that_keeps_coming_makes_the_run_poison(system: us.ActorSystem) -> None:
    model = Renewed(*[us.ProviderError(f"attempt {n}") for n in (1, 2, 3)])
    ref = system.spawn(us.Agent("clerk", model=model, restart_on=[us.ProviderError]))

    with pytest.raises(us.AgentCrashed) as caught:
        ref.run("hi")
    assert [str(cause) for cause in caught.value.causes] == ["attempt 1", "attempt 2", "attempt 3"]


def test_an_error_that_is_not_named_ends_the_run_and_restarts_nothing(system: us.ActorSystem) -> None:
    model = Renewed(us.ProviderError("no"))
    ref = system.spawn(us.Agent("clerk", model=model, restart_on=[us.AuthenticationError]))

    with pytest.raises(us.ProviderError, match="no"):
        ref.run("hi")
    assert (model.renewals, figures(system, "shop/clerk").failed) == (0, 0)


def test_an_error_of_a_tool_that_is_named_is_its_result_and_restarts_the_agent(system: us.ActorSystem) -> None:
    model = Renewed(calls("pay"), says("ok"))
    attempts: list[int] = []

    def pay() -> str:
        attempts.append(1)
        raise ConnectionError("the bank is gone")

    ref = system.spawn(us.Agent("clerk", model=model, tools=[pay], restart_on=[ConnectionError]))
    outcome = ref.run("hi")

    assert contents_of(outcome) == ["pay failed: ConnectionError: the bank is gone"]
    eventually(lambda: figures(system, "shop/clerk").restarts == 1, "the agent was restarted")
    assert (attempts, model.renewals) == ([1], 1)


def test_the_end_of_a_run_is_no_error_to_restart_on(system: us.ActorSystem) -> None:
    model = Renewed(calls("pay"))
    agent = us.Agent("clerk", model=model, tools=[pay], restart_on=[Exception], max_iterations=0)

    with pytest.raises(us.MaxIterationsExceeded):
        system.spawn(agent).run("hi")
    assert model.renewals == 0


def pay() -> str:
    return "paid"


@pytest.mark.parametrize(
    ("given", "error", "complaint"),
    [
        (ValueError, TypeError, "must be a list of exception classes"),
        (["ValueError"], TypeError, "must hold exception classes, got 'ValueError'"),
        ([KeyboardInterrupt], TypeError, "must hold exception classes"),
        ([us.RunCancelled], ValueError, "cannot hold RunCancelled"),
    ],
)
def test_what_restart_on_cannot_be(given: object, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=f"agent 'clerk': restart_on {complaint}"):
        us.Agent("clerk", model="rehearsal", restart_on=given)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


# --- sub-agents


def with_sub_agents(writer: us.Agent, id: str = "lead") -> us.Agent:
    return us.Agent(id, model=ScriptedModel([calls("writer", input="go"), says("Done.")]), sub_agents=[writer])


def named(id: str, prompt: str = "") -> us.Agent:
    return us.Agent(id, model=ScriptedModel([says("ok")] * 3), system_prompt=prompt)


@pytest.mark.parametrize("grouped", [False, True])
def test_an_agent_is_spawned_with_all_that_are_below_it(system: us.ActorSystem, grouped: bool) -> None:
    checker = named("checker")
    writer = us.Agent("writer", model=ScriptedModel([says("ok")] * 3), sub_agents=[checker])
    lead = us.Agent("lead", model=ScriptedModel([says("ok")]), sub_agents=[us.SubAgent(writer, name="draft"), checker])

    system.spawn(us.Supervisor("desk", [lead])) if grouped else system.spawn(lead)

    assert finished(system.ref("writer").run("hi")).text == "ok"
    assert finished(system.ref("checker").run("hi")).text == "ok"
    assert system.ref("writer") == system.spawn(writer)


def test_a_task_runs_in_the_actor_that_was_spawned(system: us.ActorSystem) -> None:
    failures = [RuntimeError("a bug")]

    def prompt(context: us.RunContext) -> str:
        if failures:
            raise failures.pop()
        return "You write."

    writer = us.Agent("writer", model=ScriptedModel([says("ok")]), system_prompt=prompt)
    system.spawn(us.Supervisor("desk", [writer, with_sub_agents(writer)]))

    assert finished(system.ref("lead").run("go")).text == "Done."
    assert figures(system, f"{system.name}/desk/writer").restarts == 1


def test_equal_definitions_of_a_sub_agent_are_one_agent(system: us.ActorSystem) -> None:
    system.spawn(with_sub_agents(named("writer")))
    system.spawn(with_sub_agents(named("writer"), id="other"))

    finished(system.ref("lead").run("go"))
    finished(system.ref("other").run("go"))

    assert sorted(actor.address for actor in system.health().actors) == ["shop/lead", "shop/other", "shop/writer"]


@pytest.mark.parametrize("grouped", [False, True])
def test_a_sub_agent_with_the_id_of_something_else_is_refused_and_nothing_is_spawned(
    system: us.ActorSystem, grouped: bool
) -> None:
    lead = with_sub_agents(named("writer", "Be brief."))
    system.spawn(named("writer", "Be long."))

    with pytest.raises(ValueError, match="'writer' already"):
        system.spawn(us.Supervisor("desk", [lead])) if grouped else system.spawn(lead)
    with pytest.raises(KeyError):
        system.ref("lead")


@pytest.mark.parametrize(
    "beside", [named("writer", "Be long."), us.Child(us.Actor, "writer")], ids=["another agent", "an actor"]
)
def test_nor_may_it_have_the_id_of_what_is_spawned_with_it(system: us.ActorSystem, beside: us.Agent | us.Child) -> None:
    lead = with_sub_agents(named("writer", "Be brief."))

    with pytest.raises(ValueError, match="sub-agent 'writer' has the id of an"):
        system.spawn(us.Supervisor("desk", [lead, beside]))
    with pytest.raises(KeyError):
        system.ref("lead")


@pytest.mark.parametrize("block", [True, False])
def test_an_ask_without_time_is_late_at_once_and_begins_no_run(system: us.ActorSystem, block: bool) -> None:
    model = ScriptedModel([says("ok")])
    ref = system.spawn(us.Agent("clerk", model=model))

    with pytest.raises(TimeoutError, match="no run was begun"):
        ref.ask("hi", block=block, timeout=0)

    assert (len(model.requests), system.in_flight) == (0, 0)


def test_the_current_system_is_the_one_inside_which_the_code_runs_and_else_the_default_one() -> None:
    seen: list[us.ActorSystem] = []

    def look() -> str:
        """Look at the system."""
        seen.append(us.current_system())
        return "seen"

    def script() -> ScriptedModel:
        return ScriptedModel([calls("look"), says("ok")])

    clerk = us.Agent("looking", model=script(), tools=[look])
    clerk.run("go")
    with us.ActorSystem("own") as own, clerk.override(model=script()):
        clerk.run("go", system=own)

    assert seen == [us.current_system(), own]
    assert [actor.address for actor in seen[0].health().actors if "looking" in actor.address] == ["understudy/looking"]
