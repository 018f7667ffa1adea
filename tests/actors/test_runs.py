"""Runs of an agent on the runtime, from the first line to the outcome."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait

import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished, results_of, scripted
from understudy.actors.runs.agent_record import AgentRunRecord
from understudy.actors.system.actor_system import runs_of
from understudy.actors.threads import pool
from understudy.orchestration.definitions.port import RunOptions
from understudy.testing import FunctionModel, ScriptedModel, calls, says


@us.tool
def on_shelf(sku: str) -> int:
    """Count the units of a product on the shelf."""
    return {"A-113": 7}.get(sku, 0)


class Hanging:
    """A model that hangs until its test is over."""

    def __init__(self) -> None:
        self.entered, self.gate = threading.Event(), threading.Event()

    def __call__(self, request: us.ModelRequest) -> us.ModelTurn:
        self.entered.set()
        self.gate.wait(WAIT)
        return says("late")


@pytest.fixture
def hang() -> Iterator[Hanging]:
    hang = Hanging()
    yield hang
    hang.gate.set()


def test_a_run_calls_its_tool_and_ends_with_the_text() -> None:
    model = ScriptedModel([calls("on_shelf", sku="A-113"), says("Seven.")])
    clerk = us.Agent("clerk", model=model, tools=[on_shelf], system_prompt="Be brief.")

    outcome = finished(clerk.run("How many?"))

    assert (outcome.text, outcome.iterations, outcome.turns, outcome.agent_id) == ("Seven.", 1, 2, "clerk")
    assert model.requests[0].system == "Be brief."
    assert [tool.name for tool in model.requests[0].tools] == ["on_shelf"]
    assert model.requests[1].tool_results[0].content == "7"


def test_results_of_calls_that_run_at_once_stand_in_call_order() -> None:
    second_ran = threading.Event()

    def first() -> str:
        assert second_ran.wait(WAIT)  # so it can only finish after the second one
        return "one"

    def second() -> str:
        second_ran.set()
        return "two"

    outcome = scripted(calls("first") + calls("second"), says("ok"), tools=[first, second]).run("go")

    assert [result.content for result in results_of(outcome)] == ["one", "two"]


def test_fifty_calls_of_one_turn_run_at_the_same_time() -> None:
    together = threading.Barrier(50)

    def meet(n: int) -> str:
        together.wait(WAIT)
        return str(n)

    turn = calls("meet", n=0)
    for n in range(1, 50):
        turn = turn + calls("meet", n=n)
    outcome = scripted(turn, says("ok"), tools=[meet]).run("go")

    assert [result.content for result in results_of(outcome)] == [str(n) for n in range(50)]


def test_a_single_call_runs_on_the_thread_that_called_the_model() -> None:
    threads: list[str] = []

    def here() -> str:
        threads.append(threading.current_thread().name)
        return "ok"

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        threads.append(threading.current_thread().name)
        return says("ok") if request.tool_results else calls("here")

    us.Agent("clerk", model=FunctionModel(answer), tools=[here]).run("go")

    assert len(set(threads)) == 1
    assert threads[0].startswith("understudy-")


def test_sixty_four_threads_share_an_agent_and_nothing_is_mixed_up() -> None:
    def answer(request: us.ModelRequest) -> us.ModelTurn:
        question = request.messages[0].text
        return (
            says(f"{question}={request.tool_results[0].content}")
            if request.tool_results
            else calls("twice", n=question)
        )

    def twice(n: str) -> str:
        return n * 2

    agent = us.Agent("clerk", model=FunctionModel(answer), tools=[twice])
    go, wrong, right = threading.Barrier(64), list[str](), list[str]()

    def run_ten(thread: int) -> None:
        go.wait(WAIT)
        for n in range(10):
            question = f"<{thread}.{n}>"
            text = finished(agent.run(question)).text
            (right if text == f"{question}={question * 2}" else wrong).append(text)

    threads = [threading.Thread(target=run_ten, args=(n,)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert wrong == []
    assert len(set(right)) == 640


def test_a_run_works_under_a_running_event_loop() -> None:
    async def view() -> str:
        return finished(scripted(says("hello")).run("hi")).text

    assert asyncio.run(view()) == "hello"


def test_a_run_inside_a_tool_is_an_ordinary_run() -> None:
    inner = scripted(says("inner answer"))

    def delegate() -> str:
        return finished(inner.run("sub-question")).text

    outcome = scripted(calls("delegate"), says("ok"), tools=[delegate]).run("go")

    assert results_of(outcome)[0].content == "inner answer"


def test_a_run_inside_a_tool_uses_the_system_of_the_run_around_it() -> None:
    inner = scripted(says("inner"))
    ids: list[str] = []

    def delegate() -> str:
        ids.append(inner.run("sub").run_id)
        return "ok"

    with us.ActorSystem("shop") as system:
        scripted(calls("delegate"), says("ok"), tools=[delegate]).run("go", system=system)
    default = inner.replace(model=ScriptedModel([says("x")])).run("sub").run_id

    assert ids[0].startswith("shop-")
    assert default.startswith("understudy-")


def test_run_ids_differ() -> None:
    agent = scripted(*[says("ok")] * 20)

    assert len({agent.run("go").run_id for _ in range(20)}) == 20


def test_history_goes_before_the_input_which_may_be_parts() -> None:
    model = ScriptedModel([says("Ada.")])
    history = [us.Message("user", (us.TextPart("I am Ada"),)), us.Message("assistant", (us.TextPart("Hello"),))]
    parts: Sequence[us.Part] = [us.TextPart("Who is this?"), us.ImagePart(url="https://example.org/cat.png")]

    outcome = us.Agent("clerk", model=model).run(parts, history=history)

    assert model.requests[0].messages == [*history, us.Message("user", tuple(parts))]
    assert [message.text for message in outcome.messages] == ["Who is this?", "Ada."]


def test_a_system_prompt_may_be_a_function_of_the_context() -> None:
    model = ScriptedModel([says("ok")])

    def prompt(context: us.RunContext) -> str:
        return f"{context.agent_id} serves {context.deps} for {context.user_id}: {context.input}, {context.session['shop']}"

    us.Agent("clerk", model=model, system_prompt=prompt).run("hi", deps="db", user_id="ada", session={"shop": "main"})

    assert model.requests[0].system == "clerk serves db for ada: hi, main"


def test_what_the_model_raises_is_raised_to_the_caller() -> None:
    error = us.RateLimited("slow down", provider="test", status=429, retry_after=7)

    with pytest.raises(us.RateLimited) as caught:
        scripted(error).run("hi")

    assert caught.value.retry_after == 7


def test_a_model_object_that_fails_in_a_way_of_its_own_fails_the_run_with_a_provider_error() -> None:
    def broken(request: us.ModelRequest) -> us.ModelTurn:
        raise LookupError("no such line")

    with pytest.raises(us.ProviderError, match="model of agent 'clerk' failed: LookupError: no such line") as caught:
        us.Agent("clerk", model=FunctionModel(broken)).run("hi")

    assert isinstance(caught.value.__cause__, LookupError)
    assert caught.value.provider == "FunctionModel"


def test_a_run_that_crashes_goes_on_from_where_it_was_and_its_sibling_never_notices() -> None:
    asked: list[str] = []
    failures: Iterator[Exception | None] = iter([LookupError("first"), LookupError("second"), None])

    class Guard(us.AgentCallback):
        def before_tool_call(self, ctx: us.RunContext, call: us.ToolCall) -> us.CallbackAction:
            failure = next(failures)
            if failure is not None:
                raise failure
            return us.Continue()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        asked.append(request.text)
        return says("ok") if request.tool_results else calls("pay")

    def pay() -> str:
        return "paid"

    with us.ActorSystem("shop") as system:
        sibling = scripted(says("unharmed")).submit("hi", system=system)
        agent = us.Agent("payer", model=FunctionModel(answer), tools=[pay], callbacks=[Guard()])
        handle = agent.submit("go", system=system)
        outcome = finished(handle.result(WAIT))

        assert outcome.text == "ok"
        assert asked == ["go", ""]  # the turn that was paid for was not asked for again
        assert [type(event).__name__ for event in handle.events()].count("RunFinished") == 1
        assert finished(sibling.result(WAIT)).text == "unharmed"
        assert [a.failed for a in system.health().actors if a.address == "shop/payer"] == [2]


def test_a_run_that_no_thread_can_be_had_for_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    system = us.ActorSystem("shop")
    record = runs_of(system).prepare(scripted(says("ok")), "go", RunOptions())
    monkeypatch.setattr(pool, "pool", pool.ThreadPool())
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    runs_of(system).drive(record, record.epoch)

    assert isinstance(record.promise.error(), us.AgentDown)
    assert "can't start new thread" in str(record.promise.error())


def test_a_run_ends_also_when_what_failed_it_cannot_be_told() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise SystemExit("not even this")

    def prompt(context: us.RunContext) -> str:
        raise Unspeakable

    agent = us.Agent("clerk", model=ScriptedModel([says("ok")]), system_prompt=prompt)

    error = agent.submit("go").exception(WAIT)

    assert isinstance(error, us.AgentCrashed)
    assert isinstance(error.__cause__, Unspeakable)


def test_a_run_that_keeps_crashing_is_poison_and_ends_with_all_its_causes() -> None:
    attempts: list[int] = []

    def prompt(context: us.RunContext) -> str:
        attempts.append(1)
        if len(attempts) > 3:
            return "A run that is not ended comes to its end, so that this test does."
        raise LookupError(f"attempt {len(attempts)}")

    agent = us.Agent("clerk", model=ScriptedModel([says("ok")]), system_prompt=prompt)
    with pytest.raises(us.AgentCrashed, match="'clerk' failed 3 times.*LookupError: attempt 3") as caught:
        agent.run("hi")

    assert [str(cause) for cause in caught.value.causes] == ["attempt 1", "attempt 2", "attempt 3"]
    assert caught.value.__cause__ is caught.value.causes[-1]


def test_an_agent_goes_on_after_a_run_of_it_was_poison() -> None:
    def prompt(context: us.RunContext) -> str:
        if context.input == "poison":
            raise LookupError("no")
        return ""

    agent = us.Agent("clerk", model=ScriptedModel([says("ok")]), system_prompt=prompt)
    with pytest.raises(us.AgentCrashed):
        agent.run("poison")

    assert finished(agent.run("hi")).text == "ok"


def test_a_run_that_is_over_needs_no_garbage_collector_to_go() -> None:
    seen: list[int] = []

    def records() -> int:  # those of other tests may go meanwhile
        return sum(isinstance(thing, AgentRunRecord) and thing.agent is agent for thing in gc.get_objects())

    @us.tool
    def look() -> str:
        seen.append(records())
        return "ok"

    agent = scripted(calls("look"), says("ok"), tools=[look])

    gc.collect()
    gc.disable()
    try:
        agent.run("go")
        assert seen == [1]
        eventually(lambda: not records(), "the run's record went away")
    finally:
        gc.enable()


def test_a_loser_that_was_cancelled_at_a_tool_is_let_go_of_while_the_run_around_it_goes_on() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Deps:
        pass

    def hang() -> str:
        entered.set()
        assert leave.wait(WAIT)
        return "late"

    slow, quick = scripted(calls("hang"), tools=[hang]), us.Agent("quick", model=ScriptedModel([says("first")]))

    def race() -> str:
        deps = Deps()
        seen = weakref.ref(deps)
        loser = slow.submit("go", deps=deps)
        del deps
        assert entered.wait(WAIT)
        text = us.first([loser, quick.submit("go")]).result(WAIT).text
        assert loser.cancelled()
        del loser
        leave.set()
        eventually(lambda: system.hung == 0 and seen() is None, "nothing refers to the run")
        return text

    gc.collect()
    gc.disable()
    try:
        with us.ActorSystem("race") as system:
            (result,) = results_of(scripted(calls("race"), says("ok"), tools=[race]).run("go", system=system))
    finally:
        gc.enable()

    assert result.content == "first"


# --- handles


def test_a_handle_is_returned_before_the_run_is_done() -> None:
    gate = threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        assert gate.wait(WAIT)
        return says("ok")

    handle = us.Agent("clerk", model=FunctionModel(answer)).submit("hi")

    assert handle.running() and not handle.done()
    with pytest.raises(TimeoutError, match=handle.run_id):
        handle.result(timeout=0.01)
    gate.set()
    assert finished(handle.result(WAIT)).text == "ok"
    assert handle.done() and not handle.running() and not handle.cancelled()
    assert handle.exception() is None


def test_the_status_says_what_a_run_is_doing() -> None:
    entered, gate = threading.Event(), threading.Event()

    def look() -> str:
        entered.set()
        assert gate.wait(WAIT)
        return "ok"

    handle = scripted(calls("look"), says("ok"), tools=[look]).submit("go")
    assert entered.wait(WAIT)

    status = handle.status()
    gate.set()
    handle.result(WAIT)

    assert (status.phase, status.turns, status.iterations, status.doing) == ("running", 1, 1, "running tool look")
    assert (handle.status().phase, handle.status().doing) == ("complete", "")


def test_a_callback_hears_of_the_end_once() -> None:
    heard, gate = threading.Event(), threading.Event()
    handles: list[us.RunHandle[str]] = []

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        assert gate.wait(WAIT)
        return says("ok")

    def callback(handle: us.RunHandle[str]) -> None:
        handles.append(handle)
        heard.set()

    handle = us.Agent("clerk", model=FunctionModel(answer)).submit("hi")
    handle.add_done_callback(callback)
    gate.set()

    assert heard.wait(WAIT)
    handle.add_done_callback(callback)
    assert handles == [handle, handle]


def test_a_handle_gives_a_standard_future() -> None:
    ok, failing = scripted(says("ok")).submit("hi").future(), scripted(us.RateLimited("no")).submit("hi").future()

    done, _ = wait([ok, failing], timeout=WAIT)

    assert done == {ok, failing}
    assert wait([ok], return_when=FIRST_COMPLETED).done == {ok}
    assert finished(ok.result()).text == "ok"
    assert isinstance(failing.exception(), us.RateLimited)


def test_a_future_can_be_awaited_in_a_loop() -> None:
    async def view() -> str:
        return finished(await asyncio.wrap_future(scripted(says("ok")).submit("hi").future())).text

    assert asyncio.run(view()) == "ok"


# --- ending early


def test_a_cancelled_run_completes_at_once_whatever_its_model_does(hang: Hanging) -> None:
    agent = us.Agent("clerk", model=FunctionModel(hang))
    handle = agent.submit("hi")
    assert hang.entered.wait(WAIT)

    assert handle.cancel() is True  # while the model still hangs
    assert handle.cancelled() and handle.done()
    assert handle.cancel() is False
    with pytest.raises(us.RunCancelled) as caught:
        handle.result()

    assert caught.value.run_id == handle.run_id


def test_who_cancels_a_run_may_hold_a_lock_that_a_done_callback_takes(hang: Hanging) -> None:
    handle = us.Agent("clerk", model=FunctionModel(hang)).submit("go")
    lock, took = threading.RLock(), threading.Event()

    def take(_: us.RunHandle) -> None:
        with lock:
            took.set()

    def cancel() -> None:
        with lock:
            handle.cancel()

    handle.add_done_callback(take)
    cancelling = threading.Thread(target=cancel, daemon=True)
    cancelling.start()
    cancelling.join(WAIT)

    assert took.is_set()
    assert not cancelling.is_alive()


def test_a_run_that_is_done_cannot_be_cancelled() -> None:
    handle = scripted(says("ok")).submit("hi")
    handle.result(WAIT)

    assert handle.cancel() is False
    assert finished(handle.result()).text == "ok"


def test_a_cancelled_run_tells_its_tool() -> None:
    entered, told = threading.Event(), threading.Event()

    def patient(ctx: us.ToolContext) -> str:
        ctx.scope.on_cancel(told.set)
        entered.set()
        assert told.wait(WAIT)
        return "stopped"

    handle = scripted(calls("patient"), tools=[patient]).submit("go")
    assert entered.wait(WAIT)
    handle.cancel()

    assert told.wait(WAIT)


def test_a_done_callback_that_blocks_keeps_no_tool_from_hearing_of_the_cancellation() -> None:
    begun, told = threading.Event(), threading.Event()
    waited = list[bool]()

    def wait(ctx: us.ToolContext) -> str:
        ctx.scope.on_cancel(told.set)
        begun.set()
        told.wait(WAIT)
        return "heard"

    agent = us.Agent("clerk", model=ScriptedModel([calls("wait")]), tools=[wait])
    handle = agent.submit("go")
    handle.add_done_callback(lambda _: waited.append(told.wait(WAIT)))
    begun.wait(WAIT)

    handle.cancel()

    assert waited == [True]


def test_a_cancelled_run_tells_what_it_is_at_besides_tools() -> None:
    entered, told = threading.Event(), threading.Event()

    def prompt(context: us.RunContext) -> str:
        context.scope.on_cancel(told.set)
        entered.set()
        assert told.wait(WAIT)
        return ""

    handle = us.Agent("clerk", model=ScriptedModel([]), system_prompt=prompt).submit("go")
    assert entered.wait(WAIT)
    handle.cancel()

    assert told.wait(WAIT)


def test_a_function_that_fails_when_its_run_is_cancelled_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    entered, told = threading.Event(), threading.Event()

    def fail() -> None:
        raise LookupError("broken")

    def patient(ctx: us.ToolContext) -> str:
        ctx.scope.on_cancel(fail)
        ctx.scope.on_cancel(told.set)
        entered.set()
        assert told.wait(WAIT)
        return "stopped"

    handle = scripted(calls("patient"), tools=[patient]).submit("go")
    assert entered.wait(WAIT)
    with caplog.at_level("ERROR", "understudy"):
        assert handle.cancel() is True

        assert told.wait(WAIT)  # after it: they are called in order
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["broken"]


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """What hooks hang at."""
    event = threading.Event()
    yield event
    event.set()


def waiting_with(*hooks: Callable[[], object]) -> tuple[us.Agent, threading.Event]:
    """Make an agent whose tool gives hooks to `on_cancel` and waits, and what is set once it waits."""
    entered = threading.Event()

    def wait(ctx: us.ToolContext) -> str:
        for hook in hooks:
            ctx.scope.on_cancel(hook)
        entered.set()
        ctx.scope.sleep(WAIT)
        return "slept"

    return scripted(calls("wait"), tools=[wait]), entered


def test_nobody_who_cancels_waits_until_a_function_that_was_given_to_on_cancel_returns(held: threading.Event) -> None:
    began = threading.Event()

    def hang() -> None:
        began.set()
        assert held.wait(WAIT)

    agent, entered = waiting_with(hang)
    handle = agent.submit("go")
    assert entered.wait(WAIT)

    assert handle.cancel()  # on this thread: if it waited, nobody would let the function go

    assert began.wait(WAIT)
    assert isinstance(handle.exception(WAIT), us.RunCancelled)


def test_what_is_quick_was_called_when_cancel_returns() -> None:
    called: list[str] = []
    agent, entered = waiting_with(lambda: called.append("first"), lambda: called.append("second"))
    handle = agent.submit("go")
    assert entered.wait(WAIT)

    assert handle.cancel()

    assert called == ["first", "second"]


def test_a_system_stops_in_time_whatever_functions_that_were_given_to_on_cancel_do(held: threading.Event) -> None:
    agent, entered = waiting_with(lambda: sys.exit("leave"), lambda: held.wait(WAIT))
    system = us.ActorSystem("shop")
    handle = agent.submit("go", system=system)
    assert entered.wait(WAIT)

    assert system.stop(0.0) == (handle.run_id,)

    assert not held.is_set()


def test_a_function_given_to_on_cancel_that_hangs_is_counted_and_the_others_are_called(
    held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.actors.threads.cancel_hooks.PATIENCE", 0.05)
    called: list[str] = []
    agent, entered = waiting_with(lambda: held.wait(WAIT), lambda: called.append("next"))
    with us.ActorSystem("shop") as system:
        handle = agent.submit("go", system=system)
        assert entered.wait(WAIT)
        handle.cancel()

        eventually(lambda: called == ["next"], "the other one is called")
        eventually(lambda: system.hung == 1, "the one that hangs is counted")
        held.set()
        eventually(lambda: system.hung == 0, "it has come back")


def test_a_run_past_its_deadline_ends_although_its_tool_hangs() -> None:
    gate = threading.Event()

    def hang() -> str:
        gate.wait(WAIT)
        return "late"

    with pytest.raises(us.RunTimedOut, match="running tool hang"):
        scripted(calls("hang"), says("ok"), tools=[hang]).run("go", timeout=0.05)
    gate.set()


def test_a_run_past_its_deadline_ends_although_its_model_hangs(hang: Hanging) -> None:
    with pytest.raises(us.RunTimedOut, match="waiting for the model"):
        us.Agent("clerk", model=FunctionModel(hang)).run("go", timeout=0.05)


def test_cancelling_a_run_cancels_the_run_inside_its_tool(hang: Hanging) -> None:
    ended = threading.Event()
    errors: list[BaseException] = []

    inner = us.Agent("inner", model=FunctionModel(hang))

    def delegate() -> str:
        try:
            return finished(inner.run("sub")).text
        except us.RunCancelled as error:
            errors.append(error)
            raise
        finally:
            ended.set()

    handle = scripted(calls("delegate"), tools=[delegate]).submit("go")
    assert hang.entered.wait(WAIT)
    handle.cancel()

    assert ended.wait(WAIT)
    assert len(errors) == 1


def test_work_that_was_given_up_is_counted_until_it_comes_back() -> None:
    gate = threading.Event()

    @us.tool(timeout=0.05)
    def hang() -> str:
        gate.wait(WAIT)
        return "late"

    with us.ActorSystem("hospital") as system:
        single = scripted(calls("hang"), says("ok"), tools=[hang]).run("go", system=system)
        several = scripted(calls("hang") + calls("hang"), says("ok"), tools=[hang]).run("go", system=system)

        assert [r.error_kind for r in (*results_of(single), *results_of(several))] == ["timed_out"] * 3
        assert system.hung == 3
        gate.set()
        eventually(lambda: system.hung == 0, "the hung calls came back")


# --- systems


def test_a_stopped_system_refuses_runs_and_cancels_those_in_flight(hang: Hanging) -> None:
    agent, system = us.Agent("clerk", model=FunctionModel(hang)), us.ActorSystem("shop")
    handle = agent.submit("hi", system=system)
    assert hang.entered.wait(WAIT)

    system.stop(timeout=0.0)
    system.stop(timeout=0.0)

    with pytest.raises(us.RunCancelled, match="'shop' stopped"):
        handle.result(WAIT)
    with pytest.raises(us.AgentDown, match="'shop'"):
        agent.run("hi", system=system)


def test_leaving_a_system_lets_its_runs_end() -> None:
    with us.ActorSystem("shop") as system:
        handle = scripted(says("ok")).submit("hi", system=system)

    assert finished(handle.result(WAIT)).text == "ok"
    assert system.in_flight == 0


def test_nothing_is_in_flight_after_a_run() -> None:
    with us.ActorSystem("shop") as system:
        scripted(calls("on_shelf", sku="x"), says("ok"), tools=[on_shelf]).run("hi", system=system)

        assert system.in_flight == 0


def test_a_system_that_stops_cancels_the_runs_that_wait_before_those_that_they_wait_for(hang: Hanging) -> None:
    outer: list[us.RunHandle] = []

    def delegate() -> str:
        handle = inner.submit("go")
        # It delays whoever ends the inner run for as long as the outer one can go on.
        handle.add_done_callback(lambda _: eventually(outer[0].done, "the outer run is over"))
        return finished(handle.result(WAIT)).text

    inner = us.Agent("inner", model=FunctionModel(hang))
    system = us.ActorSystem("shop")
    outer.append(scripted(calls("delegate"), says("went on"), tools=[delegate]).submit("go", system=system))
    assert hang.entered.wait(WAIT)
    cancelled = system.stop(0.0)
    error = outer[0].exception(WAIT)

    assert isinstance(error, us.RunCancelled)
    assert str(error).endswith("system 'shop' stopped, and has no store, which would have kept the run")
    assert len(cancelled) == 2


def test_a_run_that_is_launched_while_others_are_cancelled_does_not_outlive_its_system(hang: Hanging) -> None:
    agent, system = us.Agent("clerk", model=FunctionModel(hang)), us.ActorSystem("shop")
    handle = agent.submit("go", system=system)
    assert hang.entered.wait(WAIT)
    late = runs_of(system).prepare(agent, "go", RunOptions())
    handle.add_done_callback(lambda _: runs_of(system).launch(late))  # called by what cancels all that are in flight

    system.stop(0.0)
    phase, in_flight = late.phase, system.in_flight

    assert (phase, in_flight) == ("cancelled", 0)
    with pytest.raises(us.RunCancelled, match="'shop' stopped"):
        late.promise.get()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_a_stop_that_is_interrupted_gives_up_on_all_at_once(hang: Hanging) -> None:
    stopped = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    class Desk(us.Actor[object]):
        def on_receive(self, message: object) -> object:
            return message

        def on_stop(self) -> None:
            stopped.set()

    def is_closed() -> bool:
        try:
            system.subscribe(print, us.ActorFailed).cancel()
        except us.AgentDown:
            return True
        return False

    def interrupt() -> None:
        eventually(is_closed, "the system stops")
        signal.pthread_kill(main, signal.SIGINT)

    system = us.ActorSystem("shop")
    system.spawn(Desk)
    handle = us.Agent("clerk", model=FunctionModel(hang)).submit("go", system=system)
    assert hang.entered.wait(WAIT)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        system.stop(WAIT)
    thread.join(WAIT)
    error, told = handle.exception(0.0) if handle.done() else None, stopped.wait(WAIT)

    assert isinstance(error, us.RunCancelled)
    assert told
    assert system.stop(0.0) == ()


def test_a_model_that_does_not_wait_past_the_deadline_is_said_to_have_given_up_and_not_to_have_taken_long() -> None:
    def sleeps(request: us.ModelRequest) -> us.ModelTurn:
        scope = us.current_scope()
        assert scope is not None
        scope.sleep(2 * WAIT)
        return says("late")

    with pytest.raises(
        us.ProviderTimeout, match=r"agent 'clerk' did not wait for its answer: a wait of 20 s does not fit"
    ):
        us.Agent("clerk", model=us.FunctionModel(sleeps)).run("go", timeout=WAIT)
