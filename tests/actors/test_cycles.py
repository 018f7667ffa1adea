"""Runs that wait for one another: the run that would close a cycle is refused, and no other run."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pykka
import pytest

import understudy as us
from tests.support.scripts import WAIT, eventually, finished, results_of
from understudy.actors.waiting.graph import graph
from understudy.testing import FunctionModel, calls, says
from understudy.vocabulary.context.ancestry import MAX_DEPTH

pytestmark = pytest.mark.usefixtures("empty_graph")


def using_its_tools(request: us.ModelRequest) -> us.ModelTurn:
    """Call every tool once, all in one turn; then say what they gave."""
    if request.tool_results:
        return says(" | ".join(result.content for result in request.tool_results))
    turn = says("")
    for tool in request.tools:
        turn = turn + calls(tool.name)
    return turn if request.tools else says("hello")


def make(id: str, *tools: us.ToolLike) -> us.Agent:
    return us.Agent(id, model=FunctionModel(using_its_tools), tools=tools)


def text(outcome: us.Outcome) -> str:
    return finished(outcome).text


def acting(name: str, act: Callable[[], str]) -> us.Tool[[], str]:
    return us.tool(name=name)(act)


class Promise:
    """Something another thread gets hold of later, such as a handle."""

    def __init__(self) -> None:
        self._there = threading.Event()

    def keep(self, handle: us.RunHandle[str]) -> None:
        self._handle = handle
        self._there.set()

    @property
    def handle(self) -> us.RunHandle[str]:
        assert self._there.wait(WAIT)
        return self._handle


class Caught:
    """Keeps the paths of the circles that were refused in its `with` blocks."""

    def __init__(self) -> None:
        self.paths: list[tuple[str, ...]] = []

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, us.CircularAgentCall):
            self.paths.append(error.path)
        return isinstance(error, us.CircularAgentCall)


# --- a run inside of a run


def test_an_agent_that_runs_itself_is_refused_before_anything_starts() -> None:
    caught: list[us.CircularAgentCall] = []

    def again() -> str:
        try:
            return text(me.run("once more"))
        except us.CircularAgentCall as error:
            caught.append(error)
            raise

    me = make("me", again)
    with us.ActorSystem("count") as system:
        outcome = me.run("go", system=system)
        number_of_runs = int(me.run("next", system=system).run_id.rpartition("-")[2]) - 1

    assert [error.path for error in caught] == [("me", "me")] * 2
    assert results_of(outcome)[0].is_error
    assert "me -> me" in results_of(outcome)[0].content
    assert number_of_runs == 1


def test_the_path_names_every_agent_from_the_first_to_itself_again() -> None:
    caught: list[us.CircularAgentCall] = []

    def back() -> str:
        try:
            return text(a.run("back"))
        except us.CircularAgentCall as error:
            caught.append(error)
            raise

    b = make("b", back)
    a = make("a", acting("to_b", lambda: text(b.run("on"))))
    root = make("root", acting("to_a", lambda: text(a.run("on"))))

    outcome = root.run("go")

    assert [error.path for error in caught] == [("a", "b", "a")]
    assert "CircularAgentCall" in text(outcome) and "a -> b -> a" in text(outcome)


def in_the_prompt(id: str, act: Callable[[], str]) -> us.Agent:
    return us.Agent(id, model=FunctionModel(using_its_tools), system_prompt=lambda context: act())


def in_the_model(id: str, act: Callable[[], str]) -> us.Agent:
    return us.Agent(id, model=FunctionModel(lambda request: says(act())))


def in_an_approval_rule(id: str, act: Callable[[], str]) -> us.Agent:
    @us.tool(approval=lambda call, context: bool(act()))
    def pay() -> str:
        return "paid"

    return make(id, pay)


@pytest.mark.parametrize("place", [in_the_prompt, in_the_model, in_an_approval_rule])
def test_outside_of_tools_the_error_ends_the_run_and_keeps_its_type(
    place: Callable[[str, Callable[[], str]], us.Agent],
) -> None:
    def again() -> str:
        return text(me.run("once more"))

    me = place("me", again)

    with pytest.raises(us.CircularAgentCall, match="me -> me") as caught:
        me.run("go")

    assert caught.value.path == ("me", "me")


def test_an_async_tool_is_inside_of_its_run() -> None:
    async def again() -> str:
        return await asyncio.to_thread(lambda: text(me.run("once more")))

    me = make("me", again)

    assert "me -> me" in text(me.run("go"))


def test_another_system_does_not_hide_the_circle() -> None:
    with us.ActorSystem("other") as other:

        def again() -> str:
            return text(me.run("once more", system=other))

        me = make("me", again)

        assert "me -> me" in text(me.run("go"))


def test_the_object_decides_and_not_the_id() -> None:
    inner = make("same")
    outer = make("same", acting("delegate", lambda: text(inner.run("go"))))

    assert text(outer.run("go")) == "hello"


def test_two_ways_to_one_agent_are_no_circle() -> None:
    both_there = threading.Barrier(2)
    bottom = make("bottom")

    def through(id: str) -> us.Tool[[], str]:
        def down() -> str:
            both_there.wait(WAIT)
            return text(bottom.run("go"))

        side = make(id, down)
        return acting(id, lambda: text(side.run("go")))

    assert text(make("top", through("left"), through("right")).run("go")) == "hello | hello"


def test_a_refused_resume_leaves_the_token_as_it_was() -> None:
    @us.tool(approval=True)
    def pay() -> str:
        return "paid"

    tokens: list[str] = []

    def again() -> str:
        return text(me.resume(tokens[0], us.Approve()))

    me = us.Agent(
        "me",
        model=FunctionModel(lambda r: says("ok") if r.tool_results else calls(r.messages[-1].text)),
        tools=[pay, again],
    )
    waiting = me.run("pay")
    assert isinstance(waiting, us.NeedsApproval)
    tokens.append(waiting.token)

    inside = me.run("again")

    assert "me -> me" in results_of(inside)[0].content
    assert results_of(me.resume(tokens[0], us.Approve()))[0].content == "paid"


# --- depth


def deep(levels: int, begin: Callable[[us.Agent], str], *tools: us.ToolLike) -> us.Agent:
    """Make agents that call one another, `levels` of them; the last one has `tools`."""

    def above(level: int, inner: us.Agent) -> us.Agent:
        return make(f"level-{level}", acting("down", lambda: begin(inner)))

    agent = make("level-1", *tools)
    for level in range(2, levels + 1):
        agent = above(level, agent)
    return agent


TOO_DEEP = (
    f"RunError: runs may wait for one another {MAX_DEPTH} deep; "
    f"from agent 'level-{MAX_DEPTH + 1}' to agent 'level-1' it would be {MAX_DEPTH + 1}"
)


@pytest.mark.parametrize(("levels", "said"), [(MAX_DEPTH, "hello"), (MAX_DEPTH + 1, TOO_DEEP)])
def test_runs_may_be_nested_to_the_limit_and_past_it_both_ends_of_the_chain_are_told(levels: int, said: str) -> None:
    assert said in text(deep(levels, lambda inner: text(inner.run("go"))).run("go"))


def test_the_limit_holds_for_runs_that_were_submitted_and_then_waited_for() -> None:
    refused = threading.Event()
    cut_off: list[us.RunHandle[str]] = []

    def begin(inner: us.Agent) -> str:
        handle = inner.submit("go")
        try:
            return text(handle.result(WAIT))
        except us.RunError:
            cut_off.append(handle)
            refused.set()
            raise

    def hold() -> str:
        assert refused.wait(WAIT)
        return "held"

    assert TOO_DEEP in text(deep(MAX_DEPTH + 1, begin, hold).run("go"))
    assert isinstance(cut_off[0].exception(WAIT), us.RunCancelled)


# --- submitted, and perhaps waited for


def test_what_nobody_waits_for_may_lead_back_to_its_caller() -> None:
    handles: list[us.RunHandle[str]] = []
    first = threading.Lock()  # never released: whoever gets it submits

    def to_b() -> str:
        return text(b.run("on"))

    def back() -> str:
        if first.acquire(blocking=False):
            handles.append(a.submit("later"))
        return "submitted"

    b = make("b", back)
    a = make("a", to_b)

    assert text(a.run("go")) == "submitted"
    assert text(handles[0].result(WAIT)) == "submitted"


def test_to_wait_for_what_one_submitted_oneself_is_to_call_it() -> None:
    caught, gate = Caught(), threading.Event()

    def again() -> str:
        handle = other.submit("once more") if gate.is_set() else me.submit("once more")
        gate.set()
        with caught:
            handle.result(WAIT)
        return "went on"

    other = make("other")
    me = make("me", again)

    assert text(me.run("go")) == "went on"
    assert caught.paths == [("me", "me")]


def test_a_submitted_run_that_is_waited_for_may_not_call_who_waits() -> None:
    submitted, caught = Promise(), Caught()

    def back() -> str:
        eventually(lambda: len(graph) == 1, "a waits for b")
        with caught:
            return text(a.run("back"))
        return "refused"

    def to_b() -> str:
        submitted.keep(b.submit("on"))
        return text(submitted.handle.result(WAIT))

    b = make("b", back)
    a = make("a", to_b)

    assert text(a.run("go")) == "refused"
    assert caught.paths == [("a", "b", "a")]


def test_nobody_may_begin_to_wait_for_what_has_called_it_back() -> None:
    inside, gate, caught = threading.Event(), threading.Event(), Caught()

    def back() -> str:
        return text(a.run("back"))

    def to_b() -> str:
        if inside.is_set():
            return "inner"
        inside.set()
        handle = b.submit("on")
        eventually(lambda: len(graph) == 1, "b waits for the second run of a")
        with caught:
            handle.result(WAIT)
        gate.set()
        assert isinstance(handle.exception(WAIT), us.RunCancelled)
        return "refused"

    def hold() -> str:
        assert gate.wait(WAIT)
        return "held"

    b = make("b", back)
    a = make("a", to_b, hold)

    assert text(a.run("go")) == "refused | held"
    assert caught.paths == [("a", "b", "a")]


def test_what_one_s_callee_submitted_is_begun_by_oneself() -> None:
    later, caught, inside = Promise(), Caught(), threading.Event()
    refused = threading.Event()

    def act() -> str:
        if inside.is_set():
            assert refused.wait(WAIT)
            return "later"
        inside.set()
        b.run("on")
        with caught:
            later.handle.result(WAIT)
        refused.set()
        return "went on"

    def submit() -> str:
        later.keep(a.submit("later"))
        return "submitted"

    b = make("b", submit)
    a = make("a", act)

    assert text(a.run("go")) == "went on"
    assert caught.paths == [("a", "a")]
    assert isinstance(later.handle.exception(WAIT), us.RunCancelled)


def awaited(handle: us.RunHandle[str]) -> object:
    async def wait() -> object:
        return await handle

    return asyncio.run(wait())


WAYS: dict[str, Callable[[us.RunHandle[str]], object]] = {
    "result": lambda handle: handle.result(WAIT),
    "events": lambda handle: list(handle.events(timeout=WAIT)),
    "collect": lambda handle: us.collect([handle, handle]).result(WAIT),
    "first": lambda handle: us.first([handle]).result(WAIT),
    "map": lambda handle: handle.map(lambda outcome: outcome).result(WAIT),
    "get_all": lambda handle: pykka.get_all([handle], timeout=WAIT),
    "await": awaited,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("through", ["itself", "another", "one seat", "a conversation"])
def test_what_was_submitted_is_cancelled_if_the_wait_for_it_closes_a_circle(
    way: str, through: str, system: us.ActorSystem
) -> None:
    asked = count()
    most = 40  # of which the model ends the circle itself

    def model(request: us.ModelRequest) -> us.ModelTurn:
        return says("end") if request.tool_results or next(asked) >= most else calls("again")

    def again() -> str:
        WAYS[way](next_one.submit("go on", system=system, conversation_id=conversation))
        return "went on"

    conversation, memory = ("c-1", us.InMemoryMemory()) if through == "a conversation" else (None, None)
    tool = us.tool(max_parallel=1 if through == "one seat" else None, timeout=None)(again)
    me = us.Agent("me", model=FunctionModel(model), tools=[tool], memory=memory)
    other = us.Agent("other", model=FunctionModel(model), tools=[tool])
    next_one = other if through == "another" else me

    me.run("go", system=system, conversation_id=conversation)
    eventually(lambda: system.in_flight == 0, "nothing goes on")

    assert next(asked) < most / 2


def test_a_run_that_is_not_on_the_circle_goes_on_when_the_wait_for_it_is_refused(system: us.ActorSystem) -> None:
    caught, gate = Caught(), threading.Event()
    others: list[us.RunHandle[str]] = []

    def again() -> str:
        others.append(other.submit("go", system=system))
        with caught:
            others[0].join(me.submit("again", system=system)).result(WAIT)
        gate.set()
        return "refused"

    other = make("other", acting("hold", lambda: str(gate.wait(WAIT))))
    me = make("me", again)

    assert text(me.run("go", system=system)) == "refused"
    assert text(others[0].result(WAIT)) == "True"
    assert caught.paths == [("me", "me")]


# --- circles between runs that began apart


def ring(size: int, wait: Callable[[us.RunHandle[str]], object]) -> list[us.Outcome]:
    """Have runs wait for one another in a ring, with no order among them; return their outcomes."""
    promises = [Promise() for _ in range(size)]

    def member(n: int) -> us.Agent:
        def wait_for_next() -> str:
            wait(promises[(n + 1) % size].handle)
            return "got it"

        return make(f"agent-{n}", wait_for_next)

    handles = [member(n).submit("go") for n in range(size)]
    for promise, handle in zip(promises, handles, strict=True):
        promise.keep(handle)
    return [handle.result(WAIT) for handle in handles]


def result(handle: us.RunHandle[str]) -> object:
    return handle.result()


def result_in_time(handle: us.RunHandle[str]) -> object:
    return handle.result(WAIT * 10)


def exception(handle: us.RunHandle[str]) -> object:
    return handle.exception()


@pytest.mark.parametrize("wait", [result, result_in_time, exception])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_of_a_ring_of_runs_one_is_refused_and_all_end(size: int, wait: Callable[[us.RunHandle[str]], object]) -> None:
    said = [text(outcome) for outcome in ring(size, wait)]

    refused = [n for n in range(size) if "CircularAgentCall" in said[n]]
    assert len(refused) == 1
    assert " -> ".join([f"agent-{(refused[0] + step) % size}" for step in range(size + 1)]) in said[refused[0]]
    assert [line for n, line in enumerate(said) if n not in refused] == ["got it"] * (size - 1)


def test_a_circle_through_a_run_that_was_called_is_found() -> None:
    """Outer calls inner, inner waits for other, and other waits for outer."""
    outer_run, other_run = Promise(), Promise()
    inner = make("inner", acting("wait_for_other", lambda: str(other_run.handle.exception(WAIT))))
    outer = make("outer", acting("call_inner", lambda: text(inner.run("go"))))
    other = make("other", acting("wait_for_outer", lambda: str(outer_run.handle.exception(WAIT))))

    outer_run.keep(outer.submit("go"))
    other_run.keep(other.submit("go"))
    said = text(outer_run.handle.result(WAIT)) + text(other_run.handle.result(WAIT))

    assert said.count("CircularAgentCall") == 1
    assert any(path in said for path in ("inner -> other -> outer -> inner", "other -> outer -> inner -> other"))


# --- waits that close no circle


def test_a_wait_that_ended_by_its_timeout_is_forgotten() -> None:
    a_run, b_run, a_gave_up = Promise(), Promise(), threading.Event()

    def wait_briefly() -> str:
        with pytest.raises(TimeoutError):
            b_run.handle.result(0.02)
        a_gave_up.set()
        return "gave up"

    def wait_for_a() -> str:
        assert a_gave_up.wait(WAIT)
        return text(a_run.handle.result(WAIT))

    a_run.keep(make("a", wait_briefly).submit("go"))
    b_run.keep(make("b", wait_for_a).submit("go"))

    assert text(b_run.handle.result(WAIT)) == "gave up"


def events_of(handle: us.RunHandle[str]) -> Iterable[object]:
    return handle.events()


@pytest.mark.parametrize("reads", [events_of, us.sse])
def test_a_reader_of_the_events_of_its_own_run_is_refused_at_its_first_wait(
    reads: Callable[[us.RunHandle[str]], Iterable[object]],
) -> None:
    mine, caught, told = Promise(), Caught(), list[object]()

    def read() -> str:
        with caught:
            for each in reads(mine.handle):
                told.append(each)
        return "refused"

    mine.keep(make("me", read).submit("go"))

    assert text(mine.handle.result(WAIT)) == "refused"
    assert caught.paths == [("me", "me")]
    assert told  # what has happened may be read


def test_a_reader_of_the_events_of_a_run_above_its_own_is_refused_and_one_of_a_run_inside_is_not() -> None:
    above, caught, told = Promise(), Caught(), list[us.Event]()

    def waits_for_the_tool() -> bool:
        return bool(told) and isinstance(told[-1], us.ToolStarted) and len(graph) == 1

    def read_above() -> str:
        eventually(waits_for_the_tool, "outer waits for inner")  # before that the wait of inner closes no circle
        with caught:
            list(above.handle.events())
        return "refused"

    inner = make("inner", read_above)

    def read_inner() -> str:
        with inner.stream("go") as events:
            told.extend(events)
            return text(events.result(WAIT))

    above.keep(make("outer", read_inner).submit("go"))

    assert text(above.handle.result(WAIT)) == "refused"
    assert caught.paths == [("inner", "outer", "inner")]
    assert isinstance(told[-1], us.RunFinished)


def test_an_agent_that_streams_itself_is_refused() -> None:
    caught = Caught()

    def again() -> str:
        with caught, me.stream("once more") as events:
            list(events)
        return "refused"

    me = make("me", again)

    assert text(me.run("go")) == "refused"
    assert caught.paths == [("me", "me")]


def test_to_look_without_waiting_is_allowed_anywhere() -> None:
    mine = Promise()

    def look() -> str:
        with pytest.raises(TimeoutError):
            mine.handle.result(timeout=0)
        with pytest.raises(TimeoutError):
            list(mine.handle.events(timeout=0))
        return mine.handle.status().phase

    mine.keep(make("me", look).submit("go"))

    assert text(mine.handle.result(WAIT)) == "running"


def test_a_tool_that_was_given_up_holds_nobody_up() -> None:
    a_run, b_run, given_up, release = Promise(), Promise(), threading.Event(), threading.Event()

    @us.tool(timeout=0.05)
    def wait_for_b() -> str:
        return str(b_run.handle.exception())

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        if not request.tool_results:
            return calls("wait_for_b")
        given_up.set()
        assert release.wait(WAIT)
        return says(request.tool_results[0].content)

    def wait_for_a() -> str:
        assert given_up.wait(WAIT)
        return text(a_run.handle.result(WAIT))

    def release_a() -> None:
        eventually(lambda: len(graph) == 2, "b waits for a, beside the tool that was given up")
        release.set()

    threading.Thread(target=release_a, daemon=True).start()
    a_run.keep(us.Agent("a", model=FunctionModel(answer), tools=[wait_for_b]).submit("go"))
    b_run.keep(make("b", wait_for_a).submit("go"))

    assert "did not return" in text(b_run.handle.result(WAIT))


def test_who_waits_outside_of_runs_is_not_in_the_graph() -> None:
    gate, ready = threading.Event(), threading.Barrier(51)

    def hold() -> str:
        assert gate.wait(WAIT)
        return "held"

    handle = make("one", hold).submit("go")

    def wait() -> str:
        ready.wait(WAIT)
        return text(handle.result(WAIT))

    with ThreadPoolExecutor(50) as threads:
        waits = [threads.submit(wait) for _ in range(50)]
        ready.wait(WAIT)
        assert len(graph) == 0
        gate.set()

        assert [wait.result(WAIT) for wait in waits] == ["held"] * 50


def test_a_callback_of_a_run_that_is_over_may_run_its_agent_again() -> None:
    heard: queue.SimpleQueue[str] = queue.SimpleQueue()
    gate = threading.Event()

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        assert gate.wait(WAIT)
        return says("hello")

    agent = us.Agent("me", model=FunctionModel(answer))
    agent.submit("go").add_done_callback(lambda _: heard.put(text(agent.run("again"))))
    gate.set()

    assert heard.get(timeout=WAIT) == "hello"


# --- ending early


@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_runs_three_deep_end_with_the_outermost(how: str) -> None:
    entered, ended = threading.Event(), threading.Semaphore(0)
    errors: dict[str, BaseException] = {}

    def wait_for_cancel(context: us.ToolContext) -> str:
        told = threading.Event()
        context.scope.on_cancel(told.set)
        entered.set()
        assert told.wait(WAIT)
        ended.release()
        return "told"

    def calling(inner: us.Agent) -> us.Tool[[], str]:
        def call() -> str:
            try:
                return text(inner.run("go"))
            except us.RunError as error:
                errors[inner.id] = error
                raise
            finally:
                ended.release()

        return us.tool(call)

    bottom = make("bottom", wait_for_cancel)
    middle = make("middle", calling(bottom))
    handle = make("top", calling(middle)).submit("go", timeout=1.0 if how == "deadline" else None)
    assert entered.wait(WAIT)
    if how == "cancel":
        handle.cancel()

    assert isinstance(handle.exception(WAIT), us.RunCancelled if how == "cancel" else us.RunTimedOut)
    for _ in range(3):
        assert ended.acquire(timeout=WAIT)
    assert errors.keys() == {"middle", "bottom"}
    # Those inside of a run that passed its deadline have the same deadline, and are cancelled by it, whichever is first.
    kinds = us.RunCancelled if how == "cancel" else (us.RunCancelled, us.RunTimedOut)
    assert all(isinstance(error, kinds) for error in errors.values())
