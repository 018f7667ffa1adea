"""Runs of workflows: what tasks are told, how they are retried, skipped, repeated and gone on with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

import pytest

import understudy as us
from tests.support.scripts import WAIT, echo, eventually, finished, incomplete, needs_input
from understudy.orchestration.graph.run import GraphRun
from understudy.orchestration.runs.group_state import GroupLineState
from understudy.orchestration.runs.state import Due
from understudy.testing import FunctionModel, ScriptedModel, calls, says

AT_ONCE = (0.0, 0.0)


def scripted(id: str, *turns: us.ModelTurn | Exception) -> us.Agent:
    return us.Agent(id, model=ScriptedModel(turns))


def answering(*texts: str) -> us.Agent:
    return scripted("answering", *[says(text) for text in texts])


def states(outcome: us.Outcome[object]) -> dict[str, str]:
    return {name: task.status for name, task in outcome.tasks.items()}


def test_tasks_are_told_of_parameters_the_input_and_tasks_before_them(system: us.ActorSystem) -> None:
    flow = us.Workflow(
        "brief",
        [
            us.Task("check", answering('{"verdict": "good"}'), prompt="Check: ${fetch}", dependencies=["fetch"]),
            us.Task("fetch", echo("f"), prompt="${input}: ${topic}"),
            us.Task("write", echo("w"), prompt="${check.verdict} ${fetch}", dependencies=["check", "fetch"]),
        ],
    )

    outcome = finished(flow.run("Facts", parameters={"topic": "tides"}, system=system))

    assert outcome.text == "w(good f(Facts: tides))"
    assert states(outcome) == {"check": "done", "fetch": "done", "write": "done"}
    assert outcome.tasks["fetch"].text == "f(Facts: tides)"


def test_a_parameter_that_is_missing_is_told_before_anything_begins(system: us.ActorSystem) -> None:
    flow = us.Workflow("w", [us.Task("a", echo("a"), prompt="${topic}")])

    for call in (flow.run, flow.submit):
        with pytest.raises(ValueError, match="topic"):
            call(system=system)
    assert system.in_flight == 0


def test_tasks_begin_the_moment_what_they_depend_on_is_done(system: us.ActorSystem) -> None:
    meeting = threading.Barrier(2, timeout=WAIT)

    def meet(request: us.ModelRequest) -> us.ModelTurn:
        meeting.wait()
        return says("met")

    quick = us.Task("after_quick", us.Agent("a", model=FunctionModel(meet)), dependencies=["quick"])
    slow = us.Task("slow", us.Agent("s", model=FunctionModel(meet)))

    outcome = us.Workflow("w", [us.Task("quick", echo("q")), slow, quick]).run("x", system=system, timeout=WAIT)

    assert set(states(outcome).values()) == {"done"}


@pytest.mark.parametrize(
    ("error", "named", "attempts"),
    [
        (us.AuthenticationError("no key"), (), 1),
        (us.ProviderError("no such model"), (), 1),
        (us.BudgetExceeded("spent"), (), 1),
        (us.CallbackAbort("no"), (), 1),
        (us.ProviderError("overloaded", retryable=True), (), 2),
        (us.RateLimited("slow down"), (), 2),
        (us.ToolTimeout("too slow"), (), 2),
        (us.ProviderError("no such model"), (us.ProviderError,), 2),
    ],
)
def test_a_task_is_run_again_only_after_errors_that_may_pass_or_that_it_names(
    error: Exception, named: tuple[type[Exception], ...], attempts: int, system: us.ActorSystem
) -> None:
    task = us.Task("a", scripted("flaky", error, says("ok")), retries=1, retry_on=named, backoff=AT_ONCE)

    outcome = us.Workflow("w", [task]).run("x", system=system)

    assert outcome.tasks["a"].attempts == attempts
    assert states(outcome) == {"a": "done" if attempts == 2 else "failed"}


@pytest.mark.parametrize("named", ["ConnectionError", ConnectionError, [3]])
def test_what_is_no_list_of_errors_is_refused_when_the_task_is_made(named: Any) -> None:
    with pytest.raises(TypeError, match="task 'a': retry_on must"):
        us.Task("a", echo("a"), retry_on=named)


def test_a_retry_that_waits_for_its_time_comes(system: us.ActorSystem) -> None:
    flaky = scripted("flaky", us.BadReply("what?"), us.BadReply("what?"), says("ok"))

    outcome = us.Workflow("w", [us.Task("a", flaky, retries=2, backoff=(0.01, 0.01))]).run(system=system, timeout=WAIT)

    assert outcome.text == "ok"


def test_a_run_that_is_cancelled_while_a_retry_waits_runs_nothing_more(system: us.ActorSystem) -> None:
    model = ScriptedModel([us.BadReply("what?"), says("never")])
    task = us.Task("a", us.Agent("flaky", model=model), retries=1, backoff=(60.0, 60.0))
    handle = us.Workflow("w", [task]).submit("x", system=system)
    eventually(lambda: handle.status().doing == "between children", "it waits for the retry")

    handle.cancel()

    assert isinstance(handle.exception(WAIT), us.RunCancelled)
    assert len(model.requests) == 1


def test_an_error_that_has_used_up_its_retries_is_not_retried_once_more(system: us.ActorSystem) -> None:
    def fail(context: us.RunContext) -> str:
        attempts.append(context.run_id)
        raise ZeroDivisionError("always")

    attempts: list[str] = []
    agent = us.Agent("a", model=ScriptedModel([]), system_prompt=fail)
    flow = us.Workflow("w", [us.Task("a", agent, retries=5, backoff=AT_ONCE)])

    outcome = incomplete(flow.run("x", system=system))

    assert outcome.tasks["a"].attempts == 1
    assert len(attempts) == 3  # those of one run, which was poison then


def test_a_workflow_with_failed_tasks_unwraps_to_what_the_first_failed_of(system: us.ActorSystem) -> None:
    busy = us.RateLimited("slow down", retry_after=7.0)
    tasks = [
        us.Task("fetch", scripted("f", busy)),
        us.Task("list", answering("no list"), dependencies=["fetch"]),
        us.Task("each", echo("e"), for_each="${input}"),
    ]

    outcome = incomplete(us.Workflow("brief", tasks).run("words", system=system))

    with pytest.raises(us.RateLimited) as caught:
        outcome.unwrap()
    assert caught.value is outcome.tasks["fetch"].error is busy
    assert isinstance(outcome.tasks["each"].error, us.RunError)
    assert "must be a list" in str(outcome.tasks["each"].error)
    assert outcome.tasks["list"].error is None


def test_what_a_function_of_a_task_sets_in_context_variables_is_there_in_later_children(system: us.ActorSystem) -> None:
    colour, seen = ContextVar("colour", default="none"), list[str]()

    def is_wanted(results: Mapping[str, object]) -> bool:
        colour.set("red")
        return True

    def answer(request: us.ModelRequest) -> us.ModelTurn:
        seen.append(colour.get())
        return says("ok")

    painter = us.Agent("painter", model=FunctionModel(answer))
    tasks = [us.Task("first", painter), us.Task("then", painter, when=is_wanted, dependencies=["first"])]

    us.Workflow("w", tasks).run("x", system=system)

    assert seen == ["none", "red"]
    assert colour.get() == "none"


@pytest.mark.parametrize("inside", [False, True], ids=["agent", "sequence"])
def test_a_retry_of_a_task_does_not_do_again_what_was_done_before_the_error(
    inside: bool, system: us.ActorSystem
) -> None:
    sent = list[str]()

    @us.tool
    def send(to: str) -> str:
        sent.append(to)
        return "sent"

    faults = [us.RateLimited("slow down")]

    def next_turn(request: us.ModelRequest) -> us.ModelTurn:
        if not request.messages[-1].tool_results:
            return calls("send", to="ada")
        if faults:
            raise faults.pop()
        return says("It is out.")

    clerk = us.Agent("clerk", model=FunctionModel(next_turn), tools=[send])
    runner = us.SequentialAgent("desk", [clerk]) if inside else clerk

    outcome = us.Workflow("w", [us.Task("a", runner, retries=1, backoff=AT_ONCE)]).run("x", system=system)

    assert states(outcome) == {"a": "done"}
    assert sent == ["ada"]


def test_failed_tasks_begin_anew_when_the_run_goes_on_and_those_that_are_done_do_not(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    bad, other = ScriptedModel([us.BadReply("what?"), says("good now")]), ScriptedModel([says("done")])
    tasks = [  # in an order in which none stands behind what it depends on
        us.Task("last", echo("l"), prompt="${after}", dependencies=["after"]),
        us.Task("after", echo("a"), prompt="${bad} ${other}", dependencies=["bad", "other"]),
        us.Task("bad", us.Agent("bad", model=bad)),
        us.Task("other", us.Agent("other", model=other)),
    ]
    flow = us.Workflow("w", tasks)
    with us.ActorSystem("shop", store=store) as system:
        outcome = incomplete(flow.run("x", system=system))
        with pytest.raises(TypeError, match="anew"):
            flow.resume(outcome.token, "an answer", system=system)
    with us.ActorSystem("shop", store=store) as system:
        ended = flow.resume(outcome.token, system=system)

    assert ended.text == "l(a(good now done))"
    assert len(other.requests) == 1


def test_a_workflow_pauses_when_nothing_else_runs_and_a_failure_besides_does_not_keep_it_from_going_on(
    system: us.ActorSystem,
) -> None:
    def ask(request: us.ModelRequest) -> us.ModelTurn:
        return says("__ask_user__: name?") if len(request.messages) == 1 else says(request.messages[-1].text)

    tasks = [
        us.Task("ask", us.Agent("ask", model=FunctionModel(ask))),
        us.Task("bad", scripted("b", us.BadReply("no"))),
    ]
    flow = us.Workflow("w", tasks)

    outcome = needs_input(flow.run("x", system=system))
    ended = flow.resume(outcome.token, "Ada", system=system)

    assert states(outcome) == {"ask": "paused", "bad": "failed"}
    assert states(incomplete(ended)) == {"ask": "done", "bad": "failed"}
    assert ended.tasks["ask"].text == "Ada"


def is_good(text: str) -> bool:
    return text == "good"


def test_what_comes_of_an_item_when_its_task_has_failed_does_not_count(system: us.ActorSystem) -> None:
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
    tasks = [each, us.Task("other", us.Agent("o", model=FunctionModel(last)))]
    handle = us.Workflow("w", tasks).submit(parameters={"list": ["bad", "slow"]}, system=system)

    for event in handle.events():
        if isinstance(event, us.ChildFinished) and event.error is not None:
            failed.set()
        elif isinstance(event, us.ChildFinished) and event.task == "each":
            go.set()

    assert states(incomplete(handle.result(WAIT))) == {"each": "failed", "other": "done"}


@pytest.mark.parametrize("until", ["${draft} == good", is_good])
def test_a_task_is_repeated_until_its_condition_holds(
    system: us.ActorSystem, until: str | Callable[[str], bool]
) -> None:
    draft = answering("poor", "fair", "good", "never")

    outcome = us.Workflow("w", [us.Task("draft", draft, until=until, prompt="after '${previous}'")]).run(system=system)

    assert (outcome.text, outcome.tasks["draft"].attempts) == ("good", 3)


@pytest.mark.parametrize("label", ["spam", "ham"])
def test_a_task_whose_function_says_no_is_skipped(system: us.ActorSystem, label: str) -> None:
    def is_spam(tasks: Mapping[str, us.TaskResult]) -> bool:
        return tasks["check"].text == "spam"

    tasks = [us.Task("check", answering(label)), us.Task("warn", echo("w"), when=is_spam, dependencies=["check"])]

    outcome = us.Workflow("w", tasks).run("x", system=system)

    assert states(outcome)["warn"] == ("done" if label == "spam" else "skipped")


class Mute(Exception):
    """An error whose message cannot be made."""

    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("nothing"), "KeyError: 'nothing'"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (Mute(), "Mute: (it has no message that can be shown)"),
    ],
)
def test_a_function_of_a_task_that_fails_fails_the_task_alone(
    system: us.ActorSystem, error: BaseException, reason: str
) -> None:
    asked: list[object] = []

    def broken(given: object) -> bool:
        asked.append(given)
        raise error

    draft = us.Task("until", echo("b"), until=broken, retries=3)
    tasks = [us.Task("when", echo("a"), when=broken, retries=3), draft, us.Task("sound", echo("c"))]

    outcome = incomplete(us.Workflow("w", tasks).run("x", system=system))

    assert states(outcome) == {"when": "failed", "until": "failed", "sound": "done"}
    assert [outcome.tasks[name].reason for name in ("when", "until")] == [reason, reason]
    assert len(asked) == 2


async def never(given: object) -> bool:
    return False


def answers(value: object) -> Callable[[object], bool]:
    """Return a function that says something else than its signature does."""
    return lambda given: cast(bool, never(given) if value is never else value)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (answers(never), "a coroutine; write a plain function, not async def"),
        (answers("no"), "a value of type str"),
        (answers(1), "a value of type int"),
        (answers(None), "None"),
        (answers(NotImplemented), "a value of type NotImplementedType"),
    ],
)
def test_only_true_and_false_answer_for_a_task(
    system: us.ActorSystem, answer: Callable[[object], bool], named: str
) -> None:
    guarded, repeated = ScriptedModel([]), ScriptedModel([says("once")])
    tasks = [
        us.Task("pay", us.Agent("pay", model=guarded), when=answer),
        us.Task("draft", us.Agent("draft", model=repeated), until=answer),
    ]

    ended = incomplete(us.Workflow("w", tasks).run("x", system=system)).tasks

    assert ended["pay"].reason == f"WrongReturn: when of task 'pay' must return True or False, and returned {named}"
    assert (
        ended["draft"].reason == f"WrongReturn: until of task 'draft' must return True or False, and returned {named}"
    )
    assert (len(guarded.requests), len(repeated.requests)) == (0, 1)


def fail_once_after(name: str, monkeypatch: pytest.MonkeyPatch, before: Callable[[], object] = bool) -> None:
    """Let a turn of a workflow's actor crash once, in the moment in which this task is done."""
    faults, due = iter([SystemExit("a fault in the turn")]), GroupLineState.due

    def failing(state: GroupLineState, *, only_new: bool = False) -> list[Due]:
        machine = state.machine
        assert isinstance(machine, GraphRun)
        for fault in faults if machine.tasks[name].status == "done" else ():
            before()
            raise fault
        return due(state, only_new=only_new)

    monkeypatch.setattr(GroupLineState, "due", failing)


def test_a_workflow_goes_on_after_a_turn_of_it_crashed(system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_once_after("one", monkeypatch)
    ran, crashes = ScriptedModel([says("one")]), list[us.RunCrashed]()
    tasks = [
        us.Task("one", us.Agent("one", model=ran)),
        us.Task("two", echo("two"), prompt="${one}", dependencies=["one"]),
    ]
    with system.subscribe(crashes.append, us.RunCrashed):
        outcome = us.Workflow("w", tasks).run("x", system=system, timeout=WAIT)
        eventually(lambda: len(crashes) == 1, "the failure was told")

    assert outcome.text == "two(one)"
    assert len(ran.requests) == 1


def test_what_ended_while_a_turn_crashed_is_not_forgotten(
    system: us.ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()

    def slow(request: us.ModelRequest) -> us.ModelTurn:
        assert go.wait(WAIT)
        return says("slow")

    def end_the_slow_task() -> None:
        go.set()
        eventually(lambda: system.in_flight == 1, "the slow task is over, and nobody has told the machine")

    fail_once_after("one", monkeypatch, end_the_slow_task)
    tasks = [
        us.Task("one", echo("one")),
        us.Task("slow", us.Agent("slow", model=FunctionModel(slow))),
        us.Task("two", echo("two"), prompt="${one}", dependencies=["one"]),
    ]

    outcome = us.Workflow("w", tasks).run("x", system=system, timeout=WAIT)

    assert outcome.tasks["slow"].text == "slow"
    assert set(states(outcome).values()) == {"done"}


def test_a_task_sees_what_those_that_are_done_left_in_the_session(system: us.ActorSystem) -> None:
    @us.tool
    def write(ctx: us.ToolContext) -> str:
        """Write."""
        ctx.session["x"] = "1"
        return "written"

    def prompt(context: us.RunContext) -> str:
        return str(context.session.get("x"))

    first = us.Agent("first", model=ScriptedModel([calls("write"), says("ok")]), tools=[write])
    second = us.Agent("second", model=FunctionModel(lambda request: says(request.system)), system_prompt=prompt)
    session = us.SessionState()

    outcome = us.Workflow("w", [us.Task("a", first), us.Task("b", second, dependencies=["a"])]).run(
        session=session, system=system
    )

    assert outcome.text == "1"
    assert dict(session) == {"x": "1"}


def test_events_name_the_tasks(system: us.ActorSystem) -> None:
    handle = us.Workflow("w", [us.Task("a", echo("e")), us.Task("b", echo("e"), dependencies=["a"])]).submit(
        system=system
    )

    assert [event.task for event in handle.events() if isinstance(event, us.ChildFinished)] == ["a", "b"]


def test_a_workflow_without_parameters_is_a_sub_agent(system: us.ActorSystem) -> None:
    flow = us.Workflow("flow", [us.Task("a", echo("e"), prompt="about ${input}")])
    lead = us.Agent("lead", model=ScriptedModel([calls("flow", input="tides"), says("done")]), sub_agents=[flow])

    outcome = lead.run("x", system=system)

    assert outcome.messages[2].tool_results[0].content == "e(about tides)"


def test_a_reference_to_a_workflow_takes_parameters(system: us.ActorSystem) -> None:
    spawned = system.spawn(us.Workflow("w", tasks=[us.Task("a", echo("a"), prompt="${topic}")]))

    assert spawned.run(parameters={"topic": "tides"}).text == "a(tides)"
    assert spawned.submit(parameters={"topic": "tides"}).result(WAIT).text == "a(tides)"
    with pytest.raises(ValueError, match="missing parameter 'topic'"):
        spawned.run("x")


def test_a_reference_to_an_agent_takes_none(system: us.ActorSystem) -> None:
    with pytest.raises(ValueError, match="'a' takes no parameters"):
        system.spawn(echo("a")).run("x", parameters={"topic": "tides"})


@pytest.mark.parametrize("spawned", [False, True])
def test_copies_of_a_workflow_inside_of_a_sequence_have_each_their_own_parameters(
    system: us.ActorSystem, spawned: bool
) -> None:
    brief = us.Workflow("brief", [us.Task("one", echo("e"), prompt="${input} on ${topic}")])
    steps = [brief.with_parameters({"topic": "${input}"}), brief.with_parameters({"topic": "b"})]
    chain = us.SequentialAgent("chain", steps, pass_output=True)
    if spawned:
        system.spawn(chain)

    assert chain.run("a", system=system).text == "e(e(a on a) on b)"
